/* What somebody is thinking of just now: the newest whole sentence of a text that grows. */
#ifndef Q35_UI_TUI_SENTENCE_H
#define Q35_UI_TUI_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appended on one line, without the signs of lists and headings.  False: there is none yet. */
bool sentence_newest(const char *text, size_t n, struct buf *out);

#endif

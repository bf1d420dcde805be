/* The newest whole sentence of a text that grows: what the model is thinking about at the moment. */
#ifndef Q35_UI_TUI_SENTENCE_H
#define Q35_UI_TUI_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the sentence on one line, without marks of lists and headings.  False: there is none yet. */
bool sentence_newest(const char *text, size_t n, struct buf *out);

#endif

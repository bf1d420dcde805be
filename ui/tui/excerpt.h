/* Finds the parts of a text that are shown by themselves: addresses (URLs), and the newest sentence. */
#ifndef Q35_UI_TUI_EXCERPT_H
#define Q35_UI_TUI_EXCERPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Finds the next http, https, ftp or mailto address from *at on.  *at becomes its first byte, *n its length; false: no more addresses.  Punctuation
 * of the sentence around it, and marks of markdown, are no part of it. */
bool excerpt_url(const char *text, size_t len, size_t *at, size_t *n);
/* Appends the newest whole sentence of a text that grows, such as reasoning, on one line and without marks of lists and headings.  False: the text
 * has no whole sentence yet. */
bool excerpt_sentence(const char *text, size_t n, struct buf *out);

#endif

/* Finds addresses (URLs) in a text. */
#ifndef Q35_UI_TUI_URL_H
#define Q35_UI_TUI_URL_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the next http, https, ftp or mailto address from *at on.  *at becomes its first byte, *n its length; false: there is none.  Punctuation of
 * the sentence around it, and marks of markdown, are no part of it. */
bool url_next(const char *text, size_t len, size_t *at, size_t *n);

#endif

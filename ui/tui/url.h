/* Addresses in a text. */
#ifndef Q35_UI_TUI_URL_H
#define Q35_UI_TUI_URL_H

#include <stdbool.h>
#include <stddef.h>

/* The next one from *at on: http, https, ftp, mailto.  *at is then its first byte, *n its length; false: there is none.  Marks of
 * the sentence around it, and of markdown, do not belong to it. */
bool url_next(const char *text, size_t len, size_t *at, size_t *n);

#endif

/* Entities of HTML: &amp; &#65; &#x41;. */
#ifndef Q35_UI_TUI_ENTITY_H
#define Q35_UI_TUI_ENTITY_H

#include <stddef.h>

/* The character that s[0..n), "&" to ";", stands for, as UTF-8 in out; its length, 0: we do not know it. */
size_t entity_text(const char *s, size_t n, char out[4]);

#endif

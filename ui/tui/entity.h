/* Entities of HTML: &amp; &#65; &#x41;. */
#ifndef Q35_UI_TUI_ENTITY_H
#define Q35_UI_TUI_ENTITY_H

#include <stddef.h>

/* Writes the character that the entity s[0..n), from "&" to ";", stands for as UTF-8 to out; returns its length, 0: the entity is unknown. */
size_t entity_text(const char *s, size_t n, char out[4]);

#endif

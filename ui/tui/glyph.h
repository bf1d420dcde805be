/* Text in the form in which every terminal agrees about its columns.  One grapheme cluster of the source becomes one glyph:
 * variation selectors and skin tones are dropped, of a ZWJ sequence its first element is drawn, at most 4 combining marks stay,
 * a mark without a base stands on a dotted circle, a control character is a picture (ESC is U+241B), a C1 or bidirectional
 * control one visible sign, ill-formed bytes U+FFFD.  The source is kept by whoever has it: copies are made from there.
 * Everything that measures or draws text in the full-screen terminal goes through here. */
#ifndef Q35_UI_TUI_GLYPH_H
#define Q35_UI_TUI_GLYPH_H

#include <stddef.h>
#include <stdint.h>

enum { GLYPH_BYTES = 22 };

struct glyph {
    uint8_t n;                  /* bytes of text */
    uint8_t width;              /* columns: 0 (a chance to break, not drawn: soft hyphen, ZWSP), 1 or 2; a tab and a newline have 1 */
    char    text[GLYPH_BYTES];  /* UTF-8, no NUL behind */
};

/* The first glyph of s[0..n), n > 0; returns the bytes it took. */
size_t glyph_next(const char *s, size_t n, struct glyph *g);
int    glyph_columns(const char *s, size_t n);          /* of all */
/* The longest prefix of s[0..n) of at most `columns` columns; its columns go to *took (may be NULL). */
size_t glyph_fit(const char *s, size_t n, int columns, int *took);

#endif

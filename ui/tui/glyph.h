/* Text in a form whose columns terminals agree about as far as they can: libc's columns, which curses goes by (unicode_width).  One grapheme cluster
 * of the source becomes one glyph (or several, where it needs more than two columns): variation selectors and skin tones are dropped, of a ZWJ
 * sequence its first element is drawn, at most 4 combining marks stay, a mark without a base stands on a dotted circle, a control character
 * is a picture (ESC is U+241B).  What could mislead or what libc cannot draw is one U+FFFD: ill-formed bytes, C1 and
 * bidirectional controls, tags, unassigned code points, letters without a column.  The source is kept by whoever has it: copies are made from there.
 * Everything that measures or draws text in the full-screen terminal goes through here. */
#ifndef Q35_UI_TUI_GLYPH_H
#define Q35_UI_TUI_GLYPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLYPH_BYTES = 22 };

/* What to draw for a tab, a newline or a no-break space is a glyph like others (a blank, U+2424, a blank): who gives them a
 * meaning looks at the source. */
struct glyph {
    uint8_t n;                  /* bytes of text */
    uint8_t width;              /* columns: 1 or 2, or 0: not drawn; then text is the chance to break (soft hyphen, ZWSP), or empty */
    char    text[GLYPH_BYTES];  /* UTF-8, no NUL behind; the rest is 0 */
};

/* What a terminal without Unicode shows for it: rules, bars, bullets, dashes and quotes in ASCII, else '?'. */
char   glyph_ascii(const struct glyph *g);
/* Whether terminals may give it other columns than it has here: an emoji, a flag, a mark that takes a column of its own or is
 * newer than many terminals' tables, private use. */
bool   glyph_disputed(const struct glyph *g);
/* The columns that no terminal will exceed for it. */
int    glyph_most_columns(const struct glyph *g);
/* The first glyph of s[0..n), n > 0; returns the bytes it took. */
size_t glyph_next(const char *s, size_t n, struct glyph *g);
int    glyph_columns(const char *s, size_t n);          /* of all */
/* The longest prefix of s[0..n) of at most `columns` columns; its columns go to *took (may be NULL). */
size_t glyph_fit(const char *s, size_t n, int columns, int *took);

#endif

/* Text in a form whose columns terminals agree about as far as they can: libc's columns, which curses goes by (unicode_width).  One grapheme cluster
 * of the source becomes one glyph (or several, where it needs more than two columns): variation selectors and skin tones are dropped, of a ZWJ
 * sequence its first element is drawn, at most 4 combining marks stay, a mark without a base is drawn on a dotted circle, a control character
 * is a picture (ESC is U+241B).  What could mislead or what libc cannot draw is one U+FFFD: ill-formed bytes, C1 and
 * bidirectional controls, tags, unassigned code points, letters without a column.  Callers keep the source and copy text from there.
 * Everything that measures or draws text in the full-screen terminal goes through here. */
#ifndef Q35_UI_TUI_GLYPH_H
#define Q35_UI_TUI_GLYPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLYPH_BYTES = 22 };

/* Tabs, newlines and no-break spaces are drawn as ordinary glyphs: a blank, U+2424, a blank.  Callers that give them a meaning look at the source. */
struct glyph {
    uint8_t n;                  /* bytes of text */
    uint8_t width;              /* columns: 1 or 2, or 0: not drawn; then text is the chance to break (soft hyphen, ZWSP), or empty */
    char    text[GLYPH_BYTES];  /* UTF-8 without a NUL; the rest is 0 */
};

/* The glyph in ASCII, for terminals without Unicode: rules, bars, bullets, dashes and quotes are replaced, other glyphs are '?'. */
char   glyph_ascii(const struct glyph *g);
/* True if terminals may give the glyph other columns than `width`: an emoji, a flag, a mark that takes a column of its own or is
 * newer than many terminals' tables, private use. */
bool   glyph_disputed(const struct glyph *g);
/* The most columns that any terminal gives the glyph. */
int    glyph_most_columns(const struct glyph *g);
/* Reads the first glyph of s[0..n), n > 0; returns its length in bytes. */
size_t glyph_next(const char *s, size_t n, struct glyph *g);
int    glyph_columns(const char *s, size_t n);          /* columns of a whole text */
/* Returns the length of the longest prefix of s[0..n) with at most `columns` columns; *took (may be NULL): its columns. */
size_t glyph_fit(const char *s, size_t n, int columns, int *took);

#endif

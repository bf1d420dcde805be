/* Text as glyphs, and a screen in memory: rows of cells that hold them.  Knows no terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/graphics.h"
#include "ui/tui/look.h"

/* --- glyphs -------------------------------------------------------------------------------------------------------- */

/* Text in a form whose columns terminals agree about as far as they can: libc's columns, which curses goes by (unicode_width).  One grapheme cluster
 * of the source becomes one glyph (or several, where it needs more than two columns): variation selectors and skin tones are dropped, of a ZWJ
 * sequence its first element is drawn, at most 4 combining marks stay, a mark without a base is drawn on a dotted circle, a control character
 * is a picture (ESC is U+241B).  What could mislead or what libc cannot draw is one U+FFFD: ill-formed bytes, C1 and
 * bidirectional controls, tags, unassigned code points, letters without a column.  Callers keep the source and copy text from there.
 * Everything that measures or draws text in the full-screen terminal goes through here. */

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
/* Returns the length of the longest prefix of s[0..n) with at most `columns` columns. */
size_t glyph_fit(const char *s, size_t n, int columns);

/* --- cells --------------------------------------------------------------------------------------------------------- */

/* The right half of a wide glyph has width 0 and no text.  A blank has text " ". */
struct cell {
    struct glyph glyph;
    struct look  look;
};

struct cells {
    int rows, cols;
    struct cell *at;            /* [rows, cols] */
    int cursor_row, cursor_col; /* row -1: hidden */
    struct strip *strips;       /* [rows] the part of a picture in each row; cells_strip() says whether it still shows */
};

/* Part of a screen; drawing outside of the part does nothing. */
struct area { int row, col, rows, cols; };

bool area_has(struct area a, int row, int col);
bool cells_are_tiny(const struct cells *c);             /* true if the screen is so small that windows use one row wherever they can */

void cells_size(struct cells *c, int rows, int cols);   /* also blanks; {0} is a valid start */
void cells_free(struct cells *c);
void cells_blank(struct cells *c, struct area a, struct look look);
/* Puts text into `row` of the area, from column `col` on, which may be negative.  Clips at the edges; a wide glyph that is cut becomes a blank.
 * Returns the column after the text, at most the number of columns of the area. */
int  cells_put(struct cells *c, struct area a, int row, int col, struct look look, const char *text, size_t n);
int  cells_puts(struct cells *c, struct area a, int row, int col, struct look look, const char *text);
void cells_mark(struct cells *c, struct area a, uint8_t marks);         /* adds marks to the looks of all cells */
/* Lays a strip over blank cells of a row; its column counts from that of the area. */
void cells_picture(struct cells *c, struct area a, int row, struct strip s);
/* Returns the strip of a row of the screen if nothing was drawn over any of its cells; else one of number 0. */
struct strip cells_strip(const struct cells *c, int row);
struct area cells_all(const struct cells *c);
/* Appends the screen as text: a line per row, without trailing blanks.  With looks, each row that has other looks than plain text is followed by a
 * line of letters: the first letter of a cell's style (a capital if it has marks), '.' for plain. */
void cells_dump(const struct cells *c, bool looks, struct buf *out);

/* True if a row of the screen that is shown equals that of the screen to show. */
bool cells_same_row(const struct cell *shown, const struct cell *want, int cols);
/* True if a row must be sent whole: it changes at, or right of, an old or new glyph whose width differs between terminals. */
bool cells_row_disputed(const struct cell *shown, const struct cell *want, int cols);
/* By how many rows the rows from r on have moved up, as when text scrolls; 0: they have not.  Both screens must have the same size. */
int  cells_scrolled(const struct cells *shown, const struct cells *want, int r);

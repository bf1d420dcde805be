/* A screen in memory: rows of cells.  Knows no terminal. */
#ifndef Q35_UI_TUI_CELLS_H
#define Q35_UI_TUI_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ui/tui/glyph.h"
#include "ui/tui/look.h"

/* The right half of a wide glyph has width 0 and no text.  A blank has text " ". */
struct cell {
    struct glyph glyph;
    struct look  look;
};

struct cells {
    int rows, cols;
    struct cell *at;            /* [rows, cols] */
    int cursor_row, cursor_col; /* row -1: hidden */
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

#endif

/* A screen that is still to be drawn: rows of cells.  Plain memory; knows no terminal. */
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

/* Part of a screen; drawing outside of it does nothing. */
struct area { int row, col, rows, cols; };

bool area_has(struct area a, int row, int col);
bool cells_are_tiny(const struct cells *c);             /* so small that what can do with one row takes one */

void cells_size(struct cells *c, int rows, int cols);   /* also blanks; {0} is a valid start */
void cells_free(struct cells *c);
void cells_blank(struct cells *c, struct area a, struct look look);
/* Puts text from column `col` of `row` of the area on, which may be negative; clips at the edges, never splits a wide glyph: a
 * half of one would be a blank.  Returns the column behind what was put, at most the area's last one plus 1. */
int  cells_put(struct cells *c, struct area a, int row, int col, struct look look, const char *text, size_t n);
int  cells_puts(struct cells *c, struct area a, int row, int col, struct look look, const char *text);
void cells_mark(struct cells *c, struct area a, uint8_t marks);         /* on top of the looks that are there */
struct area cells_all(const struct cells *c);
/* As text: a line per row, trailing blanks cut.  With looks, a line of letters below each row that has any look but plain
 * text: the first letter of the style (upper case when marked), '.' for plain. */
void cells_dump(const struct cells *c, bool looks, struct buf *out);

#endif

#include "ui/tui/cells.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"

static const struct glyph blank = {.n = 1, .width = 1, .text = {' '}};

bool area_has(struct area a, int row, int col)
{
    return row >= a.row && row < a.row + a.rows && col >= a.col && col < a.col + a.cols;
}

bool cells_are_tiny(const struct cells *c)
{
    enum { TINY_ROWS = 10, TINY_COLUMNS = 40 };
    return c->rows < TINY_ROWS || c->cols < TINY_COLUMNS;
}

void cells_size(struct cells *c, int rows, int cols)
{
    CHECK(rows >= 0 && cols >= 0);
    if (rows != c->rows || cols != c->cols) {
        free(c->at);
        c->at = memory_alloc(((size_t)rows * cols + 1) * sizeof *c->at);
    }
    c->rows = rows;
    c->cols = cols;
    c->cursor_row = -1;
    c->cursor_col = 0;
    cells_blank(c, cells_all(c), (struct look){0});
}

void cells_free(struct cells *c)
{
    free(c->at);
    *c = (struct cells){.cursor_row = -1};
}

struct area cells_all(const struct cells *c)
{
    return (struct area){0, 0, c->rows, c->cols};
}

/* Gives a cell a glyph of one column.  A wide glyph that loses a half becomes blank. */
static void put(struct cells *c, struct cell *row, int col, const struct glyph *g, struct look look)
{
    if (row[col].glyph.width == 0 && col > 0)
        row[col - 1].glyph = blank;
    if (row[col].glyph.width == 2 && col + 1 < c->cols)
        row[col + 1].glyph = blank;
    row[col] = (struct cell){*g, look};
}

static void put_wide(struct cells *c, struct cell *row, int col, const struct glyph *g, struct look look)
{
    put(c, row, col, &blank, look);
    put(c, row, col + 1, &blank, look);
    row[col].glyph = *g;
    row[col + 1].glyph = (struct glyph){0};
}

/* Clips row `row` of an area to the screen: returns the cells of that row, and the columns *from .. *to of the area in it; NULL: no part of the row
 * is on the screen. */
static struct cell *clip(const struct cells *c, struct area a, int row, int *from, int *to)
{
    *from = a.col > 0 ? a.col : 0;
    *to = a.col + a.cols < c->cols ? a.col + a.cols : c->cols;
    bool there = row >= 0 && row < a.rows && a.row + row >= 0 && a.row + row < c->rows && *from < *to;
    return there ? c->at + (size_t)(a.row + row) * c->cols : NULL;
}

void cells_mark(struct cells *c, struct area a, uint8_t marks)
{
    for (int r = 0; r < a.rows; r++) {
        int from, to;
        struct cell *row = clip(c, a, r, &from, &to);
        for (int col = from; row && col < to; col++)
            row[col].look.marks |= marks;
    }
}

void cells_blank(struct cells *c, struct area a, struct look look)
{
    int first = a.row < 0 ? -a.row : 0, last = a.row + a.rows < c->rows ? a.rows : c->rows - a.row;
    bool whole = a.col <= 0 && a.col + a.cols >= c->cols;       /* then no wide glyph is cut, and new memory has no glyphs to look at */
    for (int r = first; r < last; r++) {
        int from, to;
        struct cell *row = clip(c, a, r, &from, &to);
        for (int col = from; row && col < to; col++) {
            if (whole)
                row[col] = (struct cell){blank, look};
            else
                put(c, row, col, &blank, look);
        }
    }
}

int cells_put(struct cells *c, struct area a, int row, int col, struct look look, const char *text, size_t n)
{
    int from, to;
    struct cell *at = clip(c, a, row, &from, &to);
    for (size_t i = 0; at && i < n && a.col + col < to;) {
        struct glyph g;
        i += glyph_next(text + i, n - i, &g);
        int x = a.col + col;
        if (g.width == 2 && x >= from && x + 1 < to)
            put_wide(c, at, x, &g, look);
        else if (g.width == 1 && x >= from)
            put(c, at, x, &g, look);
        else if (g.width == 2 && x + 1 >= from)
            put(c, at, x < from ? from : x, &blank, look);      /* half of the glyph would stick out */
        col += g.width;
    }
    return col < a.cols ? col : a.cols;
}

int cells_puts(struct cells *c, struct area a, int row, int col, struct look look, const char *text)
{
    return cells_put(c, a, row, col, look, text, strlen(text));
}

static bool is_plain(const struct cell *cell)
{
    return cell->look.style == STYLE_text && !cell->look.marks;
}

static void dump_looks(const struct cell *row, int cols, struct buf *out)
{
    while (cols > 0 && is_plain(&row[cols - 1]))
        cols--;
    for (int col = 0; col < cols; col++) {
        int letter = style_name(row[col].look.style)[0];
        buf_addc(out, (char)(is_plain(&row[col]) ? '.' : row[col].look.marks ? toupper(letter) : letter));
    }
    if (cols)
        buf_addc(out, '\n');
}

void cells_dump(const struct cells *c, bool looks, struct buf *out)
{
    for (int r = 0; r < c->rows; r++) {
        const struct cell *row = c->at + (size_t)r * c->cols;
        int end = c->cols;
        while (end > 0 && row[end - 1].glyph.n == 1 && row[end - 1].glyph.text[0] == ' ')
            end--;
        for (int col = 0; col < end; col++)
            buf_add(out, row[col].glyph.text, row[col].glyph.n);
        buf_addc(out, '\n');
        if (looks)
            dump_looks(row, c->cols, out);
    }
}

/* --- what has changed --- */

enum { LEAST_MOVE = 4 };        /* rows; curses does not let the terminal move fewer */

static bool same(const struct cell *a, const struct cell *b)
{
    return a->glyph.n == b->glyph.n && a->glyph.width == b->glyph.width && a->look.style == b->look.style && a->look.marks == b->look.marks
        && !memcmp(a->glyph.text, b->glyph.text, a->glyph.n);
}

bool cells_same_row(const struct cell *shown, const struct cell *want, int cols)
{
    for (int i = 0; i < cols; i++)
        if (!same(&shown[i], &want[i]))
            return false;
    return true;
}

bool cells_row_disputed(const struct cell *shown, const struct cell *want, int cols)
{
    bool disputed = false;
    for (int i = 0; i < cols; i++) {
        disputed = disputed || glyph_disputed(&shown[i].glyph) || glyph_disputed(&want[i].glyph);
        if (disputed && !same(&shown[i], &want[i]))
            return true;
    }
    return false;
}

int cells_scrolled(const struct cells *shown, const struct cells *want, int r)
{
    int best = 0, most = LEAST_MOVE - 1;
    for (int by = 1; by < want->rows - r; by++) {
        int n = 0;
        for (int i = r; i + by < want->rows; i++) {
            const struct cell *new = want->at + (size_t)i * want->cols, *old = shown->at + (size_t)i * want->cols;
            n += cells_same_row(old + (size_t)by * want->cols, new, want->cols) && !cells_same_row(old, new, want->cols);
        }
        if (n > most) {
            most = n;
            best = by;
        }
    }
    return best;
}

/* Where the rows of a draft begin on a screen.  They break behind blanks, around wide glyphs and chips, else anywhere; a column
 * behind them stays free for the cursor.  An edit lays out only rows that it moves, at most some hundred: behind these one row
 * may then be short until the draft is laid out for another width. */
#ifndef Q35_UI_TUI_ROWS_H
#define Q35_UI_TUI_ROWS_H

#include "ui/tui/draft.h"

struct rows {
    size_t *start;              /* of the draft's text; at least one, ascending */
    int n, cap;
    int width;                  /* columns of a row */
};

void rows_free(struct rows *r);
void rows_width(struct rows *r, const struct draft *d, int width);      /* >= 1; the first call makes the rows */
void rows_edit(struct rows *r, const struct draft *d, struct edited e); /* the draft was edited so */

int    rows_find(const struct rows *r, size_t at);      /* the row that a cursor before byte `at` stands in */
size_t rows_end(const struct rows *r, const struct draft *d, int row);
/* The column of byte `at` of a row, and the last place of a row that is not right of a column. */
int    rows_column(const struct rows *r, const struct draft *d, int row, size_t at);
size_t rows_place(const struct rows *r, const struct draft *d, int row, int column);
/* Columns of the unit at `at`, which stands in `column`; bytes to *n. */
int    rows_step(const struct rows *r, const struct draft *d, size_t at, int column, size_t *n);
/* The unit that byte `at` belongs to: its begin, or the end of the one before. */
size_t rows_unit_before(const struct rows *r, const struct draft *d, size_t at);
size_t rows_unit_end(const struct rows *r, const struct draft *d, size_t at);

#endif

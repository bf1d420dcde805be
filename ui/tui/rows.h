/* Where the rows of a draft begin on the screen.  Rows break after blanks, around wide glyphs and chips, else anywhere; one column at the right stays
 * free for the cursor.  An edit lays out only the rows that it moves, at most some hundred; the row after these may then be short until the draft is
 * laid out for another width. */
#ifndef Q35_UI_TUI_ROWS_H
#define Q35_UI_TUI_ROWS_H

#include "ui/tui/draft.h"

struct rows {
    size_t *start;              /* [n] byte of the draft's text where each row begins; n >= 1 */
    int n, cap;
    int width;                  /* columns of a row */
};

void rows_free(struct rows *r);
void rows_width(struct rows *r, const struct draft *d, int width);      /* >= 1; the first call makes the rows */
void rows_edit(struct rows *r, const struct draft *d, struct edited e); /* follows an edit of the draft */

int    rows_find(const struct rows *r, size_t at);      /* the row of a cursor before byte `at` */
size_t rows_end(const struct rows *r, const struct draft *d, int row);
/* rows_column(): the column of byte `at` of a row.  rows_place(): the last byte of a row whose column is at most `column`. */
int    rows_column(const struct rows *r, const struct draft *d, int row, size_t at);
size_t rows_place(const struct rows *r, const struct draft *d, int row, int column);
/* Columns of the unit at byte `at`, which begins in `column`; *n: its bytes. */
int    rows_step(const struct rows *r, const struct draft *d, size_t at, int column, size_t *n);
/* rows_unit_before(): the first byte of the unit before `at`; rows_unit_end(): the end of the unit at `at`. */
size_t rows_unit_before(const struct rows *r, const struct draft *d, size_t at);
size_t rows_unit_end(const struct rows *r, const struct draft *d, size_t at);

#endif

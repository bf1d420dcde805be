/* Lays out a table for a width: as a grid whose columns share the width, or as records if that is too narrow. */
#ifndef Q35_UI_TUI_TABLE_H
#define Q35_UI_TUI_TABLE_H

#include "ui/tui/lines.h"

/* TABLE_AUTO: a grid if it fits, else records. */
enum table_shape { TABLE_AUTO, TABLE_GRID, TABLE_RECORDS, TABLE_SOURCE };

enum table_align { TABLE_LEFT, TABLE_CENTER, TABLE_RIGHT };

struct table_cell { int first, n; };    /* n lines of table.text from `first` on; n may be 0 */

struct table {                          /* valid as {0}; the first row is the header */
    struct lines text;                  /* the text of all cells, not broken */
    struct table_cell *cells;           /* [n_rows, n_cols]; n_rows = n_cells / n_cols */
    unsigned char *align;               /* [n_cols] */
    int n_cols, n_cells, cap_cells;
};

void table_begin(struct table *t, int n_cols);          /* empties the table */
/* Begins a cell: lines that are added to t->text until table_cell_end() belong to it. */
void table_cell(struct table *t, enum table_align align);
void table_cell_end(struct table *t);
/* Appends the table to `out`.  shape: not TABLE_SOURCE. */
void table_layout(struct table *t, enum table_shape shape, struct lines *out, struct lines_margin margin, int columns);
void table_free(struct table *t);

#endif

/* A table, laid out for a width: columns that share it, or records where it is too narrow for that. */
#ifndef Q35_UI_TUI_TABLE_H
#define Q35_UI_TUI_TABLE_H

#include "ui/tui/lines.h"

/* TABLE_AUTO: a grid where it has room, else records. */
enum table_shape { TABLE_AUTO, TABLE_GRID, TABLE_RECORDS, TABLE_SOURCE };

enum table_align { TABLE_LEFT, TABLE_CENTER, TABLE_RIGHT };

struct table_cell { int first, n; };    /* lines of table.text; n may be 0 */

struct table {                          /* valid as {0}; the first row is the header */
    struct lines text;                  /* of the cells, not broken */
    struct table_cell *cells;           /* [n_rows, n_cols]; n_rows = n_cells / n_cols */
    unsigned char *align;               /* [n_cols] */
    int n_cols, n_cells, cap_cells;
};

void table_begin(struct table *t, int n_cols);          /* forgets what was there */
/* A new cell; then lines of t->text are its own. */
void table_cell(struct table *t, enum table_align align);
void table_cell_end(struct table *t);
/* `shape` is not TABLE_SOURCE. */
void table_layout(struct table *t, enum table_shape shape, struct lines *out, struct lines_margin margin, int columns);
void table_free(struct table *t);

#endif

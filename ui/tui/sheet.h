/* Markdown that is laid out: lines, and which of them are code blocks and tables; the colours of code; the columns of tables. */
#pragma once

#include <stddef.h>

#include "ui/tui/lines.h"
#include "ui/tui/look.h"

/* --- colours of code ----------------------------------------------------------------------------------------------- */

/* Colours for code, a line at a time; an integer carries the state from line to line.  The languages are in config/syntax.def. */

/* The language of a fence's info string ("c++", "python title=x"), or -1: plain. */
int syntax_find(const char *info, size_t n);
const char *syntax_name(int language);                  /* its usual spelling: "C++" */
/* Calls fn for the pieces of a line (without its newline), which cover it in order.  state: 0 for the first line of a block, then the value that the
 * line before returned. */
int syntax_line(int language, int state, const char *line, size_t n, void (*fn)(void *arg, enum style style, size_t from, size_t n), void *arg);

/* --- sheets -------------------------------------------------------------------------------------------------------- */

struct sheet_code {
    size_t text, n, info, n_info;       /* text and info string: offsets in sheet.code and their lengths */
};

struct sheet_table {
    int first, n;                       /* lines of the table */
    size_t from, to;                    /* bytes of the table in the source */
};

/* The innermost block that was added last, the only one that can still grow. */
struct sheet_leaf {
    enum { LEAF_OTHER, LEAF_TEXT, LEAF_CODE } kind;     /* text: a paragraph */
    int first;                          /* its first line */
    int last;                           /* code: the first line made of the last line of the source */
    size_t source;                      /* text: its first byte in the source */
};

struct sheet {                          /* valid as {0} */
    struct lines lines;
    struct buf code;
    struct sheet_code  *codes;
    struct sheet_table *tables;
    int n_codes, n_tables, cap_codes, cap_tables;
    int columns, measure;               /* columns of the screen, and of running text */
    bool fenced;                        /* code is shown between its fences, and its lines are not broken */
    struct sheet_leaf leaf;
    int language, state;                /* language and state of the open code block (syntax.h) */
};

/* A size of a sheet, to which sheet_cut() can cut it back. */
struct sheet_mark {
    int n_lines, n_codes, n_tables, language, state;
    size_t code;
};

struct sheet_mark sheet_mark(const struct sheet *s);
void sheet_cut(struct sheet *s, const struct sheet_mark *m);
void sheet_free(struct sheet *s);

/* A code block: its label, right-aligned at the end of running text, then its lines without newlines.  A line breaks only at the edge, and its rest
 * begins with LINES_CONTINUED.  If `fenced`, the block looks as in the source.  source: may be LINES_NO_SOURCE. */
void sheet_code_begin(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin);
void sheet_code_bare(struct sheet *s, const char *info, size_t n);      /* begins a block without label or fences */
void sheet_code_line(struct sheet *s, const char *text, size_t n, size_t source, struct lines_margin margin);
void sheet_code_end(struct sheet *s, size_t source, struct lines_margin margin);
void sheet_table(struct sheet *s, int first_line, size_t from, size_t to);
void sheet_blank(struct sheet *s, size_t source);       /* adds an empty line, unless it would be the first */

/* --- tables -------------------------------------------------------------------------------------------------------- */

/* Lays out a table for a width: as a grid whose columns share the width, or as records if that is too narrow. */

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

/* Markdown that is laid out: lines, and which of them are code blocks and tables. */
#ifndef Q35_UI_TUI_SHEET_H
#define Q35_UI_TUI_SHEET_H

#include "ui/tui/lines.h"

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
void sheet_code_line(struct sheet *s, const char *text, size_t n, size_t source, struct lines_margin margin);
void sheet_code_end(struct sheet *s, size_t source, struct lines_margin margin);
void sheet_table(struct sheet *s, int first_line, size_t from, size_t to);
void sheet_blank(struct sheet *s, size_t source);       /* adds an empty line, unless it would be the first */

#endif

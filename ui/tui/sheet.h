/* What markdown was laid out to: lines, and which of them are code blocks and tables. */
#ifndef Q35_UI_TUI_SHEET_H
#define Q35_UI_TUI_SHEET_H

#include "ui/tui/lines.h"

struct sheet_code {
    size_t text, n, info, n_info;       /* bytes of sheet.code */
};

struct sheet_table {
    int first, n;                       /* lines */
    size_t from, to;                    /* source */
};

/* What was put on it last, of the blocks within blocks: the only one that may still grow. */
struct sheet_leaf {
    enum { LEAF_OTHER, LEAF_TEXT, LEAF_CODE } kind;     /* text: a paragraph */
    int first;                          /* its first line */
    int last;                           /* code: the line where the last line of the source begins */
    size_t source;                      /* text: where it begins */
};

struct sheet {                          /* valid as {0} */
    struct lines lines;
    struct buf code;
    struct sheet_code  *codes;
    struct sheet_table *tables;
    int n_codes, n_tables, cap_codes, cap_tables;
    int columns, measure;               /* of the screen; of running text on it */
    bool fenced;                        /* code stands between its fences, and its lines are not broken */
    struct sheet_leaf leaf;
    /* of the code block under way: */
    int language, state;
};

/* How much of a sheet there is, to go back to. */
struct sheet_mark {
    int n_lines, n_codes, n_tables, language, state;
    size_t code;
};

struct sheet_mark sheet_mark(const struct sheet *s);
void sheet_cut(struct sheet *s, const struct sheet_mark *m);
void sheet_free(struct sheet *s);

/* A code block: first its label, right-aligned where running text ends; then its lines without their newlines, which break at the
 * edge only: what goes on begins with LINES_GOES_ON.  Or, if `fenced`, as it would be written.  `source` may be LINES_NO_SOURCE. */
void sheet_code_begin(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin);
void sheet_code_line(struct sheet *s, const char *text, size_t n, size_t source, struct lines_margin margin);
void sheet_code_end(struct sheet *s, size_t source, struct lines_margin margin);
void sheet_table(struct sheet *s, int first_line, size_t from, size_t to);
void sheet_blank(struct sheet *s, size_t source);       /* an empty line, unless it would be the first */

#endif

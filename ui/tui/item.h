/* One item of the transcript: its source and, for a width, its rows.  Rows are counted from 0 and know nothing of the blank
 * line between items. */
#ifndef Q35_UI_TUI_ITEM_H
#define Q35_UI_TUI_ITEM_H

#include "ui/tui/find.h"
#include "ui/tui/itemkind.h"
#include "ui/tui/markdown.h"

/* What rows depend on, beside the item. */
struct item_view {
    int  columns, rows;         /* of the pane; the rows bound what live reasoning takes */
    int  measure;               /* columns of running text, at most `columns` */
    bool raw, bars;             /* bars: before what was thought */
    enum table_shape tables;
};

struct item {
    enum item_kind kind;
    int  message;
    bool live;                  /* more may come */
    bool hinted;                /* its line names the key that opens or closes it */
    enum { FOLD_AUTO, FOLD_SHUT, FOLD_OPEN } fold;
    struct buf source;
    size_t body;                /* of a call: where its output begins, behind its line */
    bool   one_argument;        /* of a call: the line is "name argument" */
    char  *head;                /* or NULL */
    struct pane_tint *tints;
    int    n_tints;
    struct hits hits;

    /* the rows: [head] body.first .. body.first + n [foot] */
    struct item_view view;      /* for which they were made */
    bool   stale;
    struct markdown *md;        /* an answer's body, else */
    struct lines own;           /* this */
    struct lines frame;         /* head, then foot */
    size_t from, wrapped;       /* own lines were made from here on; those of closed source lines up to here stay */
    int    n_closed;
    int    n_head, first, n_body, n_foot;
    size_t shown;               /* of a call: bytes of its line that the head row shows */
    size_t cached;              /* for items.c */
};

void item_append(struct item *it, const char *text, size_t n);
void item_end(struct item *it);
void item_head(struct item *it, const char *text);      /* "" or NULL: none */
void item_free(struct item *it);
void item_drop(struct item *it);                        /* forgets the rows, for memory */
size_t item_cached(const struct item *it);              /* bytes of rows, about */
bool item_shows(const struct item *it);                 /* it takes rows; known without a layout */
bool item_folds(struct item *it);                       /* it has something to open or to close */
bool item_is_open(const struct item *it);
long item_guess(const struct item *it, int columns);    /* rows, without a layout */

bool item_layout(struct item *it, const struct item_view *v);           /* false: nothing changed.  What follows needs it: */
int  item_rows(const struct item *it);
size_t item_place(struct item *it, int row, int *sub);  /* the row's byte of the source, and which of the rows of that byte it is */
int  item_row(struct item *it, size_t at, int sub);     /* back: the last row that begins at or before `at` */
bool item_hides(const struct item *it, size_t at);      /* that byte is folded away */
/* The byte at a column of a row; false: the row shows none of the source. */
bool item_at(struct item *it, int row, int col, size_t *at);

/* On top of the item's own looks. */
struct item_over {
    int    hit;                 /* the search hit one stands on; -1: none */
    size_t at, n;               /* the selected piece */
    bool   chosen;              /* that row is shown as selected: */
    int    chosen_row;
};
void item_draw(struct item *it, int row, const struct item_over *over, struct cells *c, struct area a, int at_row);

#endif

/* One item of the transcript: its source and, laid out for a width, its rows.  Rows are counted from 0, without the blank line between items. */
#ifndef Q35_UI_TUI_ITEM_H
#define Q35_UI_TUI_ITEM_H

#include "ui/tui/find.h"
#include "ui/tui/itemkind.h"
#include "ui/tui/markdown.h"

/* Everything that rows depend on, except the items themselves. */
struct item_view {
    int  columns, rows;         /* of the pane; the rows bound the height of reasoning under way */
    int  measure;               /* columns of running text, at most `columns` */
    bool raw, bars;             /* raw: markdown as source; bars: a bar before each line of reasoning */
    enum table_shape tables;
};

struct item {
    enum item_kind kind;
    int  message;
    bool live;                  /* text may still be added */
    bool hinted;                /* its head row names the key that folds it */
    enum { FOLD_AUTO, FOLD_SHUT, FOLD_OPEN } fold;
    struct buf source;
    size_t body;                /* ITEM_CALL: byte of `source` where the output begins, after the line of the call */
    bool   one_argument;        /* ITEM_CALL: that line is "name argument" */
    char  *head;                /* pane_head(), or NULL */
    struct pane_tint *tints;
    int    n_tints;
    struct hits hits;

    /* the rows: [head] body.first .. body.first + n [foot] */
    struct item_view view;      /* the view that the rows were made for */
    bool   stale;               /* the rows must be made again */
    struct markdown *md;        /* the body of an answer; of other items: */
    struct lines own;           /* the body */
    struct lines frame;         /* head rows, then foot rows */
    size_t from, wrapped;       /* bytes of `source`: `own` begins at `from`; its lines up to `wrapped`, where a source line ends, stay */
    int    n_closed;            /* the number of these lines */
    int    n_head, first, n_body, n_foot;
    size_t shown;               /* ITEM_CALL: bytes of its line that the head row shows */
    bool   whole;               /* ITEM_CALL: the head row has all of the result */
    size_t cached;              /* for items.c */
};

void item_append(struct item *it, const char *text, size_t n);
void item_end(struct item *it);
void item_head(struct item *it, const char *text);      /* "" or NULL: none */
void item_free(struct item *it);
void item_drop(struct item *it);                        /* forgets the rows, for memory */
size_t item_cached(const struct item *it);              /* bytes of rows, about */
bool item_shows(const struct item *it);                 /* it has rows; needs no layout */
bool item_folds(struct item *it);                       /* it can be opened or closed */
bool item_is_open(const struct item *it);
long item_guess(const struct item *it, int columns);    /* a guess of the number of rows, without a layout */

bool item_layout(struct item *it, const struct item_view *v);           /* makes the rows; false: they are as before */
/* The functions from here on need the layout. */
int  item_rows(const struct item *it);
size_t item_place(struct item *it, int row, int *sub);  /* the byte of the source where the row begins; *sub: its number among rows of that byte */
int  item_row(struct item *it, size_t at, int sub);     /* the reverse: the last row that begins at or before byte `at` */
bool item_hides(const struct item *it, size_t at);      /* that byte is folded away */
/* The byte of the source at a cell; false: the row shows no source. */
bool item_at(struct item *it, int row, int col, size_t *at);

/* Looks on top of the item's own. */
struct item_over {
    int    hit;                 /* index of the current search hit; -1: none */
    size_t at, n;               /* the selected piece of the source */
    bool   chosen;              /* row chosen_row is shown as selected */
    int    chosen_row;
};
void item_draw(struct item *it, int row, const struct item_over *over, struct cells *c, struct area a, int at_row);

#endif

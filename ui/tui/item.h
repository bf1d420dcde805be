/* The items of the transcript.  An item has a source and, laid out for a width, rows.  Rows are counted from 0, without the blank line between
 * items. */
#pragma once

#include <stddef.h>

#include "ui/tui/find.h"
#include "ui/tui/look.h"
#include "ui/tui/markdown.h"

enum item_kind {
    ITEM_USER,                  /* "> " before it; more than 12 rows fold to the first ones */
    ITEM_REASONING,             /* one line until it is opened; while it grows, opened, at most a third of the view: its end */
    ITEM_FILE,                  /* a file of a message: one line, the head, until it is opened */
    ITEM_ANSWER,                /* markdown */
    ITEM_CALL,                  /* the card of a tool call, see pane_call() */
    ITEM_NOTE,                  /* a sentence of the program */
    ITEM_ERROR,                 /* "! " before it */
    ITEM_OUTPUT,                /* output of a command, line by line as it is */
};

/* A style for bytes at .. at + n of an item's source. */
struct pane_tint { size_t at, n; enum style style; };

/* A place in the transcript, of the top row: the item, a byte of its source, and the row's number among rows of that byte. */
struct pane_place { int item, sub; size_t at; };

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
    uint32_t picture;           /* ITEM_FILE: number of the small copy that is shown below the head (chat/thumbs.h); 0: none */
    int    picture_rows, picture_cols;
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
/* Shows this picture below the head, if there is room. */
void item_picture(struct item *it, uint32_t number, int w, int h);
bool item_shows(const struct item *it);                 /* it has rows; needs no layout */
bool item_folds(struct item *it);                       /* it can be opened or closed */
bool item_is_open(const struct item *it);
/* These need the layout, which items_rows() makes. */
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

/* --- items, one below the other ------------------------------------------------------------------------------------ */

/* The items of a transcript, one below the other: their heights, the blank lines between them, moves by rows.  An item is laid out when its rows are
 * asked for; rows of items far away are freed when all rows take too much memory. */

struct items {
    struct item *at;
    int n, cap;
    struct item_view view;
    size_t cached, trim_at;     /* bytes of all rows; from trim_at on items_trim() frees some */
    struct guess { long rows; bool known; } *guesses;   /* each for 256 items */
    int guess_columns;
};

/* A row of an item, counted with the blank line before it. */
struct spot { int item, row; };

void items_free(struct items *s);
struct item *items_add(struct items *s, enum item_kind kind, int message);
void items_cut(struct items *s, int from);
void items_changed(struct items *s, int i);             /* the text or fold of item i has changed */
int  items_gap(const struct items *s, int i);           /* blank rows before item i */
int  items_rows(struct items *s, int i);                /* rows of item i with its gap; 0: it shows nothing.  Lays it out */
bool items_before(struct spot a, struct spot b);
struct spot items_move(struct items *s, struct spot from, long by);     /* `by` rows down (up if negative), as far as there are rows */
struct spot items_end(struct items *s, int rows);       /* the spot `rows` rows before the end; the start if all rows fit */
long items_after(struct items *s, struct spot from);    /* rows from this spot to the end: exact near the end, else a guess */
void items_trim(struct items *s, int first, int last);  /* frees rows if they take too much memory, except around items first..last */

/* The items of a transcript, one below the other: their heights, the blank lines between them, walks by rows.  Only what is
 * asked for is laid out; rows of items far away are forgotten when they take too much memory. */
#ifndef Q35_UI_TUI_ITEMS_H
#define Q35_UI_TUI_ITEMS_H

#include "ui/tui/item.h"

struct items {
    struct item *at;
    int n, cap;
    struct item_view view;
    size_t cached, trim_at;     /* bytes of rows; where the next trim is due */
    struct guess { long rows; bool known; } *guesses;   /* of 256 items each */
    int guess_columns;
};

/* A row of an item, counted with the blank line before it. */
struct spot { int item, row; };

void items_free(struct items *s);
struct item *items_add(struct items *s, enum item_kind kind, int message);
void items_cut(struct items *s, int from);
void items_changed(struct items *s, int i);             /* its text or fold is another */
int  items_gap(const struct items *s, int i);           /* blank rows before it */
int  items_rows(struct items *s, int i);                /* of it, with them: 0 when it shows nothing.  Lays it out */
bool items_before(struct spot a, struct spot b);
struct spot items_move(struct items *s, struct spot from, long by);     /* as far as there are rows */
struct spot items_end(struct items *s, int rows);       /* from where `rows` rows reach the end; the start if all fit */
long items_after(struct items *s, struct spot from);    /* rows from there to the end: exact near it, else a guess */
void items_trim(struct items *s, int first, int last);  /* the items around these stay laid out */

#endif

/* The items of a transcript, one below the other: their heights, the blank lines between them, moves by rows.  An item is laid out when its rows are
 * asked for; rows of items far away are freed when all rows take too much memory. */
#ifndef Q35_UI_TUI_ITEMS_H
#define Q35_UI_TUI_ITEMS_H

#include "ui/tui/item.h"

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

#endif

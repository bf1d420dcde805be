/* A search over the items of a transcript, and the hit one stands on.  Only text that was not searched yet is. */
#ifndef Q35_UI_TUI_SEARCH_H
#define Q35_UI_TUI_SEARCH_H

#include "ui/tui/items.h"

/* Plain value, valid as {0}: looks for nothing. */
struct search {
    struct find find;
    struct buf  text;
    bool on_hit;
    int  item, hit;             /* when on_hit: which of the item's hits */
};

void search_free(struct search *s);
void search_cut(struct search *s, int item);            /* that item and what follows are gone */
long search_set(struct search *s, struct items *items, const char *what);       /* the number of hits */
void search_item(struct search *s, struct item *it);    /* the item's hits are up to date */
/* To the next hit, from a place on when one stands on none, round at the ends.  Its number from 1; 0: there is none. */
long search_step(struct search *s, struct items *items, int direction, struct pane_place from);
struct hit search_hit(const struct search *s, const struct items *items);       /* the one that one stands on */

#endif

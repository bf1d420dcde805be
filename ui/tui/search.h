/* A search over the items of a transcript, and its current hit.  Text is searched once. */
#ifndef Q35_UI_TUI_SEARCH_H
#define Q35_UI_TUI_SEARCH_H

#include "ui/tui/items.h"

/* Plain value, valid as {0}: no search. */
struct search {
    struct find find;
    struct buf  text;
    bool on_hit;
    int  item, hit;             /* if on_hit: the current hit is this one of the item's hits */
};

void search_free(struct search *s);
void search_cut(struct search *s, int item);            /* this item and all after it were removed */
long search_set(struct search *s, struct items *items, const char *what);       /* begins a search; the number of hits */
void search_item(struct search *s, struct item *it);    /* searches the item's new text */
/* Goes to the next hit: from the current one, else from the place `from`, and from one end on at the other.  Returns its number from 1; 0: there is
 * none. */
long search_step(struct search *s, struct items *items, int direction, struct pane_place from);
struct hit search_hit(const struct search *s, const struct items *items);       /* the current hit */

#endif

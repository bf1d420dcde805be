/* The pane shows the transcript: items, each with its source, laid out when they are needed and cached for the width; a view into them; folds,
 * search, tints.  Knows text and looks, but no terminal and no chat; feed.c fills it.
 *
 * The view is held by a place: the byte of an item's source in the top row.  Adding text, folding and another width do not move it.  While the view
 * follows, it shows the end instead.  Drawing takes time for what is visible, however long the transcript is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/cells.h"
#include "ui/tui/item.h"
#include "ui/tui/markdown.h"

/* The search and its current hit; {0}: no search.  Text is searched once. */
struct pane_search {
    struct find find;
    struct buf  text;
    bool on_hit;
    int  item, hit;             /* if on_hit: the current hit is this one of the item's hits */
};

/* Other files may read all members, and set those that say so. */
struct pane {
    struct items items;
    struct area  area;          /* of the last draw */
    int  covered;               /* its last rows, which a window covers and where nothing is drawn; set before each draw */
    int  measure;               /* columns of running text; 0: all */
    struct { int item; size_t at; } showing;            /* the place of the last pane_show(); item -1: none */

    /* The place in the top row.  While the view follows, a place above which the text does not move down again, though something below has folded;
     * item -1: none. */
    bool follows;
    struct pane_place top;
    struct pane_place drawn;    /* the top row of the last draw; item -1: there was none, or it no longer counts */

    int chosen;                 /* the item whose first row in view is shown as selected; -1: none; may be set */
    int opened;                 /* by the last pane_toggle(); -1: none */
    bool walks;                 /* the next pane_toggle() goes up from there; cleared when another key is pressed */
    int hinted;                 /* the item whose line names the key; -1: none */
    int faded;                  /* from that message on rows are dim; -1: none; may be set */
    struct { int item; size_t at, n; } selected;
    struct pane_search search;
};

struct pane *pane_open(void);
void pane_close(struct pane *p);
void pane_reset(struct pane *p);

/* Items: the index stays valid until a cut or reset.  An item that shows nothing (no text yet) takes no row. */
int  pane_add(struct pane *p, enum item_kind kind, int message);        /* message: of chat_message(), -1: none */
/* Adds the card of a tool call; text that is appended to it is the tool's output.  The last 5 lines of output show until pane_end(), then one line
 * stays: "$ name argument" (or "name {arguments}" unless there is a single text), the head, and the number of lines. */
int  pane_call(struct pane *p, int message, const char *name, const char *arguments);
void pane_append(struct pane *p, int item, const char *text, size_t n);  /* adds text; an item that was complete is open again */
void pane_end(struct pane *p, int item);                /* the item is complete */
/* Sets the head.  Reasoning: "thought 6.2 s, 214 tok"; a call: "exit 0  1.2 s"; a message: "<2/3>", at the right edge. */
void pane_head(struct pane *p, int item, const char *text);
void pane_picture(struct pane *p, int item, uint32_t number, int w, int h);     /* ITEM_FILE: shows a picture below the head */
void pane_cut(struct pane *p, int item);                /* removes the item and all after it */
/* Replaces the styles of pieces of an item's source; n = 0: of none.  Pieces must ascend and not overlap. */
void pane_tint(struct pane *p, int item, const struct pane_tint *tints, int n);
/* Shows one piece of one item as selected, on top of tints and hits; n = 0: none. */
void pane_select(struct pane *p, int item, size_t at, size_t n);

/* Folds.  Opening and closing does not move the top row. */
void pane_fold(struct pane *p, int item, bool folded);
/* Opens or closes one fold: the chosen item if it is in view, else the newest fold (if the user has scrolled, the newest in view).  Called again, it
 * closes that fold and opens the one above it, and so on to the first; after `walks` was cleared it closes the open one.  The head row of the fold
 * that the next call changes names the key.  False: there is no fold. */
bool pane_toggle(struct pane *p);
bool pane_choose_fold(struct pane *p, int direction);   /* chooses the next fold from the chosen item, or from the view; false: there is none */
int  pane_fold_at(struct pane *p, int row);             /* the item whose head is in this row of the area that was drawn last; -1: none */
void pane_toggle_fold(struct pane *p, int item);
bool pane_folds(struct pane *p, int item);              /* the item can be opened or closed */
void pane_raw(struct pane *p, bool raw);                /* shows answers as source */
void pane_bars(struct pane *p, bool bars);              /* shows "| " before reasoning, for terminals without a look that sets it apart */
void pane_tables(struct pane *p, enum table_shape shape);
void pane_measure(struct pane *p, int columns);         /* most columns of running text (20 at least); 0: all columns */

/* The view.  It follows the end until the user scrolls up; from then on nothing moves the text. */
void pane_draw(struct pane *p, struct cells *c, struct area a);         /* also sets the size of the view */
void pane_scroll(struct pane *p, int lines);            /* down, or up if negative; at the end the view follows again */
void pane_to_start(struct pane *p);
void pane_to_end(struct pane *p);                       /* the view follows again */
long pane_below(struct pane *p);                        /* rows below the view: exact near the end, an estimate far away */
/* The item that commands of view mode act on: the chosen one if it is in view, else the first one that begins in view, else the one in the top row;
 * if the view follows, the newest.  -1: there is none. */
int  pane_here(struct pane *p);
/* The current row of the area: of the selected piece, else of the current hit, else of the chosen item. */
int  pane_cursor(struct pane *p);
void pane_show(struct pane *p, int item, size_t at);    /* brings this byte of its source into view, and opens the fold that hides it */
/* The item and byte of its source at a cell of the area that was drawn last; false: there is none. */
bool pane_at(struct pane *p, int row, int col, int *item, size_t *at);
struct pane_place pane_place(struct pane *p);           /* the place of the top row */
void pane_go(struct pane *p, struct pane_place place);  /* a place in an item that was cut means the end */

/* Search, in the sources of all items, folded ones too.  A hit may go over a soft break, but not over two items.  A run of blanks matches any other;
 * markdown's marks of emphasis and code within a hit are ignored; a capital letter makes case count.  Hits are highlighted, also in text that is
 * added later. */
int  pane_find(struct pane *p, const char *what);       /* the number of hits; "" ends the search */
/* Goes to the next hit (direction 1 or -1) from the current one, or from the view, and from one end on at the other; brings it into view and opens
 * its fold.  *which: its number, from 1. */
bool pane_find_next(struct pane *p, int direction, int *which);

/* Code blocks of the first answer with a code block in view, numbered from 0 (on the screen from 1); i < 0: the first one in view. */
int  pane_n_blocks(struct pane *p);
bool pane_block(struct pane *p, int i, struct buf *text, struct buf *language);
bool pane_table(struct pane *p, struct buf *source);    /* appends the source of the first table in view */

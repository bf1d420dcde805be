/* The transcript on the screen: items, each with its source, laid out lazily and cached for the width; a view into them; folds,
 * search, tints.  Knows text and looks, no terminal and no chat; tui.c feeds it.
 *
 * The view is held by a place: an item and a byte of its source stand in the top row.  What is added, folded or laid out for
 * another width moves neither.  While it follows, the end stays in view instead.  A draw costs what is visible, whatever the
 * transcript holds. */
#ifndef Q35_UI_TUI_PANE_H
#define Q35_UI_TUI_PANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/cells.h"
#include "ui/tui/itemkind.h"
#include "ui/tui/markdown.h"

struct pane;

struct pane *pane_open(void);
void pane_close(struct pane *p);
void pane_reset(struct pane *p);

/* Items: the index stays valid until a cut or reset.  An item that shows nothing (no text yet) takes no row. */
int  pane_add(struct pane *p, enum item_kind kind, int message);        /* message: of chat_message(), -1: none */
/* The card of a tool call; what is appended to it is the tool's output.  Its last 5 lines show until pane_end(), then one line
 * stays: "$ name argument", or "name {arguments}" where they are more than one text; the head; how many lines there are. */
int  pane_call(struct pane *p, int message, const char *name, const char *arguments);
void pane_append(struct pane *p, int item, const char *text, size_t n);  /* what was complete goes on */
void pane_end(struct pane *p, int item);                /* complete */
/* The summary.  Reasoning: "thought 6.2 s, 214 tok"; a call: "exit 0  1.2 s"; a message: "<2/3>", at the right edge. */
void pane_head(struct pane *p, int item, const char *text);
void pane_cut(struct pane *p, int item);                /* forgets it and what follows */
int  pane_n(const struct pane *p);
enum item_kind pane_kind(const struct pane *p, int item);
int  pane_message(const struct pane *p, int item);
void pane_source(const struct pane *p, int item, struct buf *out);      /* of a call: its line, then the output */
/* The newest whole sentence of the text, on one line, for the head of reasoning under way.  False: there is none yet. */
bool pane_sentence(const struct pane *p, int item, struct buf *out);
/* Styles for pieces of an item's source, in place of its own; cleared by n = 0.  Pieces ascend and do not overlap. */
void pane_tint(struct pane *p, int item, const struct pane_tint *tints, int n);
/* One piece of one item is shown as selected, above tints and hits; n = 0: none. */
void pane_select(struct pane *p, int item, size_t at, size_t n);

/* Folds: the top row stays where it is. */
void pane_fold(struct pane *p, int item, bool folded);
/* The fold that is meant: the chosen one in view, else the newest, of those in view where one has scrolled.  Called again, it closes
 * that and opens the one above, at last none; after pane_rest() it closes what is open.  Its line says so, no other does.
 * False: there is none. */
bool pane_toggle(struct pane *p);
void pane_rest(struct pane *p);                         /* something else was done since */
bool pane_choose_fold(struct pane *p, int direction);   /* the next one from the chosen one, or from the view; false: no more */
int  pane_fold_at(struct pane *p, int row);             /* whose line stands in that row of the area that was drawn last; -1: none */
void pane_toggle_fold(struct pane *p, int item);
bool pane_folds(struct pane *p, int item);              /* it has something to open or to close */
void pane_raw(struct pane *p, bool raw);                /* answers as source */
void pane_fade(struct pane *p, int message);            /* what belongs to it and to later ones is shown dim; -1: nothing is */
void pane_bars(struct pane *p, bool bars);              /* "| " before what was thought: no look tells it from an answer */
void pane_tables(struct pane *p, enum table_shape shape);
void pane_measure(struct pane *p, int columns);         /* running text has at most so many columns (20 at least); 0: all of them */

/* The view.  It follows the end until one scrolls up; then nothing moves the text. */
void pane_draw(struct pane *p, struct cells *c, struct area a);         /* also tells the pane its size */
void pane_scroll(struct pane *p, int lines);            /* negative: up; at the end it follows again */
void pane_to_start(struct pane *p);
void pane_to_end(struct pane *p);                       /* and follow */
bool pane_follows(const struct pane *p);
long pane_below(struct pane *p);                        /* rows below the view: exact near the end, an estimate far away */
/* The item that view commands mean: the chosen one while it is in view, else the first one that begins in view, else the one at
 * the top; following: the newest.  -1: there is none. */
int  pane_here(struct pane *p);
void pane_choose(struct pane *p, int item);             /* its first row in view is shown as selected; -1: none */
/* The row of the area on which one stands: of the selected piece, else of the search hit, else of the chosen item. */
int  pane_cursor(struct pane *p);
void pane_show(struct pane *p, int item, size_t at);    /* brings that byte of its source into view, opening what hides it */
void pane_cover(struct pane *p, int rows);              /* the next draw's last rows have something over them: nothing is shown there */
/* What stands at a cell of the area that was drawn last; false: nothing of an item. */
bool pane_at(struct pane *p, int row, int col, int *item, size_t *at);
struct pane_place pane_place(struct pane *p);             /* the top row's */
void pane_go(struct pane *p, struct pane_place place);  /* a place that was cut is the end */

/* Search: in the sources, folded ones too, so over soft breaks and not over items; a run of blanks finds any other, emphasis
 * and code marks of markdown stand in nobody's way.  A capital letter makes case count.  Hits are highlighted; the search goes
 * on in text that is added. */
int  pane_find(struct pane *p, const char *what);       /* number of hits; "" ends the search */
/* The next hit (direction 1 or -1) from the one before, or from the view on, round at the ends: into view, and opened.
 * *which: its number, from 1. */
bool pane_find_next(struct pane *p, int direction, int *which);

/* Code blocks of the first answer of which one is in view, numbered from 0 as the screen numbers them from 1; i < 0: the first in view. */
int  pane_n_blocks(struct pane *p);
bool pane_block(struct pane *p, int i, struct buf *text, struct buf *language);
bool pane_table(struct pane *p, struct buf *source);    /* the first table in view, as its source */

size_t pane_cached(const struct pane *p);               /* bytes of laid out lines that are kept; bounded */

#endif

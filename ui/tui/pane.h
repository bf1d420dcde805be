/* The transcript on the screen: items laid out lazily and cached for the width, a view into them, folds, search, marks.
 * Knows text and looks, no terminal and no chat; tui.c feeds it. */
#ifndef Q35_UI_TUI_PANE_H
#define Q35_UI_TUI_PANE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ui/tui/cells.h"
#include "ui/tui/markdown.h"

struct pane;

enum item_kind { ITEM_USER, ITEM_REASONING, ITEM_ANSWER, ITEM_CALL, ITEM_RESULT, ITEM_NOTE, ITEM_ERROR, ITEM_OUTPUT };

struct pane *pane_open(void);
void pane_close(struct pane *p);
void pane_reset(struct pane *p);

/* Items: the index stays valid until a cut or reset. */
int  pane_add(struct pane *p, enum item_kind kind, int message);        /* message: of chat_message(), -1: none */
void pane_append(struct pane *p, int item, const char *text, size_t n);
void pane_end(struct pane *p, int item);                /* complete */
void pane_head(struct pane *p, int item, const char *text);     /* the summary line: "thought 6.2 s, 214 tok", "<2/3>", "exit 0" */
void pane_fold(struct pane *p, int item, bool folded);
void pane_cut(struct pane *p, int item);                /* forgets it and what follows */
int  pane_n(const struct pane *p);
enum item_kind pane_kind(const struct pane *p, int item);
int  pane_message(const struct pane *p, int item);
void pane_source(const struct pane *p, int item, struct buf *out);
/* Colours pieces of an item's source, over its own look; cleared by n = 0.  Pieces ascend. */
struct pane_tint { size_t at, n; enum style style; };
void pane_tint(struct pane *p, int item, const struct pane_tint *tints, int n);

/* The view.  It follows the end until one scrolls up; then nothing moves the text. */
void pane_draw(struct pane *p, struct cells *c, struct area a);         /* also tells the pane its size */
void pane_scroll(struct pane *p, int lines);            /* negative: up */
void pane_to_start(struct pane *p);
void pane_to_end(struct pane *p);                       /* and follow */
bool pane_follows(const struct pane *p);
long pane_below(struct pane *p);                        /* lines below the view (an estimate far away) */
bool pane_jump(struct pane *p, int direction, bool users_only);         /* to the next item of a message: its head becomes the top */
int  pane_here(const struct pane *p);                   /* the item that view commands mean: the chosen one, else the one at the top, else the newest */
void pane_choose(struct pane *p, int item);             /* -1: none */
void pane_toggle(struct pane *p);                       /* fold or unfold the details at, or nearest to, what is in view */
void pane_raw(struct pane *p, bool raw);
void pane_tables(struct pane *p, enum table_shape shape);

/* Search: over visible text and folded text, across soft breaks, smart case; hits are highlighted. */
int  pane_find(struct pane *p, const char *what);       /* number of hits; "" ends the search */
bool pane_find_next(struct pane *p, int direction, int *which);        /* brings it into view; from the view on */
int  pane_n_blocks(struct pane *p);                     /* code blocks of all answers, the newest last */
bool pane_block(struct pane *p, int i, struct buf *text, struct buf *language);

#endif

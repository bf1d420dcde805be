/* View mode: places that were marked, and lines of a message's source that are chosen to be copied. */
#ifndef Q35_UI_TUI_SELECT_H
#define Q35_UI_TUI_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/pane.h"

enum { N_MARKS = 27 };                  /* a to z, and where one was before the last jump */
enum mark_wait { MARK_NONE, MARK_SETS, MARK_GOES };     /* what the next letter names */

/* Plain value, valid as {0}. */
struct select {
    struct buf source;                  /* of `item` */
    int  item;
    int  line, from, n;                 /* where one stands; where the selection begins, -1: with that line; lines there are */
    enum mark_wait waits;
    struct pane_place marks[N_MARKS];
    bool marked[N_MARKS];
};

struct app;

/* A letter for a mark; false: none was waited for. */
bool select_mark(struct app *a, uint32_t code);

#endif

/* A tool wants to run: the question, in the input's place.  Whoever says yes has seen all of it, and typed the answer while it
 * stood there whole and had done so for a while. */
#ifndef Q35_UI_TUI_APPROVE_H
#define Q35_UI_TUI_APPROVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ui/tui/cells.h"
#include "ui/tui/editor.h"
#include "ui/tui/lines.h"

/* What the answer needs before it is given: other arguments, or a reason. */
enum approve_asks { APPROVE_ASKS, APPROVE_EDITS, APPROVE_REFUSES };

struct approve {
    enum approve_asks asks;
    struct editor *reply;               /* where those are typed; NULL until it is needed */
    int64_t deaf_until;                 /* keys before that were meant for something else; INT64_MAX: it does not stand there whole */
    int64_t guard_until;                /* of the last question: an Enter before that was meant for it */
    struct buf name, arguments, command;/* command: what would run, and where; empty: it is built in */
    struct lines lines;                 /* of the arguments and the command, for `columns` */
    int columns, top, shown;            /* shown: lines that were in view with their top at `top` */
    bool seen;                          /* down to the last line */
};

enum { APPROVE_DEAF_MS = 500, APPROVE_GUARD_MS = 800 };

void approve_free(struct approve *q);
void approve_hidden(struct approve *q);                 /* there is no room for it: keys do not count */

#endif

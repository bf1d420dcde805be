/* What is told on stderr while there is nothing else to show: loading, reading, thinking.  Only a wait that is worth it is told;
 * as one line that is rewritten, or, where lines can only be added, as a line now and then. */
#ifndef Q35_UI_WAITING_H
#define Q35_UI_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "option/options.h"
#include "ui/tui/phase.h"

struct waiting {
    bool tells;                         /* stderr is a terminal */
    bool adds;                          /* lines are added, none is rewritten */
    struct phase phase;
    enum phase_kind kind;               /* what is waited for, */
    int64_t since_ms, told_ms;          /* since when, and when that was told last; told_ms 0: not yet */
    bool shown;                         /* a line stands there that is to be rewritten */
};

/* The chat is open: the model loads. */
void waiting_open(struct waiting *w, const struct options *o);
void waiting_turn(struct waiting *w);
/* Sees every event.  With `tell` it may write: the cursor is at the beginning of a line. */
void waiting_event(struct waiting *w, const struct chat_event *ev, bool tell);
void waiting_clear(struct waiting *w);  /* before anything else is written */

/* What the events make of it, and what there is to tell then; false: nothing. */
void waiting_follow(struct waiting *w, const struct chat_event *ev, int64_t ms);
bool waiting_line(struct waiting *w, int64_t ms, struct buf *line);

#endif

/* Lines on stderr while there is nothing else to show: loading, reading, thinking.  Only long waits are shown, as one line that is rewritten, or,
 * where lines can only be added, as a line now and then. */
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
    enum phase_kind kind;               /* the current phase, */
    int64_t since_ms, told_ms;          /* its start, and when it was shown last; told_ms 0: not yet */
    bool shown;                         /* a line is shown that will be rewritten */
};

/* Begins when the chat is open: the model loads. */
void waiting_open(struct waiting *w, const struct options *o);
void waiting_turn(struct waiting *w);
/* Follows an event.  With `tell` it may write: the cursor is at the start of a line. */
void waiting_event(struct waiting *w, const struct chat_event *ev, bool tell);
void waiting_clear(struct waiting *w);  /* removes the line, before other output */

/* Follow an event; append the line that is due now (false: none). */
void waiting_follow(struct waiting *w, const struct chat_event *ev, int64_t ms);
bool waiting_line(struct waiting *w, int64_t ms, struct buf *line);

#endif

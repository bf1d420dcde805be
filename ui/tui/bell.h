/* Calls the user back to the chat, when the option `bell` says so.
 *
 * Many terminals report whether they have the focus.  Inside tmux and others that do not, a call waits for a few seconds: whoever presses a key in
 * that time is there.  Plain value, valid as {0}. */
#ifndef Q35_UI_TUI_BELL_H
#define Q35_UI_TUI_BELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum bell_focus { BELL_UNKNOWN, BELL_IN, BELL_OUT };

struct bell {
    enum bell_focus focus;
    int64_t due_ms;                     /* when to ring; 0: there is no call */
    struct buf text;                    /* what for */
};

/* Calls the user for `what`, which is about this conversation.  `when`: the value of the option. */
void bell_call(struct bell *b, const char *when, const char *what, const char *conversation, int64_t ms);
void bell_focus(struct bell *b, bool in);               /* the terminal has got or lost the focus */
void bell_answer(struct bell *b);                       /* the user is there: a key came */
bool bell_due(struct bell *b, int64_t ms);              /* true, once for each call: it is time to ring */
int  bell_timeout(const struct bell *b, int64_t ms);    /* ms until a call is due; -1: there is none */

#endif

/* What the model does at the moment, and since when, followed from the chat's events, for status line and panel.  Plain value. */
#ifndef Q35_UI_TUI_PHASE_H
#define Q35_UI_TUI_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "chat/chat.h"
#include "ui/tui/progress.h"
#include "ui/tui/rate.h"

enum phase_kind { PHASE_OPENING, PHASE_LOADING, PHASE_CHOOSING, PHASE_IDLE, PHASE_READING, PHASE_THINKING, PHASE_ANSWERING, PHASE_CALLING,
                  PHASE_DEAD };

struct phase {
    enum phase_kind kind;
    bool    ready, stopping, asking;    /* asking: a call waits for chat_approve() */
    bool    turn;                       /* a turn is under way */
    int64_t since_ms;                   /* when the turn, or loading, began */
    int64_t asked_ms;                   /* when the user began the turn, which may have waited for the model since */
    int64_t calls_ms;                   /* when the tool began to run, or the question about it appeared */
    int64_t reads_ms;                   /* when reading this prompt, or loading, began */
    struct progress progress;           /* of loading or reading */
    struct rate     rate;               /* of tokens */
    int     n_tokens;                   /* tokens of the answer under way that `rate` has */
    char    tool[48];                   /* name of the tool that runs */
};

void phase_open(struct phase *p, int64_t ms);           /* the chat is open: the model loads */
void phase_turn(struct phase *p, int64_t ms);           /* a turn has begun */
void phase_event(struct phase *p, const struct chat_event *ev, int64_t ms);
void phase_tokens(struct phase *p, int n_tokens, int64_t ms);   /* the answer under way has n_tokens now */
int phase_seconds(const struct phase *p, int64_t ms);   /* the time that stands beside its name: of the turn, or of the tool and the question alone */
const char *phase_name(const struct phase *p);          /* "answering" */

#endif

/* What the model does just now, and since when: from the chat's events to what status line and panel say.  Plain value. */
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
    bool    ready, stopping, asking;    /* asking: chat_approve() is waited for */
    bool    turn;                       /* a turn is under way */
    int64_t since_ms;                   /* of the turn, or of loading */
    int64_t reads_ms;                   /* of loading, or of reading this prompt */
    struct progress progress;           /* of loading or reading */
    struct rate     rate;               /* of tokens */
    int     n_tokens;                   /* of the answer under way, that were counted for the rate */
    char    tool[48];
};

void phase_open(struct phase *p, int64_t ms);           /* the chat is open: the model loads */
void phase_turn(struct phase *p, int64_t ms);           /* a turn has begun */
void phase_event(struct phase *p, const struct chat_event *ev, int64_t ms);
void phase_tokens(struct phase *p, int n_tokens, int64_t ms);   /* so many has the answer under way */
const char *phase_name(const struct phase *p);          /* "answering" */

#endif

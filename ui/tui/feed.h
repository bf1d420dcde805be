/* The conversation as items of the pane: what stands in it already, and what the chat tells while it happens. */
#ifndef Q35_UI_TUI_FEED_H
#define Q35_UI_TUI_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/tui/pane.h"

struct feed {
    struct pane    *pane;
    struct chat    *chat;               /* NULL until it is open */
    struct options *o;

    /* inside */
    int     message;                    /* of chat_message(): what comes in belongs to it, or to the one after */
    int     reasoning, answer;          /* the items that grow, or -1 */
    int     aside;                      /* of a summary that is written, or of a question aside: the first item, which no message has; else -1 */
    int     call;                       /* results are looked for from this item on */
    bool    complete;                   /* that message is: what comes next begins another */
    int64_t since_ms, told_ms;          /* when it began to reason; when its head was written */
    size_t  output;                     /* bytes of output that the card of the call under way has */
    int64_t call_ms;                    /* when the call under way began */
};

void feed_init(struct feed *f, struct pane *p, struct options *o);
/* Makes the items agree with the conversation after it was loaded, cut or branched; what agrees already stays untouched. */
void feed_sync(struct feed *f);
/* A turn has begun (a submit, another answer, a continued one): what comes in belongs to it.  What commands said since the last
 * one goes: it was about that moment, and is no part of the conversation. */
void feed_turn(struct feed *f);
/* Shows what an event says, at `ms`. */
void feed_event(struct feed *f, const struct chat_event *ev, int64_t ms);
/* Time goes by: how long it has been reasoning. */
void feed_recount(struct feed *f);                      /* the tokenizer is there: what was estimated of a loaded conversation */
void feed_tick(struct feed *f, int64_t ms);
void feed_decided(struct feed *f, bool taken);          /* about the summary */
/* A line or more of ours: ITEM_NOTE, ITEM_ERROR, or a command's ITEM_OUTPUT. */
void feed_say(struct feed *f, enum item_kind kind, const char *text);

#endif

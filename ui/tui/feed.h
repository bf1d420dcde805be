/* Makes items of the pane from the conversation: from its messages, and from events of the chat as they come. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/tui/pane.h"

struct feed {
    struct pane    *pane;
    struct chat    *chat;               /* NULL until it is open */
    struct options *o;
    bool graphics;                      /* the terminal shows pictures */

    /* inside */
    int     message;                    /* index of the message that events belong to (chat_message()) */
    bool    complete;                   /* that message is complete: the next events belong to the one after it */
    int     reasoning, answer;          /* items that grow, or -1 */
    int     aside;                      /* first item of a summary under way or of a question aside, which belong to no message; else -1 */
    bool    summary;                    /* the turn under way writes a summary */
    int     call;                       /* results are matched with calls from this item on */
    int64_t since_ms, told_ms;          /* when the reasoning began; when its head was written last */
    size_t  output;                     /* bytes of output on the card of the call under way */
    int64_t call_ms;                    /* when the call under way began */
};

void feed_init(struct feed *f, struct pane *p, struct options *o);
/* Makes the items agree with the conversation after it was loaded, cut or branched.  Items before the first difference stay untouched. */
void feed_sync(struct feed *f);
/* A turn has begun (a message, another answer, a continued one): the following events belong to it.  Removes the output of commands since the last
 * turn, which is no part of the conversation. */
void feed_turn(struct feed *f);
/* Shows an event that came at `ms`. */
void feed_event(struct feed *f, const struct chat_event *ev, int64_t ms);
void feed_recount(struct feed *f);                      /* the tokenizer is loaded: replaces estimated numbers of tokens */
void feed_tick(struct feed *f, int64_t ms);             /* updates how long the reasoning under way has taken */
void feed_decided(struct feed *f, bool taken);          /* the summary that waited was taken or not */
/* Adds text of the program: ITEM_NOTE, ITEM_ERROR, or the ITEM_OUTPUT of a command.  An error that is the last item already is not added again. */
void feed_say(struct feed *f, enum item_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Titles by the model.  After a turn, while nobody waits for anything, it is asked for a title of a conversation that has none (option auto_title).
 * The request is the conversation and one more message, which becomes no entry, so that the next turn computes no more than without it.  The
 * user's next key ends it.  The title is recorded like the user's own, which it never replaces. */
#ifndef Q35_CHAT_TITLER_H
#define Q35_CHAT_TITLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct chat;
struct news;

struct titler {
    struct buf shown;                   /* chat_title() */
    bool    due;                        /* a turn has ended since the last title that the model wrote */
    bool    typing;                     /* there is a draft */
    int     tries;                      /* requests for a title of this conversation */
    int64_t quiet_ns;                   /* when a turn ended or a key came last */
    bool    under_way, stopping;        /* there is a request; it was interrupted, or has written all that is wanted */
    uint64_t conversation;              /* the one that the request is about */
    struct buf written;                 /* its answer so far */
};

void titler_turn_ended(struct chat *c);
void titler_typed(struct chat *c, bool some);           /* a key has changed the draft; some: it is not empty */
void titler_leave(struct chat *c);                      /* another conversation takes the place of this one */
void titler_step(struct chat *c);                       /* begins or ends a request, if it is time */
int  titler_timeout(const struct chat *c);              /* ms until titler_step() has something to do; -1: nothing */
/* Ends the request.  True: its DONE is still to come, and no other request can be made before. */
bool titler_stop(struct chat *c);
bool titler_news(struct chat *c, const struct news *it);        /* true: the news is about its request */

#endif

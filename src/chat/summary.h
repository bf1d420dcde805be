/* A summary that the model writes in place of the conversation before it, and that waits for the user's word. */
#ifndef Q35_CHAT_SUMMARY_H
#define Q35_CHAT_SUMMARY_H

#include "base/buf.h"
#include "chat/chat.h"

struct summary {
    int  room;                          /* tokens that it may have */
    struct buf request;                 /* what the model is told */
    struct buf text;                    /* it waits; empty: none does */
    bool told;                          /* that the context is nearly full */
};

/* The turn that writes it has ended like this; *why is the reason if it failed.  How the turn ends for the user, and in *why a sentence. */
enum end summary_take(struct chat *c, enum end end, const char **why);
void summary_over(struct chat *c);                      /* the turn ends, however: nothing is left out of prompts any more */
void summary_advise(struct chat *c);                    /* a note when the context is nearly full, once */

#endif

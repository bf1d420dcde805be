/* The conversation's checkpoint: what the responder has computed of it, in a file beside the conversation's own (session_checkpoint()).  It is
 * saved when a turn has ended and when the program ends, and comes back when the conversation is loaded.  Nothing is lost with it but
 * time, so whatever goes wrong is told at most and ends nothing. */
#ifndef Q35_CHAT_CHECKPOINTER_H
#define Q35_CHAT_CHECKPOINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chat;
struct news;

struct checkpointer {
    bool   due;                         /* there is something new to be saved */
    bool   asked;                       /* the responder was asked to, and has not said that it did */
    bool   told;                        /* that it cannot be saved; until it can again */
    uint64_t home;                      /* the conversation of which the responder knows the file; 0: none */
    uint64_t conversation;              /* about which the responder was asked last: what it tells of others is not for us */
    size_t bytes, written;              /* of the file; since the start */
    int    restored;                    /* tokens that came back */
};

/* The conversation was loaded: that of the file `path` comes back from its checkpoint. */
void checkpointer_load(struct chat *c, const char *path);
/* Before anything is asked of the conversation: the responder knows its file, so that it is kept there while others are answered. */
void checkpointer_turn(struct chat *c);
void checkpointer_due(struct chat *c);
void checkpointer_step(struct chat *c);                         /* saves what is due, if nothing is asked */
void checkpointer_end(struct chat *c);                          /* the program ends: before session and responder are closed */
void checkpointer_news(struct chat *c, const struct news *it);  /* NEWS_RESTORED, NEWS_SAVED */

#endif

/* Remembers answers with calls as they were sampled, so that a history that a client sends back gives the same tokens.
 *
 * Clients leave out the reasoning, write arguments in another way, and a text has more than one way into tokens: what is computed of a prompt would
 * end there.  The id of an answer's first call, which no other answer has, finds the answer again, in whatever dialect it comes back.  It is used
 * only if texts and calls are those that were sent, so that a history that was changed is read as it is.
 *
 * Bounded in bytes: the oldest answers go first.  Any thread may call. */
#pragma once

#include <pthread.h>
#include <stddef.h>

#include "answer/tokens.h"
#include "serve/response.h"

struct recalled;

/* Plain value; recall_init() makes it. */
struct recall {
    pthread_mutex_t lock;
    struct recalled *first, **end;      /* the oldest first */
    size_t bytes, most;
};

void recall_init(struct recall *l, size_t most_bytes);
void recall_free(struct recall *l);
/* Keeps the answer if it has calls and ended by itself; `tokens` are all of it. */
void recall_keep(struct recall *l, const struct response *r, const struct tokens *tokens);
/* Gives the answers among the messages of the question their tokens (message.said), in its memory. */
void recall_apply(struct recall *l, struct question *q);

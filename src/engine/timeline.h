/* The tokens of a sequence, and how many of them the model has run.
 *
 *   ids    0 ........................ n_run ......... n
 *          in the cache (KV, states)  not run yet
 *
 * While a prompt is computed n_run climbs to n.  From the first token of an answer on, n_run = n - 1: the newest token is
 * known but not run; the next step or the next prompt runs it.  The states stand at n_run, always. */
#ifndef Q35_ENGINE_TIMELINE_H
#define Q35_ENGINE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/snapshot.h"

struct timeline {
    int32_t *ids;                       /* [cap] */
    int      cap;                       /* positions of the context */
    int      n, n_run;
};

/* The position from which a prompt can continue what is there. */
struct rejoin {
    int  common;                        /* tokens that prompt and timeline share: older snapshots stay valid */
    int  pos;                           /* the prompt's tokens from here on must be run (none when it is the prompt's length) */
    int  snapshot;                      /* its index, to be loaded first; -1: none */
    bool stay;                          /* the states stand at pos already.  Neither: start from empty states */
};

void timeline_init(struct timeline *t, int cap);
void timeline_free(struct timeline *t);

int  timeline_common(const struct timeline *t, const int32_t *ids, int n);      /* length of the common prefix */
/* `seq`: whose snapshots can be loaded. */
struct rejoin timeline_rejoin(const struct timeline *t, const struct snapshots *s, int seq, const int32_t *ids, int n);
/* The prompt becomes the sequence; the states stand at pos.  n <= cap. */
void timeline_set(struct timeline *t, const int32_t *ids, int n, int pos);
void timeline_ran(struct timeline *t, int n);           /* n more tokens are in the cache */
void timeline_add(struct timeline *t, int32_t id);      /* one more token, not run */
void timeline_cut(struct timeline *t);                  /* forgets the tokens that were not run */

#endif

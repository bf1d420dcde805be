/* A sequence is what the engine keeps of one conversation: its tokens (timeline), KV rows and states (cache), snapshots, and a name.
 * Several are resident at once, so going back and forth between conversations computes nothing again.  Engine thread. */
#ifndef Q35_ENGINE_SEQUENCE_H
#define Q35_ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/request.h"
#include "engine/snapshot.h"
#include "engine/timeline.h"
#include "model/cache.h"
#include "model/config.h"

struct dev;

struct sequence {
    int             slot;               /* its place among all: whose snapshots they are */
    uint64_t        name;               /* of the conversation, as given to engine_submit(); 0: no name */
    bool            busy;               /* an answer of it is under way, or it is on its way back from a file: nobody else may use it */
    struct timeline tl;
    struct cache   *k;
    int             rejoins;            /* position where the next turn will rejoin, as its last prompt said */
    bool            finished;           /* the last answer ended by itself (END_STOP): nobody continues it */
    int             ahead_from, ahead_to;       /* positions that were read ahead since the last answer */
    struct refill   refill;             /* noted since the last answer */
    uint64_t        used;               /* when it was last used, on the clock of struct sequences; 0: never */
};

struct sequences {
    struct dev      *dev;
    struct sequence *all;
    int              n;
    struct snapshots snaps;             /* of all sequences */
    void            *states;            /* memory of the snapshots */
    uint64_t         clock;
};

/* A sequence and its place in memory, for modules that copy it to a file and back. */
struct resident {
    struct dev       *dev;
    int               slot;             /* its place: index of the sequence, whose snapshots have this number */
    struct timeline  *tl;
    struct snapshots *snaps;
    struct cache     *cache;
    int rejoins;                        /* position where the next turn rejoins if this answer is not continued; 0: not known */
    bool finished;                      /* the answer will not be continued */
};

/* Opens a sequence for each of the n caches, which stay the caller's.  False with the reason; sequences_close() either way. */
bool sequences_open(struct sequences *s, struct dev *dev, const struct model_config *c, struct cache *const *caches, int n, int n_ctx,
                    int n_snapshots, struct err *e);
void sequences_close(struct sequences *s);
int  sequences_resident(const struct sequences *s);     /* that hold tokens */
bool sequences_have_place(const struct sequences *s);   /* at least one is not busy */

struct sequence *sequences_named(const struct sequences *s, uint64_t name);        /* NULL: not resident */
/* The sequence that this prompt continues: the one of that name; else one without a name that is not busy and agrees with the prompt up to
 * where its next turn rejoins.  NULL: there is none. */
struct sequence *sequences_that_goes_on(const struct sequences *s, uint64_t name, const int32_t *ids, int n);
/* The sequence for this prompt: the one that it continues; else, of those that are not busy, the least recently used one, which will give up
 * what it holds.  One must not be busy.  Changes nothing. */
struct sequence *sequences_choose(const struct sequences *s, uint64_t name, const int32_t *ids, int n);
/* The sequence is used now, for a prompt of n tokens of that conversation.  rejoins: where the next turn will rejoin; 0: behind the prompt. */
void sequence_use(struct sequences *s, struct sequence *q, uint64_t name, int n, int rejoins);

/* The position from which the prompt can continue what the sequence holds. */
struct rejoin sequence_rejoin(const struct sequences *s, const struct sequence *q, const int32_t *ids, int n);
/* Makes the ids the sequence and brings the states to the position from which it must be run. */
void sequence_set_prompt(struct sequences *s, struct sequence *q, const struct rejoin *j, const int32_t *ids, int n);
/* Takes a snapshot at the position where the states stand.  on_way: in the middle of an answer. */
void sequence_keep(struct sequences *s, struct sequence *q, bool on_way);
/* Empties it: nothing in its cache can be trusted. */
void sequence_forget(struct sequences *s, struct sequence *q);

/* Before sequence_set_prompt(): notes a refill if 64 tokens or more must be computed again, of those that prompt and sequence share or that the
 * last prompt expected to share; or if the conversation is not resident. */
void sequence_note_refill(const struct sequences *s, struct sequence *q, uint64_t name, const struct rejoin *j);
/* Returns the refill that was noted since the last call; of several the one that went back farthest. */
struct refill sequence_take_refill(struct sequence *q);

/* Rows were read ahead from pos on. */
void sequence_note_ahead(struct sequence *q, int pos, int rows);
/* How many of the first `pos` positions were read ahead since the last call. */
int  sequence_take_ahead(struct sequence *q, int pos);

#endif

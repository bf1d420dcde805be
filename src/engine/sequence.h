/* A sequence is what the engine keeps of one conversation: its tokens (timeline), KV rows and states (cache), snapshots, and a name.
 * Several are resident at once, so going back and forth between conversations computes nothing again.  Engine thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "answer/stats.h"
#include "base/err.h"
#include "engine/snapshot.h"
#include "engine/spans.h"
#include "model/cache.h"
#include "model/config.h"

struct dev;

/* The tokens of a sequence, with its pictures, and how many of them the model has run.
 *
 *   ids    0 ........................ n_run ......... n
 *          in the cache (KV, states)  not run yet
 *
 * While a prompt is computed n_run climbs to n.  From the first token of an answer on, n_run = n - 1: the newest token is
 * known but not run; the next step or the next prompt runs it.  The states stand at n_run, always. */
struct timeline {
    int32_t *ids;                       /* [cap] */
    int      cap;                       /* positions of the context */
    int      n, n_run;
    struct pictures pictures;           /* those that begin before n */
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

struct spans timeline_spans(const struct timeline *t);          /* all tokens, also those that were not run */
/* `seq`: whose snapshots can be loaded. */
struct rejoin timeline_rejoin(const struct timeline *t, const struct snapshots *s, int seq, struct spans prompt);
/* The prompt becomes the sequence; the states stand at pos. */
void timeline_set(struct timeline *t, struct spans prompt, int pos);
void timeline_ran(struct timeline *t, int n);           /* n more tokens are in the cache */
void timeline_add(struct timeline *t, int32_t id);      /* one more token, not run */
void timeline_cut(struct timeline *t);                  /* forgets the tokens that were not run */

struct sequence {
    int             slot;               /* its place among all: whose snapshots they are */
    uint64_t        name;               /* of the conversation, as given to engine_submit(); 0: no name */
    bool            busy;               /* an answer of it is under way, or it is on its way back from a file: nobody else may use it */
    struct timeline tl;
    struct cache   *k;
    struct rope_position *at;           /* positions of its rows up to the end of the last picture; NULL: no pictures */
    int             rejoins;            /* position where the next turn will rejoin, as given with its last prompt */
    bool            finished;           /* the last answer ended by itself (END_STOP): nobody continues it */
    int             ahead_from, ahead_to;       /* positions that were read ahead since the last answer */
    struct refill   refill;             /* noted since the last answer */
    uint32_t        client;             /* whose it is (struct sampling) */
    bool            kept;               /* it has a file; set by engine/storage */
    int64_t         used_ns;            /* when it was last used; 0: never */
};

struct sequences {
    struct dev      *dev;
    struct sequence *all;
    int              n;
    struct snapshots snaps;             /* of all sequences */
    void            *states;            /* memory of the snapshots */
    int64_t          now_ns;            /* when any of them was last used: choices between two uses are the same */
};

/* The upper half of names that the storage gives to conversations without a name, when it moves them to files. */
enum { SEQUENCE_GIVEN = 0x6d6f7665 };

/* True if the prompts of the conversation come without its name. */
static inline bool sequence_is_unnamed(uint64_t name)
{
    return !name || name >> 32 == SEQUENCE_GIVEN;
}

/* A prompt that needs a sequence. */
struct arrival {
    uint64_t     name;                  /* of the conversation; 0: no name */
    struct spans prompt;                /* no tokens: it comes back from a file, and may be long */
    uint32_t     client;
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
/* False if the prompt must wait: its conversation or all of them are busy, or a short one that is will make a place (engine/residency.h). */
bool sequences_have_place(const struct sequences *s, const struct arrival *a);

struct sequence *sequences_named(const struct sequences *s, uint64_t name);        /* NULL: not resident */
/* The sequence that this prompt continues: the one of that name; else one without a name that is not busy and agrees with the prompt up to
 * where its next turn rejoins.  NULL: there is none. */
struct sequence *sequences_continued_by(const struct sequences *s, const struct arrival *a);
/* The sequence for this prompt: the one that it continues; else, of those that are not busy, the one that engine/residency chooses, which will
 * give up what it holds.  One must not be busy.  Changes nothing. */
struct sequence *sequences_choose(const struct sequences *s, const struct arrival *a);
/* The sequence is used now, for that prompt.  rejoins: where the next turn will rejoin; 0: after the prompt. */
void sequence_use(struct sequences *s, struct sequence *q, const struct arrival *a, int rejoins);

/* The position from which the prompt can continue what the sequence holds. */
struct rejoin sequence_rejoin(const struct sequences *s, const struct sequence *q, struct spans prompt);
/* Makes the prompt the sequence and brings the states to the position from which it must be run. */
void sequence_set_prompt(struct sequences *s, struct sequence *q, const struct rejoin *j, struct spans prompt);
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

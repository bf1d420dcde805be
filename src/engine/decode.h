/* From a prompt to an answer: prompt chunks, decode steps, drafts by the MTP block and their verification, snapshots on the
 * way.  Runs on the engine thread; calls back for everything that is worth an event. */
#ifndef Q35_ENGINE_DECODE_H
#define Q35_ENGINE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/price.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/traffic.h"

struct dev;
struct decoder;

struct decoder_options {
    int       n_ctx;
    int       chunk;                    /* most prompt rows a call */
    bool      fixed_chunk;              /* always that many, however long a call takes (the bits then never depend on time) */
    int       depth;                    /* most drafts a step; 0: no MTP rows are written at all */
    int       n_sequences;              /* that are resident at once */
    int       n_snapshots;              /* of all of them */
    enum head head;
    struct traffic traffic;             /* what steps move, for the statistics; {0}: not known */
};

/* Tokens of one step. */
struct picks {
    int     n;
    int32_t ids[ENGINE_MAX_DEPTH + 1];
    uint8_t source[ENGINE_MAX_DEPTH + 1];       /* enum token_source */
    float   prob[ENGINE_MAX_DEPTH + 1];
    struct logprobs logprobs[ENGINE_MAX_DEPTH + 1];
};

struct decoder_hooks {
    bool (*stop)(void *arg);            /* called between chunks and between steps; true: stop */
    void (*prefill)(void *arg, int done, int total, int cached);        /* prompt tokens */
    bool (*tokens)(void *arg, const struct picks *p);   /* false: stop, and these tokens do not count */
    void (*done)(void *arg);            /* the outcome is complete; may be NULL */
    void *arg;
};

struct prompt {
    uint64_t               sequence;    /* the conversation's name; 0: none */
    const int32_t         *ids;
    int                    n, snapshot_pos;
    const struct sampling *how;
    int64_t                submitted_ns;
};

/* Work space for o->chunk rows, and o->n_sequences caches with room for a step behind o->n_ctx positions; they stay the caller's, and valid
 * until decoder_close. */
struct decoder *decoder_open(struct dev *dev, const struct model_config *c, struct forward *f, struct cache *const *caches,
                             const struct decoder_options *o, struct err *e);
void decoder_close(struct decoder *d);

/* Several answers are under way at once, each on a sequence of its own, where the device can do that (dev_caps.several); else one.  An answer
 * has the same tokens as if it were alone. */
bool decoder_may_begin(const struct decoder *d, uint64_t sequence);     /* an answer for the conversation of that name, now */
/* Begins an answer, or ends it at once because it is refused.  What `p` points to and `out` stay valid until done(). */
void decoder_begin(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out);
int  decoder_n_answers(const struct decoder *d);        /* under way */
int  decoder_most_answers(const struct decoder *d);
/* Advances all of them: a chunk of one prompt, and a step of those whose prompts are read.  False when the device failed: then all have ended,
 * and the decoder is of no more use. */
bool decoder_turn(struct decoder *d, struct err *fault);
void decoder_fail(struct decoder *d, const struct err *fault);   /* after the device failed: all end */
/* One answer, from its beginning to its end. */
bool decoder_answer(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out, struct err *fault);

/* True if decoder_read_ahead() would run anything now. */
bool decoder_reads_ahead(const struct decoder *d, const struct beginning *b);
/* While no answer is under way.  Runs the beginning up to the last position where chunks of every longer prompt end, too, so that bits are the
 * same; and keeps the states at the last such position up to snapshot_pos.  Ends after the chunk in which `stop` becomes true; what was run
 * stays.  False when the device failed. */
bool decoder_read_ahead(struct decoder *d, const struct beginning *b, bool (*stop)(void *arg), void *arg, struct err *fault);

/* The sequence of that name, or for 0 the one that was used last.  False: it is not resident. */
bool decoder_resident(struct decoder *d, uint64_t sequence, struct resident *r);
/* True if a sequence holds tokens that this prompt continues. */
bool decoder_is_there(const struct decoder *d, uint64_t sequence, const int32_t *ids, int n);
/* The place where the conversation is, or would be, when an answer of it may begin.
 * *holder: the conversation that has this place; 0: no named one. */
struct resident decoder_place(struct decoder *d, uint64_t sequence, uint64_t *holder);
/* Reserves the place until it is released; decoder_restored() notes that the conversation is there now. */
void decoder_reserve(struct decoder *d, const struct resident *r);
void decoder_release(struct decoder *d, const struct resident *r);
void decoder_restored(struct decoder *d, uint64_t sequence, const struct resident *r);
const struct timeline *decoder_timeline(const struct decoder *d);       /* of the sequence that was used last */
struct price *decoder_price(struct decoder *d);         /* of its steps and drafts; the caller may set it while no answer is under way */
int decoder_n_snapshots(const struct decoder *d);       /* in use */
int decoder_n_resident(const struct decoder *d);        /* sequences that hold tokens */

#endif

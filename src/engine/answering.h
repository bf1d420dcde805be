/* The inside of the decoder, for decode.c and answering.c.  Nobody else includes this. */
#ifndef Q35_ENGINE_ANSWERING_H
#define Q35_ENGINE_ANSWERING_H

#include "config/limits.h"
#include "engine/decode.h"
#include "engine/drafts.h"
#include "engine/sequence.h"

struct decoder {
    struct dev *dev;
    const struct model_config *c;
    struct decoder_options o;
    struct forward  *f;
    struct sequences sequences;
    struct sequence *last;              /* the sequence that was used last */
    struct stepper  *stepper;
    struct pace      pace;              /* of prompt chunks */
    struct price     price;             /* of steps and drafts */
    struct gate      gate;              /* what the answer that ended last has learnt */
    struct group     group;             /* of steps that several answers share */
    struct drafter   drafters[LIMIT_SEQUENCES];        /* of the answer in each slot */
    struct run      *runs[LIMIT_SEQUENCES];            /* under way, in the order in which they began */
    int n_runs, most_runs;
    struct stepper_counts counted;      /* runs and rows of the MTP block that are in the statistics of answers already */
};

/* One answer under way.  It is made in pieces, chunks of its prompt and then steps, so that several can alternate. */
struct run {
    struct decoder *d;
    struct prompt   p;
    struct decoder_hooks h;
    struct outcome *out;
    struct sequence *q;
    struct drafter  *drafter;
    enum { RUN_READS, RUN_STEPS } stage;        /* its prompt is read; tokens are made */
    bool    ended;
    int     cached;                     /* tokens of the prompt that were resident */
    int     depth;                      /* drafts a step, or DRAFTER_AUTO */
    int     room;                       /* tokens that the answer may have: max_tokens and context */
    bool    begun;                      /* stepper_begin() was called */
    int     n_sharing;                  /* answers that took part in its newest step */
    int     n_rows;                     /* rows of that step in all, if n_sharing > 1 */
    int     n_outstanding;              /* picks that were launched and whose results were not taken */
    int     n_delivered;                /* results whose tokens were reported */
    int     kept;                       /* position of the last snapshot on the way */
    int64_t first_ns;                   /* when the first token came; 0: not yet */
    int64_t due;                        /* base/due.h, ns */
    int64_t moved_ns;                   /* when its last chunk or step began; 0: not yet */
};

/* In decode.c.  Runs a chunk of the sequence.  False when the device failed. */
bool decoder_read_chunk(struct decoder *d, struct sequence *q, int rows, struct err *fault);
/* Rows of the next chunk of a sequence of `end` tokens: as many as the time allows, ending where a snapshot is wanted. */
int  decoder_chunk_rows(const struct decoder *d, int pos, int end, int snapshot_pos, enum pace_wait wait);
/* False with the reason when an id is none of the vocabulary's. */
bool decoder_check_ids(const struct decoder *d, const int32_t *ids, int n, struct err *e);

enum { SNAPSHOT_EVERY = 4096 };         /* prompt tokens: refilling them takes seconds, a copy of the states milliseconds */

#endif

/* The decoder: the sequences that are resident, and what reads their prompts, makes their steps and prices their drafts.  This file opens it, runs
 * prompt chunks and reads ahead; engine/answering.h has the answers.  Engine thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/limits.h"
#include "engine/drafts.h"
#include "engine/gallery.h"
#include "engine/gate.h"
#include "engine/price.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/stepper.h"
#include "model/traffic.h"

struct dev;
struct run;                             /* an answer under way: engine/answering.c */

enum { SNAPSHOT_EVERY = 4096 };         /* prompt tokens, at least: refilling them takes seconds, a copy of the states milliseconds */

struct decoder_options {
    int       n_ctx;
    int       chunk;                    /* most prompt rows a call */
    bool      fixed_chunk;              /* always that many, however long a call takes (the bits then never depend on time, but with PROMPT_INT8
                                         * beside other prompts) */
    int       depth;                    /* most drafts a step; 0: no MTP rows are written at all */
    int       n_sequences;              /* that are resident at once */
    int       n_snapshots;              /* of all of them */
    enum head head;
    struct vision *vision;              /* the tower, the caller's; NULL: the model sees no pictures, and their tokens are what their ids are */
    int       picture_tokens;           /* of a picture, at most */
    struct traffic traffic;             /* what steps move, for the statistics; {0}: not known */
};

struct decoder {
    struct dev *dev;
    const struct model_config *c;
    struct decoder_options o;
    struct forward  *f;
    struct sequences sequences;
    struct sequence *last;              /* the sequence that was used last */
    struct stepper  *stepper;
    struct gallery  *gallery;           /* rows of pictures; NULL: there is no tower */
    struct pace      pace;              /* of prompt chunks */
    struct price     price;             /* of steps and drafts */
    struct gate      gate;              /* what the answer that ended last has learnt */
    struct group     group;             /* of steps that several answers share */
    struct drafter   drafters[LIMIT_SEQUENCES];        /* of the answer in each slot */
    struct run      *runs[LIMIT_SEQUENCES];            /* under way, in the order in which they began */
    int n_runs, most_runs;
    struct stepper_counts counted;      /* runs and rows of the MTP block that are in the statistics of answers already */
};

/* Work space for o->chunk rows, and o->n_sequences caches with room for a step behind o->n_ctx positions; they stay the caller's, and valid
 * until decoder_close. */
struct decoder *decoder_open(struct dev *dev, const struct model_config *c, struct forward *f, struct cache *const *caches,
                             const struct decoder_options *o, struct err *e);
void decoder_close(struct decoder *d);

/* Prepares the picture rows of the sequence's next *rows tokens; `prompt` supplies the pixels.  READ_CHUNK: they are ready for decoder_read(), and
 * *rows may have been reduced.  READ_SLICE: the tower computed a slice of them.  READ_REFUSED: a picture is not there, *why says which. */
enum read { READ_CHUNK, READ_SLICE, READ_REFUSED, READ_FAULT };
enum read decoder_look(struct decoder *d, struct sequence *q, struct spans prompt, int *rows, int *n_computed, struct err *why, struct err *fault);
/* The next rows of a sequence. */
struct portion {
    struct sequence *q;
    int rows;
};
/* Runs the next rows of n sequences in one call of prompt_chunks() (model/prompt.h); only those of the first may have pictures.  False when the
 * device failed. */
bool decoder_read(struct decoder *d, const struct portion *all, int n, struct err *fault);
/* Most rows that a call may have while somebody waits for its end. */
int  decoder_most_rows(const struct decoder *d, enum pace_wait wait);
/* Prompt tokens from one snapshot to the next. */
int  decoder_snapshot_every(const struct decoder *d);
/* Rows of the next chunk of a sequence of `end` tokens: as many as the time allows, ending where a snapshot is wanted. */
int  decoder_chunk_rows(const struct decoder *d, int pos, int end, int snapshot_pos, enum pace_wait wait);
/* False with the reason when an id is none of the vocabulary's, or pictures overlap or end in no rectangle. */
bool decoder_check_prompt(const struct decoder *d, struct spans prompt, struct err *e);

/* True if decoder_read_ahead() would run anything now. */
bool decoder_reads_ahead(const struct decoder *d, const struct beginning *b);
/* While no answer is under way.  Runs the beginning up to the last position where chunks of every longer prompt end, too, so that bits are the
 * same; and keeps the states at the last such position up to snapshot_pos.  Ends after the chunk in which `stop` becomes true; what was run
 * stays.  False when the device failed. */
bool decoder_read_ahead(struct decoder *d, const struct beginning *b, bool (*stop)(void *arg), void *arg, struct err *fault);

/* The sequence of that name, or for 0 the one that was used last.  False: it is not resident. */
bool decoder_resident(struct decoder *d, uint64_t sequence, struct resident *r);
/* True if a sequence holds tokens that this prompt continues. */
bool decoder_is_there(const struct decoder *d, const struct arrival *a);
/* The place where the conversation is, or would be, when an answer of it may begin.
 * *holder: the conversation that has this place; 0: no named one. */
struct resident decoder_place(struct decoder *d, const struct arrival *a, uint64_t *holder);
/* Notes that the conversation is in that place now. */
void decoder_restored(struct decoder *d, uint64_t sequence, const struct resident *r);

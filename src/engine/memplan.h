/* Every byte the engine will need, decided before the first weight is read.  A machine without swap that runs out of
 * memory freezes, so a plan that does not fit is refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct buf;
struct kv_recipe;
struct model_config;

enum { MEMPLAN_MIN_CTX = 256 };         /* a smaller context is of no use as a default */
enum { MEMPLAN_SEQUENCES = 8 };         /* most conversations by default: a step has rows of so many */

enum { PLAN_MAX_LINES = 11 };

struct plan_line {
    const char *name;                   /* "weights"; a constant */
    size_t      bytes;
    int         times;                  /* the equal parts that `bytes` consist of, one for each conversation; 0: it is one thing */
    bool        host;                   /* in the host's memory, beside a discrete GPU */
};

struct memory_plan {
    struct plan_line lines[PLAN_MAX_LINES];
    int    n_lines;                     /* 0: nothing was planned */
    size_t total, host_total;           /* bytes; host_total: of the lines with `host`, which are not in total */
    size_t available, margin;           /* of the memory where `total` lies; the margin is to be left free */
    size_t kv_bytes;                    /* the line of the KV cache */
    const char *kv, *kv_why;            /* the recipe's name; why --kv auto took it, or NULL.  Constants */
    int    stretched_from;              /* positions that the model was trained on, where YaRN stretches them; 0: it does not */
    int    n_ctx;                       /* decided: positions of each conversation */
    int    n_sequences;                 /* decided: conversations resident at once, */
    const char *n_why;                  /* ... why so many, where nobody asked for a number, or NULL; a constant */
    int    n_snapshots;                 /* decided: states kept for going back, of all conversations */
};

struct memplan_request {
    const struct model_config *model;
    const struct kv_recipe    *kv;
    unsigned kv_choices;                /* recipes that could be taken instead, bits of 1 << index (kv_recipe_at) */
    bool   kv_forced;                   /* decided by memplan_choose_kv(): another one was taken because the default does not fit */
    size_t weight_bytes;                /* memplan_weight_bytes(); on a GPU upload_plan_bytes(), heads included */
    size_t made_head_bytes;             /* of an INT8 head that is made beside the stored one */
    size_t made_mtp_bytes;              /* of an MTP block that is made beside the stored one */
    bool   mtp_in_int4;                 /* ... in INT4; else in FP8 */
    int    n_ctx;                       /* positions requested; 0: what fits, at most default_ctx and the model's */
    int    default_ctx;
    int    n_sequences;                 /* conversations resident at once; 0: as many as fit with the same context, at most MEMPLAN_SEQUENCES.
                                         * From the fifth on they take at most half of the memory that two leave */
    int    max_rows;                    /* of a prompt chunk */
    int    picture_tokens;              /* rows of a picture at most, if the model has a vision tower */
    int    n_snapshots;                 /* states kept for going back, of up to two conversations; */
    bool   more_snapshots;              /* ... and each further one brings half as many */
    bool   saves;                       /* conversations are saved while the engine runs */
    size_t available, margin;           /* memplan_available(); what to leave to the rest of the machine */

    /* On a GPU; all 0 without. */
    bool   gpu;
    bool   discrete;                    /* it has memory of its own, and `available` is about that */
    bool   weights_in_host;             /* the weights lie in the host's memory */
    size_t host_available, host_margin; /* discrete: for the lines that lie in the host's memory */
    int    spare_positions;             /* behind the context, for rows of drafts */
    size_t step_bytes, scratch_bytes;   /* for decode steps, without what each sequence needs for them; for plain operations */
    size_t step_each_bytes;             /* what each sequence needs for decode steps beside its states */
    size_t read_bytes;                  /* host memory while weights are read */
    size_t int8_weight_bytes;           /* weight_bytes with the INT8 head instead; 0: it is that already, or in two planes, which take as much */
};

/* Plans.  False when the plan does not fit, with both numbers and what would; the plan is filled in either way, except for a context that the model
 * does not have. */
bool memplan_make(struct memory_plan *m, const struct memplan_request *q, struct err *e);

/* For `--kv auto`: replaces q->kv, the device's default, by the recipe that makes steps cheapest in the context that there would be; if that
 * context does not fit, by the first one with which it does.  Returns why. */
const char *memplan_choose_kv(struct memplan_request *q);

/* MemAvailable: what can be allocated without swapping, page cache included. */
size_t memplan_available(void);
/* The size of all *.safetensors of the directory. */
size_t memplan_weight_bytes(const char *dir);
/* Appends the whole plan as a line; nothing when nothing was planned. */
void plan_say(const struct memory_plan *p, struct buf *out);

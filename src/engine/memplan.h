/* Every byte the engine will need, decided before the first weight is read.  A machine without swap that runs out of
 * memory freezes, so a plan that does not fit is refused. */
#ifndef Q35_ENGINE_MEMPLAN_H
#define Q35_ENGINE_MEMPLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/plan.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/weights.h"

enum { MEMPLAN_MIN_CTX = 256 };         /* a smaller context is of no use as a default */

struct memplan_request {
    const struct model_config *model;
    const struct kv_recipe    *kv;
    unsigned kv_choices;                /* recipes that could be taken instead, bits of 1 << index (kv_recipe_at) */
    size_t weight_bytes;                /* memplan_weight_bytes(); on a GPU upload_plan_bytes(), heads included */
    size_t made_head_bytes;             /* of an INT8 head that is made beside the stored one */
    size_t made_mtp_bytes;              /* of an MTP block that is made beside the stored one, */
    enum mtp_form mtp;                  /* in this form */
    int    n_ctx;                       /* positions asked for; 0: what fits, at most default_ctx and the model's */
    int    default_ctx;
    int    n_sequences;                 /* conversations resident at once; 0: two where they fit with the same context, else one */
    int    max_rows;                    /* of a prompt chunk */
    int    n_snapshots;
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

/* False when it does not fit, with both numbers and what would; the plan is there either way, but for a context that the model does
 * not have. */
bool memplan_make(struct memory_plan *m, const struct memplan_request *q, struct err *e);

/* `--kv auto`: q->kv, which is the device's default, becomes the recipe that makes steps cheapest in the context that there would be; if that
 * context does not fit, the first one with which it does.  Returns why. */
const char *memplan_choose_kv(struct memplan_request *q);

/* MemAvailable: what can be had without swapping, page cache included. */
size_t memplan_available(void);
/* All *.safetensors of the directory. */
size_t memplan_weight_bytes(const char *dir);

#endif

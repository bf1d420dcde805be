/* Inside of struct cache: where each layer's rows and states lie.  For cache.c and the forward pass only. */
#ifndef Q35_MODEL_LAYOUT_H
#define Q35_MODEL_LAYOUT_H

#include "backend/dev.h"
#include "model/cache.h"
#include "model/weights.h"

struct delta_slot {
    float *state;                       /* [lin_v_heads, dk, dv] fp32 */
    float *window;                      /* [conv_kernel - 1, conv_dim] */
    float *ring, *ring_a, *ring_b;      /* [STEP_RING, conv_dim], [STEP_RING, lin_v_heads]: raw inputs by position */
    float *other;                       /* the second copy of `state` */
};

struct cache {
    struct dev                *dev;
    const struct model_config *cfg;
    const struct kv_recipe    *recipe;
    int                n_ctx;
    int                n_staged;        /* rows of the last step, before cache_accept() */
    int                n_accepted;      /* staged rows that belong to the sequence and are not in the states yet */
    struct kv         *memory;          /* of KV rows */
    const struct kv_rows *kv;           /* [n_full, then the MTP block's] */
    struct delta_slot *delta;           /* [n_delta] */
    float             *last_hidden;     /* [hidden], at the end of `states` */
    void              *states, *rings;
    bool  stepping;                     /* the rings hold the newest rows, the states are in step form; else in `state` and `window` */
    int   pos;                          /* committed: position after the accepted rows */
    int   parity;                       /* when stepping: 1 when the committed states are the `other` ones */
    const struct weights *weights;
    struct step_live     *live;         /* device memory of whoever runs the steps */
};

/* Step form and back; nothing to do when it is there already.  `pos`: rows in the cache. */
void cache_begin_steps(struct cache *k, const struct weights *w, struct step_live *live, int pos);
void cache_end_steps(struct cache *k);
/* One DeltaNet layer of a step. */
void cache_delta_step(struct cache *k, int layer, const struct delta_weights *w, const struct step_live *live, float *y, float *ssq,
                      const float *z, int n);

#endif

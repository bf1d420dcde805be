/* Inside of struct cache: where each layer's rows and states lie.  For cache.c and the forward pass only. */
#ifndef Q35_MODEL_LAYOUT_H
#define Q35_MODEL_LAYOUT_H

#include "backend/dev.h"
#include "model/cache.h"

struct delta_slot {
    float *state;                       /* [lin_v_heads, dk, dv] fp32 */
    float *window;                      /* [conv_kernel - 1, conv_dim] */
    float *raw;                         /* [max_step, conv_dim]: inputs of the staged rows */
    struct deltanet_stage stage;
};

struct cache {
    struct dev                *dev;
    const struct model_config *cfg;
    int                n_ctx, max_step;
    int                n_staged;        /* rows of the last step, before cache_accept() */
    int                n_accepted;      /* staged rows that belong to the sequence and are not in the states yet */
    struct kv_rows    *kv;              /* [n_full, then the MTP block's] */
    struct delta_slot *delta;           /* [n_delta] */
    float             *last_hidden;     /* [hidden], at the end of `states` */
    void              *kv_memory, *states, *stages;
};

#endif

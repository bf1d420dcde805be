/* Inside of struct cache.  For cache.c, the forward pass and the steps only. */
#ifndef Q35_MODEL_LAYOUT_H
#define Q35_MODEL_LAYOUT_H

#include "backend/dev.h"
#include "model/cache.h"
#include "model/state.h"
#include "model/weights.h"

/* Memory of all conversations. */
struct cache_memory {
    struct dev *dev;
    struct kv  *kv;
    void       *states;
    size_t      state_bytes;            /* from one conversation's states to the next one's */
};

struct cache {
    const struct model_config *cfg;
    const struct kv_recipe    *recipe;
    int                   n_ctx;
    int                   slot;         /* which of all it is */
    struct cache_memory  *memory;
    const struct kv_rows *kv;           /* [n_full, then the MTP block's] */
    struct state          state;
};

#endif

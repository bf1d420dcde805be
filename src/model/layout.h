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

/* Where rope turns the rows of a conversation (cache_set_positions). */
struct positions {
    const struct rope_position *at;     /* [n], the caller's */
    int n, offset;
};

struct cache {
    const struct model_config *cfg;
    const struct kv_recipe    *recipe;
    int                   n_ctx;
    int                   slot;         /* which of all it is */
    struct cache_memory  *memory;
    const struct kv_rows *kv;           /* [n_full, then the MTP block's] */
    struct state          state;
    struct positions      positions;
};

/* The offset of the rows of a step, which are text. */
static inline struct rope_position cache_rope_offset(const struct cache *k)
{
    const int offset = k->positions.offset;
    return (struct rope_position){offset, offset, offset};
}

#endif

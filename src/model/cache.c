#include "model/cache.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/memory.h"
#include "model/layout.h"

size_t cache_state_bytes(const struct model_config *c)
{
    return state_bytes(c);
}

size_t cache_step_bytes(const struct model_config *c)
{
    return state_step_bytes(c);
}

/* The states, the tail of KV rows, the position. */
size_t cache_saved_bytes(const struct model_config *c, const struct kv_recipe *r)
{
    return state_bytes(c) + kv_tail_bytes(c, r) + sizeof(int32_t);
}

struct cache *cache_open(struct dev *d, const struct kv_shape *s, struct err *e)
{
    struct cache *k = memory_zeroed(1, sizeof *k);
    *k = (struct cache){.cfg = s->cfg, .recipe = s->recipe, .n_ctx = s->n_ctx, .memory = kv_open(d, s, e)};
    if (!k->memory || !state_open(&k->state, d, s->cfg, e)) {
        cache_close(k);
        return NULL;
    }
    k->kv = kv_slot(k->memory, 0);
    return k;
}

const struct kv_recipe *cache_recipe(const struct cache *k)
{
    return k->recipe;
}

void cache_close(struct cache *k)
{
    if (!k)
        return;
    kv_close(k->memory);
    state_close(&k->state);
    free(k);
}

void cache_reset(struct cache *k)
{
    state_reset(&k->state);
}

void cache_accept(struct cache *k, int n)
{
    state_accept(&k->state, n);
}

void cache_state_save(struct cache *k, void *dst)
{
    const size_t states = state_bytes(k->cfg), tail = kv_tail_bytes(k->cfg, k->recipe);
    state_end_steps(&k->state);
    state_save(&k->state, dst);
    kv_tail_save(k->memory, 0, k->state.pos, (char *)dst + states);
    memcpy((char *)dst + states + tail, &(int32_t){k->state.pos}, sizeof(int32_t));
}

int cache_saved_pos(const struct cache *k, const void *saved)
{
    int32_t pos;
    memcpy(&pos, (const char *)saved + state_bytes(k->cfg) + kv_tail_bytes(k->cfg, k->recipe), sizeof pos);
    return pos;
}

void cache_state_load(struct cache *k, const void *src)
{
    const int pos = cache_saved_pos(k, src);
    state_load(&k->state, src, pos);
    kv_tail_load(k->memory, 0, pos, (const char *)src + state_bytes(k->cfg));
}

size_t cache_rows_bytes(const struct cache *k, int from, int to)
{
    return kv_saved_bytes(k->memory, from, to);
}

void cache_rows_save(struct cache *k, int from, int to, void *dst)
{
    kv_save(k->memory, 0, from, to, dst);
}

void cache_rows_load(struct cache *k, int from, int to, const void *src)
{
    kv_load(k->memory, 0, from, to, src);
}

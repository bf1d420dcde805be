#include "model/cache.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/memory.h"
#include "model/state.h"

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

static bool memory_open(struct cache_memory *m, struct dev *d, const struct kv_shape *s, struct err *e)
{
    const size_t bytes = (size_t)s->n_slots * state_slot_bytes(s->cfg);
    *m = (struct cache_memory){.dev = d, .state_bytes = state_slot_bytes(s->cfg), .kv = kv_open(d, s, e)};
    if (!m->kv)
        return false;
    m->states = d->alloc(d, bytes);
    return m->states || err_set(e, "no memory for the states of conversations: %zu MiB asked for; end other programs", bytes >> 20);
}

static void memory_close(struct cache_memory *m)
{
    if (m->states)
        m->dev->free(m->dev, m->states);
    kv_close(m->kv);
    free(m);
}

bool caches_open(struct cache **all, struct dev *d, const struct kv_shape *s, struct err *e)
{
    struct cache_memory *m = memory_zeroed(1, sizeof *m);
    if (!memory_open(m, d, s, e)) {
        memory_close(m);
        return false;
    }
    for (int i = 0; i < s->n_slots; i++) {
        struct cache *k = all[i] = memory_zeroed(1, sizeof *k);
        *k = (struct cache){.cfg = s->cfg, .recipe = s->recipe, .n_ctx = s->n_ctx, .slot = i, .memory = m, .kv = kv_slot(m->kv, i)};
        state_open(&k->state, d, s->cfg, (char *)m->states + (size_t)i * m->state_bytes);
    }
    return true;
}

void caches_close(struct cache **all, int n)
{
    if (n > 0 && all[0])
        memory_close(all[0]->memory);
    for (int i = 0; i < n && all[i]; i++) {
        state_close(&all[i]->state);
        free(all[i]);
    }
}

struct cache *cache_open(struct dev *d, const struct kv_shape *s, struct err *e)
{
    struct kv_shape one = *s;
    struct cache *k;
    one.n_slots = 1;
    return caches_open(&k, d, &one, e) ? k : NULL;
}

const struct kv_recipe *cache_recipe(const struct cache *k)
{
    return k->recipe;
}

void cache_close(struct cache *k)
{
    caches_close(&k, 1);
}

void cache_reset(struct cache *k)
{
    state_reset(&k->state);
    k->positions = (struct positions){0};
}

void cache_set_positions(struct cache *k, const struct rope_position *at, int n, int offset)
{
    k->positions = (struct positions){at, n, offset};
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
    kv_tail_save(k->memory->kv, k->slot, k->state.pos, (char *)dst + states);
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
    kv_tail_load(k->memory->kv, k->slot, pos, (const char *)src + state_bytes(k->cfg));
}

size_t cache_rows_bytes(const struct cache *k, int from, int to)
{
    return kv_saved_bytes(k->memory->kv, from, to);
}

void cache_rows_save(struct cache *k, int from, int to, void *dst)
{
    kv_save(k->memory->kv, k->slot, from, to, dst);
}

void cache_rows_load(struct cache *k, int from, int to, const void *src)
{
    kv_load(k->memory->kv, k->slot, from, to, src);
}

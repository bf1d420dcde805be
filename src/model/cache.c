#include "model/cache.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/layout.h"

static size_t recurrent_floats(const struct model_config *c)    /* one layer */
{
    return (size_t)c->lin_v_heads * (size_t)(c->lin_k_dim * c->lin_v_dim);
}

static size_t window_floats(const struct model_config *c)
{
    return (size_t)(c->conv_kernel - 1) * (size_t)config_conv_dim(c);
}

size_t cache_state_bytes(const struct model_config *c)
{
    return ((size_t)c->n_delta * (recurrent_floats(c) + window_floats(c)) + (size_t)c->hidden) * sizeof(float);
}

static size_t ring_floats(const struct model_config *c)          /* one layer, all three rings */
{
    return (size_t)STEP_RING * (size_t)(config_conv_dim(c) + 2 * c->lin_v_heads);
}

size_t cache_step_bytes(const struct model_config *c)
{
    return (size_t)c->n_delta * (recurrent_floats(c) + ring_floats(c)) * sizeof(float);
}

/* The states, the tail of KV rows, the position. */
size_t cache_saved_bytes(const struct model_config *c, const struct kv_recipe *r)
{
    return cache_state_bytes(c) + kv_tail_bytes(c, r) + sizeof(int32_t);
}

static void *take(char **at, size_t bytes)
{
    void *p = *at;
    *at += bytes;
    return p;
}

struct cache *cache_open(struct dev *d, const struct kv_shape *s, struct err *e)
{
    const struct model_config *c = s->cfg;
    size_t conv = (size_t)config_conv_dim(c), states = cache_state_bytes(c), rings = cache_step_bytes(c);
    struct cache *k = memory_zeroed(1, sizeof *k);
    *k = (struct cache){.dev = d, .cfg = c, .recipe = s->recipe, .n_ctx = s->n_ctx, .memory = kv_open(d, s, e)};
    if (!k->memory) {
        cache_close(k);
        return NULL;
    }
    k->kv = kv_slot(k->memory, 0);
    k->states = d->alloc(d, states);
    k->rings = d->alloc(d, rings);
    k->delta = memory_zeroed((size_t)c->n_delta + 1, sizeof *k->delta);
    if (!k->states || !k->rings) {
        err_set(e, "no memory for the states of a conversation: %zu MiB asked for; end other programs", (states + rings) >> 20);
        cache_close(k);
        return NULL;
    }
    char *state_at = k->states, *ring_at = k->rings;
    for (int i = 0; i < c->n_delta; i++) {
        struct delta_slot *slot = &k->delta[i];
        slot->state = take(&state_at, recurrent_floats(c) * sizeof(float));
        slot->window = take(&state_at, window_floats(c) * sizeof(float));
        slot->other = take(&ring_at, recurrent_floats(c) * sizeof(float));
        slot->ring = take(&ring_at, STEP_RING * conv * sizeof(float));
        slot->ring_a = take(&ring_at, STEP_RING * (size_t)c->lin_v_heads * sizeof(float));
        slot->ring_b = take(&ring_at, STEP_RING * (size_t)c->lin_v_heads * sizeof(float));
    }
    k->last_hidden = take(&state_at, (size_t)c->hidden * sizeof(float));
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
    k->dev->free(k->dev, k->states);
    k->dev->free(k->dev, k->rings);
    free(k->delta);
    free(k);
}

void cache_reset(struct cache *k)
{
    k->dev->zero(k->dev, k->states, cache_state_bytes(k->cfg));
    k->n_staged = k->n_accepted = k->pos = 0;
    k->stepping = false;
}

void cache_accept(struct cache *k, int n)
{
    CHECK(n >= 0 && n <= k->n_staged);
    k->n_accepted = n;
    k->n_staged = 0;
    k->pos += n;
}

/* Between window and ring: the three raw rows before `pos` of every layer; those before position 0 are zero. */
static void move_window(struct cache *k, int pos, bool to_ring)
{
    const struct model_config *c = k->cfg;
    const int taps = c->conv_kernel - 1;
    const size_t row = (size_t)config_conv_dim(c) * sizeof(float),
        state_step = (recurrent_floats(c) + window_floats(c)) * sizeof(float), ring_step = (recurrent_floats(c) + ring_floats(c)) * sizeof(float);
    for (int i = 0; i < taps && c->n_delta; i++) {
        int at = pos - taps + i;
        char *window = (char *)k->delta[0].window + (size_t)i * row;
        char *ring = (char *)k->delta[0].ring + (size_t)((at + STEP_RING) % STEP_RING) * row;
        if (to_ring)
            k->dev->copy_rows(k->dev, ring, ring_step, window, state_step, row, c->n_delta);
        else if (at >= 0)
            k->dev->copy_rows(k->dev, window, state_step, ring, ring_step, row, c->n_delta);
        else
            for (int layer = 0; layer < c->n_delta; layer++)
                k->dev->zero(k->dev, (char *)k->delta[layer].window + (size_t)i * row, row);
    }
}

void cache_begin_steps(struct cache *k, const struct weights *w, struct step_live *live, int pos)
{
    k->weights = w;
    k->live = live;
    if (k->stepping) {
        CHECK(k->pos == pos);
        return;
    }
    move_window(k, pos, true);
    k->stepping = true;
    k->pos = pos;
    k->parity = k->n_accepted = 0;
}

void cache_delta_step(struct cache *k, int layer, const struct delta_weights *w, const struct step_live *live, float *y, float *ssq,
                      const float *z, int n)
{
    const struct model_config *c = k->cfg;
    const struct delta_slot *s = &k->delta[layer];
    STEP(k->dev, step_delta, .y = y, .ssq = ssq, .raw = s->ring, .a = s->ring_a, .b = s->ring_b, .z = z, .conv = w->conv,
         .a_log = w->a_log, .dt_bias = w->dt_bias, .norm = w->norm, .state = {s->state, s->other}, .live = live, .n_rows = n,
         .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim, .dv = c->lin_v_dim, .taps = c->conv_kernel);
}

void cache_end_steps(struct cache *k)
{
    const struct model_config *c = k->cfg;
    const struct step_live live = {.pos = k->pos, .n_apply = k->n_accepted, .parity = k->parity};
    if (!k->stepping)
        return;
    CHECK(!k->n_staged);
    if (k->n_accepted || k->parity) {
        k->dev->copy(k->dev, k->live, &live, sizeof live);
        for (int i = 0, delta = 0; i < c->n_layers; i++)
            if (!c->full[i])
                cache_delta_step(k, delta++, &k->weights->layers[i].delta, k->live, NULL, NULL, NULL, 0);
        if (!k->parity && c->n_delta)   /* the result lies in the other states */
            k->dev->copy_rows(k->dev, k->delta[0].state, (recurrent_floats(c) + window_floats(c)) * sizeof(float), k->delta[0].other,
                              (recurrent_floats(c) + ring_floats(c)) * sizeof(float), recurrent_floats(c) * sizeof(float), c->n_delta);
    }
    move_window(k, k->pos, false);
    k->stepping = false;
    k->parity = k->n_accepted = 0;
}

void cache_state_save(struct cache *k, void *dst)
{
    const size_t states = cache_state_bytes(k->cfg), tail = kv_tail_bytes(k->cfg, k->recipe);
    cache_end_steps(k);
    k->dev->copy(k->dev, dst, k->states, states);
    kv_tail_save(k->memory, 0, k->pos, (char *)dst + states);
    memcpy((char *)dst + states + tail, &(int32_t){k->pos}, sizeof(int32_t));
}

int cache_saved_pos(const struct cache *k, const void *saved)
{
    int32_t pos;
    memcpy(&pos, (const char *)saved + cache_state_bytes(k->cfg) + kv_tail_bytes(k->cfg, k->recipe), sizeof pos);
    return pos;
}

void cache_state_load(struct cache *k, const void *src)
{
    const size_t states = cache_state_bytes(k->cfg);
    const int pos = cache_saved_pos(k, src);
    k->dev->copy(k->dev, k->states, src, states);
    kv_tail_load(k->memory, 0, pos, (const char *)src + states);
    k->pos = pos;
    k->n_staged = k->n_accepted = 0;
    k->stepping = false;
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

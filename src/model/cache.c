#include "model/cache.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/layout.h"

/* KV layers: the full-attention layers in order, then the MTP block's. */
static int n_kv_layers(const struct model_config *c)
{
    return c->n_full + (c->n_mtp ? 1 : 0);
}

static size_t layer_bytes(const struct model_config *c, enum dtype t, int n_ctx)        /* k or v */
{
    return (size_t)n_ctx * (size_t)c->n_kv_heads * (size_t)c->head_dim * (t == DT_F32 ? 4 : 2);
}

size_t cache_kv_bytes(const struct model_config *c, const struct kv_recipe *r, int n_ctx)
{
    return 2 * (size_t)n_kv_layers(c) * layer_bytes(c, r->dtype, n_ctx);
}

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

static void *take(char **at, size_t bytes)
{
    void *p = *at;
    *at += bytes;
    return p;
}

struct cache *cache_open(struct dev *d, const struct model_config *c, const struct kv_recipe *r, int n_ctx, struct err *e)
{
    size_t conv = (size_t)config_conv_dim(c), kv = cache_kv_bytes(c, r, n_ctx), states = cache_state_bytes(c), rings = cache_step_bytes(c);
    struct cache *k = memory_zeroed(1, sizeof *k);
    k->dev = d;
    k->cfg = c;
    k->n_ctx = n_ctx;
    k->kv_memory = d->alloc(d, kv);
    k->states = d->alloc(d, states);
    k->rings = d->alloc(d, rings);
    k->kv = memory_zeroed((size_t)n_kv_layers(c) + 1, sizeof *k->kv);
    k->delta = memory_zeroed((size_t)c->n_delta + 1, sizeof *k->delta);
    if (!k->kv_memory || !k->states || !k->rings) {
        err_set(e, "no memory for a context of %d positions: %zu MiB asked for; try a smaller --ctx", n_ctx, (kv + states + rings) >> 20);
        cache_close(k);
        return NULL;
    }
    char *at = k->kv_memory;
    for (int i = 0; i < n_kv_layers(c); i++) {
        k->kv[i] = (struct kv_rows){.dtype = r->dtype, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim};
        k->kv[i].k = take(&at, layer_bytes(c, r->dtype, n_ctx));
        k->kv[i].v = take(&at, layer_bytes(c, r->dtype, n_ctx));
    }
    char *state_at = k->states, *ring_at = k->rings;
    for (int i = 0; i < c->n_delta; i++) {
        struct delta_slot *s = &k->delta[i];
        s->state = take(&state_at, recurrent_floats(c) * sizeof(float));
        s->window = take(&state_at, window_floats(c) * sizeof(float));
        s->other = take(&ring_at, recurrent_floats(c) * sizeof(float));
        s->ring = take(&ring_at, STEP_RING * conv * sizeof(float));
        s->ring_a = take(&ring_at, STEP_RING * (size_t)c->lin_v_heads * sizeof(float));
        s->ring_b = take(&ring_at, STEP_RING * (size_t)c->lin_v_heads * sizeof(float));
    }
    k->last_hidden = take(&state_at, (size_t)c->hidden * sizeof(float));
    return k;
}

void cache_close(struct cache *k)
{
    if (!k)
        return;
    k->dev->free(k->dev, k->kv_memory);
    k->dev->free(k->dev, k->states);
    k->dev->free(k->dev, k->rings);
    free(k->kv);
    free(k->delta);
    free(k);
}

void cache_reset(struct cache *k)
{
    k->dev->zero(k->dev, k->states, cache_state_bytes(k->cfg));
    k->n_staged = k->n_accepted = 0;
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
    cache_end_steps(k);
    k->dev->copy(k->dev, dst, k->states, cache_state_bytes(k->cfg));
}

void cache_state_load(struct cache *k, const void *src)
{
    k->dev->copy(k->dev, k->states, src, cache_state_bytes(k->cfg));
    k->n_staged = k->n_accepted = 0;
    k->stepping = false;
}

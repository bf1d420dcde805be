#include "model/cache.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/state.h"
#include "model/weights.h"

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

/* The rings begin at a multiple of so many bytes. */
enum { ALIGN = 256 };

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

size_t state_slot_bytes(const struct model_config *c)
{
    return aligned(cache_state_bytes(c)) + aligned(cache_step_bytes(c));
}

/* Divides `memory` among the states of the DeltaNet layers and the last hidden row. */
static void state_open(struct state *s, struct dev *d, const struct model_config *c, void *memory)
{
    const size_t conv = (size_t)config_conv_dim(c);
    char *at = memory, *ring_at = at + aligned(cache_state_bytes(c));
    *s = (struct state){.dev = d, .cfg = c, .memory = memory, .delta = memory_zeroed((size_t)c->n_delta + 1, sizeof *s->delta)};
    for (int i = 0; i < c->n_delta; i++) {
        struct delta_state *l = &s->delta[i];
        l->state = take(&at, recurrent_floats(c) * sizeof(float));
        l->window = take(&at, window_floats(c) * sizeof(float));
        l->other = take(&ring_at, recurrent_floats(c) * sizeof(float));
        l->ring = take(&ring_at, STEP_RING * conv * sizeof(float));
        l->ring_a = take(&ring_at, STEP_RING * (size_t)c->lin_v_heads * sizeof(float));
        l->ring_b = take(&ring_at, STEP_RING * (size_t)c->lin_v_heads * sizeof(float));
    }
    s->last_hidden = take(&at, (size_t)c->hidden * sizeof(float));
}

/* ---- from one form to the other ---- */

/* Copies the raw rows before `pos`, as many as the window holds, of every layer between window and ring.  Rows before position 0 are zero. */
static void move_window(struct state *s, int pos, bool to_ring)
{
    const struct model_config *c = s->cfg;
    const int taps = c->conv_kernel - 1;
    const size_t row = (size_t)config_conv_dim(c) * sizeof(float);
    const size_t state_step = (recurrent_floats(c) + window_floats(c)) * sizeof(float);         /* from one layer to the next */
    const size_t ring_step = (recurrent_floats(c) + ring_floats(c)) * sizeof(float);
    for (int i = 0; i < taps && c->n_delta; i++) {
        int at = pos - taps + i;
        char *window = (char *)s->delta[0].window + (size_t)i * row;
        char *ring = (char *)s->delta[0].ring + (size_t)((at + STEP_RING) % STEP_RING) * row;
        if (to_ring)
            s->dev->copy_rows(s->dev, ring, ring_step, window, state_step, row, c->n_delta);
        else if (at >= 0)
            s->dev->copy_rows(s->dev, window, state_step, ring, ring_step, row, c->n_delta);
        else
            for (int layer = 0; layer < c->n_delta; layer++)
                s->dev->zero(s->dev, (char *)s->delta[layer].window + (size_t)i * row, row);
    }
}

void state_begin_steps(struct state *s, const struct weights *w, struct step_live *live, int pos)
{
    s->weights = w;
    s->live = live;
    if (s->stepping) {
        CHECK(s->pos == pos);
        return;
    }
    move_window(s, pos, true);
    s->stepping = true;
    s->pos = pos;
    s->parity = s->n_accepted = 0;
}

void state_delta_step(const struct state *s, int layer, const struct delta_weights *w, const struct step_live *live, const struct step_row *rows,
                      float *y, float *ssq, const float *z, int n)
{
    const struct model_config *c = s->cfg;
    const struct delta_state *l = &s->delta[layer];
    STEP(s->dev, step_delta, .y = y, .ssq = ssq, .raw = l->ring, .a = l->ring_a, .b = l->ring_b, .z = z, .conv = w->conv,
         .a_log = w->a_log, .dt_bias = w->dt_bias, .norm = w->norm, .state = {l->state, l->other}, .live = live, .rows = rows,
         .slot_bytes = state_slot_bytes(c), .n_rows = n, .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim,
         .dv = c->lin_v_dim, .taps = c->conv_kernel);
}

void state_end_steps(struct state *s)
{
    const struct model_config *c = s->cfg;
    const struct step_live live = {.pos = s->pos, .n_apply = s->n_accepted, .parity = s->parity};
    if (!s->stepping)
        return;
    CHECK(!s->n_staged);
    if (s->n_accepted || s->parity) {
        s->dev->copy(s->dev, s->live, &live, sizeof live);
        for (int i = 0, delta = 0; i < c->n_layers; i++)
            if (!c->full[i])
                state_delta_step(s, delta++, &s->weights->layers[i].delta, s->live, NULL, NULL, NULL, NULL, 0);
        if (!s->parity && c->n_delta)   /* the result lies in the other states */
            s->dev->copy_rows(s->dev, s->delta[0].state, (recurrent_floats(c) + window_floats(c)) * sizeof(float), s->delta[0].other,
                              (recurrent_floats(c) + ring_floats(c)) * sizeof(float), recurrent_floats(c) * sizeof(float), c->n_delta);
    }
    move_window(s, s->pos, false);
    s->stepping = false;
    s->parity = s->n_accepted = 0;
}

/* ---- what was run ---- */

struct step_live state_next_step(const struct state *s)
{
    CHECK(s->stepping && !s->n_staged);
    return (struct step_live){.pos = s->pos, .n_apply = s->n_accepted, .parity = s->parity};
}

void state_ran_step(struct state *s, int n)
{
    s->parity = !s->parity;             /* the copy with the accepted rows is the other one now */
    s->n_accepted = 0;
    s->n_staged = n;
}

/* After a step the committed copy is that of the position where the step's rows began, and the accepted rows are still to be applied; the other copy
 * is that of the step before.  So with `back` 0, 1 and 2 the hidden state before the position lies in row parity, 1 - parity and 2. */
int state_take_over(struct state *s, const struct step_live *live, int back, const int tokens[2])
{
    CHECK(back >= 0 && back <= 2);
    s->pos = live->pos;
    s->parity = live->parity;
    s->n_accepted = live->n_apply;
    s->n_staged = 0;
    if (back >= 1) {
        s->pos -= tokens[0];
        s->n_accepted = 0;
    }
    if (back >= 2) {
        s->pos -= tokens[1];
        s->parity = !s->parity;
    }
    return back == 2 ? 2 : back == 1 ? !live->parity : live->parity;
}

/* Returns the bytes of the states, the tail of KV rows, and the position. */
size_t cache_saved_bytes(const struct model_config *c, const struct kv_recipe *r)
{
    return cache_state_bytes(c) + kv_tail_bytes(c, r) + sizeof(int32_t);
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
        free(all[i]->state.delta);
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
    struct state *s = &k->state;
    s->dev->zero(s->dev, s->memory, cache_state_bytes(s->cfg));
    s->n_staged = s->n_accepted = s->pos = 0;
    s->stepping = false;
    k->positions = (struct positions){0};
    cache_set_pictures(k, NULL, 0);
}

void cache_set_positions(struct cache *k, const struct rope_position *at, int n, int offset)
{
    k->positions = (struct positions){at, n, offset};
}

void cache_set_pictures(struct cache *k, const struct picture_rows *p, int n)
{
    k->pictures = p;
    k->n_pictures = n;
}

void cache_accept(struct cache *k, int n)
{
    struct state *s = &k->state;
    CHECK(n >= 0 && n <= s->n_staged);
    s->n_accepted = n;
    s->n_staged = 0;
    s->pos += n;
}

void cache_state_save(struct cache *k, void *dst)
{
    const size_t states = cache_state_bytes(k->cfg), tail = kv_tail_bytes(k->cfg, k->recipe);
    state_end_steps(&k->state);
    k->state.dev->copy(k->state.dev, dst, k->state.memory, states);
    kv_tail_save(k->memory->kv, k->slot, k->state.pos, (char *)dst + states);
    memcpy((char *)dst + states + tail, &(int32_t){k->state.pos}, sizeof(int32_t));
}

int cache_saved_pos(const struct cache *k, const void *saved)
{
    int32_t pos;
    memcpy(&pos, (const char *)saved + cache_state_bytes(k->cfg) + kv_tail_bytes(k->cfg, k->recipe), sizeof pos);
    return pos;
}

void cache_state_load(struct cache *k, const void *src)
{
    const int pos = cache_saved_pos(k, src);
    struct state *s = &k->state;
    s->dev->copy(s->dev, s->memory, src, cache_state_bytes(s->cfg));
    s->pos = pos;
    s->n_staged = s->n_accepted = 0;
    s->stepping = false;
    kv_tail_load(k->memory->kv, k->slot, pos, (const char *)src + cache_state_bytes(k->cfg));
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

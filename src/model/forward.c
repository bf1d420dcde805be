/* The layer loop.  Formulas: docs/model.md. */
#include "model/forward.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/log.h"
#include "base/memory.h"
#include "kernels/gemm.h"
#include "model/blocks.h"
#include "model/fused.h"
#include "model/rope.h"


/* Floats per row of every buffer; one table for the sum and for the cut. */
struct sizes {
    size_t x, h, h2, mixer_in, mixer_gate, mixer_out, kv, small, slots_h, slots_d;
};
static struct sizes row_sizes(const struct model_config *c)
{
    size_t H = (size_t)c->hidden, q = (size_t)c->n_q_heads * (size_t)c->head_dim, kv = (size_t)c->n_kv_heads * (size_t)c->head_dim;
    size_t conv = (size_t)config_conv_dim(c), value = (size_t)config_lin_value_dim(c);
    size_t inter = most_size((size_t)c->moe_inter, (size_t)c->shared_inter), slots = (size_t)c->top_k + 1;
    return (struct sizes){
        .x = H, .h = H, .h2 = 2 * H,
        .mixer_in = most_size(2 * q, conv), .mixer_gate = most_size(conv, value), .mixer_out = most_size(q, value), .kv = 2 * kv,
        .small = 4 * (size_t)c->lin_v_heads + (size_t)c->n_experts + (size_t)c->top_k + 1,
        .slots_h = slots * inter, .slots_d = slots * H,
    };
}

size_t forward_bytes(const struct model_config *c, int max_rows)
{
    struct sizes s = row_sizes(c);
    size_t floats = 2 * s.x + s.h + s.h2 + s.mixer_in + 2 * s.mixer_gate + s.mixer_out + s.kv + s.small + s.slots_h + s.slots_d;
    size_t ints = 1 + (size_t)c->top_k + (size_t)c->top_k + 1;
    return (size_t)max_rows * (floats * sizeof(float) + ints * sizeof(int32_t))
         + (size_t)(c->n_experts + 2) * sizeof(int32_t) + (size_t)c->rotary_dim / 2 * sizeof(float) + 64 * 32;
}

/* One operation at a time uses it, so the one that needs most decides. */
size_t forward_scratch_bytes(const struct model_config *c, int max_rows)
{
    enum { MOST_SMS = 192 };            /* more than any GPU of today has */
    const int inter = most(c->moe_inter, c->shared_inter);
    const int inputs[] = {2 * c->hidden, c->n_q_heads * c->head_dim, config_lin_value_dim(c)};  /* widths that linear() reads: MTP join, mixers'
                                                                                                 * output */
    size_t bytes = most_size(attention_scratch(MOST_SMS), deltanet_chunk_scratch(max_rows, c->lin_k_heads, c->lin_v_heads));
    for (int n = max_rows; n > 0; n = n > GEMM_FINE ? GEMM_FINE : 0) {          /* a short call takes two halves a row */
        for (int i = 0; i < 3; i++)
            bytes = most_size(bytes, linear_scratch(n, inputs[i]));
        bytes = most_size(bytes, most_size(experts_up_scratch(n, c->hidden), experts_down_scratch(n, c->top_k, inter)));
    }
    return bytes;
}

static void *take(char **at, size_t bytes)
{
    void *p = *at;
    *at += (bytes + 63) / 64 * 64;
    return p;
}

/* Cuts the work space of f->max_rows rows. */
static void cut(struct forward *f)
{
    const struct model_config *c = f->cfg;
    const struct sizes s = row_sizes(c);
    const size_t n = (size_t)f->max_rows * sizeof(float), v = (size_t)c->lin_v_heads;
    char *at = f->memory;
    f->x = take(&at, n * s.x);
    f->hidden = take(&at, n * s.x);
    f->h = take(&at, n * s.h);
    f->h2 = take(&at, n * s.h2);
    f->mixer_in = take(&at, n * s.mixer_in);
    f->mixer_mid = take(&at, n * s.mixer_gate);
    f->mixer_gate = take(&at, n * s.mixer_gate);
    f->mixer_out = take(&at, n * s.mixer_out);
    f->kv = take(&at, n * s.kv);
    f->a = take(&at, n * v);
    f->b = take(&at, n * v);
    f->beta = take(&at, n * v);
    f->g = take(&at, n * v);
    f->router_logits = take(&at, n * (size_t)c->n_experts);
    f->router_weights = take(&at, n * (size_t)c->top_k);
    f->shared_gate = take(&at, n);
    f->slots_h = take(&at, n * s.slots_h);
    f->slots_d = take(&at, n * s.slots_d);
    f->ids = take(&at, n);
    f->experts = take(&at, n * (size_t)c->top_k);
    f->slots = take(&at, n * (size_t)(c->top_k + 1));
    f->start = take(&at, (size_t)(c->n_experts + 2) * sizeof(int32_t));
    f->freq = take(&at, (size_t)c->rotary_dim / 2 * sizeof(float));
    CHECK(at <= (char *)f->memory + forward_bytes(c, f->max_rows));
}

static bool take_memory(struct forward *f, struct err *e)
{
    const size_t bytes = forward_bytes(f->cfg, f->max_rows), scratch = f->dev->caps->packs_weights ? forward_scratch_bytes(f->cfg, f->max_rows) : 0;
    f->memory = f->dev->alloc(f->dev, bytes);
    return (f->memory && (!scratch || f->dev->reserve(f->dev, scratch)))
        || err_set(e, "no memory for the work space of %d rows: %zu MiB asked for; try a smaller --chunk", f->max_rows, (bytes + scratch) >> 20);
}

struct forward *forward_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_rows, struct err *e)
{
    struct forward *f = memory_zeroed(1, sizeof *f);
    float freq[ROPE_MAX_HALF];
    *f = (struct forward){.dev = d, .cfg = c, .w = w, .max_rows = max_rows, .fused = memory_zeroed(1, sizeof *f->fused)};
    if (!fused_open(f->fused, d, c, e) || !take_memory(f, e)) {
        forward_close(f);
        return NULL;
    }
    cut(f);
    CHECK(c->rotary_dim / 2 <= ROPE_MAX_HALF);
    rope_frequencies(freq, c);
    d->copy(d, f->freq, freq, (size_t)c->rotary_dim / 2 * sizeof(float));
    return f;
}

void forward_close(struct forward *f)
{
    if (!f)
        return;
    f->dev->free(f->dev, f->memory);
    fused_close(f->fused, f->dev);
    free(f->fused);
    free(f);
}

void linear(struct forward *f, float *y, const float *x, const struct weight *w, int n, bool add)
{
    struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n, .add = add};
    switch (w->format) {
    case WEIGHT_DENSE: RUN(f->dev, linear_dense, .l = a); break;
    case WEIGHT_INT4:  RUN(f->dev, linear_int4, .l = a); break;
    case WEIGHT_FP8:   RUN(f->dev, linear_fp8, .l = a); break;
    case WEIGHT_INT8:
    case WEIGHT_PLANES: RUN(f->dev, linear_int8, .l = a); break;
    case WEIGHT_NONE:  CHECK(!"a weight without a format"); break;
    }
}

void norm(struct forward *f, float *y, const float *x, const float *w, int n)
{
    RUN(f->dev, rmsnorm, .y = y, .x = x, .w = w, .n_rows = n, .dim = f->cfg->hidden, .eps = f->cfg->rms_eps);
}

/* x += mixer(norm(x)); x += moe(norm(x)) */
void layer_block(const struct pass *p, const struct layer_weights *w, int kv_layer, int delta_layer)
{
    norm(p->f, p->f->h, p->f->x, w->norm_in, p->n);
    if (w->full)
        attention_block(p, &w->attn, kv_layer);
    else
        deltanet_block(p, &w->delta, delta_layer);
    norm(p->f, p->f->h, p->f->x, w->norm_post, p->n);
    moe_block(p, &w->moe);
}

/* The states wait for cache_accept(). */
static void run_step(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos)
{
    struct fused *u = f->fused;
    state_begin_steps(&k->state, f->w, u->live, pos);
    struct step_live live = state_next_step(&k->state);
    memcpy(live.ids, ids, (size_t)n * sizeof *ids);
    f->dev->copy(f->dev, u->live, &live, sizeof live);
    fused_layers(f, &(struct fused_rows){.k = k, .live = u->live, .n = n});
    fused_hidden(f, n);
    state_ran_step(&k->state, n);
    f->newest = u->hidden;
}

static void run_prompt(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos)
{
    const struct model_config *c = f->cfg;
    struct pass p = {.f = f, .k = k, .n = n, .pos = pos};
    state_end_steps(&k->state);
    f->dev->copy(f->dev, f->ids, ids, (size_t)n * sizeof *ids);
    RUN(f->dev, embed, .y = f->x, .ids = f->ids, .table = f->w->embed, .n_tokens = n);
    for (int i = 0, full = 0, delta = 0; i < c->n_layers; i++) {
        layer_block(&p, &f->w->layers[i], full, delta);
        *(c->full[i] ? &full : &delta) += 1;
    }
    norm(f, f->hidden, f->x, f->w->norm, n);
    f->newest = f->hidden;
    state_ran_prompt(&k->state, pos + n);
}

void forward_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, enum rows kind)
{
    CHECK(n > 0 && n <= (kind == ROWS_STAGE ? STEP_ROWS : f->max_rows) && pos >= 0 && pos + n <= k->n_ctx);
    if (kind == ROWS_STAGE)
        run_step(f, k, ids, n, pos);
    else
        run_prompt(f, k, ids, n, pos);
}

const float *forward_hidden(const struct forward *f)
{
    return f->newest;
}

void forward_head(struct forward *f, enum head h, const float *hidden, int n, float *logits)
{
    linear(f, logits, hidden, weights_head(f->w, h), n, false);
}

void forward_prefill(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, bool mtp)
{
    const bool has_mtp = mtp && f->w->mtp.present;
    forward_run(f, k, ids, n, pos, ROWS_COMMIT);
    if (has_mtp && pos > 0)             /* the token that follows position pos - 1 is known only now */
        forward_mtp(f, k, k->state.last_hidden, ids, 1, pos - 1, NULL);
    if (has_mtp && n > 1)
        forward_mtp(f, k, f->hidden, ids + 1, n - 1, pos, NULL);
    forward_keep_hidden(k, f->hidden + (size_t)(n - 1) * (size_t)f->cfg->hidden);
}

void forward_overlap(struct forward *f, int n_experts)
{
    f->fused->overlap = n_experts;
}

const float *forward_last_hidden(const struct cache *k)
{
    return k->state.last_hidden;
}

void forward_keep_hidden(struct cache *k, const float *hidden)
{
    k->state.dev->copy(k->state.dev, k->state.last_hidden, hidden, (size_t)k->cfg->hidden * sizeof *hidden);
}

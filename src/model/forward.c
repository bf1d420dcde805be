#include "model/forward.h"
#include "model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/err.h"
#include "base/memory.h"
#include "kernels/gemm.h"
#include "model/config.h"
#include "model/workspace.h"

/* --- memory of a prompt --- */

/* Floats per row of every buffer; one table for the sum and for the cut. */
struct sizes {
    size_t x, h, mixer_in, mixer_mid, mixer_gate, mixer_out, kv, small, slots_h;
};
/* Returns the numbers that each work buffer needs for one row.  A GPU never stores the rows after the convolution. */
static struct sizes row_sizes(const struct model_config *c, bool gpu)
{
    size_t H = (size_t)c->hidden, q = (size_t)c->n_q_heads * (size_t)c->head_dim, kv = (size_t)c->n_kv_heads * (size_t)c->head_dim;
    size_t conv = (size_t)config_conv_dim(c), value = (size_t)config_lin_value_dim(c);
    size_t inter = most_size((size_t)c->moe_inter, (size_t)c->shared_inter), slots = (size_t)c->top_k + 1;
    return (struct sizes){
        .x = H, .h = H,
        .mixer_in = most_size(most_size(2 * q, conv), 2 * H), .mixer_mid = gpu ? 0 : conv, .mixer_gate = value,
        .mixer_out = most_size(q, value), .kv = 2 * kv,
        .small = 4 * (size_t)c->lin_v_heads + (size_t)c->n_experts + (size_t)c->top_k + 1,
        .slots_h = slots * inter,
    };
}

/* Returns the bytes of the outcomes of all experts, which are packets in long chunks of a GPU (kernels/gemm.h). */
static size_t outcome_bytes(const struct model_config *c, int max_rows, bool gpu)
{
    const size_t row = (size_t)(c->top_k + 1) * (size_t)c->hidden;
    if (!gpu || !gemm_packets(max_rows, c->hidden))
        return (size_t)max_rows * row * sizeof(float);
    return most_size((size_t)max_rows * row * sizeof(uint16_t), (size_t)GEMM_FINE * row * sizeof(float));
}

size_t forward_bytes(const struct model_config *c, int max_rows, bool gpu)
{
    struct sizes s = row_sizes(c, gpu);
    size_t floats = 2 * s.x + s.h + s.mixer_in + s.mixer_mid + s.mixer_gate + s.mixer_out + s.kv + s.small + s.slots_h;
    size_t ints = 1 + (size_t)c->top_k + (size_t)c->top_k + 1 + sizeof *((struct forward *)0)->at / sizeof(int32_t);
    return (size_t)max_rows * (floats * sizeof(float) + ints * sizeof(int32_t)) + outcome_bytes(c, max_rows, gpu)
         + (size_t)(c->n_experts + 2) * sizeof(int32_t) + (size_t)c->rotary_dim / 2 * sizeof(float) + 64 * 32;
}

/* Returns what the operation that needs most scratch memory needs: one operation at a time uses it, but the rule of DeltaNet leaves the copy of the
 * layer's input where it is. */
size_t forward_scratch_bytes(const struct model_config *c, int max_rows)
{
    enum { MOST_SMS = 192 };            /* more than any GPU of today has */
    const int inter = most(c->moe_inter, c->shared_inter);
    const int inputs[] = {2 * c->hidden, c->n_q_heads * c->head_dim, config_lin_value_dim(c)};  /* widths that linear() reads: MTP join, mixers'
                                                                                                 * output */
    size_t bytes = attention_scratch(MOST_SMS);
    for (int n = max_rows; n > 0; n = n > GEMM_FINE ? GEMM_FINE : 0) {          /* a short call takes two halves a row */
        for (int i = 0; i < 3; i++)
            bytes = most_size(bytes, linear_scratch(n, inputs[i]));
        bytes = most_size(bytes, linear_scratch(n, c->hidden) + deltanet_chunk_scratch(n, c->lin_k_heads, c->lin_v_heads));
        bytes = most_size(bytes, most_size(rounded_scratch(n, c->hidden), experts_down_scratch(n, c->top_k, inter)));
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
    const bool gpu = f->dev->caps->packs_weights;
    const struct sizes s = row_sizes(c, gpu);
    const size_t n = (size_t)f->max_rows * sizeof(float), v = (size_t)c->lin_v_heads;
    char *at = f->memory;
    f->x = take(&at, n * s.x);
    f->hidden = take(&at, n * s.x);
    f->h = take(&at, n * s.h);
    f->mixer_in = take(&at, n * s.mixer_in);
    f->mixer_mid = s.mixer_mid ? take(&at, n * s.mixer_mid) : NULL;
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
    f->slots_d = take(&at, outcome_bytes(c, f->max_rows, gpu));
    f->ids = take(&at, n);
    f->experts = take(&at, n * (size_t)c->top_k);
    f->slots = take(&at, n * (size_t)(c->top_k + 1));
    f->at = take(&at, (size_t)f->max_rows * sizeof *f->at);
    f->start = take(&at, (size_t)(c->n_experts + 2) * sizeof(int32_t));
    f->freq = take(&at, (size_t)c->rotary_dim / 2 * sizeof(float));
    CHECK(at <= (char *)f->memory + forward_bytes(c, f->max_rows, gpu));
}

static bool take_memory(struct forward *f, struct err *e)
{
    const bool gpu = f->dev->caps->packs_weights;
    const size_t bytes = forward_bytes(f->cfg, f->max_rows, gpu), scratch = gpu ? forward_scratch_bytes(f->cfg, f->max_rows) : 0;
    f->memory = f->dev->alloc(f->dev, bytes);
    return (f->memory && (!scratch || f->dev->reserve(f->dev, scratch)))
        || err_set(e, "no memory for the work space of %d rows: %zu MiB asked for; try a smaller --chunk", f->max_rows, (bytes + scratch) >> 20);
}

/* --- memory of a step --- */

/* A number of the residual stream is the sum of at most STREAM_ADDENDS addends (kernels/stream.h): each layer adds some for its mixer and its
 * experts, and the MTP block counts as a layer. */
enum { MOST_SPLITS = 16, MAX_LAYERS = STREAM_ADDENDS / (MOST_SPLITS + STEP_CHOICES + 1) - 2 };

bool forward_fits(const struct model_config *c, struct err *e)
{
    const struct { const char *name; int found, low, high, multiple; } rules[] = {
        {"hidden_size",             c->hidden,                       128, 4096, 128},
        {"head_dim",                c->head_dim,                     256, 256, 1},
        {"query heads per KV head", c->n_q_heads / c->n_kv_heads,    1, 16, 1},
        {"attention width",         c->n_q_heads * c->head_dim,      128, MOST_SPLITS * 2048, 128},
        {"DeltaNet value width",    config_lin_value_dim(c),         128, MOST_SPLITS * 2048, 128},
        {"rotary dimensions",       c->rotary_dim,                   16, 256, 16},
        {"linear_key_head_dim",     c->lin_k_dim,                    128, 128, 1},
        {"linear_value_head_dim",   c->lin_v_dim,                    128, 128, 1},
        {"linear_conv_kernel_dim",  c->conv_kernel,                  4, 4, 1},
        {"num_experts",             c->n_experts,                    2, STEP_EXPERTS, 1},
        {"num_experts_per_tok",     c->top_k,                        1, STEP_CHOICES, 1},
        {"moe_intermediate_size",   c->moe_inter,                    128, 2048, 128},
        {"shared_expert_intermediate_size", c->shared_inter,         c->moe_inter, c->moe_inter, 1},
        {"vocab_size",              c->vocab,                        16, 1 << 20, 1},
        {"num_hidden_layers",       c->n_layers,                     1, MAX_LAYERS, 1},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].found < rules[i].low || rules[i].found > rules[i].high || rules[i].found % rules[i].multiple)
            return err_set(e, "a GPU cannot run this model: %s is %d, expected %d to %d in steps of %d; --backend cpu can",
                           rules[i].name, rules[i].found, rules[i].low, rules[i].high, rules[i].multiple);
    return true;
}

/* Sets the pointers of *u into `memory`; returns the bytes that this takes.  memory NULL: only counts them. */
static size_t cut_step(struct step_space *u, char *memory, const struct model_config *c)
{
    const size_t n = STEP_ROWS, H = (size_t)c->hidden, q = (size_t)c->n_q_heads * (size_t)c->head_dim,
        kv = (size_t)c->n_kv_heads * (size_t)c->head_dim, value = (size_t)config_lin_value_dim(c);
    const struct { void *at; size_t bytes; } list[] = {
        {&u->stream, n * H * 8}, {&u->halves, 2 * n * H * 4}, {&u->h, n * H * 4}, {&u->hidden, n * H * 4},
        {&u->qg, n * 2 * q * 4}, {&u->k, n * kv * 4}, {&u->v, n * kv * 4}, {&u->z, n * value * 4}, {&u->y, n * most_size(q, value) * 4},
        {&u->ssq, n * (size_t)c->lin_v_heads * 8}, {&u->router, STEP_RMS_PARTS * n * ((size_t)c->n_experts + 1) * 4},
        {&u->router_ssq, STEP_RMS_PARTS * n * 4}, {&u->route, sizeof *u->route},
        {&u->expert_h, step_experts_space(STEP_ROWS, c->n_experts, c->top_k, c->moe_inter) * 4},
        {&u->attention, step_attention_scratch(c->n_q_heads)}, {&u->mtp_h, n * H * 4}, {&u->live, sizeof *u->live},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + 255) / 256 * 256;
    }
    return at;
}

size_t forward_step_bytes(const struct model_config *c)
{
    struct step_space u;
    return cut_step(&u, NULL, c);
}

/* Allocates the work space of decode steps.  False if there is no memory or the model does not fit the GPU's kernels. */
static bool open_step(struct step_space *u, struct dev *d, const struct model_config *c, struct err *e)
{
    size_t bytes = forward_step_bytes(c);
    *u = (struct step_space){.overlap = -1, .router_step = (size_t)STEP_ROWS * ((size_t)c->n_experts + 1)};
    if (d->caps->packs_weights && !forward_fits(c, e))
        return false;
    u->memory = d->alloc(d, bytes);
    if (!u->memory)
        return err_set(e, "no memory for the work space of a step: %zu MiB asked for", bytes >> 20);
    cut_step(u, u->memory, c);
    u->gate = u->router + (size_t)STEP_ROWS * (size_t)c->n_experts;
    return true;
}

/* --- both --- */

/* Sets the bounds of V.  |h| of a normed row is at most sqrt(hidden) times the norm's largest weight, and a number of W h is at most |W| |h| by
 * Cauchy and Schwarz. */
static bool bound_values(struct forward *f, struct err *e)
{
    const struct model_config *c = f->cfg;
    float *norm = memory_alloc((size_t)c->hidden * sizeof *norm);
    bool ok = true;
    for (int i = 0; i < c->n_layers && ok; i++) {
        const struct layer_weights *l = &f->w->layers[i];
        float most_w = 0, v = 0;
        if (!l->full || !l->attn.v_norm)
            continue;
        f->dev->copy(f->dev, norm, l->norm_in, (size_t)c->hidden * sizeof *norm);
        f->dev->copy(f->dev, &v, l->attn.v_norm, sizeof v);
        ok = f->dev->finish(f->dev, e);
        for (int k = 0; k < c->hidden; k++)
            most_w = fmaxf(most_w, fabsf(1 + norm[k]));
        f->most_value[i] = v * most_w * sqrtf((float)c->hidden);
    }
    free(norm);
    return ok;
}

struct forward *forward_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_rows, struct err *e)
{
    struct forward *f = memory_zeroed(1, sizeof *f);
    float freq[ROPE_MAX_HALF];
    *f = (struct forward){.dev = d, .cfg = c, .w = w, .max_rows = max_rows};
    if (!open_step(&f->step, d, c, e) || !take_memory(f, e)) {
        forward_close(f);
        return NULL;
    }
    cut(f);
    CHECK(c->rotary_dim / 2 <= ROPE_MAX_HALF);
    rope_frequencies(freq, c);
    d->copy(d, f->freq, freq, (size_t)c->rotary_dim / 2 * sizeof(float));
    if (!bound_values(f, e)) {
        forward_close(f);
        return NULL;
    }
    return f;
}

void forward_close(struct forward *f)
{
    if (!f)
        return;
    f->dev->free(f->dev, f->memory);
    f->dev->free(f->dev, f->step.memory);
    free(f->apart);
    free(f);
}

const float *forward_hidden(const struct forward *f)
{
    return f->newest;
}

bool forward_math(struct forward *f, enum prompt_math math, struct err *e)
{
    const size_t H = (size_t)f->cfg->hidden, n = (size_t)f->cfg->n_layers;
    free(f->apart);
    f->math = math;
    f->apart = NULL;
    if (!(math & PROMPT_INT8))
        return true;
    float *norms = memory_alloc(2 * n * H * sizeof *norms), *scratch = memory_alloc(H * sizeof *scratch);
    for (size_t i = 0; i < n; i++) {
        f->dev->copy(f->dev, norms + 2 * i * H, f->w->layers[i].norm_in, H * sizeof *norms);
        f->dev->copy(f->dev, norms + (2 * i + 1) * H, f->w->layers[i].norm_post, H * sizeof *norms);
    }
    const bool ok = f->dev->finish(f->dev, e);
    f->apart = memory_zeroed(2 * n, sizeof *f->apart);
    for (size_t i = 0; ok && i < 2 * n; i++)
        int8_choose(&f->apart[i], norms + i * H, scratch, (int)H);
    free(norms);
    free(scratch);
    return ok;
}

void forward_overlap(struct forward *f, int n_experts)
{
    f->step.overlap = n_experts;
}

const float *forward_last_hidden(const struct cache *k)
{
    return k->state.last_hidden;
}

void forward_keep_hidden(struct cache *k, const float *hidden)
{
    k->state.dev->copy(k->state.dev, k->state.last_hidden, hidden, (size_t)k->cfg->hidden * sizeof *hidden);
}

/* The fused operations of a decode step, each recorded some fifty times in a row, every time with the weights of another layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/timing.h"
#include "kernels/step.h"
#include "model/config.h"
#include "model/rope.h"

enum { DEPTH_NEAR = 4096, DEPTH_FAR = 131072, RING_POS = 100 };

struct step {
    int    rows;
    size_t wide;                        /* floats of one row of x and y */
    float *x, *h_out, *y, *ssq, *ring, *ring_a, *ring_b, *z, *logits, *tile_max, *route_logits, *gate, *router_ssq, *last_hidden, *freq;
    float *state;                       /* [n_delta][2] of one layer's */
    size_t state_floats;
    float *h;
    int64_t *stream;
    struct step_route *routes;          /* [TIMING_CALLS] */
    struct step_live  *live, *live_pick;
    struct step_sampling *sampling;
    struct step_result *results;
    uint8_t *seen;
    void    *attention_scratch, *pick_scratch, *head_scratch;
    uint16_t *kv;
    size_t   kv_elements;               /* k or v of one set */
    int      kv_sets;
    bool     codes;                     /* rows of the recipe tq4 in the place of bf16 */
    int32_t *pos;
};

static void call_delta_in(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct layer_weights *l = k->s->delta[i % k->s->n_delta];
    const struct delta_weights *w = &l->delta;
    STEP(k->d, step_project, .part = {{.w = w->qkv, .y = s->ring, .ring = true}, {.w = w->z, .y = s->z}, {.w = w->a, .y = s->ring_a, .ring = true},
         {.w = w->b, .y = s->ring_b, .ring = true}}, .n_parts = 4, .stream = s->stream, .norm = l->norm_in, .pos = &s->live->pos, .n_rows = s->rows,
         .eps = k->s->m.cfg.rms_eps);
}

static void call_attn_in(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct layer_weights *l = k->s->full[i % k->s->n_full];
    const struct attn_weights *w = &l->attn;
    float *key = s->y + STEP_ROWS * (size_t)w->q.rows, *value = key + STEP_ROWS * (size_t)w->k.rows;
    STEP(k->d, step_project, .part = {{.w = w->q, .y = s->y}, {.w = w->k, .y = key}, {.w = w->v, .y = value}}, .n_parts = 3, .stream = s->stream,
         .norm = l->norm_in, .pos = &s->live->pos, .n_rows = s->rows, .eps = k->s->m.cfg.rms_eps);
}

static void call_out(struct timing *k, struct step *s, const struct weight *w, const float *ssq)
{
    STEP(k->d, step_add, .stream = s->stream, .w = *w, .x = s->x, .ssq = ssq, .head_dim = k->s->m.cfg.lin_v_dim, .n_rows = s->rows,
         .eps = k->s->m.cfg.rms_eps);
}

static void call_delta_out(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    call_out(k, s, &k->s->delta[i % k->s->n_delta]->delta.out, s->ssq);
}
static void call_attn_out(struct timing *k, void *arg, int i)
{
    call_out(k, arg, &k->s->full[i % k->s->n_full]->attn.o, NULL);
}

/* Queues the router of a layer. */
static void call_router(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct layer_weights *l = &k->s->m.weights.layers[i % c->n_layers];
    STEP(k->d, step_router, .h = s->h_out, .logits = s->y, .gate = s->y + (size_t)STEP_ROWS * (size_t)l->moe.router.rows,
         .part_step = (size_t)STEP_ROWS * (size_t)(l->moe.router.rows + 1), .ssq = s->router_ssq, .stream = s->stream, .norm = l->norm_post,
         .router = l->moe.router, .shared_gate = l->moe.shared_gate, .expert_h = s->h,
         .n_expert_h = step_experts_space(s->rows, c->n_experts, c->top_k, c->moe_inter), .n_rows = s->rows);
}

static void call_head(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct weights *w = &k->s->m.weights;
    (void)i;
    STEP(k->d, step_logits, .logits = s->logits, .tile_max = s->tile_max, .w = *weights_head(w, k->s->m.head), .stream = s->stream,
         .norm = w->norm, .hidden_out = s->h_out, .scratch = s->head_scratch, .n_ids = k->s->m.cfg.vocab, .n_rows = s->rows,
         .eps = k->s->m.cfg.rms_eps);
}

static void call_mtp_fc(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct weights *w = &k->s->m.weights;
    (void)i;
    STEP(k->d, step_mtp_join, .halves = s->y, .w = w->mtp.fc, .table = w->embed, .ids = s->live->ids, .norm_embedding = w->mtp.norm_embedding,
         .hidden = s->x, .norm_hidden = w->mtp.norm_hidden, .n_rows = s->rows, .eps = k->s->m.cfg.rms_eps);
}

/* Queues the recurrence of a DeltaNet layer, on a state of its own. */
static void call_delta(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct delta_weights *w = &k->s->delta[i % k->s->n_delta]->delta;
    float *state = s->state + 2 * (size_t)(i % k->s->n_delta) * s->state_floats;
    STEP(k->d, step_delta, .y = s->y, .ssq = s->ssq, .raw = s->ring, .a = s->ring_a, .b = s->ring_b, .z = s->z, .conv = w->conv, .a_log = w->a_log,
         .dt_bias = w->dt_bias, .norm = w->norm, .state = {state, state + s->state_floats}, .live = s->live, .n_rows = s->rows,
         .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim, .dv = c->lin_v_dim, .taps = c->conv_kernel);
}

/* Returns the memory for bf16 rows, laid out as rows of 4 bits: exact ones first, then codes, then scales. */
static struct kv_rows codes_in(const struct step *s, const struct model_config *c, uint16_t *set)
{
    struct kv_rows kv = {.dtype = DT_BF16, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .k_format = KV_TQ4, .v_format = KV_TQ4,
                         .sinks = 16, .recent = 128, .ring = 128 + 2 * KV_BLOCK};
    const size_t exact = (size_t)(kv.sinks + kv.ring) * (size_t)(c->n_kv_heads * c->head_dim);
    kv.k = set;
    kv.v = set + exact;
    kv.k_codes = (uint8_t *)(set + 2 * exact);
    kv.v_codes = kv.k_codes + s->kv_elements / 2;
    kv.k_scales = (uint16_t *)(void *)(kv.v_codes + s->kv_elements / 2);
    kv.v_scales = kv.k_scales + s->kv_elements / (size_t)c->head_dim;
    return kv;
}

/* Queues the attention of a layer, over one of several caches, so that the second-level cache does not hold it. */
static void call_attention(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct attn_weights *w = &k->s->full[i % k->s->n_full]->attn;
    size_t query = (size_t)STEP_ROWS * 2 * (size_t)(c->n_q_heads * c->head_dim), kv = (size_t)STEP_ROWS * (size_t)(c->n_kv_heads * c->head_dim);
    uint16_t *set = s->kv + (size_t)(i % s->kv_sets) * 2 * s->kv_elements;
    const struct kv_rows exact = {.k = set, .v = set + s->kv_elements, .dtype = DT_BF16, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim};
    STEP(k->d, step_attention, .y = s->y, .qg = s->x, .k = s->x + query, .v = s->x + query + kv, .q_norm = w->q_norm, .k_norm = w->k_norm,
         .freq = s->freq, .kv = s->codes ? codes_in(s, c, set) : exact, .pos = s->pos, .scratch = s->attention_scratch, .n_rows = s->rows,
         .n_q_heads = c->n_q_heads, .half = c->rotary_dim / 2, .eps = c->rms_eps, .rope_scale = 1, .scale = 1.0f / 16);
}

/* Returns the arguments for the choice of experts of call i. */
static struct step_choice choice(const struct timing *k, const struct step *s, int i)
{
    const struct model_config *c = &k->s->m.cfg;
    return (struct step_choice){.rms = {s->router_ssq, step_router_parts(c->hidden), c->hidden, c->rms_eps},
                                .logits = s->route_logits + (size_t)i * STEP_ROWS * (size_t)c->n_experts, .n_logits = 1,
                                .overlap = k->s->o->overlap - 1, .n_experts = c->n_experts, .top_k = c->top_k};
}

/* Runs the router first: only after it do experts wait for each other. */
static void call_experts(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct moe_weights *m = &k->s->m.weights.layers[i % c->n_layers].moe;
    call_router(k, arg, i);
    STEP(k->d, step_experts, .stream = s->stream, .h = s->h, .route = &s->routes[i], .choice = choice(k, s, i), .x = s->x,
         .experts = m->experts, .shared = &m->shared, .shared_gate = s->gate, .n_gates = 1, .n_rows = s->rows, .hidden = c->hidden,
         .inter = c->moe_inter);
}

static void call_pick(struct timing *k, void *arg, int i)
{
    struct step *s = arg;
    (void)i;
    STEP(k->d, step_pick, .logits = s->logits, .tile_max = s->tile_max, .live = s->live_pick, .sampling = s->sampling, .seen = s->seen,
         .results = s->results, .hidden = s->x, .last_hidden = s->last_hidden, .scratch = s->pick_scratch, .n_rows = s->rows,
         .vocab = k->s->m.cfg.vocab, .width = k->s->m.cfg.hidden);
}

/* ---- rows of the table */

static double matrices(const struct timing *k, const struct weight *a, const struct weight *b, const struct weight *c, const struct weight *d)
{
    const struct weight *all[] = {a, b, c, d};
    double bytes = 0;
    for (int i = 0; i < 4 && all[i]; i++)
        bytes += (double)subject_matrix_bytes(k->s, all[i]);
    return bytes;
}

/* Counts weights, then for every row the input with its partial sums, the rows that are passed on, and the output. */
static double linear_bytes_of(const struct step *s, double weights, int n_read, int cols, int n_written)
{
    return weights + (double)s->rows * ((double)n_read * cols + n_written) * 4;
}

/* Measures the operations of a DeltaNet layer. */
static void measure_delta(struct timing *k, struct step *s)
{
    const struct model_config *c = &k->s->m.cfg;
    const struct delta_weights *w = &k->s->delta[0]->delta;
    int H = c->hidden, out = w->qkv.rows + w->z.rows + w->a.rows + w->b.rows, value = config_lin_value_dim(c);
    timing_row(k, "in_proj [qkv z a b]", timing_measure(k, true, TIMING_CALLS, call_delta_in, s),
                linear_bytes_of(s, matrices(k, &w->qkv, &w->z, &w->a, &w->b), 2, H, out), 0);
    timing_row(k, "step_delta", timing_measure(k, true, TIMING_CALLS, call_delta, s),
                2.0 * (double)s->state_floats * 4 + (double)(s->rows + 4) * config_conv_dim(c) * 4 + (double)s->rows * 2 * value * 4, 0);
    timing_row(k, "linear_attn.out_proj", timing_measure(k, true, TIMING_CALLS, call_delta_out, s),
                linear_bytes_of(s, matrices(k, &w->out, NULL, NULL, NULL), 1, value, 2 * step_add_ranges(value) * H), 0);
}

/* Measures step_attention at one position, on exact rows or codes. */
static void measure_attention_at(struct timing *k, struct step *s, int depth, bool codes)
{
    const struct model_config *c = &k->s->m.cfg;
    char name[48];
    int32_t pos = depth - s->rows;
    if (k->failed)
        return;
    size_t row = (size_t)(c->n_kv_heads * c->head_dim), sets = (size_t)DEPTH_FAR / (size_t)depth * 2;
    s->kv_elements = (size_t)depth * row;
    s->kv_sets = sets < TIMING_CALLS ? (int)sets : TIMING_CALLS;
    s->codes = codes;
    k->d->copy(k->d, s->pos, &pos, sizeof pos);
    snprintf(name, sizeof name, "step_attention%s at %d", codes ? " tq4" : "", depth);
    const struct kv_rows kv = codes ? codes_in(s, c, s->kv) : (struct kv_rows){0};
    const double n_codes = kv_sealed(&kv, pos), bytes = codes ? n_codes * (double)kv_row_bytes(&kv) : 0;
    timing_row(k, name, timing_measure(k, true, depth > DEPTH_NEAR ? 8 : TIMING_CALLS, call_attention, s),
                bytes + (depth - n_codes) * (double)row * 2 * 2 + (double)s->rows * (3.0 * c->n_q_heads * c->head_dim + 2.0 * (double)row) * 4, 0);
}

/* Measures the operations of an attention layer. */
static void measure_attention(struct timing *k, struct step *s)
{
    const struct model_config *c = &k->s->m.cfg;
    const struct attn_weights *w = &k->s->full[0]->attn;
    timing_row(k, "attention [q k v]", timing_measure(k, true, TIMING_CALLS, call_attn_in, s),
                linear_bytes_of(s, matrices(k, &w->q, &w->k, &w->v, NULL), 2, c->hidden, w->q.rows + 2 * w->k.rows), 0);
    for (int codes = 0; codes < (c->head_dim == KV_DIM ? 2 : 1); codes++) {
        measure_attention_at(k, s, DEPTH_NEAR, codes);
        measure_attention_at(k, s, DEPTH_FAR, codes);
    }
    timing_row(k, "o_proj", timing_measure(k, true, TIMING_CALLS, call_attn_out, s),
                linear_bytes_of(s, matrices(k, &w->o, NULL, NULL, NULL), 1, w->o.cols, 2 * step_add_ranges(w->o.cols) * c->hidden), 0);
}

/* Counts the distinct experts that the calls of step_experts chose together. */
static int count_distinct(struct timing *k, const struct step *s)
{
    struct step_route *all = memory_zeroed(TIMING_CALLS, sizeof *all);
    int n = 0;
    k->d->copy(k->d, all, s->routes, TIMING_CALLS * sizeof *all);
    k->failed = k->failed || !k->d->finish(k->d, k->e);
    for (int i = 0; i < TIMING_CALLS; i++)
        n += all[i].n;
    free(all);
    return n;
}

/* Measures router and experts; counts the experts that were really chosen. */
static void measure_moe(struct timing *k, struct step *s)
{
    const struct model_config *c = &k->s->m.cfg;
    const struct moe_weights *m = &k->s->m.weights.layers[0].moe;
    double router = linear_bytes_of(s, matrices(k, &m->router, &m->shared_gate, NULL, NULL), 3, c->hidden,
                                    step_router_parts(c->hidden) * (c->n_experts + 1));
    timing_row(k, "router, shared gate", timing_measure(k, true, TIMING_CALLS, call_router, s), router, 0);
    double both = timing_measure(k, true, TIMING_CALLS, call_experts, s);
    if (k->failed)
        return;
    double distinct = (double)count_distinct(k, s) / TIMING_CALLS, rows = s->rows;
    k->distinct = distinct;
    timing_row(k, "router, step_experts", both, router + distinct * matrices(k, &m->experts[0].gate, &m->experts[0].down, NULL, NULL)
                + matrices(k, &m->shared.gate, &m->shared.down, NULL, NULL)
                + rows * (3 * c->hidden + c->n_experts + 2 * (distinct + 1) * c->moe_inter) * 4, 0);
}

/* Measures head, picking and the MTP block's first product. */
static void measure_end(struct timing *k, struct step *s)
{
    const struct model_config *c = &k->s->m.cfg;
    const struct weights *w = &k->s->m.weights;
    const struct step_sampling how[] = {
        {.n_ids = c->vocab, .room = 1 << 30}, {.temperature = 0.7f, .top_p = 0.95f, .top_k = 20, .n_ids = c->vocab, .room = 1 << 30, .rng = 1},
    };
    timing_row(k, k->s->m.head == HEAD_INT8 ? "head INT8" : k->s->m.head == HEAD_PLANES ? "head, both planes" : "head bf16",
               timing_measure(k, true, 8, call_head, s),
                linear_bytes_of(s, matrices(k, weights_head(w, k->s->m.head), NULL, NULL, NULL), 2, c->hidden, c->vocab), 0);
    for (int i = 0; i < 2 && !k->failed; i++) {
        k->d->copy(k->d, s->sampling, &how[i], sizeof how[i]);
        k->d->copy(k->d, s->live_pick, &(struct step_live){.pos = 1}, sizeof(struct step_live));
        timing_row(k, i ? "step_pick, sampled" : "step_pick, greedy", timing_measure(k, true, 8, call_pick, s),
                    (double)s->rows * ((double)c->vocab / 16 + (i ? c->vocab : 0)) * 4, 0);
    }
    if (w->mtp.present)
        timing_row(k, "mtp.fc", timing_measure(k, true, 8, call_mtp_fc, s),
                    linear_bytes_of(s, matrices(k, &w->mtp.fc, NULL, NULL, NULL), 1, 2 * c->hidden, 2 * c->hidden), 0);
}

/* Allocates random operands for steps of up to STEP_ROWS rows. */
static void alloc_operands(struct timing *k, struct step *s)
{
    const struct model_config *c = &k->s->m.cfg;
    size_t rows = STEP_ROWS, H = (size_t)c->hidden, heads = (size_t)c->lin_v_heads, conv = (size_t)config_conv_dim(c), vocab = (size_t)c->vocab;
    size_t query = (size_t)(c->n_q_heads * c->head_dim), kv = (size_t)(c->n_kv_heads * c->head_dim), value = (size_t)config_lin_value_dim(c);
    s->wide = 2 * query + 2 * kv + value;
    s->x = timing_random(k, rows * s->wide);
    s->y = timing_random(k, rows * s->wide);
    s->h_out = timing_random(k, rows * s->wide);
    s->stream = timing_alloc(k, rows * H * sizeof *s->stream);
    s->ssq = timing_random(k, rows * 2 * (heads > query / 128 ? heads : query / 128));
    s->ring = timing_random(k, STEP_RING * conv);
    s->ring_a = timing_random(k, STEP_RING * heads);
    s->ring_b = timing_random(k, STEP_RING * heads);
    s->z = timing_random(k, rows * value);
    s->logits = timing_random(k, rows * vocab);
    s->tile_max = timing_random(k, rows * (size_t)step_maxima(c->vocab));
    s->route_logits = timing_random(k, TIMING_CALLS * rows * (size_t)c->n_experts);
    s->gate = timing_random(k, 8 * rows);
    s->router_ssq = timing_random(k, STEP_RMS_PARTS * rows);
    s->last_hidden = timing_random(k, 3 * H);
    s->state_floats = heads * 128 * 128;
    s->state = timing_alloc(k, 2 * (size_t)k->s->n_delta * s->state_floats * sizeof(float));
    s->h = timing_alloc(k, step_experts_space(STEP_ROWS, c->n_experts, c->top_k, c->moe_inter) * sizeof(float));
    s->routes = timing_alloc(k, TIMING_CALLS * sizeof *s->routes);
    s->live = timing_alloc(k, sizeof *s->live);
    STEP(k->d, step_embed, .stream = s->stream, .ids = s->live->ids, .table = k->s->m.weights.embed, .n_rows = STEP_ROWS);
    s->live_pick = timing_alloc(k, sizeof *s->live_pick);
    s->sampling = timing_alloc(k, sizeof *s->sampling);
    s->seen = timing_alloc(k, vocab);
    s->attention_scratch = timing_alloc(k, step_attention_scratch(c->n_q_heads));
    s->pick_scratch = timing_alloc(k, step_pick_scratch(c->vocab));
    s->head_scratch = timing_alloc(k, STEP_LOGITS_SCRATCH);
    s->kv = k->s->n_full ? timing_alloc(k, 2 * 2 * (size_t)DEPTH_FAR * kv * sizeof *s->kv) : NULL;
    s->pos = timing_alloc(k, sizeof *s->pos);
    s->freq = timing_alloc(k, ROPE_MAX_HALF * sizeof *s->freq);
    s->results = k->failed ? NULL : k->d->alloc_host(k->d, STEP_RESULTS * sizeof *s->results);
}

void kernels_step(struct timing *k)
{
    struct step s = {0};
    float freq[ROPE_MAX_HALF] = {0};
    const int rows[] = {1, 2, 4, 8};
    alloc_operands(k, &s);
    if (k->failed)
        return;
    rope_frequencies(freq, &k->s->m.cfg);
    k->d->copy(k->d, s.freq, freq, sizeof freq);
    k->d->copy(k->d, s.live, &(struct step_live){.pos = RING_POS, .n_apply = 1}, sizeof(struct step_live));
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !k->failed; i++) {
        if (k->s->o->rows && k->s->o->rows != rows[i])
            continue;
        s.rows = k->rows = rows[i];
        if (k->s->n_delta)
            measure_delta(k, &s);
        if (k->s->n_full)
            measure_attention(k, &s);
        measure_moe(k, &s);
        measure_end(k, &s);
    }
    k->d->finish(k->d, NULL);
    k->d->free_host(k->d, s.results);
}

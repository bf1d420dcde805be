/* `q35chat bench kernels`: every operation alone, at the shapes of a model; those of a prompt chunk are here. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/cost.h"
#include "bench/timing.h"

struct prompt {
    int    n;
    float *x, *y, *z;                   /* [n, widest] */
    float *raw, *conv_w, *window, *state, *norm, *freq, *beta, *g, *a_log, *logits, *weights, *slots_h, *slots_d, *gate, *head_norm;
    int32_t *experts, *start, *slots;
    struct kv_rows kv;
    int    pos;
    const struct weight *(*matrix)(const struct subject *s, int i);
    const struct weight *(*other)(const struct subject *s, int i);     /* of the same rows, for a pair */
    struct prompt_layer layer[2];       /* what operations move: of DeltaNet and of attention layers */
};

static const struct weight *delta_qkv(const struct subject *s, int i) { return &s->delta[i % s->n_delta]->delta.qkv; }
static const struct weight *delta_z(const struct subject *s, int i)   { return &s->delta[i % s->n_delta]->delta.z; }
static const struct weight *delta_a(const struct subject *s, int i)   { return &s->delta[i % s->n_delta]->delta.a; }
static const struct weight *delta_b(const struct subject *s, int i)   { return &s->delta[i % s->n_delta]->delta.b; }
static const struct weight *delta_out(const struct subject *s, int i) { return &s->delta[i % s->n_delta]->delta.out; }
static const struct weight *attn_q(const struct subject *s, int i)    { return &s->full[i % s->n_full]->attn.q; }
static const struct weight *attn_k(const struct subject *s, int i)    { return &s->full[i % s->n_full]->attn.k; }
static const struct weight *attn_o(const struct subject *s, int i)    { return &s->full[i % s->n_full]->attn.o; }
static const struct weight *router(const struct subject *s, int i)    { return &s->m.weights.layers[i % s->m.cfg.n_layers].moe.router; }
static const struct weight *shared_gate(const struct subject *s, int i) { return &s->m.weights.layers[i % s->m.cfg.n_layers].moe.shared_gate; }

static const struct moe_weights *moe(const struct subject *s, int i) { return &s->m.weights.layers[i % s->m.cfg.n_layers].moe; }

/* Returns the columns apart of products in eight bits, with --prompt-math int8: none. */
static const struct int8_apart *int8(const struct timing *k)
{
    static const struct int8_apart none;
    return k->s->m.math & PROMPT_INT8 ? &none : NULL;
}

/* Queues a product, in the format of its weights. */
static void product(struct timing *k, const struct linear_args *a)
{
    switch (a->w.format) {
    case WEIGHT_INT4: RUN(k->d, linear_int4, .l = *a); break;
    case WEIGHT_FP8:  RUN(k->d, linear_fp8, .l = *a); break;
    case WEIGHT_INT8: RUN(k->d, linear_int8, .l = *a); break;
    default:          RUN(k->d, linear_dense, .l = *a); break;
    }
}

/* Queues one product of a layer. */
static void call_linear(struct timing *k, void *arg, int i)
{
    struct prompt *p = arg;
    struct linear_args a = {.y = p->y, .x = p->x, .w = *p->matrix(k->s, i), .n_tokens = p->n};
    if (p->matrix == delta_qkv || p->matrix == attn_q || p->matrix == attn_k)
        a.int8 = int8(k);
    a.own_form = p->matrix == delta_qkv && !linear_narrow(&a.w);
    product(k, &a);
}

/* Queues two products that read the same; those of narrow matrices are one operation. */
static void call_pair(struct timing *k, void *arg, int i)
{
    struct prompt p = *(struct prompt *)arg;
    const struct weight *const w[] = {p.matrix(k->s, i), p.other(k->s, i)};
    if (linear_narrow(w[0]) && linear_narrow(w[1])) {
        RUN(k->d, linear_pair, .y = {p.y, p.z}, .x = p.x, .w = {*w[0], *w[1]}, .n_tokens = p.n);
        return;
    }
    call_linear(k, &p, i);
    p.matrix = p.other;
    call_linear(k, &p, i);
}

static void call_norm(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const bool own = k->s->n_delta && !linear_narrow(delta_a(k->s, i));
    RUN(k->d, rmsnorm, .y = p->y, .x = p->x, .w = p->norm, .n_rows = p->n, .dim = k->s->m.cfg.hidden, .eps = k->s->m.cfg.rms_eps, .own_form = own,
        .int8 = int8(k));
}

static void call_norm_post(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    (void)i;
    RUN(k->d, rmsnorm, .y = p->y, .x = p->x, .w = p->norm, .n_rows = p->n, .dim = k->s->m.cfg.hidden, .eps = k->s->m.cfg.rms_eps, .int8 = int8(k));
}

static void call_route(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct model_config *c = &k->s->m.cfg;
    (void)i;
    RUN(k->d, router, .experts = p->experts, .weights = p->weights, .logits = p->logits, .n_tokens = p->n, .n_experts = c->n_experts,
        .top_k = c->top_k);
    RUN(k->d, moe_group, .start = p->start, .slots = p->slots, .experts = p->experts, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k);
}

static int widest_inter(const struct model_config *c) { return c->moe_inter > c->shared_inter ? c->moe_inter : c->shared_inter; }

static void call_up(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct moe_weights *m = moe(k->s, i);
    RUN(k->d, experts_up, .h = p->slots_h, .x = p->x, .experts = m->experts, .shared = &m->shared, .start = p->start, .slots = p->slots,
        .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = widest_inter(c), .norms = m->norms, .int8 = int8(k),
        .own_form = true);
}

/* Queues the second product, of what the first one has left. */
static void call_down(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct moe_weights *m = moe(k->s, i);
    RUN(k->d, experts_down, .d = p->slots_d, .h = p->slots_h, .experts = m->experts, .shared = &m->shared, .start = p->start,
        .slots = p->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = widest_inter(c),
        .own_input = true, .own_form = true);
}

static void call_combine(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct model_config *c = &k->s->m.cfg;
    (void)i;
    RUN(k->d, moe_combine, .x = p->y, .d = p->slots_d, .weights = p->weights, .shared_gate = p->gate, .n_tokens = p->n, .top_k = c->top_k,
        .hidden = c->hidden, .own_form = true);
}

static void call_chunk(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct model_config *c = &k->s->m.cfg;
    const struct deltanet_raw raw = {.x = p->raw, .w = p->conv_w, .window = p->window, .a = p->z, .b = p->z, .a_log = p->a_log, .dt_bias = p->a_log,
                                     .taps = c->conv_kernel, .own_rows = linear_narrow(delta_qkv(k->s, i)) ? 0 : p->n};
    RUN(k->d, deltanet_chunk, .y = p->z, .c = p->y, .beta = p->beta, .g = p->g, .raw = &raw, .state = p->state, .n_tokens = p->n,
        .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim, .dv = c->lin_v_dim);
}

static struct rmsnorm_gated_args gated_norm(const struct timing *k, const struct prompt *p, int i)
{
    const struct model_config *c = &k->s->m.cfg;
    return (struct rmsnorm_gated_args){.y = p->y, .x = p->x, .z = p->z, .w = p->head_norm, .next = delta_out(k->s, i),
                                       .n_rows = p->n * c->lin_v_heads, .dim = c->lin_v_dim, .eps = c->rms_eps};
}

static void call_gated_norm(struct timing *k, void *arg, int i)
{
    const struct rmsnorm_gated_args a = gated_norm(k, arg, i);
    k->d->ops->rmsnorm_gated(k->d, &a);
}

/* Queues a product that gates.  It makes the fp16 rows of its input each time, since what it leaves takes the place of these; in a layer they are
 * there. */
static void call_gated(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct rmsnorm_gated_args gate = gated_norm(k, p, i);
    product(k, &(struct linear_args){.y = p->z, .x = p->x, .w = *delta_z(k->s, i), .n_tokens = p->n, .gate = &gate,
        .norm = k->s->delta[i % k->s->n_delta]->delta.z_norm});
}

static void call_attention(struct timing *k, void *arg, int i)
{
    const struct prompt *p = arg;
    const struct model_config *c = &k->s->m.cfg;
    const size_t d = (size_t)c->head_dim, q_token = (size_t)c->n_q_heads * 2 * d;
    const struct sigmoid_gate_args gate = {.y = p->y, .gate = p->x + d, .gate_token = q_token, .gate_head = 2 * d, .n_tokens = p->n,
                                           .n_heads = c->n_q_heads, .head_dim = c->head_dim, .next = attn_o(k->s, i), .most = 1000};
    RUN(k->d, attention, .y = p->y, .q = p->x, .q_token = q_token, .q_head = 2 * d, .kv = p->kv, .n_tokens = p->n, .gate = &gate,
        .n_q_heads = c->n_q_heads, .pos = p->pos, .scale = 1.0f / sqrtf((float)c->head_dim),
        .turn = {.norm = p->norm, .eps = c->rms_eps, .freq = p->freq, .half = c->rotary_dim / 2, .first = p->pos, .scale = 1});
}

/* ---- rows of the table */

static double bytes_of(const struct prompt *p, const char *name)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < p->layer[i].n; j++) {
            const struct prompt_operation *o = &p->layer[i].all[j];
            if (!strcmp(o->name, name))
                return o->weights + o->read + o->written;
        }
    return 0;
}

static void measure(struct timing *k, struct prompt *p, const char *name, timing_call *call, double flops)
{
    timing_row(k, name, timing_measure(k, false, 8, call, p), bytes_of(p, name), flops);
}

static void measure_linear(struct timing *k, struct prompt *p, const char *name, const struct weight *(*matrix)(const struct subject *s, int i))
{
    p->matrix = matrix;
    measure(k, p, name, call_linear, 2.0 * p->n * matrix(k->s, 0)->rows * matrix(k->s, 0)->cols);
}

static void measure_pair(struct timing *k, struct prompt *p, const char *name, const struct weight *(*first)(const struct subject *s, int i),
                         const struct weight *(*second)(const struct subject *s, int i))
{
    p->matrix = first;
    p->other = second;
    measure(k, p, name, call_pair, 2.0 * p->n * (first(k->s, 0)->rows + second(k->s, 0)->rows) * first(k->s, 0)->cols);
}

/* Measures the operations of the experts; `distinct` is the expected number of experts that the tokens choose. */
static void measure_experts(struct timing *k, struct prompt *p)
{
    const struct model_config *c = &k->s->m.cfg;
    const double products = (double)p->n * (c->top_k + 1) * widest_inter(c) * c->hidden;
    measure(k, p, "router, moe_group", call_route, 0);
    measure(k, p, "experts_up", call_up, 4 * products);
    measure(k, p, "experts_down", call_down, 2 * products);
    measure(k, p, "moe_combine", call_combine, 0);
}

/* Measures the operations of a DeltaNet layer. */
static void measure_delta(struct timing *k, struct prompt *p)
{
    const struct model_config *c = &k->s->m.cfg;
    const double block = DELTANET_CHUNK, dk = c->lin_k_dim, dv = c->lin_v_dim;
    struct prompt first = *p;           /* what the rule reads, in its form */
    first.matrix = delta_qkv;
    first.y = p->raw;
    call_linear(k, &first, 0);
    measure(k, p, "deltanet_chunk", call_chunk, p->n * c->lin_v_heads * (2 * block * (3 * dk + 2 * dv) + 6 * dk * dv));
    if (subject_fused(k->s) && linear_gates(delta_z(k->s, 0), delta_out(k->s, 0), c->lin_v_dim, p->n)) {
        measure(k, p, "in_proj_z, gated norm", call_gated, 2.0 * p->n * delta_z(k->s, 0)->rows * delta_z(k->s, 0)->cols);
        return;
    }
    measure_linear(k, p, "in_proj_z", delta_z);
    measure(k, p, "rmsnorm_gated", call_gated_norm, 0);
}

/* Measures attention at growing positions. */
static void measure_attention(struct timing *k, struct prompt *p, int n_ctx)
{
    const struct model_config *c = &k->s->m.cfg;
    double n = p->n;
    for (p->pos = 0; p->pos + p->n <= n_ctx; p->pos = p->pos ? p->pos * 4 : 7 * p->n) {
        char name[64];
        snprintf(name, sizeof name, "attention, gate from %d on", p->pos);
        timing_row(k, name, timing_measure(k, false, 4, call_attention, p),
                    (p->pos + n) * (double)kv_row_bytes(&p->kv) + n * c->n_q_heads * c->head_dim * (4 + 4 + 2),
                    4 * n * (p->pos + n / 2) * c->n_q_heads * c->head_dim);
    }
}

/* Allocates random operands for prompts of p->n tokens. */
static void alloc_operands(struct timing *k, struct prompt *p, int n_ctx)
{
    const struct model_config *c = &k->s->m.cfg;
    size_t n = (size_t)p->n, heads = (size_t)c->lin_v_heads, conv = (size_t)config_conv_dim(c),
        query = 2 * (size_t)c->n_q_heads * (size_t)c->head_dim;
    size_t slots = n * (size_t)(c->top_k + 1), wide = conv > query ? conv : query, kv = (size_t)n_ctx * (size_t)(c->n_kv_heads * c->head_dim);
    wide = wide > (size_t)c->n_experts ? wide : (size_t)c->n_experts;
    p->x = timing_random(k, n * wide);
    p->y = timing_random(k, n * wide);
    p->z = timing_random(k, n * wide);
    p->raw = timing_alloc(k, n * conv * sizeof(float));
    p->conv_w = timing_random(k, conv * (size_t)c->conv_kernel);
    p->window = timing_random(k, conv * (size_t)c->conv_kernel);
    p->state = timing_alloc(k, heads * (size_t)(c->lin_k_dim * c->lin_v_dim) * sizeof(float));
    p->norm = timing_random(k, (size_t)c->hidden);
    p->freq = timing_random(k, (size_t)c->rotary_dim);
    p->head_norm = timing_random(k, (size_t)c->lin_v_dim);
    p->beta = timing_random(k, n * heads);
    p->g = timing_random(k, n * heads);
    p->a_log = timing_random(k, heads);
    p->logits = timing_random(k, n * (size_t)c->n_experts);
    p->weights = timing_random(k, slots);
    p->gate = timing_random(k, n);
    p->slots_h = timing_random(k, slots * (size_t)widest_inter(c));
    p->slots_d = timing_random(k, slots * (size_t)c->hidden);
    p->experts = timing_alloc(k, slots * sizeof *p->experts);
    p->slots = timing_alloc(k, slots * sizeof *p->slots);
    p->start = timing_alloc(k, (size_t)(c->n_experts + 2) * sizeof *p->start);
    p->kv = (struct kv_rows){.dtype = subject_fused(k->s) ? DT_BF16 : DT_F32, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim};
    p->kv.k = timing_alloc(k, kv * 4);
    p->kv.v = timing_alloc(k, kv * 4);
}

/* Measures all operations of a prompt of n_tokens. */
static void kernels_prompt(struct timing *k, int n_tokens)
{
    const struct subject *s = k->s;
    struct prompt p = {.n = n_tokens};
    int n_ctx = s->o->n_ctx ? s->o->n_ctx : 8 * n_tokens;
    n_ctx = n_ctx > n_tokens ? n_ctx : n_tokens;
    k->rows = n_tokens;
    alloc_operands(k, &p, n_ctx);
    if (k->failed)
        return;
    k->d->reserve(k->d, (size_t)1 << 30);       /* more than any of these operations takes; the forward pass may have less */
    if (s->n_delta)
        prompt_layer(&p.layer[0], &s->m.cfg, s->delta[0], s->m.kv, n_tokens, 0, int8(k));
    if (s->n_full)
        prompt_layer(&p.layer[1], &s->m.cfg, s->full[0], s->m.kv, n_tokens, 0, int8(k));
    measure(k, &p, "input_layernorm", call_norm, 0);
    measure(k, &p, "post_attention_layernorm", call_norm_post, 0);
    if (s->n_delta) {
        measure_linear(k, &p, "in_proj_qkv", delta_qkv);
        measure_pair(k, &p, "in_proj_a, in_proj_b", delta_a, delta_b);
        measure_delta(k, &p);
        measure_linear(k, &p, "linear_attn.out_proj", delta_out);
    }
    if (s->n_full) {
        measure_linear(k, &p, "q_proj", attn_q);
        measure_linear(k, &p, "k_proj", attn_k);
        measure_attention(k, &p, n_ctx);
        measure_linear(k, &p, "o_proj", attn_o);
    }
    measure_pair(k, &p, "mlp.gate, shared_expert_gate", router, shared_gate);
    measure_experts(k, &p);
}

/* Adds a table of what each operation of the layer moves in a chunk of n tokens, and a last row with the sums. */
static void report_layer(struct report *r, const struct subject *s, const char *title, const struct layer_weights *w, int n)
{
    static const struct column columns[] = {
        {"operation", "operation", -30, 0}, {"mb_weights", "MB weights", 10, 1}, {"mb_read", "MB read", 9, 1}, {"mb_written", "MB written", 10, 1},
    };
    struct prompt_layer l;
    struct prompt_operation sum = {.name = "all"};
    prompt_layer(&l, &s->m.cfg, w, s->m.kv, n, 0, s->m.math & PROMPT_INT8);
    for (int i = 0; i < l.n; i++) {
        sum.weights += l.all[i].weights;
        sum.read += l.all[i].read;
        sum.written += l.all[i].written;
    }
    report_table(r, title, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i <= l.n; i++) {
        const struct prompt_operation *o = i < l.n ? &l.all[i] : &sum;
        report_text(r, o->name);
        report_number(r, o->weights * 1e-6);
        report_number(r, o->read * 1e-6);
        report_number(r, o->written * 1e-6);
    }
    report_note(r, "calculated for %d tokens from position 0 on a GPU: %.0f MB of weights, %.0f MB of activations", n, sum.weights * 1e-6,
                (sum.read + sum.written) * 1e-6);
}

/* ---- the command */

enum { CPU_TOKENS = 16 };       /* of a prompt chunk, so that it does not take all day */

int bench_kernels(const struct bench_options *o)
{
    struct subject s;
    struct report r;
    struct err e = {0};
    report_open(&r, "kernels", o);
    bool ok = subject_open(&s, o, &(struct load_options){.n_ctx = 64, .chunk = o->chunk}, &e);
    if (ok) {
        subject_report(&s, &r);
        struct timing k = {.s = &s, .r = &r, .d = s.m.dev, .e = &e};
        if (subject_fused(&s)) {
            timing_table(&k, "operations of a decode step");
            kernels_step(&k);
            timing_release(&k);
        }
        int tokens = o->chunk || subject_fused(&s) ? s.m.chunk : CPU_TOKENS;
        timing_table(&k, "operations of a prompt chunk");
        kernels_prompt(&k, tokens);
        k.d->finish(k.d, k.failed ? NULL : &e);
        timing_release(&k);
        if (s.n_delta)
            report_layer(&r, &s, "bytes of a DeltaNet layer in a prompt chunk, by calculation", s.delta[0], tokens);
        if (s.n_full)
            report_layer(&r, &s, "bytes of an attention layer in a prompt chunk, by calculation", s.full[0], tokens);
        ok = !k.failed;
    }
    int status = report_close(&r, ok ? NULL : &e);
    subject_close(&s);
    return status;
}

/* Rows that operations of a chunk leave for each other in a form of their own (kernels/cuda/packets.cuh), against the same operations in fp32 and
 * against the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#include "backend/dev.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "tests/kernels/matrix.h"

enum { D = 128, TAPS = 4, HIDDEN = 384 };

static void product(struct dev *d, float *y, const float *x, const struct weight *w, int n, bool own_form)
{
    const struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n, .own_form = own_form};
    switch (w->format) {
    case WEIGHT_INT4: RUN(d, linear_int4, .l = a); break;
    case WEIGHT_FP8:  RUN(d, linear_fp8, .l = a); break;
    case WEIGHT_INT8: RUN(d, linear_int8, .l = a); break;
    default:          RUN(d, linear_dense, .l = a); break;
    }
}

static double relative(const float *got, const float *want, size_t n)
{
    double d = 0, w = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        w += (double)want[i] * (double)want[i];
    }
    return sqrt(d / w);
}
/* Fails unless own is as close to the definition as plain is, and to plain itself. */
static void expect_close(const char *what, int n, const float *own, const float *plain, const float *want, size_t size, double most, double apart)
{
    const double o = relative(own, want, size), p = relative(plain, want, size), between = relative(own, plain, size);
    if (!(p <= most && o <= 1.05 * p + 1e-5 && between <= apart))
        fail_msg("%s, %d tokens: off by %g, in fp32 by %g, allowed %g; from each other %g, allowed %g", what, n, o, p, most, between, apart);
}

/* A DeltaNet layer from the normed rows to its output projection. */
struct layer {
    int    hk, hv, n;
    struct matrix qkv, z, out;
    float *h, *a, *b, *conv, *window, *a_log, *dt_bias, *norm, *state;
};
struct outcome {
    float *y, *window, *state;
};
static void outcome_drop(struct outcome *o) { free(o->y), free(o->window), free(o->state); }

static size_t layer_width(const struct layer *l) { return (size_t)(2 * l->hk + l->hv) * D; }

static struct layer layer_make(int hk, int hv, int n, enum weight_format format)
{
    struct layer l = {.hk = hk, .hv = hv, .n = n};
    const size_t N = (size_t)n, v = (size_t)hv, w = layer_width(&l);
    l.qkv = matrix_make(format, (int)w, HIDDEN);
    l.z = matrix_make(format, hv * D, HIDDEN);
    l.out = matrix_make(format, HIDDEN, hv * D);
    l.h = rand_array(N * HIDDEN, 1);
    l.a = rand_array(N * v, 2);
    l.b = rand_array(N * v, 1);
    l.conv = rand_array(w * TAPS, 0.5f);
    l.window = rand_array(w * (TAPS - 1), 1);
    l.a_log = rand_array(v, 1);
    l.dt_bias = rand_array(v, 1);
    l.norm = rand_array(D, 1);
    l.state = rand_array(v * D * D, 0.3f);
    return l;
}
static void layer_drop(struct layer *l)
{
    float *all[] = {l->h, l->a, l->b, l->conv, l->window, l->a_log, l->dt_bias, l->norm, l->state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    matrix_drop(&l->qkv), matrix_drop(&l->z), matrix_drop(&l->out);
}

/* The layer on the device d from position pos on; the first `cut` rows of the rule in a call of their own if cut > 0. */
static struct outcome run_layer(struct dev *d, const struct layer *l, int pos, bool own, int cut)
{
    const size_t n = (size_t)l->n, v = (size_t)l->hv, w = layer_width(l), f = sizeof(float);
    const bool host = d == cpu;
    float *in[] = {l->h, l->a, l->b, l->conv, l->window, l->a_log, l->dt_bias, l->norm, l->state};
    const size_t sizes[] = {n * HIDDEN, n * v, n * v, w * TAPS, w * (TAPS - 1), v, v, D, v * D * D};
    float *t[9];
    for (int i = 0; i < 9; i++)
        t[i] = host ? memcpy(malloc(sizes[i] * f), in[i], sizes[i] * f) : upload(in[i], sizes[i] * f);
    const size_t spaces[] = {n * w, n * w, n * v * D, n * v * D, n * v, n * v, n * HIDDEN};
    float *s[7];
    for (int i = 0; i < 7; i++)
        s[i] = host ? malloc(spaces[i] * f) : poisoned(spaces[i] * f);
    const struct weight *qkv = host ? &l->qkv.host : &l->qkv.device, *z = host ? &l->z.host : &l->z.device,
                        *out = host ? &l->out.host : &l->out.device;
    product(d, s[0], t[0], qkv, l->n, own);
    product(d, s[2], t[0], z, l->n, false);
    for (int from = 0, until = cut ? cut : l->n; from < l->n; from = until, until = l->n) {
        const size_t F = (size_t)from;
        const struct deltanet_raw raw = {.x = s[0], .first = from, .w = t[3], .window = t[4], .a = t[1] + F * v, .b = t[2] + F * v, .a_log = t[5],
                                         .dt_bias = t[6], .taps = TAPS, .own_rows = own ? l->n : 0};
        RUN(d, deltanet_chunk, .y = s[3] + F * v * D, .c = s[1], .beta = s[4], .g = s[5], .raw = &raw, .state = t[8], .n_tokens = until - from,
            .n_k_heads = l->hk, .n_v_heads = l->hv, .dk = D, .dv = D, .pos = pos + from);
    }
    RUN(d, rmsnorm_gated, .y = s[3], .x = s[3], .z = s[2], .w = t[7], .next = out, .n_rows = l->n * l->hv, .dim = D, .eps = 1e-6f);
    product(d, s[6], s[3], out, l->n, false);
    struct outcome o;
    if (host) {
        o = (struct outcome){s[6], t[4], t[8]};
        s[6] = t[4] = t[8] = NULL;
    } else {
        o = (struct outcome){downloaded(s[6], n * HIDDEN * f), downloaded(t[4], sizes[4] * f), downloaded(t[8], sizes[8] * f)};
    }
    for (int i = 0; i < 9; i++)
        host ? free(t[i]) : cuda->free(cuda, t[i]);
    for (int i = 0; i < 7; i++)
        host ? free(s[i]) : cuda->free(cuda, s[i]);
    return o;
}

static void check_layer(int hk, int hv, int n, int pos, enum weight_format format)
{
    struct layer l = layer_make(hk, hv, n, format);
    const size_t w = layer_width(&l) * (TAPS - 1), state = (size_t)hv * D * D, y = (size_t)n * HIDDEN;
    assert_true(cuda->reserve(cuda, (size_t)hv * 4096 * (size_t)(n + 128)));
    struct outcome want = run_layer(cpu, &l, pos, false, 0), plain = run_layer(cuda, &l, pos, false, 0), own = run_layer(cuda, &l, pos, true, 0),
        again = run_layer(cuda, &l, pos, true, 0);
    expect_close("window", n, own.window, plain.window, want.window, w, 6e-4, 1e-4);
    expect_close("state", n, own.state, plain.state, want.state, state, 3e-3, 1e-3);
    expect_close("y", n, own.y, plain.y, want.y, y, 3e-3, 1e-3);
    assert_memory_equal(own.y, again.y, y * sizeof(float));
    assert_memory_equal(own.state, again.state, state * sizeof(float));
    if (n > 2 * 192) {                  /* calls that are cut at multiples of 64 give the same bits */
        const int cut = 192 - pos % 64;
        struct outcome two = run_layer(cuda, &l, pos, true, cut);
        assert_memory_equal(two.y, own.y, y * sizeof(float));
        assert_memory_equal(two.state, own.state, state * sizeof(float));
        assert_memory_equal(two.window, own.window, w * sizeof(float));
        outcome_drop(&two);
    }
    outcome_drop(&want), outcome_drop(&plain), outcome_drop(&own), outcome_drop(&again);
    layer_drop(&l);
}

static void test_packets__a_deltanet_layer_agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const int tokens[] = {1, 2, 3, 5, 63, 64, 65, GEMM_FINE, GEMM_FINE + 1, 200, 450};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        check_layer(2, i % 2 ? 8 : 6, tokens[i], i % 3 ? 17 : 128, i % 2 ? WEIGHT_INT4 : WEIGHT_DENSE);
    check_layer(16, 64, 150, 33, WEIGHT_INT4);
    check_layer(16, 32, 130, 0, WEIGHT_FP8);
    check_layer(3, 3, 1100, 0, WEIGHT_INT4);
}

/* Routed experts in one format and the shared one in another; every third has much smaller outcomes.  `memory` is on the device. */
enum { E = 8, K = 4, INTER = 128 };
struct mixture {
    struct expert_weights host[E + 1], device[E + 1];
    char  *memory;
    float *norms;
};
static struct mixture mixture_make(enum weight_format routed, enum weight_format last, int hidden)
{
    struct mixture m = {0};
    const size_t down = pack_bytes(routed, 2 * INTER, hidden), step = down + pack_bytes(routed, hidden, INTER),
        last_down = pack_bytes(last, 2 * INTER, hidden), all = step * E + last_down + pack_bytes(last, hidden, INTER);
    char *packed = calloc(1, all);
    m.memory = cuda->alloc(cuda, all);
    for (int e = 0; e <= E; e++) {
        const enum weight_format format = e < E ? routed : last;
        const float up = 1 / sqrtf((float)hidden), unit = 1 / sqrtf(INTER) * (e % 3 ? 1 : 1e-3f);
        const struct spread wide = {.dense = up, .int4 = up / 4, .fp8 = up / 64, .int8 = up / 64, .int8_least = 0.5f},
            narrow = {.dense = unit, .int4 = unit / 4, .fp8 = unit / 64, .int8 = unit / 64, .int8_least = 0.5f};
        const size_t at = step * (size_t)e, to = at + (e < E ? down : last_down);
        struct expert_weights *w = &m.host[e];
        *w = (struct expert_weights){rand_weight(format, INTER, hidden, wide), rand_weight(format, INTER, hidden, wide),
                                     rand_weight(format, hidden, INTER, narrow)};
        assert_true(pack_pair(&w->gate, &w->up, packed + at) && pack_matrix(&w->down, packed + to));
        m.device[e].gate = packed_view(format, 2 * INTER, hidden, m.memory + at);
        m.device[e].down = packed_view(format, hidden, INTER, m.memory + to);
    }
    cuda->copy(cuda, m.memory, packed, all);
    m.norms = cuda->alloc(cuda, (E + 1) * sizeof *m.norms);
    cuda->row_norms(cuda, m.norms, &m.device[0].gate, NULL, E, step);
    cuda->row_norms(cuda, m.norms + E, &m.device[E].gate, NULL, 1, 0);
    free(packed);
    return m;
}
static void mixture_drop(struct mixture *m)
{
    for (int e = 0; e <= E; e++)
        rand_weight_free(&m->host[e].gate), rand_weight_free(&m->host[e].up), rand_weight_free(&m->host[e].down);
    cuda->free(cuda, m->memory), cuda->free(cuda, m->norms);
}

/* Rows of n tokens and what they chose. */
struct routed {
    float   *h, *x, *weights, *gate;
    int32_t *start, *order;
};

/* x += the mixture of h.  All pointers are memory of d. */
static void run_mixture(struct dev *d, const struct expert_weights *w, const float *norms, const struct routed *r, float *slots_h, float *slots_d,
                        int n, int hidden, bool own)
{
    RUN(d, experts_up, .h = slots_h, .x = r->h, .experts = w, .shared = &w[E], .start = r->start, .slots = r->order, .n_tokens = n, .n_experts = E,
        .top_k = K, .inter_max = INTER, .norms = norms, .own_form = own);
    RUN(d, experts_down, .d = slots_d, .h = slots_h, .experts = w, .shared = &w[E], .start = r->start, .slots = r->order, .n_tokens = n,
        .n_experts = E, .top_k = K, .inter_max = INTER, .own_input = own, .own_form = own);
    RUN(d, moe_combine, .x = r->x, .d = slots_d, .weights = r->weights, .shared_gate = r->gate, .n_tokens = n, .top_k = K, .hidden = hidden,
        .own_form = own);
}

static void check_mixture(enum weight_format routed, enum weight_format last, int n, int hidden)
{
    const size_t N = (size_t)n, H = (size_t)hidden, slots = N * (K + 1), f = sizeof(float);
    struct mixture m = mixture_make(routed, last, hidden);
    int32_t *choice = malloc(N * K * sizeof *choice);
    for (int i = 0; i < n * K; i++)
        choice[i] = (i / K * 3 + i % K * (i / K % 2 ? 1 : 3)) % E;
    struct routed r = {rand_array(N * H, 1), rand_array(N * H, 1e-3f), rand_array(N * K, 1), rand_array(N, 1), malloc((E + 2) * sizeof(int32_t)),
                       malloc(slots * sizeof(int32_t))};
    RUN(cpu, moe_group, .start = r.start, .slots = r.order, .experts = choice, .n_tokens = n, .n_experts = E, .top_k = K);
    float *got[2], *h = malloc(slots * INTER * f), *d = malloc(slots * H * f);
    for (int own = 0; own < 2; own++) {
        struct routed t = {upload(r.h, N * H * f), upload(r.x, N * H * f), upload(r.weights, N * K * f), upload(r.gate, N * f),
                           upload(r.start, (E + 2) * sizeof(int32_t)), upload(r.order, slots * sizeof(int32_t))};
        float *dh = poisoned(slots * INTER * f), *dd = poisoned(slots * H * f);
        run_mixture(cuda, m.device, m.norms, &t, dh, dd, n, hidden, own);
        got[own] = downloaded(t.x, N * H * f);
        void *all[] = {t.h, t.x, t.weights, t.gate, t.start, t.order, dh, dd};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            cuda->free(cuda, all[i]);
    }
    run_mixture(cpu, m.host, NULL, &r, h, d, n, hidden, false);
    expect_close("experts", n, got[1], got[0], r.x, N * H, 9e-4, 3e-4);
    mixture_drop(&m);
    void *all[] = {choice, r.h, r.x, r.weights, r.gate, r.start, r.order, got[0], got[1], h, d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void test_packets__outcomes_of_experts_are_combined_as_in_fp32(void **state)
{
    (void)state;
    need_gpu();
    static const int tokens[] = {1, GEMM_FINE, GEMM_FINE + 1, 200, 700};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        check_mixture(WEIGHT_INT4, i % 2 ? WEIGHT_FP8 : WEIGHT_INT4, tokens[i], 256);
        check_mixture(WEIGHT_DENSE, WEIGHT_INT8, tokens[i], 384);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets__a_deltanet_layer_agrees_with_the_definition),
        cmocka_unit_test(test_packets__outcomes_of_experts_are_combined_as_in_fp32),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}

/* Attention on the GPU against its definition: prompt attention, the fused attention of a step, rope, KV rows, output gate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "kernels/cpu/vec.h"
#include "tests/kernels/close.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/matrix.h"
#include "tests/kernels/rand.h"

enum { DIM = 256, HALF = 32 };

static uint16_t *bf16_rows(size_t n, float scale)
{
    uint16_t *p = malloc((n ? n : 1) * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = f32_bf16((rand_unit() * 2 - 1) * 1.7f * scale);
    return p;
}

static void linear_any(struct dev *d, const struct linear_args *l)
{
    if (l->w.format == WEIGHT_INT4)
        RUN(d, linear_int4, .l = *l);
    else
        RUN(d, linear_dense, .l = *l);
}

static float *frequencies(void)
{
    float *f = malloc(HALF * sizeof *f);
    for (int i = 0; i < HALF; i++)
        f[i] = (float)pow(1e7, -2.0 * i / 64);
    return f;
}

static void test_rope__turns_like_the_definition_at_any_position(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int n, heads, half, pos; bool gates; } cases[] = {
        {1, 32, 32, 0, true}, {13, 16, 32, 70000, true}, {300, 2, 32, 262000, false}, {5, 1, 32, 1000000, false}, {9, 3, 6, 17, false},
    };
    for (size_t k = 0; k < 2 * (sizeof cases / sizeof *cases); k++) {
        const size_t i = k / 2;
        const bool axes = k % 2;        /* the positions of a picture, five tokens wide */
        int n = cases[i].n, heads = cases[i].heads;
        size_t head = DIM * (cases[i].gates ? 2 : 1), token = head * (size_t)heads, bytes = token * (size_t)n * sizeof(float);
        float *x = rand_array(token * (size_t)n, 1), *f = frequencies();
        float *dx = upload(x, bytes), *df = upload(f, HALF * sizeof *f);
        struct rope_args a = {.x = x, .token_stride = token, .head_stride = head, .freq = f, .n_tokens = n, .n_heads = heads,
                              .half = cases[i].half, .first = cases[i].pos, .scale = 1.1f};
        struct rope_position *at = malloc((size_t)n * sizeof *at);
        for (int t = 0; t < n; t++)
            at[t] = (struct rope_position){cases[i].pos, cases[i].pos + t / 5, cases[i].pos + 3 * (t % 5)};
        struct rope_position *dat = upload(at, (size_t)n * sizeof *at);
        a.at = axes ? at : NULL;
        cpu->ops->rope(cpu, &a);
        a.x = dx, a.freq = df, a.at = axes ? dat : NULL;
        cuda->ops->rope(cuda, &a);
        cuda->free(cuda, dat);
        free(at);
        float *y = downloaded(dx, bytes);
        for (size_t j = 0; j < token * (size_t)n; j++)
            if (!(fabsf(y[j] - x[j]) <= 2e-6f * (1 + fabsf(x[j]))))
                fail_msg("case %zu: value %zu is %g, expected %g", i, j, (double)y[j], (double)x[j]);
        cuda->free(cuda, dx), cuda->free(cuda, df);
        free(x), free(f), free(y);
    }
}

static void test_kv_store__rounds_to_bf16_and_touches_nothing_else(void **state)
{
    (void)state;
    need_gpu();
    for (int heads = 1; heads <= 2; heads++) {
        enum { CTX = 50, N = 17, POS = 9 };
        size_t row = (size_t)heads * DIM;
        float *k = rand_array(N * row, 1), *v = rand_array(N * row, 1), *dk = upload(k, N * row * 4), *dv = upload(v, N * row * 4);
        struct kv_rows kv = {.k = poisoned(CTX * row * 2), .v = poisoned(CTX * row * 2), .dtype = DT_BF16, .n_kv_heads = heads, .head_dim = DIM};
        RUN(cuda, kv_store, .kv = kv, .k = dk, .v = dv, .n_tokens = N, .pos = POS);
        uint16_t *gk = downloaded(kv.k, CTX * row * 2), *gv = downloaded(kv.v, CTX * row * 2);
        for (size_t i = 0; i < CTX * row; i++) {
            bool in = i >= POS * row && i < (POS + N) * row;
            assert_int_equal(gk[i], in ? f32_bf16(k[i - POS * row]) : 0xffff);
            assert_int_equal(gv[i], in ? f32_bf16(v[i - POS * row]) : 0xffff);
        }
        cuda->free(cuda, dk), cuda->free(cuda, dv), cuda->free(cuda, kv.k), cuda->free(cuda, kv.v);
        free(k), free(v), free(gk), free(gv);
    }
}

static void test_sigmoid_gate__agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    for (int n = 1; n <= 33; n += 16) {
        enum { HEADS = 16 };
        size_t token = HEADS * 2 * DIM, bytes = (size_t)n * HEADS * DIM * sizeof(float);
        float *y = rand_array((size_t)n * HEADS * DIM, 1), *qg = rand_array((size_t)n * token, 3);
        float *dy = upload(y, bytes), *dqg = upload(qg, (size_t)n * token * sizeof *qg);
        struct sigmoid_gate_args a = {.y = y, .gate = qg + DIM, .gate_token = token, .gate_head = 2 * DIM, .n_tokens = n,
                                      .n_heads = HEADS, .head_dim = DIM};
        cpu->ops->sigmoid_gate(cpu, &a);
        a.y = dy, a.gate = dqg + DIM;
        cuda->ops->sigmoid_gate(cuda, &a);
        float *out = downloaded(dy, bytes);
        assert_rows_close("sigmoid_gate", out, y, n * HEADS, DIM, 1e-6);
        cuda->free(cuda, dy), cuda->free(cuda, dqg);
        free(y), free(qg), free(out);
    }
}

/* Norm and rope of q, in host memory, then in device memory; of every other case at positions of their own. */
struct turn_case {
    float *norm, *freq;
    struct rope_position *at;
    struct attention_turn host, device;
};
static struct turn_case turn_open(int n, int pos, bool own)
{
    struct turn_case t = {rand_array(DIM, 0.5f), frequencies(), malloc((size_t)n * sizeof *t.at)};
    t.host = (struct attention_turn){.eps = 1e-6f, .half = HALF, .first = pos, .scale = 1.1f};
    for (int i = 0; i < n; i++)
        t.at[i] = (struct rope_position){pos + i / 3, pos + i % 7, pos + i % 5};
    t.device = t.host;
    t.host.norm = t.norm, t.host.freq = t.freq, t.host.at = own ? t.at : NULL;
    t.device.norm = upload(t.norm, DIM * sizeof *t.norm), t.device.freq = upload(t.freq, HALF * sizeof *t.freq);
    t.device.at = own ? upload(t.at, (size_t)n * sizeof *t.at) : NULL;
    return t;
}
static void turn_close(struct turn_case *t)
{
    cuda->free(cuda, (void *)t->device.norm), cuda->free(cuda, (void *)t->device.freq), cuda->free(cuda, (void *)t->device.at);
    free(t->norm), free(t->freq), free(t->at);
}

/* bf16 queries and weights: relative L2 1e-2.  Rows past the last position are NaN in the cache.  Few rows after many positions
 * are computed in pieces, for which there is scratch memory.  Each case twice, with queries that are normed and turned on the way. */
static void test_attention__agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int q, kv, n, pos; float sharp; } cases[] = {
        {32, 2, 1, 0, 1},  {32, 2, 5, 0, 1},     {32, 2, 8, 27, 1},   {32, 2, 37, 31, 3}, {32, 2, 3, 3000, 3}, {16, 2, 70, 33, 1},
        {16, 2, 17, 0, 1}, {4, 2, 65, 10, 1},    {4, 2, 200, 0, 2},   {16, 1, 40, 127, 1}, {4, 1, 100, 64, 1}, {32, 2, 130, 500, 1},
        {12, 1, 33, 40, 1}, {4, 4, 150, 1, 1},   {32, 2, 20, 1500, 1}, {4, 1, 70, 2030, 1}, {16, 2, 9, 2040, 2},
    };
    for (size_t at = 0; at < 2 * (sizeof cases / sizeof *cases); at++) {
        const size_t i = at / 2;
        int Q = cases[i].q, K = cases[i].kv, n = cases[i].n, pos = cases[i].pos, len = pos + n, ctx = len + 40;
        struct turn_case turn = turn_open(n, pos, i % 2);
        size_t row = (size_t)K * DIM, q_token = (size_t)Q * 2 * DIM, y_bytes = (size_t)n * (size_t)Q * DIM * sizeof(float);
        float *q = rand_array((size_t)n * q_token, cases[i].sharp), *y = malloc(y_bytes);
        uint16_t *k = bf16_rows((size_t)ctx * row, 1), *v = bf16_rows((size_t)ctx * row, 1);
        memset(k + (size_t)len * row, 0xff, (size_t)(ctx - len) * row * 2);
        memset(v + (size_t)len * row, 0xff, (size_t)(ctx - len) * row * 2);
        struct attention_args a = {.y = y, .q = q, .q_token = q_token, .q_head = 2 * DIM,
                                   .kv = {.k = k, .v = v, .dtype = DT_BF16, .n_kv_heads = K, .head_dim = DIM},
                                   .n_tokens = n, .n_q_heads = Q, .pos = pos, .scale = 1.0f / 16};
        if (at % 2)
            a.turn = turn.host;
        cpu->ops->attention(cpu, &a);
        if (at % 2)
            a.turn = turn.device;
        float *dq = upload(q, (size_t)n * q_token * sizeof *q), *again;
        a.y = poisoned(y_bytes), a.q = dq;
        a.kv.k = upload(k, (size_t)ctx * row * 2), a.kv.v = upload(v, (size_t)ctx * row * 2);
        cuda->ops->attention(cuda, &a);
        float *out = downloaded(a.y, y_bytes);
        char what[80];
        snprintf(what, sizeof what, "%d/%d heads, %d rows after %d%s", Q, K, n, pos, at % 2 ? ", turned" : "");
        assert_rows_close(what, out, y, n * Q, DIM, 1e-2);
        for (int run = 0; run < 3; run++) {
            cuda->ops->attention(cuda, &a);
            again = downloaded(a.y, y_bytes);
            assert_memory_equal(again, out, y_bytes);
            free(again);
        }
        cuda->free(cuda, a.y), cuda->free(cuda, dq), cuda->free(cuda, a.kv.k), cuda->free(cuda, a.kv.v);
        free(q), free(y), free(k), free(v), free(out);
        turn_close(&turn);
    }
}

/* A gate that attention applies as it stores, or that follows where it cannot: the next product has the same bits.  The bound is far above all
 * numbers.  Few rows after many positions are computed in pieces. */
static void test_attention__a_gate_leaves_its_rows_to_the_product_alone(void **state)
{
    (void)state;
    need_gpu();
    enum { ROWS = 304 };
    static const struct { int q, kv, n, pos; bool dense; } cases[] = {
        {32, 2, 129, 0, false}, {32, 2, 300, 70, true}, {16, 1, 200, 33, false}, {12, 1, 133, 1, true}, {32, 2, 130, 4000, false},
        {32, 2, 40, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int Q = cases[i].q, K = cases[i].kv, n = cases[i].n, len = cases[i].pos + n;
        const size_t row = (size_t)K * DIM, q_token = (size_t)Q * 2 * DIM, cells = (size_t)n * (size_t)Q * DIM,
            out = (size_t)n * ROWS * sizeof(float);
        struct matrix w = matrix_make(cases[i].dense ? WEIGHT_DENSE : WEIGHT_INT4, ROWS, Q * DIM);
        float *q = rand_array((size_t)n * q_token, 3), *y = malloc(cells * sizeof *y), *product = malloc(out);
        uint16_t *k = bf16_rows((size_t)len * row, 1), *v = bf16_rows((size_t)len * row, 1);
        struct attention_args a = {.y = y, .q = q, .q_token = q_token, .q_head = 2 * DIM,
                                   .kv = {.k = k, .v = v, .dtype = DT_BF16, .n_kv_heads = K, .head_dim = DIM},
                                   .n_tokens = n, .n_q_heads = Q, .pos = cases[i].pos, .scale = 1.0f / 16};
        struct sigmoid_gate_args gate = {.y = y, .gate = q + DIM, .gate_token = q_token, .gate_head = 2 * DIM, .n_tokens = n, .n_heads = Q,
                                         .head_dim = DIM, .next = &w.host, .most = 300};
        a.gate = &gate;
        cpu->ops->attention(cpu, &a);
        struct linear_args l = {.y = product, .x = y, .w = w.host, .n_tokens = n};
        linear_any(cpu, &l);
        float *want = NULL;
        for (int fused = 0; fused < 2; fused++) {
            gate.next = &w.device;
            gate.y = a.y = poisoned(cells * sizeof *y);
            a.q = upload(q, (size_t)n * q_token * sizeof *q), gate.gate = a.q + DIM;
            a.kv.k = upload(k, (size_t)len * row * 2), a.kv.v = upload(v, (size_t)len * row * 2);
            a.gate = fused ? &gate : NULL;
            l = (struct linear_args){.y = poisoned(out), .x = a.y, .w = w.device, .n_tokens = n};
            cuda->ops->attention(cuda, &a);
            if (!fused)
                cuda->ops->sigmoid_gate(cuda, &gate);
            linear_any(cuda, &l);
            float *got = downloaded(l.y, out);
            if (fused)
                assert_memory_equal(got, want, out);
            else
                assert_rows_close("gated", got, product, n, ROWS, 1e-2);
            cuda->free(cuda, a.y), cuda->free(cuda, (void *)a.q), cuda->free(cuda, a.kv.k), cuda->free(cuda, a.kv.v), cuda->free(cuda, l.y);
            free(want);
            want = got;
        }
        matrix_drop(&w);
        free(q), free(y), free(product), free(k), free(v), free(want);
    }
}

/* A decode step on both devices. */
struct step_case {
    int q, kv, n, ctx;
    int32_t pos;
    float *qg, *k, *v, *q_norm, *k_norm, *freq;         /* host */
    uint16_t *cache_k, *cache_v;
    float *ref;                                         /* [n, q, 256] */
    uint16_t *ref_k, *ref_v;                            /* caches afterwards */
    struct step_attention_args gpu;                     /* device */
    struct { int32_t pos; struct rope_position offset; } live, *d_live;
};

static size_t y_bytes(const struct step_case *c) { return (size_t)c->n * (size_t)c->q * DIM * sizeof(float); }
static size_t cache_bytes(const struct step_case *c) { return (size_t)c->ctx * (size_t)c->kv * DIM * 2; }

static void case_open(struct step_case *c, int q, int kv, int n, int pos)
{
    size_t q_token = (size_t)q * 2 * DIM, kv_token = (size_t)kv * DIM;
    *c = (struct step_case){.q = q, .kv = kv, .n = n, .pos = pos, .ctx = pos + n + 70};
    c->qg = rand_array((size_t)n * q_token, 1);
    c->k = rand_array((size_t)n * kv_token, 1), c->v = rand_array((size_t)n * kv_token, 1);
    c->q_norm = rand_array(DIM, 0.2f), c->k_norm = rand_array(DIM, 0.2f);
    for (int i = 0; i < DIM; i++)
        c->q_norm[i] += 1;                              /* sharper than uniform weights */
    c->freq = frequencies();
    c->cache_k = bf16_rows((size_t)c->ctx * kv_token, 1), c->cache_v = bf16_rows((size_t)c->ctx * kv_token, 1);
    memset(c->cache_k + (size_t)pos * kv_token, 0xff, (size_t)(c->ctx - pos) * kv_token * 2);
    memset(c->cache_v + (size_t)pos * kv_token, 0xff, (size_t)(c->ctx - pos) * kv_token * 2);

    c->gpu = (struct step_attention_args){
        .y = poisoned(y_bytes(c)), .qg = upload(c->qg, (size_t)n * q_token * 4), .k = upload(c->k, (size_t)n * kv_token * 4),
        .v = upload(c->v, (size_t)n * kv_token * 4), .q_norm = upload(c->q_norm, DIM * 4), .k_norm = upload(c->k_norm, DIM * 4),
        .freq = upload(c->freq, HALF * 4), .kv = {.k = upload(c->cache_k, cache_bytes(c)), .v = upload(c->cache_v, cache_bytes(c)),
        .dtype = DT_BF16, .n_kv_heads = kv, .head_dim = DIM}, .scratch = poisoned(step_attention_scratch(q)), .n_rows = n, .settled = n % 2,
        .n_q_heads = q, .half = HALF, .eps = 1e-6f, .rope_scale = 1.05f, .scale = 1.0f / 16};
    c->live.pos = pos;
    if (pos % 2)
        c->live.offset = (struct rope_position){-pos / 3, n, -pos};
    c->d_live = upload(&c->live, sizeof c->live);
    c->gpu.pos = &c->d_live->pos, c->gpu.rope_offset = &c->d_live->offset;
    finish();
}

static void case_define(struct step_case *c)
{
    struct step_attention_args a = c->gpu;
    c->ref = malloc(y_bytes(c));
    c->ref_k = malloc(cache_bytes(c)), c->ref_v = malloc(cache_bytes(c));
    memcpy(c->ref_k, c->cache_k, cache_bytes(c)), memcpy(c->ref_v, c->cache_v, cache_bytes(c));
    a.y = c->ref, a.qg = c->qg, a.k = c->k, a.v = c->v, a.q_norm = c->q_norm, a.k_norm = c->k_norm, a.freq = c->freq;
    a.kv.k = c->ref_k, a.kv.v = c->ref_v, a.pos = &c->live.pos, a.rope_offset = &c->live.offset, a.scratch = NULL;
    cpu->step->step_attention(cpu, &a);
}

static void case_close(struct step_case *c)
{
    struct step_attention_args *a = &c->gpu;
    const void *device[] = {a->y, a->qg, a->k, a->v, a->q_norm, a->k_norm, a->freq, a->kv.k, a->kv.v, a->scratch, c->d_live};
    void *host[] = {c->qg, c->k, c->v, c->q_norm, c->k_norm, c->freq, c->cache_k, c->cache_v, c->ref, c->ref_k, c->ref_v};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        cuda->free(cuda, (void *)(uintptr_t)device[i]);
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        free(host[i]);
}

/* K rows of the call went through another order of sums: a last place of bf16. */
static void assert_cache_close(const struct step_case *c, const uint16_t *out, const uint16_t *ref, bool exact)
{
    size_t kv_token = (size_t)c->kv * DIM;
    for (size_t i = 0; i < (size_t)c->ctx * kv_token; i++) {
        bool new = i >= (size_t)c->pos * kv_token && i < (size_t)(c->pos + c->n) * kv_token;
        float x = bf16_f32(out[i]), y = bf16_f32(ref[i]);
        if (new && !exact ? !(fabsf(x - y) <= 0.008f * fabsf(y) + 1e-5f) : out[i] != ref[i])
            fail_msg("%d rows at %d: cache value %zu of position %zu is %g, expected %g", c->n, c->pos, i % kv_token, i / kv_token,
                     (double)x, (double)y);
    }
}

static void test_step_attention__agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int q, kv, n, pos; } cases[] = {
        {32, 2, 1, 0},    {32, 2, 1, 1},    {32, 2, 1, 63},   {32, 2, 1, 64},   {32, 2, 1, 700},  {32, 2, 1, 4095}, {32, 2, 1, 4096},
        {32, 2, 2, 0},    {32, 2, 2, 63},   {32, 2, 2, 4095}, {32, 2, 3, 62},   {32, 2, 4, 126},  {32, 2, 4, 4094}, {32, 2, 5, 59},
        {32, 2, 6, 4092}, {32, 2, 8, 0},    {32, 2, 8, 60},   {32, 2, 8, 57},   {32, 2, 8, 4090}, {32, 2, 8, 4092}, {32, 2, 8, 8189},
        {16, 2, 1, 300},  {16, 2, 5, 1021}, {16, 2, 7, 64},   {4, 2, 1, 5},     {4, 2, 3, 200},   {16, 1, 8, 505},  {4, 1, 2, 77},
        {4, 1, 8, 63},    {32, 2, 1, 12287}, {32, 2, 4, 12286},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_case c;
        case_open(&c, cases[i].q, cases[i].kv, cases[i].n, cases[i].pos);
        case_define(&c);
        cuda->step->step_attention(cuda, &c.gpu);
        float *out = downloaded(c.gpu.y, y_bytes(&c));
        uint16_t *k = downloaded(c.gpu.kv.k, cache_bytes(&c)), *v = downloaded(c.gpu.kv.v, cache_bytes(&c));
        char what[80];
        snprintf(what, sizeof what, "%d/%d heads, %d rows at %d", c.q, c.kv, c.n, c.pos);
        assert_rows_close(what, out, c.ref, c.n * c.q, DIM, 1e-2);
        assert_cache_close(&c, k, c.ref_k, false);
        assert_cache_close(&c, v, c.ref_v, true);
        for (int run = 0; run < 3; run++) {             /* what a step wrote is written again */
            cuda->step->step_attention(cuda, &c.gpu);
            float *again = downloaded(c.gpu.y, y_bytes(&c));
            assert_memory_equal(again, out, y_bytes(&c));
            free(again);
        }
        free(out), free(k), free(v);
        case_close(&c);
    }
}

static void test_step_attention__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    static const int positions[] = {0, 3, 60, 63, 1000, 4089, 4093, 4095, 4096, 20000, 40957, 131070};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
        for (int heads = 32; heads >= 8; heads -= 24) {
            struct step_case c;
            case_open(&c, heads, 2, STEP_ROWS, positions[i]);
            size_t row = (size_t)heads * DIM;
            cuda->step->step_attention(cuda, &c.gpu);
            float *all = downloaded(c.gpu.y, y_bytes(&c));
            uint16_t *k = downloaded(c.gpu.kv.k, cache_bytes(&c));
            for (int n = 1; n < STEP_ROWS; n++)
                for (int t = 0; t < STEP_ROWS; t += n) {        /* n rows at a time, from an empty place on */
                    struct step_attention_args a = c.gpu;
                    int m = n < STEP_ROWS - t ? n : STEP_ROWS - t;
                    int32_t pos = c.pos + t;
                    size_t bytes = (size_t)m * row * sizeof(float);
                    if (t == 0) {
                        cuda->copy(cuda, c.gpu.kv.k, c.cache_k, cache_bytes(&c));
                        cuda->copy(cuda, c.gpu.kv.v, c.cache_v, cache_bytes(&c));
                    }
                    cuda->copy(cuda, &c.d_live->pos, &pos, sizeof pos);
                    a.n_rows = m;
                    a.qg += (size_t)t * row * 2;
                    a.k += (size_t)t * 2 * DIM, a.v += (size_t)t * 2 * DIM;
                    cuda->step->step_attention(cuda, &a);
                    float *few = downloaded(a.y, bytes);
                    for (size_t j = 0; j < (size_t)m * row; j++)
                        if (memcmp(few + j, all + (size_t)t * row + j, sizeof *few))
                            fail_msg("row %zu of %d at %d: value %zu of head %zu is %.9g, with eight rows %.9g", (size_t)t + j / row, n,
                                     c.pos, j % DIM, j % row / DIM, (double)few[j], (double)all[(size_t)t * row + j]);
                    free(few);
                }
            uint16_t *k_again = downloaded(c.gpu.kv.k, cache_bytes(&c));
            assert_memory_equal(k_again, k, cache_bytes(&c));
            free(all), free(k), free(k_again);
            case_close(&c);
        }
}

/* The CPU takes seconds for long contexts, so here the reference is prompt attention on the same device. */
static void test_step_attention__agrees_with_prompt_attention_far_out(void **state)
{
    (void)state;
    need_gpu();
    static const int positions[] = {16383, 65530, 131072, 200000};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        struct step_case c;
        case_open(&c, 32, 2, 8, positions[i]);
        c.gpu.rope_offset = NULL;       /* the prompt's rows turn by their index */
        size_t q_token = 32 * 2 * DIM;
        float *qg = upload(c.qg, 8 * q_token * 4), *ref = poisoned(y_bytes(&c));
        cuda->step->step_attention(cuda, &c.gpu);         /* also stores the rows that the reference reads */
        RUN(cuda, rmsnorm, .y = qg, .x = qg, .w = c.gpu.q_norm, .n_rows = 8 * 32, .dim = DIM, .eps = c.gpu.eps, .per_group = 32,
            .x_group = q_token, .x_row = 2 * DIM, .y_group = q_token, .y_row = 2 * DIM);
        RUN(cuda, rope, .x = qg, .token_stride = q_token, .head_stride = 2 * DIM, .freq = c.gpu.freq, .n_tokens = 8, .n_heads = 32,
            .half = HALF, .first = c.pos, .scale = c.gpu.rope_scale);
        RUN(cuda, attention, .y = ref, .q = qg, .q_token = q_token, .q_head = 2 * DIM, .kv = c.gpu.kv, .n_tokens = 8, .n_q_heads = 32,
            .pos = c.pos, .scale = c.gpu.scale);
        RUN(cuda, sigmoid_gate, .y = ref, .gate = qg + DIM, .gate_token = q_token, .gate_head = 2 * DIM, .n_tokens = 8, .n_heads = 32,
            .head_dim = DIM);
        float *out = downloaded(c.gpu.y, y_bytes(&c)), *want = downloaded(ref, y_bytes(&c));
        assert_rows_close("far out", out, want, 8 * 32, DIM, 1e-2);
        cuda->free(cuda, qg), cuda->free(cuda, ref);
        free(out), free(want);
        case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope__turns_like_the_definition_at_any_position),
        cmocka_unit_test(test_kv_store__rounds_to_bf16_and_touches_nothing_else),
        cmocka_unit_test(test_sigmoid_gate__agrees_with_the_definition),
        cmocka_unit_test(test_attention__agrees_with_the_definition),
        cmocka_unit_test(test_attention__a_gate_leaves_its_rows_to_the_product_alone),
        cmocka_unit_test(test_step_attention__agrees_with_the_definition),
        cmocka_unit_test(test_step_attention__a_row_has_the_same_bits_in_any_company),
        cmocka_unit_test(test_step_attention__agrees_with_prompt_attention_far_out),
    };
    int failed = cmocka_run_group_tests_name("cuda_attention", tests, open_devices_with_scratch, close_devices);
    return failed + cmocka_run_group_tests_name("cuda_attention with 99 KiB of shared memory", tests, open_small_devices, close_devices);
}

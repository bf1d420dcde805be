/* The gated norm of DeltaNet inside of the product for the gate (linear_args, `gate`), on the GPU against the definition and against the two
 * operations one after the other: what is left for the next product are rows of fp16 with a factor each (kernels/gemm.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "backend/dev.h"
#include "kernels/cpu/vec.h"
#include "kernels/deltanet.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "tests/kernels/matrix.h"

enum { D = 128, OUT = 384, TAPS = 4 };

static void product(struct dev *d, const struct linear_args *l)
{
    switch (l->w.format) {
    case WEIGHT_INT4: RUN(d, linear_int4, .l = *l); break;
    case WEIGHT_FP8:  RUN(d, linear_fp8, .l = *l); break;
    default:          RUN(d, linear_dense, .l = *l); break;
    }
}

/* Rows of a test: inputs h of the product, and y, which is normed and gated. */
enum kind { PLAIN, TINY, LARGE, OUTLIERS, NOT_A_NUMBER, INFINITE, ZERO, POISONED_Y, KINDS };
static enum kind kind_of(int t) { return t % 11 < KINDS ? (enum kind)(t % 11) : PLAIN; }
static bool poisons(enum kind k) { return k == NOT_A_NUMBER || k == INFINITE || k == POISONED_Y; }

struct gate {
    int    heads, cols, n;
    struct matrix z, out;
    float *h, *y, *w;                   /* [n, cols], [n, heads * D], [D] in host memory */
    float *d_h, *d_y, *d_w, *norm;      /* the same and the norm of z in device memory */
};

static struct gate gate_make(enum weight_format format, int heads, int cols, int n)
{
    struct gate g = {.heads = heads, .cols = cols, .n = n, .z = matrix_make(format, heads * D, cols)};
    const size_t N = (size_t)n, C = (size_t)cols, V = (size_t)(heads * D);
    g.out = matrix_make(WEIGHT_DENSE, OUT, heads * D);
    g.h = rand_array(N * C, 3);
    g.y = rand_array(N * V, 1);
    g.w = rand_array(D, 1);
    for (int t = 0; t < n; t++) {
        const enum kind k = kind_of(t);
        float *h = g.h + (size_t)t * C, *y = g.y + (size_t)t * V;
        for (size_t i = 0; i < C; i++)
            h[i] *= k == TINY ? 1e-20f : k == LARGE ? 1e10f : k == ZERO ? 0 : k == OUTLIERS && i % 1000 == 7 ? 1000 : 1;
        for (size_t i = 0; i < V; i++)  /* heads of very different size */
            y[i] *= i / D % 5 == 1 ? 1e-6f : i / D % 5 == 2 ? 1e8f : i / D % 5 == 3 && t % 2 ? 0 : 1;
        if (k == NOT_A_NUMBER || k == INFINITE)
            h[C / 3] = k == INFINITE ? INFINITY : NAN;
        if (k == POISONED_Y)
            y[V / 2] = NAN;
    }
    g.d_h = upload(g.h, N * C * sizeof(float));
    g.d_y = upload(g.y, N * V * sizeof(float));
    g.d_w = upload(g.w, D * sizeof(float));
    g.norm = cuda->alloc(cuda, sizeof *g.norm);
    cuda->row_norms(cuda, g.norm, &g.z.device, NULL, 1, 0);
    return g;
}
static void gate_drop(struct gate *g)
{
    matrix_drop(&g->z), matrix_drop(&g->out);
    free(g->h), free(g->y), free(g->w);
    cuda->free(cuda, g->d_h), cuda->free(cuda, g->d_y), cuda->free(cuda, g->d_w), cuda->free(cuda, g->norm);
}

/* Rows of the tokens from .. from + n - 1 as product and gate leave them in memory, and the product of these. */
struct result {
    uint16_t *half;                     /* [n, heads * D] */
    float    *undo, *out;               /* [n], [n, OUT] */
};
static void result_drop(struct result *r) { free(r->half), free(r->undo), free(r->out); }
static struct result on_gpu(const struct gate *g, int from, int n)
{
    const size_t N = (size_t)n, F = (size_t)from, V = (size_t)(g->heads * D);
    float *z = poisoned(N * V * sizeof(float)), *out = poisoned(N * OUT * sizeof(float));
    const struct rmsnorm_gated_args norm = {.y = z, .x = g->d_y + F * V, .z = z, .w = g->d_w, .next = &g->out.device, .n_rows = n * g->heads,
                                            .dim = D, .eps = 1e-6f};
    product(cuda, &(struct linear_args){.y = z, .x = g->d_h + F * (size_t)g->cols, .w = g->z.device, .n_tokens = n, .gate = &norm,
        .norm = g->norm});
    product(cuda, &(struct linear_args){.y = out, .x = z, .w = g->out.device, .n_tokens = n});
    struct result r = {downloaded(z, N * V * 2), downloaded((char *)z + gemm_factors_at(N, (int)V), N * sizeof(float)),
                       downloaded(out, N * OUT * sizeof(float))};
    cuda->free(cuda, z), cuda->free(cuda, out);
    return r;
}

/* The same in fp32, one operation after the other, by the device d. */
static float *plain(struct dev *d, const struct gate *g, int from, int n)
{
    const size_t N = (size_t)n, F = (size_t)from, V = (size_t)(g->heads * D);
    const bool host = d == cpu;
    float *z = host ? malloc(N * V * sizeof(float)) : poisoned(N * V * sizeof(float));
    const struct rmsnorm_gated_args norm = {.y = z, .x = (host ? g->y : g->d_y) + F * V, .z = z, .w = host ? g->w : g->d_w, .n_rows = n * g->heads,
                                            .dim = D, .eps = 1e-6f};
    product(d, &(struct linear_args){.y = z, .x = (host ? g->h : g->d_h) + F * (size_t)g->cols, .w = host ? g->z.host : g->z.device, .n_tokens = n,
        .gate = &norm, .norm = g->norm});
    if (host)
        return z;
    float *y = downloaded(z, N * V * sizeof(float));
    cuda->free(cuda, z);
    return y;
}

/* Fails unless each number is that of the unfused operations, rounded to fp16. */
static void expect_rounded(const char *what, const struct gate *g, const struct result *r, const float *want)
{
    const size_t V = (size_t)(g->heads * D);
    for (size_t t = 0; t < (size_t)g->n; t++)
        for (size_t i = 0; i < V && !poisons(kind_of((int)t)); i++) {
            const double got = (double)f16_f32(r->half[t * V + i]) * (double)r->undo[t], v = (double)want[t * V + i],
                most = fabs(v) * (0x1p-11 + 0x1p-17) + 0x1p-24 * (double)r->undo[t];
            if (!(fabs(got - v) <= most))
                fail_msg("%s, token %zu, column %zu: %g, in fp32 %g", what, t, i, got, v);
        }
}

/* Fails unless the rows are close to those of the definition, which begin with token `from`. */
static void expect_close(const char *what, const struct gate *g, const struct result *r, const float *want, int from, int n)
{
    const size_t V = (size_t)(g->heads * D);
    for (size_t t = 0; t < (size_t)n; t++) {
        const size_t at = (size_t)from + t;
        double off = 0, size = 0;
        for (size_t i = 0; i < V; i++) {
            const double v = (double)want[t * V + i], e = (double)f16_f32(r->half[at * V + i]) * (double)r->undo[at] - v;
            off += e * e;
            size += v * v;
        }
        if (!poisons(kind_of((int)at)) && !(sqrt(off) <= 1e-3 * sqrt(size)))
            fail_msg("%s, token %zu: off by %g of the definition's row", what, at, sqrt(off / size));
    }
}

static void expect_poison_stays(const char *what, const struct gate *g, const struct result *r)
{
    for (size_t t = 0; t < (size_t)g->n; t++)
        for (size_t i = 0; i < OUT; i++)
            if (isfinite(r->out[t * OUT + i]) == poisons(kind_of((int)t)))
                fail_msg("%s, token %zu of kind %d: outcome %zu is %g", what, t, (int)kind_of((int)t), i, (double)r->out[t * OUT + i]);
}

static void check(enum weight_format format, int heads, int cols, int n)
{
    enum { ALONE = 66 };                /* tokens at each end that the definition computes */
    char what[128];
    snprintf(what, sizeof what, "format %d, %d heads, %d columns, %d tokens", (int)format, heads, cols, n);
    struct gate g = gate_make(format, heads, cols, n);
    struct result r = on_gpu(&g, 0, n), again = on_gpu(&g, 0, n);
    float *both = plain(cuda, &g, 0, n);
    expect_rounded(what, &g, &r, both);
    expect_poison_stays(what, &g, &r);
    for (int from = 0; from < n; from += n - ALONE) {
        float *want = plain(cpu, &g, from, ALONE);
        expect_close(what, &g, &r, want, from, ALONE);
        free(want);
        if (from)
            break;
    }
    const size_t V = (size_t)(heads * D);
    assert_memory_equal(r.half, again.half, (size_t)n * V * 2);
    assert_memory_equal(r.out, again.out, (size_t)n * OUT * sizeof(float));
    free(both);
    result_drop(&r), result_drop(&again);
    gate_drop(&g);
}

static void test_gate__agrees_with_product_and_norm_at_a_large_models_widths(void **state)
{
    (void)state;
    need_gpu();
    assert_true(cuda->reserve(cuda, (size_t)128 << 20));
    check(WEIGHT_INT4, 64, 3072, 129);
    check(WEIGHT_INT4, 64, 3072, 1000);
    check(WEIGHT_INT4, 64, 3072, 4096);
    check(WEIGHT_FP8, 64, 3072, 700);
    check(WEIGHT_DENSE, 64, 3072, 700);
}

static void test_gate__agrees_at_awkward_shapes(void **state)
{
    (void)state;
    need_gpu();
    static const enum weight_format formats[] = {WEIGHT_INT4, WEIGHT_FP8, WEIGHT_DENSE};
    static const int heads[] = {3, 8, 33, 5}, cols[] = {128, 640, 256, 1024}, tokens[] = {GEMM_FINE + 1, 191, 193, 257, 450};
    assert_true(cuda->reserve(cuda, (size_t)64 << 20));
    for (int f = 0; f < 3; f++)
        for (int s = 0; s < 4; s++)
            for (int i = f + s; i < f + s + 2; i++)
                check(formats[f], heads[s], cols[s], tokens[i % 5]);
    check(WEIGHT_INT4, 33, 256, 4000);          /* the large tile, half of the last one empty */
    check(WEIGHT_FP8, 34, 256, 2500);
}

static void test_gate__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    enum { N = 4096, HEADS = 64, V = HEADS * D };
    static const int few[] = {GEMM_FINE + 1, 200, 1000, 2500};
    assert_true(cuda->reserve(cuda, (size_t)128 << 20));
    struct gate g = gate_make(WEIGHT_INT4, HEADS, 640, N);
    struct result all = on_gpu(&g, 0, N);
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        const size_t n = (size_t)few[i], from = N - n;
        struct result r = on_gpu(&g, (int)from, (int)n);
        assert_memory_equal(r.half, all.half + from * V, n * V * 2);
        assert_memory_equal(r.undo, all.undo + from, n * sizeof(float));
        assert_memory_equal(r.out, all.out + from * OUT, n * OUT * sizeof(float));
        result_drop(&r);
    }
    result_drop(&all);
    gate_drop(&g);
}

/* A layer from its norm to the output projection, which it returns.  `own`: the rule runs behind the norm's rows for the products, of which there is
 * nothing else; or these rows are made again after it.  apart: the first product is in eight bits, and what it says after the rule is the same. */
static float *run_layer(const struct matrix m[3], const float *x, int n, int heads, int cols, bool own, const struct int8_apart *apart)
{
    const size_t N = (size_t)n, C = (size_t)cols, V = (size_t)(heads * D), f = sizeof(float), W = 3 * V;
    float *ones = malloc(W * TAPS * f);
    for (size_t i = 0; i < W * TAPS; i++)
        ones[i] = 0.5f;
    float *dx = upload(x, N * C * f), *w = upload(ones, W * TAPS * f), *h = poisoned(N * C * f), *qkv = poisoned(N * W * f), *y = poisoned(N * V * f),
        *c = poisoned(N * W * f), *beta = poisoned(N * (size_t)heads * f), *decay = poisoned(N * (size_t)heads * f), *z = poisoned(N * V * f),
        *out = poisoned(N * OUT * f), *window = upload(ones, W * TAPS * f), *s = cuda->alloc(cuda, V * D * f),
        *norm = cuda->alloc(cuda, sizeof *norm), *again = poisoned(N * W * f);       /* all here: the queue forgets rows when memory is filled */
    cuda->zero(cuda, s, V * D * f);
    cuda->row_norms(cuda, norm, &m[1].device, NULL, 1, 0);
    const struct deltanet_raw raw = {.x = qkv, .w = w, .window = window, .a = dx, .b = dx, .a_log = w, .dt_bias = w, .taps = TAPS};
    const struct rmsnorm_gated_args gate = {.y = z, .x = y, .z = z, .w = w, .next = &m[2].device, .n_rows = n * heads, .dim = D, .eps = 1e-6f};
    RUN(cuda, rmsnorm, .y = h, .x = dx, .w = w, .n_rows = n, .dim = cols, .eps = 1e-6f, .own_form = own, .int8 = apart);
    product(cuda, &(struct linear_args){.y = qkv, .x = h, .w = m[0].device, .n_tokens = n, .int8 = apart});
    RUN(cuda, deltanet_chunk, .y = y, .c = c, .beta = beta, .g = decay, .raw = &raw, .state = s, .n_tokens = n, .n_k_heads = heads,
        .n_v_heads = heads, .dk = D, .dv = D);
    if (!own) {
        product(cuda, &(struct linear_args){.y = again, .x = h, .w = m[0].device, .n_tokens = n, .int8 = apart});
        float *before = downloaded(qkv, N * W * f), *after = downloaded(again, N * W * f);
        assert_memory_equal(after, before, N * W * f);
        free(before), free(after);
        cuda->zero(cuda, out, N * OUT * f);     /* forgets the rows */
    }
    product(cuda, &(struct linear_args){.y = z, .x = h, .w = m[1].device, .n_tokens = n, .gate = &gate, .norm = norm});
    product(cuda, &(struct linear_args){.y = out, .x = z, .w = m[2].device, .n_tokens = n});
    float *got = downloaded(out, N * OUT * f);
    void *all[] = {dx, w, h, qkv, y, c, beta, decay, z, out, window, s, norm, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda->free(cuda, all[i]);
    free(ones);
    return got;
}

static void test_gate__the_rule_leaves_the_rows_of_its_input(void **state)
{
    (void)state;
    need_gpu();
    enum { HEADS = 4, COLS = 640 };
    static const int tokens[] = {5, GEMM_FINE, GEMM_FINE + 1, 1100};
    static const struct int8_apart apart = {.n = 2, .column = {3, 500}};
    for (size_t i = 0; i < 2 * sizeof tokens / sizeof *tokens; i++) {
        const int n = tokens[i / 2];
        const struct matrix m[3] = {matrix_make(WEIGHT_INT4, 3 * HEADS * D, COLS), matrix_make(WEIGHT_INT4, HEADS * D, COLS),
                                    matrix_make(WEIGHT_DENSE, OUT, HEADS * D)};
        float *x = rand_array((size_t)n * COLS, 1), *got[3];
        for (int k = 0; k < 3; k++) {
            /* at last with room for few blocks of the rule */
            const size_t few = linear_scratch(n, HEADS * D) + 2 * deltanet_block_scratch(HEADS, HEADS);
            assert_true(cuda->reserve(cuda, k == 2 ? few : (size_t)64 << 20));
            got[k] = run_layer(m, x, n, HEADS, COLS, k > 0, i % 2 ? &apart : NULL);
        }
        for (size_t j = 0; j < (size_t)n * OUT; j++)
            assert_true(isfinite(got[0][j]));
        assert_memory_equal(got[1], got[0], (size_t)n * OUT * sizeof(float));
        assert_memory_equal(got[2], got[0], (size_t)n * OUT * sizeof(float));
        free(x), free(got[0]), free(got[1]), free(got[2]);
        for (int k = 0; k < 3; k++)
            matrix_drop((struct matrix *)&m[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate__agrees_with_product_and_norm_at_a_large_models_widths),
        cmocka_unit_test(test_gate__agrees_at_awkward_shapes),
        cmocka_unit_test(test_gate__a_row_has_the_same_bits_in_any_company),
        cmocka_unit_test(test_gate__the_rule_leaves_the_rows_of_its_input),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}

/* Activations that are written in the form of the products which follow (kernels/cuda/halves.cuh): a product gives the bits that it gives from
 * the plain activations, and never takes the form of activations that have changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#include "backend/dev.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

enum { ROWS = 528, HEAD = 128 };
static const int tokens[] = {1, 33, GEMM_FINE, GEMM_FINE + 1, 300, 1030};
enum { N_TOKENS = sizeof tokens / sizeof *tokens };

static struct weight packed(enum weight_format format, int rows, int cols)
{
    struct weight w = rand_weight(format, rows, cols, (struct spread){.dense = 0.1f, .int4 = 0.1f, .fp8 = 0.1f, .int8 = 0.1f});
    size_t bytes = pack_bytes(format, rows, cols);
    void *host = calloc(1, bytes);
    assert_true(pack_matrix(&w, host));
    struct weight v = packed_view(format, rows, cols, upload(host, bytes));
    free(host);
    rand_weight_free(&w);
    return v;
}
static void drop(const struct weight *w) { cuda->free(cuda, (void *)w->data); }

static void product(float *y, const float *x, const struct weight *w, int n)
{
    struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n};
    if (w->format == WEIGHT_INT4)
        RUN(cuda, linear_int4, .l = a);
    else
        RUN(cuda, linear_dense, .l = a);
}

/* y of a product in host memory; `elsewhere`: of a copy of x, which nobody has seen. */
static float *outcome(const float *x, const struct weight *w, int n, bool elsewhere)
{
    size_t bytes = (size_t)n * (size_t)w->cols * sizeof(float), out = (size_t)n * (size_t)w->rows * sizeof(float);
    float *y = cuda->alloc(cuda, out), *copy = NULL;            /* forgets; so the product comes first where x has a form */
    if (elsewhere) {
        copy = cuda->alloc(cuda, bytes);
        cuda->copy(cuda, copy, x, bytes);
    }
    product(y, copy ? copy : x, w, n);
    float *host = downloaded(y, out);
    cuda->free(cuda, y);
    if (copy)
        cuda->free(cuda, copy);
    return host;
}

static void same(const float *a, const float *b, size_t n, const char *what, int n_tokens)
{
    if (memcmp(a, b, n * sizeof *a))
        fail_msg("%s, %d tokens: other bits than from the plain activations", what, n_tokens);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)a[i];
    assert_true(sum > 0 && sum < 1e60);
}

/* Two products of y behind each other, two narrow ones and a choice of experts between them. */
static void check_norm(int dim, int n)
{
    const size_t cells = (size_t)n * (size_t)dim, out = (size_t)n * ROWS;
    const struct weight a = packed(WEIGHT_INT4, ROWS, dim), b = packed(WEIGHT_DENSE, ROWS, dim), narrow = packed(WEIGHT_DENSE, 64, dim),
        gate = packed(WEIGHT_DENSE, 4, dim);
    float *host = rand_array(cells, 3), *w = rand_array((size_t)dim, 1);
    float *x = upload(host, cells * sizeof *host), *dw = upload(w, (size_t)dim * sizeof *w), *y = poisoned(cells * sizeof *host);
    float *ya = poisoned(out * sizeof *host), *yb = poisoned(out * sizeof *host), *logits = poisoned((size_t)n * 64 * sizeof *host);
    float *weights = poisoned((size_t)n * 4 * sizeof *host);
    int32_t *experts = cuda->alloc(cuda, (size_t)n * 4 * sizeof *experts);
    RUN(cuda, rmsnorm, .y = y, .x = x, .w = dw, .n_rows = n, .dim = dim, .eps = 1e-6f);
    product(ya, y, &a, n);
    RUN(cuda, linear_pair, .y = {logits, weights}, .x = y, .w = {narrow, gate}, .n_tokens = n);
    RUN(cuda, router, .experts = experts, .weights = weights, .logits = logits, .n_tokens = n, .n_experts = 64, .top_k = 4);
    product(yb, y, &b, n);
    float *got_a = downloaded(ya, out * sizeof *host), *got_b = downloaded(yb, out * sizeof *host);
    float *want_a = outcome(y, &a, n, true), *want_b = outcome(y, &b, n, true);
    same(got_a, want_a, out, "rmsnorm", n);
    same(got_b, want_b, out, "rmsnorm, the second product", n);
    void *device[] = {x, dw, y, ya, yb, logits, weights, experts};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        cuda->free(cuda, device[i]);
    drop(&a), drop(&b), drop(&narrow), drop(&gate);
    free(host), free(w), free(got_a), free(got_b), free(want_a), free(want_b);
}

/* A norm for products alone: two of them in a row give the bits that they give from plain rows. */
static void check_norm_alone(int dim, int n)
{
    const size_t cells = (size_t)n * (size_t)dim, out = (size_t)n * ROWS, f = sizeof(float);
    const struct weight a = packed(WEIGHT_INT4, ROWS, dim), b = packed(WEIGHT_DENSE, ROWS, dim);
    float *host = rand_array(cells, 3), *w = rand_array((size_t)dim, 1);
    float *x = upload(host, cells * f), *dw = upload(w, (size_t)dim * f), *y = poisoned(cells * f), *ya = poisoned(out * f), *yb = poisoned(out * f);
    RUN(cuda, rmsnorm, .y = y, .x = x, .w = dw, .n_rows = n, .dim = dim, .eps = 1e-6f);
    float *want_a = outcome(y, &a, n, true), *want_b = outcome(y, &b, n, true);
    RUN(cuda, rmsnorm, .y = y, .x = x, .w = dw, .n_rows = n, .dim = dim, .eps = 1e-6f, .own_form = true);
    product(ya, y, &a, n);
    product(yb, y, &b, n);
    float *got_a = downloaded(ya, out * f), *got_b = downloaded(yb, out * f);
    same(got_a, want_a, out, "rmsnorm alone", n);
    same(got_b, want_b, out, "rmsnorm alone, the second product", n);
    void *device[] = {x, dw, y, ya, yb};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        cuda->free(cuda, device[i]);
    drop(&a), drop(&b);
    free(host), free(w), free(got_a), free(got_b), free(want_a), free(want_b);
}

static void test_halves__a_norm_leaves_its_rows_to_the_products(void **state)
{
    (void)state;
    need_gpu();
    static const int dims[] = {3072, 2048, 640, 1024, 4096};
    for (int i = 0; i < N_TOKENS; i++)
        for (size_t d = 0; d < (i % 2 ? 2 : sizeof dims / sizeof *dims); d++)
            check_norm(dims[d], tokens[i]), check_norm_alone(dims[d], tokens[i]);
    check_norm_alone(128, 300);
    check_norm_alone(384, 5);
}

/* Rows of all sizes, zero among them. */
static float *uneven(size_t rows, size_t cols)
{
    float *x = rand_array(rows * cols, 1);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            x[r * cols + c] *= r % 7 == 3 ? 0 : r % 5 == 1 ? 1e-20f : r % 5 == 2 ? 1e15f : 1;
    return x;
}

static void test_halves__a_gated_norm_leaves_its_rows_to_the_product_alone(void **state)
{
    (void)state;
    need_gpu();
    static const int heads[] = {64, 32, 5, 1};
    for (int i = 0; i < N_TOKENS; i++)
        for (int h = 0; h < 4; h++) {
            const int n = tokens[i], rows = n * heads[h];
            const size_t cells = (size_t)rows * HEAD;
            const struct weight w = packed(h % 2 ? WEIGHT_DENSE : WEIGHT_INT4, ROWS, heads[h] * HEAD);
            float *x = rand_array(cells, 1), *z = uneven((size_t)rows, HEAD), *nw = rand_array(HEAD, 1);
            float *dx = upload(x, cells * 4), *dz = upload(z, cells * 4), *dw = upload(nw, HEAD * 4), *plain = poisoned(cells * 4);
            float *out = poisoned((size_t)n * ROWS * 4);
            RUN(cuda, rmsnorm_gated, .y = plain, .x = dx, .z = dz, .w = dw, .n_rows = rows, .dim = HEAD, .eps = 1e-6f);
            float *want = outcome(plain, &w, n, true);
            RUN(cuda, rmsnorm_gated, .y = dx, .x = dx, .z = dz, .w = dw, .next = &w, .n_rows = rows, .dim = HEAD, .eps = 1e-6f);
            product(out, dx, &w, n);
            float *got = downloaded(out, (size_t)n * ROWS * 4);
            same(got, want, (size_t)n * ROWS, "rmsnorm_gated", n);
            void *device[] = {dx, dz, dw, plain, out};
            for (size_t k = 0; k < sizeof device / sizeof *device; k++)
                cuda->free(cuda, device[k]);
            drop(&w);
            free(x), free(z), free(nw), free(want), free(got);
        }
}

static void test_halves__a_gate_leaves_its_rows_to_the_product_alone(void **state)
{
    (void)state;
    need_gpu();
    static const int shapes[][2] = {{32, 256}, {16, 256}, {3, 128}};
    for (int i = 0; i < N_TOKENS; i++)
        for (int s = 0; s < 3; s++) {
            const int n = tokens[i], H = shapes[s][0], D = shapes[s][1];
            const size_t cells = (size_t)(n * H * D), token = (size_t)(2 * H * D);
            const struct weight w = packed(s % 2 ? WEIGHT_DENSE : WEIGHT_INT4, ROWS, H * D);
            float *y = uneven((size_t)n, (size_t)(H * D)), *g = rand_array((size_t)n * token, 3);
            float *dy = upload(y, cells * 4), *plain = upload(y, cells * 4), *dg = upload(g, (size_t)n * token * 4),
                *out = poisoned((size_t)n * ROWS * 4);
            RUN(cuda, sigmoid_gate, .y = plain, .gate = dg + D, .gate_token = token, .gate_head = 2 * (size_t)D, .n_tokens = n, .n_heads = H,
                .head_dim = D);
            float *want = outcome(plain, &w, n, true);
            RUN(cuda, sigmoid_gate, .y = dy, .gate = dg + D, .gate_token = token, .gate_head = 2 * (size_t)D, .next = &w, .n_tokens = n, .n_heads = H,
                .head_dim = D);
            product(out, dy, &w, n);
            float *got = downloaded(out, (size_t)n * ROWS * 4);
            same(got, want, (size_t)n * ROWS, "sigmoid_gate", n);
            void *device[] = {dy, plain, dg, out};
            for (size_t k = 0; k < sizeof device / sizeof *device; k++)
                cuda->free(cuda, device[k]);
            drop(&w);
            free(y), free(g), free(want), free(got);
        }
}

/* A narrow product reads plain activations, so they are there for it. */
static void test_halves__a_narrow_product_finds_plain_activations(void **state)
{
    (void)state;
    need_gpu();
    enum { N = 40, HEADS = 2, COLS = HEADS * HEAD };
    const size_t cells = (size_t)N * COLS;
    const struct weight w = packed(WEIGHT_DENSE, 64, COLS);
    float *x = rand_array(cells, 1), *nw = rand_array(HEAD, 1), *dx = upload(x, cells * 4), *dw = upload(nw, HEAD * 4), *plain = poisoned(cells * 4);
    RUN(cuda, rmsnorm_gated, .y = plain, .x = dx, .z = dx, .w = dw, .n_rows = N * HEADS, .dim = HEAD, .eps = 1e-6f);
    RUN(cuda, rmsnorm_gated, .y = dx, .x = dx, .z = dx, .w = dw, .next = &w, .n_rows = N * HEADS, .dim = HEAD, .eps = 1e-6f);
    float *want = outcome(plain, &w, N, true), *got = outcome(dx, &w, N, false);
    same(got, want, (size_t)N * 64, "narrow", N);
    cuda->free(cuda, dx), cuda->free(cuda, dw), cuda->free(cuda, plain);
    drop(&w);
    free(x), free(nw), free(want), free(got);
}

/* Changes that each of them makes after a norm has left its rows. */
static void by_copy(float *y, const float *other, size_t bytes, int n, int dim) { (void)n, (void)dim; cuda->copy(cuda, y, other, bytes); }
static void by_zero(float *y, const float *other, size_t bytes, int n, int dim) { (void)other, (void)n, (void)dim; cuda->zero(cuda, y, bytes / 2); }
static void by_operation(float *y, const float *other, size_t bytes, int n, int dim)
{
    (void)bytes;
    RUN(cuda, rope, .x = y, .token_stride = (size_t)dim, .head_stride = (size_t)dim, .freq = other, .n_tokens = n, .n_heads = 1, .half = 32,
        .first = 7, .scale = 1);
}

static void test_halves__changed_activations_are_read_again(void **state)
{
    (void)state;
    need_gpu();
    enum { DIM = 640, N = 200 };
    void (*const change[])(float *, const float *, size_t, int, int) = {by_copy, by_zero, by_operation};
    const size_t cells = (size_t)N * DIM;
    const struct weight w = packed(WEIGHT_INT4, ROWS, DIM);
    float *x = rand_array(cells, 1), *nw = rand_array(DIM, 1), *other = rand_array(cells, 1);
    float *dx = upload(x, cells * 4), *dw = upload(nw, DIM * 4), *d_other = upload(other, cells * 4), *y = poisoned(cells * 4),
        *out = poisoned((size_t)N * ROWS * 4);
    for (int c = 0; c < 3; c++) {
        RUN(cuda, rmsnorm, .y = y, .x = dx, .w = dw, .n_rows = N, .dim = DIM, .eps = 1e-6f);
        product(out, y, &w, N);
        float *before = downloaded(out, (size_t)N * ROWS * 4);
        RUN(cuda, rmsnorm, .y = y, .x = dx, .w = dw, .n_rows = N, .dim = DIM, .eps = 1e-6f);
        change[c](y, d_other, cells * 4, N, DIM);
        product(out, y, &w, N);
        float *got = downloaded(out, (size_t)N * ROWS * 4), *want = outcome(y, &w, N, true);
        same(got, want, (size_t)N * ROWS, "changed", N);
        assert_memory_not_equal(got, before, (size_t)N * ROWS * 4);
        free(before), free(got), free(want);
    }
    cuda->free(cuda, dx), cuda->free(cuda, dw), cuda->free(cuda, d_other), cuda->free(cuda, y), cuda->free(cuda, out);
    drop(&w);
    free(x), free(nw), free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves__a_norm_leaves_its_rows_to_the_products),
        cmocka_unit_test(test_halves__a_gated_norm_leaves_its_rows_to_the_product_alone),
        cmocka_unit_test(test_halves__a_gate_leaves_its_rows_to_the_product_alone),
        cmocka_unit_test(test_halves__a_narrow_product_finds_plain_activations),
        cmocka_unit_test(test_halves__changed_activations_are_read_again),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}

/* Products with activations in eight bits (kernels/int8.h) on the GPU against their definition.  Codes and scales are the definition's, but for
 * 2^-22 of a scale, and a group's sum of integers is exact, so without columns apart what is left is sums in fp32; columns apart are products of
 * fp16, whose weights are rounded to 2^-12.  Chunks of up to GEMM_FINE tokens are not rounded at all.  Errors are relative, of all outputs
 * together (L2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "kernels/gemm.h"
#include "kernels/int8.h"
#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/mixture.h"
#include "tests/kernels/rand_weight.h"

static const double CLOSE = 2e-6, CLOSE_APART = 6e-4, CLOSE_EXACT = 5e-6;

/* n columns apart, spread over all, the first and the last among them; x is 30 times as large there. */
static struct int8_apart apart_of(int n, float *x, int n_rows, int cols)
{
    struct int8_apart apart = {.n = n};
    for (int i = 0; i < n; i++) {
        apart.column[i] = (int16_t)(n > 1 ? i * (cols - 1) / (n - 1) : cols / 2);
        for (int t = 0; t < n_rows; t++)
            x[(size_t)t * (size_t)cols + (size_t)apart.column[i]] *= 30;
    }
    return apart;
}

/* Compares n rows of `width` numbers, `row` apart. */
static void compare(const char *what, const float *y, const float *ref, size_t n, size_t row, size_t width, double limit)
{
    double diff = 0, size = 0;
    for (size_t i = 0; i < n * row; i++)
        if (i % row < width) {
            diff += ((double)y[i] - (double)ref[i]) * ((double)y[i] - (double)ref[i]);
            size += (double)ref[i] * (double)ref[i];
        }
    if (!(sqrt(diff / size) <= limit))
        fail_msg("%s: relative error %g, at most %g expected", what, sqrt(diff / size), limit);
}

/* ---- one matrix */

struct matrix {
    struct weight host, packed;
};
static struct matrix matrix_make(int rows, int cols)
{
    const size_t bytes = pack_bytes(WEIGHT_INT4, rows, cols);
    struct matrix m = {.host = make(WEIGHT_INT4, rows, cols)};
    char *all = calloc(1, bytes);
    assert_true(pack_matrix(&m.host, all));
    m.packed = packed_view(WEIGHT_INT4, rows, cols, upload(all, bytes));
    free(all);
    return m;
}
static void matrix_free(struct matrix *m)
{
    cuda->free(cuda, (void *)m->packed.data);
    rand_weight_free(&m->host);
}

/* Returns the GPU's y; the product runs twice, the second time with the copy of x that the first one left. */
static float *product(const struct matrix *m, const float *x, int n, const struct int8_apart *apart, const float *y0)
{
    const size_t bytes = (size_t)n * (size_t)m->host.rows * sizeof(float);
    float *dx = upload(x, (size_t)n * (size_t)m->host.cols * sizeof(float)), *dy = y0 ? upload(y0, bytes) : poisoned(bytes), *dz = poisoned(bytes);
    RUN(cuda, linear_int4, .l = {.y = dy, .x = dx, .w = m->packed, .n_tokens = n, .add = y0, .int8 = apart});
    RUN(cuda, linear_int4, .l = {.y = dz, .x = dx, .w = m->packed, .n_tokens = n, .int8 = apart});
    float *y = downloaded(dy, bytes), *z = downloaded(dz, bytes);
    if (!y0)
        assert_memory_equal(y, z, bytes);
    cuda->free(cuda, dx), cuda->free(cuda, dy), cuda->free(cuda, dz);
    free(z);
    return y;
}

static void check_product(int rows, int cols, int n, int n_apart, bool add)
{
    char what[100];
    snprintf(what, sizeof what, "[%d, %d], %d tokens, %d columns apart", rows, cols, n, n_apart);
    const size_t N = (size_t)n * (size_t)rows;
    struct matrix m = matrix_make(rows, cols);
    float *x = rand_array((size_t)n * (size_t)cols, 1), *y0 = rand_array(N, 1), *ref = malloc(N * sizeof *ref);
    const struct int8_apart apart = apart_of(n_apart, x, n, cols);
    memcpy(ref, y0, N * sizeof *ref);
    RUN(cpu, linear_int4, .l = {.y = ref, .x = x, .w = m.host, .n_tokens = n, .add = add, .int8 = n > GEMM_FINE ? &apart : NULL});
    float *y = product(&m, x, n, &apart, add ? y0 : NULL);
    compare(what, y, ref, (size_t)n, (size_t)rows, (size_t)rows, n <= GEMM_FINE ? CLOSE_EXACT : n_apart ? CLOSE_APART : CLOSE);
    matrix_free(&m);
    free(x), free(y0), free(ref), free(y);
}

static void test_int8__products_agree_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int rows, cols, n, apart; bool add; } cases[] = {
        {1024, 3072, 130, 0, false}, {1024, 3072, 257, 5, true},   {512, 3072, 1000, 32, false}, {8, 128, 129, 0, false},  {264, 640, 200, 1, true},
        {136, 256, 333, 16, false},  {72, 384, 1111, 17, false},   {3072, 1024, 300, 0, true},   {8200, 128, 2048, 3, false},
        {12288, 3072, 140, 2, false}, {16384, 256, 1030, 0, false}, {1000, 8192, 150, 31, false}, {520, 128, 131, 32, true},
        {512, 3072, 128, 4, false},   {264, 640, 7, 2, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_product(cases[i].rows, cases[i].cols, cases[i].n, cases[i].apart, cases[i].add);
}

static void test_int8__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    enum { ROWS = 200, COLS = 640, MOST = 2000 };
    static const int few[] = {GEMM_FINE + 1, 200, 1999};
    struct matrix m = matrix_make(ROWS, COLS);
    float *x = rand_array((size_t)MOST * COLS, 1);
    const struct int8_apart apart = apart_of(3, x, MOST, COLS);
    float *all = product(&m, x, MOST, &apart, NULL);
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        const size_t n = (size_t)few[i], from = MOST - n;
        float *y = product(&m, x + from * COLS, few[i], &apart, NULL);
        assert_memory_equal(y, all + from * ROWS, n * ROWS * sizeof *y);
        free(y);
    }
    matrix_free(&m);
    free(x), free(all);
}

static void test_int8__rows_of_any_size_and_no_numbers_stay_by_themselves(void **state)
{
    (void)state;
    need_gpu();
    enum { ROWS = 64, COLS = 256, N = 140 };
    struct matrix m = matrix_make(ROWS, COLS);
    const struct int8_apart none = {0};
    float *x = rand_array((size_t)N * COLS, 1), *ref = malloc((size_t)N * ROWS * sizeof *ref);
    for (int i = 0; i < COLS; i++) {
        x[3 * COLS + i] = 0;
        x[5 * COLS + i] *= 1e-30f;
        x[7 * COLS + i] *= 1e25f;
    }
    RUN(cpu, linear_int4, .l = {.y = ref, .x = x, .w = m.host, .n_tokens = N, .int8 = &none});
    x[9 * COLS + 130] = NAN;
    x[11 * COLS + 7] = INFINITY;
    float *y = product(&m, x, N, &none, NULL);
    for (int t = 0; t < N; t++)
        for (int i = 0; i < ROWS; i++)
            assert_true(t == 9 || t == 11 ? isnan(y[t * ROWS + i]) : isfinite(y[t * ROWS + i]));
    for (int t = 0; t < N; t++)
        if (t == 3)
            for (int i = 0; i < ROWS; i++)
                assert_true(y[t * ROWS + i] == 0);
        else if (t != 9 && t != 11)
            compare("a row", y + t * ROWS, ref + t * ROWS, 1, ROWS, ROWS, 5e-6);
    matrix_free(&m);
    free(x), free(ref), free(y);
}

/* A norm that leaves rows in eight bits beside those in fp16: products have the same bits as of rows that they make themselves. */
static void check_norm(int cols, int n, int n_apart, bool own_form)
{
    enum { ROWS = 264 };
    const size_t bytes = (size_t)n * (size_t)cols * sizeof(float), out = (size_t)n * ROWS * sizeof(float);
    struct matrix m = matrix_make(ROWS, cols);
    float *x = rand_array((size_t)n * (size_t)cols, 3), *w = rand_array((size_t)cols, 0.3f);
    const struct int8_apart apart = apart_of(n_apart, w, 1, cols);
    float *dx = upload(x, bytes), *dw = upload(w, (size_t)cols * sizeof *w), *h = poisoned(bytes), *copy = poisoned(bytes), *y[4], *got[4];
    for (int i = 0; i < 4; i++)
        y[i] = poisoned(out);           /* here, since the queue then forgets copies */
    RUN(cuda, rmsnorm, .y = h, .x = dx, .w = dw, .n_rows = n, .dim = cols, .eps = 1e-6f);
    cuda->copy(cuda, copy, h, bytes);
    RUN(cuda, linear_int4, .l = {.y = y[0], .x = copy, .w = m.packed, .n_tokens = n, .int8 = &apart});
    RUN(cuda, linear_int4, .l = {.y = y[1], .x = copy, .w = m.packed, .n_tokens = n});
    RUN(cuda, rmsnorm, .y = h, .x = dx, .w = dw, .n_rows = n, .dim = cols, .eps = 1e-6f, .int8 = &apart, .own_form = own_form);
    RUN(cuda, linear_int4, .l = {.y = y[2], .x = h, .w = m.packed, .n_tokens = n, .int8 = &apart});
    RUN(cuda, linear_int4, .l = {.y = y[3], .x = h, .w = m.packed, .n_tokens = n});
    for (int i = 0; i < 4; i++)
        got[i] = downloaded(y[i], out);
    assert_memory_equal(got[2], got[0], out);
    assert_memory_equal(got[3], got[1], out);
    assert_true(n <= GEMM_FINE || memcmp(got[0], got[1], out));
    for (int i = 0; i < 4; i++)
        cuda->free(cuda, y[i]), free(got[i]);
    cuda->free(cuda, dx), cuda->free(cuda, dw), cuda->free(cuda, h), cuda->free(cuda, copy);
    matrix_free(&m);
    free(x), free(w);
}

static void test_int8__a_norm_leaves_its_rows_to_products_of_both_kinds(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int cols, n, apart; bool own; } cases[] = {
        {3072, 200, 0, true}, {3072, 129, 32, true}, {640, 1000, 5, false}, {1024, 300, 1, true}, {2048, 140, 17, false}, {3072, 100, 4, true},
        {256, 150, 3, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_norm(cases[i].cols, cases[i].n, cases[i].apart, cases[i].own && cases[i].cols > 512);
}

/* ---- experts */

/* Rows of n tokens, and which expert takes which. */
struct routed {
    const float   *x;
    const int32_t *start, *slots;
    int            n, k, inter_max;
};
/* y = down of h, which up leaves.  own: h is between them alone. */
static void run_experts(struct dev *d, const struct expert_weights *w, const struct mixture *m, const struct routed *r, float *h, float *y,
                        const struct int8_apart *apart, bool own)
{
    const int E = m->n_experts;
    RUN(d, experts_up, .h = h, .x = r->x, .experts = w, .shared = &w[E], .start = r->start, .slots = r->slots, .n_tokens = r->n, .n_experts = E,
        .top_k = r->k, .inter_max = r->inter_max, .norms = m->norms, .int8 = apart, .own_form = own);
    RUN(d, experts_down, .d = y, .h = h, .experts = w, .shared = &w[E], .start = r->start, .slots = r->slots, .n_tokens = r->n,
        .n_experts = E, .top_k = r->k, .inter_max = r->inter_max, .own_input = own);
}

/* Distinct experts for every token: neighbours, from anywhere, or for a `crowd` nearly always from the first on. */
static int32_t *choices(int n, int n_experts, int k, bool crowd)
{
    int32_t *e = malloc((size_t)(n * k) * sizeof *e);
    for (int t = 0; t < n; t++) {
        const int from = crowd && t % 9 ? 0 : (int)(rand_u64() >> 33) % n_experts;
        for (int j = 0; j < k; j++)
            e[t * k + j] = (from + j) % n_experts;
    }
    return e;
}

static void check_experts(const struct mixture *m, int n, int k, int n_apart, bool crowd)
{
    char what[100];
    const int E = m->n_experts, inter = m->host[0].gate.rows, shared = m->host[E].gate.rows, most = inter > shared ? inter : shared;
    const size_t H = (size_t)m->hidden, slots = (size_t)n * (size_t)(k + 1), h_bytes = slots * (size_t)most * sizeof(float);
    const size_t d_bytes = slots * H * sizeof(float), all = (size_t)(k + 1) * (size_t)most;
    int32_t *choice = choices(n, E, k, crowd), *start = malloc((size_t)(E + 2) * sizeof *start), *order = malloc(slots * sizeof *order);
    float *x = rand_array((size_t)n * H, 1), *h = calloc(1, h_bytes), *d = malloc(d_bytes);
    const struct int8_apart apart = apart_of(n_apart, x, n, m->hidden);
    RUN(cpu, moe_group, .start = start, .slots = order, .experts = choice, .n_tokens = n, .n_experts = E, .top_k = k);
    run_experts(cpu, m->host, m, &(struct routed){x, start, order, n, k, most}, h, d, &apart, false);
    const struct routed r = {upload(x, (size_t)n * H * sizeof *x), upload(start, (size_t)(E + 2) * sizeof *start),
                             upload(order, slots * sizeof *order), n, k, most};
    float *dh = poisoned(h_bytes), *dd = poisoned(d_bytes), *own = poisoned(d_bytes);
    run_experts(cuda, m->view, m, &r, dh, dd, &apart, false);
    float *gh = downloaded(dh, h_bytes), *gd = downloaded(dd, d_bytes);
    run_experts(cuda, m->view, m, &r, dh, own, &apart, true);
    float *go = downloaded(own, d_bytes);
    snprintf(what, sizeof what, "%d experts, %d tokens, %d columns apart: h, routed", E, n, n_apart);
    for (int j = 0; j < k; j++)
        compare(what, gh + (size_t)j * (size_t)most, h + (size_t)j * (size_t)most, (size_t)n, all, (size_t)inter,
                2 * (n_apart ? CLOSE_APART : CLOSE));
    compare("h, shared", gh + (size_t)k * (size_t)most, h + (size_t)k * (size_t)most, (size_t)n, all, (size_t)shared, 9e-4);
    what[strlen(what) - 9] = 'd';
    for (int j = 0; j <= k; j++) {
        compare(j < k ? what : "d, shared", gd + (size_t)j * H, d + (size_t)j * H, (size_t)n, (size_t)(k + 1) * H, H, 1e-3);
        compare("d, h between them alone", go + (size_t)j * H, d + (size_t)j * H, (size_t)n, (size_t)(k + 1) * H, H, 1e-3);
    }
    const void *on_gpu[] = {r.x, r.start, r.slots, dh, dd, own};
    for (size_t i = 0; i < sizeof on_gpu / sizeof *on_gpu; i++)
        cuda->free(cuda, (void *)on_gpu[i]);
    free(choice), free(start), free(order), free(x), free(h), free(d), free(gh), free(gd), free(go);
}

static void test_int8__experts_agree_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const int tokens[] = {GEMM_FINE + 1, 150, 333, 520, 1100};
    struct mixture m = mixture_make(WEIGHT_INT4, WEIGHT_FP8, 16, 384, 256, 128);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        check_experts(&m, tokens[i], 4, i % 3 ? (int)i * 5 : 0, i % 2);
    mixture_free(&m);
    m = mixture_make(WEIGHT_INT4, WEIGHT_INT4, 8, 256, 128, 256);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        check_experts(&m, tokens[i], 3, i % 2 ? 32 : 0, i % 2 == 0);
    mixture_free(&m);
    m = mixture_make(WEIGHT_INT4, WEIGHT_DENSE, 4, 3072, 1024, 1024);
    check_experts(&m, 140, 2, 0, false);
    check_experts(&m, 200, 2, 9, false);
    mixture_free(&m);
}

/* Rows between the two products have factors from a bound that holds before rounding. */
enum kind { PLAIN, TINY, LARGE, OUTLIERS, NOT_A_NUMBER, INFINITE, ZERO, LENGTHENED, KINDS };
static bool poisons(enum kind k) { return k == NOT_A_NUMBER || k == INFINITE; }
static void change_row(float *x, int cols, enum kind k)
{
    for (int i = 0; i < cols; i++) {
        if (k == LENGTHENED)            /* a whole step, and nearly half a step, which becomes one: longer than any other row becomes */
            x[i] = (x[i] < 0 ? -1.0f : 1.0f) * (i % INT8_GROUP ? 11.5001f / 127 : 1);
        x[i] *= k == TINY ? 1e-12f : k == LARGE ? 1e10f : k == OUTLIERS && i % 100 == 7 ? 1000 : k == ZERO ? 0 : 1;
    }
    if (poisons(k))
        x[cols / 3] = k == INFINITE ? INFINITY : NAN;
}

static void test_int8__rows_of_any_size_reach_the_second_product(void **state)
{
    (void)state;
    need_gpu();
    enum { E = 16, H = 384, I = 256, N = 500, K = 4, SLOTS = N * (K + 1) };
    const size_t bytes = (size_t)SLOTS * H * sizeof(float);
    struct mixture m = mixture_make(WEIGHT_INT4, WEIGHT_FP8, E, H, I, I);
    int32_t *choice = choices(N, E, K, false), start[E + 2], *order = malloc(SLOTS * sizeof *order);
    float *x = rand_array((size_t)N * H, 1), *got[2];
    const struct int8_apart apart = {.n = 1, .column = {200}};
    for (int t = 0; t < N; t++)
        change_row(x + (size_t)t * H, H, (enum kind)(t % KINDS));
    RUN(cpu, moe_group, .start = start, .slots = order, .experts = choice, .n_tokens = N, .n_experts = E, .top_k = K);
    const struct routed r = {upload(x, (size_t)N * H * sizeof *x), upload(start, sizeof start), upload(order, SLOTS * sizeof *order), N, K, I};
    for (int own = 0; own < 2; own++) {
        float *h = poisoned((size_t)SLOTS * I * sizeof *h), *d = poisoned(bytes);
        run_experts(cuda, m.view, &m, &r, h, d, &apart, own);
        got[own] = downloaded(d, bytes);
        cuda->free(cuda, h), cuda->free(cuda, d);
    }
    for (int s = 0; s < SLOTS; s++) {
        const enum kind k = (enum kind)(s / (K + 1) % KINDS);
        const float *fp32 = got[0] + (size_t)s * H, *own = got[1] + (size_t)s * H;
        for (int i = 0; i < H; i++)
            if (isfinite(own[i]) == poisons(k) || (k == ZERO && own[i] != 0))
                fail_msg("slot %d, a row of kind %d: outcome %d is %g", s, (int)k, i, (double)own[i]);
        if (!poisons(k) && k != ZERO)
            compare("a row between the products alone", own, fp32, 1, H, H, 1e-5);
    }
    cuda->free(cuda, (void *)r.x), cuda->free(cuda, (void *)r.start), cuda->free(cuda, (void *)r.slots);
    mixture_free(&m);
    free(choice), free(order), free(x), free(got[0]), free(got[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8__products_agree_with_the_definition),
        cmocka_unit_test(test_int8__a_row_has_the_same_bits_in_any_company),
        cmocka_unit_test(test_int8__rows_of_any_size_and_no_numbers_stay_by_themselves),
        cmocka_unit_test(test_int8__a_norm_leaves_its_rows_to_products_of_both_kinds),
        cmocka_unit_test(test_int8__experts_agree_with_the_definition),
        cmocka_unit_test(test_int8__rows_of_any_size_reach_the_second_product),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}

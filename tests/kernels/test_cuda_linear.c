/* linear_* on the GPU against their definition.  Activations and scaled weights are rounded to fp16 there, which puts each product
 * off by about 3e-4 of it, up or down.  An output is then off by about 3e-4 of the root of its products' sum of squares, however
 * much of the sum itself cancels: errors are measured in that.  In short chunks activations have 22 bits and weights are exact: what is
 * left is the sums in fp32, about 2e-7. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "kernels/cpu/vec.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "tests/kernels/close.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

/* Root mean square over all outputs, and of one output; by the halves of an activation */
static const struct { double rms, most; } tolerance[] = {[1] = {6e-4, 2.5e-3}, [2] = {3e-6, 2e-5}};

static struct weight make(enum weight_format format, int rows, int cols)
{
    return rand_weight(format, rows, cols, (struct spread){.dense = 1, .int4 = 0.1f, .fp8 = 0.1f, .int8 = 0.1f});
}

/* The squares of its elements. */
static struct weight squares(const struct weight *w)
{
    size_t R = (size_t)w->rows, C = (size_t)w->cols;
    float *v = malloc(R * C * sizeof *v);
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++) {
            float f, s = 1;
            if (w->format == WEIGHT_DENSE) {
                f = bf16_f32(((const uint16_t *)w->data)[r * C + c]);
            } else if (w->format == WEIGHT_INT4) {
                f = (float)(((const uint32_t *)w->data)[c / 8 * R + r] >> 4 * (c % 8) & 15) - 8;
                s = f16_f32(((const uint16_t *)w->scale)[c / 128 * R + r]);
            } else if (w->format == WEIGHT_FP8) {
                f = fp8_f32(((const uint8_t *)w->data)[r * C + c]);
                s = ((const float *)w->scale)[r / 128 * ((C + 127) / 128) + c / 128];
            } else {
                f = ((const int8_t *)w->data)[r * C + c];
                s = f16_f32(((const uint16_t *)w->scale)[r]);
            }
            v[r * C + c] = f * s * (f * s);
        }
    return (struct weight){.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = w->rows, .cols = w->cols, .data = v};
}

static struct weight pack(const struct weight *w)
{
    size_t bytes = pack_bytes(w->format, w->rows, w->cols);
    void *host = calloc(1, bytes);
    assert_true(pack_matrix(w, host));
    struct weight v = packed_view(w->format, w->rows, w->cols, upload(host, bytes));
    free(host);
    return v;
}

static void run(struct dev *d, float *y, const float *x, const struct weight *w, int n, bool add)
{
    struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n, .add = add};
    switch (w->format) {
    case WEIGHT_DENSE: RUN(d, linear_dense, .l = a); break;
    case WEIGHT_INT4:  RUN(d, linear_int4, .l = a); break;
    case WEIGHT_FP8:   RUN(d, linear_fp8, .l = a); break;
    default:           RUN(d, linear_int8, .l = a); break;
    }
}

/* The GPU's y, which starts as y0. */
static float *on_gpu(const float *y0, const float *x, const struct weight *packed, int n, bool add)
{
    size_t bytes = (size_t)n * (size_t)packed->rows * sizeof(float);
    float *dx = upload(x, (size_t)n * (size_t)packed->cols * sizeof(float)), *dy = upload(y0, bytes);
    run(cuda, dy, dx, packed, n, add);
    float *y = downloaded(dy, bytes);
    cuda->free(cuda, dx), cuda->free(cuda, dy);
    return y;
}

/* The sums of squares of the products behind each output. */
static float *product_squares(const float *x, const struct weight *w, int n)
{
    size_t cells = (size_t)n * (size_t)w->cols;
    struct weight sq = squares(w);
    float *xx = malloc(cells * sizeof *xx), *sum = malloc((size_t)n * (size_t)w->rows * sizeof *sum);
    for (size_t i = 0; i < cells; i++)
        xx[i] = x[i] * x[i];
    run(cpu, sum, xx, &sq, n, false);
    rand_weight_free(&sq);
    free(xx);
    return sum;
}

static void compare(const char *what, const float *y, const float *ref, const float *sum, size_t n, size_t row, int halves)
{
    const double rms_most = tolerance[halves].rms, most = tolerance[halves].most;
    double square = 0, max = 0;
    size_t bad = n;
    for (size_t i = 0; i < n; i++) {            /* 1e-4: for what was added to, and sums in fp32 */
        double off = fabs((double)y[i] - (double)ref[i]) / (sqrt((double)sum[i]) + 1e-4 * fabs((double)ref[i]) + 1e-30);
        square += off * off;
        if (!(off <= max))
            max = off;
        if (bad == n && !(off <= most))
            bad = i;
    }
    double rms = sqrt(square / (double)n);
    if (bad < n)
        fail_msg("%s: error %g of the products (greatest %g), first bad [%zu, %zu]: %g, expected %g, products %g", what, rms, max, bad / row,
                 bad % row, (double)y[bad], (double)ref[bad], sqrt((double)sum[bad]));
    if (!(rms <= rms_most))
        fail_msg("%s: error %g of the products (greatest %g), expected %g", what, rms, max, rms_most);
}

static float *poison(size_t n)
{
    float *p = malloc(n * sizeof *p);
    memset(p, 0xff, n * sizeof *p);     /* NaN */
    return p;
}

static void check(enum weight_format format, int rows, int cols, int n, bool add)
{
    char what[128];
    snprintf(what, sizeof what, "format %d, [%d, %d], %d tokens%s", (int)format, rows, cols, n, add ? ", added" : "");
    size_t N = (size_t)n * (size_t)rows;
    struct weight w = make(format, rows, cols), packed = pack(&w);
    float *x = rand_array((size_t)n * (size_t)cols, 1), *y0 = add ? rand_array(N, 1) : poison(N), *ref = malloc(N * sizeof *ref);
    memcpy(ref, y0, N * sizeof *ref);
    run(cpu, ref, x, &w, n, add);
    float *y = on_gpu(y0, x, &packed, n, add), *again = on_gpu(y0, x, &packed, n, add);
    float *sum = product_squares(x, &w, n);
    compare(what, y, ref, sum, N, (size_t)rows, gemm_halves(n));
    assert_memory_equal(y, again, N * sizeof *y);
    cuda->free(cuda, (void *)packed.data);
    rand_weight_free(&w);
    free(x), free(y0), free(ref), free(sum), free(y), free(again);
}

static const enum weight_format formats[] = {WEIGHT_DENSE, WEIGHT_INT4, WEIGHT_FP8, WEIGHT_INT8};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static void test_linear__agrees_with_the_definition_at_real_shapes(void **state)
{
    (void)state;
    need_gpu();
    static const struct { enum weight_format f; int rows, cols, n; } shapes[] = {
        {WEIGHT_DENSE, 1, 3072, 700}, {WEIGHT_DENSE, 64, 3072, 300}, {WEIGHT_DENSE, 256, 3072, 257}, {WEIGHT_INT4, 1024, 3072, 33},
        {WEIGHT_INT4, 3072, 8192, 5}, {WEIGHT_FP8, 1024, 3072, 64},  {WEIGHT_FP8, 2048, 512, 100},   {WEIGHT_INT8, 2048, 2048, 17},
        {WEIGHT_INT4, 128, 128, 16},  {WEIGHT_DENSE, 512, 256, 40},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(shapes[i].f, shapes[i].rows, shapes[i].cols, shapes[i].n, i % 2);
}

/* 8200 rows: up to 32 tokens take the small tile with two halves, 64 the wide one; 65 the small one, 300 the medium one, 2048 the large
 * one. */
static void test_linear__every_tile_shape_agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const int tokens[] = {1, 31, 64, 65, 300, 2048};
    for (int f = 0; f < N_FORMATS; f++)
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
            check(formats[f], 8200, i == 1 || i == 2 ? 384 : 128, tokens[i], i == 1);
}

static void test_linear__short_chunks_are_more_precise_up_to_the_limit(void **state)
{
    (void)state;
    need_gpu();
    static const int tokens[] = {1, 7, 8, 9, 33, GEMM_FINE - 1, GEMM_FINE, GEMM_FINE + 1, 100};
    static const struct { enum weight_format f; int rows, cols; } shapes[] = {
        {WEIGHT_DENSE, 263, 203}, {WEIGHT_DENSE, 300, 3072}, {WEIGHT_INT4, 72, 640}, {WEIGHT_INT4, 136, 8192},
        {WEIGHT_FP8, 129, 200},   {WEIGHT_FP8, 200, 3072},   {WEIGHT_INT8, 7, 77},   {WEIGHT_INT8, 130, 3072},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
            check(shapes[s].f, shapes[s].rows, shapes[s].cols, tokens[i], (s + i) % 2);
}

static void test_linear__awkward_shapes_have_no_garbage_at_their_edges(void **state)
{
    (void)state;
    need_gpu();
    static const int tokens[] = {1, 2, 5, 33, 130};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        check(WEIGHT_DENSE, 257, 100, tokens[i], false);
        check(WEIGHT_DENSE, 31, 203, tokens[i], true);
        check(WEIGHT_INT4, 8, 128, tokens[i], false);
        check(WEIGHT_INT4, 264, 640, tokens[i], true);
        check(WEIGHT_FP8, 129, 200, tokens[i], false);
        check(WEIGHT_INT8, 7, 77, tokens[i], true);
        check(WEIGHT_INT8, 513, 256, tokens[i], false);
    }
}

static void test_linear__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    enum { ROWS = 8200, COLS = 896, MOST = 2048 };
    static const struct { int all, few[3]; } companies[] = {
        {GEMM_FINE, {1, 7, GEMM_FINE / 2 + 1}}, {MOST, {GEMM_FINE + 1, GEMM_FINE + 236, 1100}},
    };
    for (int f = 0; f < N_FORMATS; f++) {
        struct weight w = make(formats[f], ROWS, COLS), packed = pack(&w);
        float *x = rand_array((size_t)MOST * COLS, 1), *y0 = poison((size_t)MOST * ROWS);
        for (size_t c = 0; c < sizeof companies / sizeof *companies; c++) {
            float *all = on_gpu(y0, x, &packed, companies[c].all, false);
            for (int i = 0; i < 3; i++) {
                int n = companies[c].few[i];
                size_t from = (size_t)(companies[c].all - n);
                float *few = on_gpu(y0, x + from * COLS, &packed, n, false);
                assert_memory_equal(few, all + from * ROWS, (size_t)n * ROWS * sizeof *few);
                free(few);
            }
            free(all);
        }
        cuda->free(cuda, (void *)packed.data);
        rand_weight_free(&w);
        free(x), free(y0);
    }
}

/* Dense, up to 256 rows: the router and what gates.  There 16 bits of the activations count.  513 tokens and more take other tiles. */
static void test_linear__narrow_matrices_are_more_precise_and_as_steady(void **state)
{
    (void)state;
    need_gpu();
    enum { MOST = 700 };
    static const struct { int rows, cols; } shapes[] = {{1, 3072}, {64, 2048}, {256, 3072}, {40, 200}, {100, 1000}, {16, 128}};
    static const int tokens[] = {1, 7, 33, 512, 513};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t rows = (size_t)shapes[s].rows, cols = (size_t)shapes[s].cols, n = MOST * rows;
        struct weight w = make(WEIGHT_DENSE, shapes[s].rows, shapes[s].cols), packed = pack(&w);
        float *x = rand_array(MOST * cols, 1), *y0 = rand_array(n, 1), *ref = malloc(n * sizeof *ref), *all = on_gpu(y0, x, &packed, MOST, true);
        memcpy(ref, y0, n * sizeof *ref);
        run(cpu, ref, x, &w, MOST, true);
        double diff = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            diff += ((double)all[i] - (double)ref[i]) * ((double)all[i] - (double)ref[i]);
            size += (double)ref[i] * (double)ref[i];
        }
        if (!(sqrt(diff / size) <= 1e-5))
            fail_msg("[%zu, %zu]: relative error %g", rows, cols, sqrt(diff / size));
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            size_t from = MOST - (size_t)tokens[i];
            float *few = on_gpu(y0 + from * rows, x + from * cols, &packed, tokens[i], true);
            assert_memory_equal(few, all + from * rows, (size_t)tokens[i] * rows * sizeof *few);
            free(few);
        }
        cuda->free(cuda, (void *)packed.data);
        rand_weight_free(&w);
        free(x), free(y0), free(ref), free(all);
    }
}

/* Two narrow matrices on both devices, and the GPU's outputs. */
struct pair {
    struct weight host[2], packed[2];
    float *x, *y[2];                    /* device memory */
    int    n;
};

static void pair_run(const struct pair *p, bool together)
{
    if (together)
        RUN(cuda, linear_pair, .y = {p->y[0], p->y[1]}, .x = p->x, .w = {p->packed[0], p->packed[1]}, .n_tokens = p->n);
    else
        for (int m = 0; m < 2; m++)
            run(cuda, p->y[m], p->x, &p->packed[m], p->n, false);
}

static void pair_figures(const struct pair *p)
{
    enum { TIMES = 50 };
    double us[2] = {INFINITY, INFINITY};
    for (int i = 0; i < 6; i++) {
        const int64_t start = clock_ns();
        for (int k = 0; k < TIMES; k++)
            pair_run(p, i % 2);
        finish();
        us[i % 2] = fmin(us[i % 2], clock_ms_since(start) * 1e3 / TIMES);
    }
    print_message("%d and %d rows of %d columns, %d tokens: %.1f us one after the other, %.1f us together\n", p->host[0].rows, p->host[1].rows,
                  p->host[0].cols, p->n, us[0], us[1]);
}

/* Compares outputs of the pair with those of each matrix alone, and with the definition. */
static void check_pair(struct pair *p, const float *x)
{
    float *both[2];
    size_t bytes[2];
    for (int m = 0; m < 2; m++) {
        bytes[m] = (size_t)p->n * (size_t)p->host[m].rows * sizeof(float);
        p->y[m] = poisoned(bytes[m]);
    }
    pair_run(p, true);
    for (int m = 0; m < 2; m++)
        both[m] = downloaded(p->y[m], bytes[m]);
    pair_run(p, false);
    float *ref[2] = {malloc(bytes[0]), malloc(bytes[1])};
    const int n = p->n < 600 ? p->n : 0;        /* more take the definition too long */
    RUN(cpu, linear_pair, .y = {ref[0], ref[1]}, .x = x, .w = {p->host[0], p->host[1]}, .n_tokens = n);
    for (int m = 0; m < 2; m++) {
        float *alone = downloaded(p->y[m], bytes[m]);
        assert_memory_equal(both[m], alone, bytes[m]);
        const double off = distance(both[m], ref[m], (size_t)n * (size_t)p->host[m].rows);
        if (!(off <= 1e-5))
            fail_msg("%d of %d and %d rows, %d tokens: relative error %g", p->host[m].rows, p->host[0].rows, p->host[1].rows, n, off);
        free(alone), free(both[m]), free(ref[m]);
    }
    if (p->n == 4096 && getenv("FIGURES"))
        pair_figures(p);
    cuda->free(cuda, p->y[0]), cuda->free(cuda, p->y[1]);
}

static void test_linear__a_pair_has_the_bits_of_both_alone(void **state)
{
    (void)state;
    need_gpu();
    enum { MOST = 4096 };
    static const struct { int rows[2], cols; } shapes[] = {{{64, 64}, 3072}, {{256, 1}, 3072}, {{255, 256}, 1000}, {{1, 40}, 200}, {{17, 16}, 8}};
    static const int tokens[] = {1, 33, 129, 513, MOST};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const size_t cells = (size_t)MOST * (size_t)shapes[s].cols;
        struct pair p = {.n = 0};
        float *x = rand_array(cells, 1);
        p.x = upload(x, cells * sizeof *x);
        for (int m = 0; m < 2; m++) {
            p.host[m] = make(WEIGHT_DENSE, shapes[s].rows[m], shapes[s].cols);
            p.packed[m] = pack(&p.host[m]);
        }
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            p.n = tokens[i];
            check_pair(&p, x);
        }
        for (int m = 0; m < 2; m++) {
            rand_weight_free(&p.host[m]);
            cuda->free(cuda, (void *)p.packed[m].data);
        }
        cuda->free(cuda, p.x);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear__agrees_with_the_definition_at_real_shapes),
        cmocka_unit_test(test_linear__every_tile_shape_agrees_with_the_definition),
        cmocka_unit_test(test_linear__short_chunks_are_more_precise_up_to_the_limit),
        cmocka_unit_test(test_linear__awkward_shapes_have_no_garbage_at_their_edges),
        cmocka_unit_test(test_linear__a_row_has_the_same_bits_in_any_company),
        cmocka_unit_test(test_linear__narrow_matrices_are_more_precise_and_as_steady),
        cmocka_unit_test(test_linear__a_pair_has_the_bits_of_both_alone),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}

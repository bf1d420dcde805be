/* Every weight format against its formula in double, at real and awkward shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "backend/dev.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops.h"
#include "tests/kernels/rand.h"

static struct dev *dev;

/* A random matrix of one format, and its values in double by the format's definition. */
static struct weight make(enum weight_format format, enum dtype dtype, enum dtype scale_dtype, int rows, int cols, double *value)
{
    struct weight w = {.format = format, .dtype = dtype, .scale_dtype = scale_dtype, .rows = rows, .cols = cols};
    size_t R = (size_t)rows, C = (size_t)cols, n = R * C;
    if (format == WEIGHT_DENSE) {
        float *f = rand_array(n, 1);
        uint16_t *h = malloc(n * 2);
        for (size_t i = 0; i < n; i++) {
            h[i] = dtype == DT_F16 ? f32_f16(f[i]) : f32_bf16(f[i]);
            value[i] = dtype == DT_F32 ? (double)f[i] : (double)(dtype == DT_F16 ? f16_f32(h[i]) : bf16_f32(h[i]));
        }
        w.data = dtype == DT_F32 ? (void *)f : (void *)h;
        free(dtype == DT_F32 ? (void *)h : (void *)f);
    } else if (format == WEIGHT_INT4) {
        uint32_t *q = calloc(C / 8 * R, 4), *z = calloc(C / 128 * (R / 8), 4);
        uint16_t *s = malloc(C / 128 * R * 2);
        for (size_t i = 0; i < C / 128 * (R / 8); i++)
            z[i] = (uint32_t)rand_u64();
        for (size_t i = 0; i < C / 128 * R; i++)
            s[i] = f32_f16(rand_normal() * 0.1f);
        for (size_t r = 0; r < R; r++)
            for (size_t k = 0; k < C; k++) {
                uint32_t nibble = (uint32_t)(rand_u64() >> 60), zero = (z[k / 128 * (R / 8) + r / 8] >> 4 * (r % 8) & 15) + 1;
                q[k / 8 * R + r] |= nibble << 4 * (k % 8);
                value[r * C + k] = ((double)nibble - zero) * (double)f16_f32(s[k / 128 * R + r]);
            }
        w.data = q, w.zeros = z, w.scale = s;
    } else if (format == WEIGHT_FP8) {
        uint8_t *b = malloc(n);
        size_t bc = (C + 127) / 128, bn = (R + 127) / 128 * bc;
        float *f = rand_array(bn, 0.1f);
        uint16_t *h = malloc(bn * 2);
        for (size_t i = 0; i < bn; i++) {
            h[i] = scale_dtype == DT_F16 ? f32_f16(f[i]) : f32_bf16(f[i]);
            if (scale_dtype != DT_F32)
                f[i] = scale_dtype == DT_F16 ? f16_f32(h[i]) : bf16_f32(h[i]);
        }
        for (size_t i = 0; i < n; i++) {
            do
                b[i] = (uint8_t)rand_u64();
            while ((b[i] & 0x7f) == 0x7f);
            int e = b[i] >> 3 & 15, m = b[i] & 7;
            double v = e ? ldexp(1 + m / 8.0, e - 7) : ldexp(m / 8.0, -6);
            value[i] = (b[i] & 0x80 ? -v : v) * (double)f[i / C / 128 * bc + i % C / 128];
        }
        w.data = b;
        w.scale = scale_dtype == DT_F32 ? (void *)f : (void *)h;
        free(scale_dtype == DT_F32 ? (void *)h : (void *)f);
    } else {
        int8_t *b = malloc(n);
        uint16_t *s = malloc(R * 2);
        for (size_t r = 0; r < R; r++)
            s[r] = f32_f16(rand_unit() * 0.1f);
        for (size_t i = 0; i < n; i++) {
            b[i] = (int8_t)((int)(rand_u64() % 255) - 127);
            value[i] = b[i] * (double)f16_f32(s[i / C]);
        }
        w.data = b, w.scale = s;
    }
    return w;
}

static void run_args(const struct linear_args *a)
{
    switch (a->w.format) {
    case WEIGHT_DENSE: RUN(dev, linear_dense, .l = *a); break;
    case WEIGHT_INT4:  RUN(dev, linear_int4, .l = *a); break;
    case WEIGHT_FP8:   RUN(dev, linear_fp8, .l = *a); break;
    default:           RUN(dev, linear_int8, .l = *a); break;
    }
}
static void run(float *y, const float *x, const struct weight *w, int n, bool add)
{
    run_args(&(struct linear_args){.y = y, .x = x, .w = *w, .n_tokens = n, .add = add});
}

struct shape { enum weight_format format; enum dtype dtype, scale; int rows, cols; };
static const struct shape shapes[] = {
    {WEIGHT_DENSE, DT_BF16, DT_NONE, 1, 3072},      {WEIGHT_DENSE, DT_BF16, DT_NONE, 257, 100}, {WEIGHT_DENSE, DT_F32, DT_NONE, 16, 131},
    {WEIGHT_DENSE, DT_F16, DT_NONE, 31, 64},        {WEIGHT_DENSE, DT_BF16, DT_NONE, 256, 2048},
    {WEIGHT_INT4, DT_I32, DT_F16, 8, 128},          {WEIGHT_INT4, DT_I32, DT_F16, 1024, 3072},  {WEIGHT_INT4, DT_I32, DT_F16, 264, 384},
    {WEIGHT_FP8, DT_F8_E4M3, DT_BF16, 1024, 256},   {WEIGHT_FP8, DT_F8_E4M3, DT_F32, 129, 200}, {WEIGHT_FP8, DT_F8_E4M3, DT_F16, 128, 128},
    {WEIGHT_INT8, DT_I8, DT_F16, 513, 256},         {WEIGHT_INT8, DT_I8, DT_F16, 7, 77},
};

static void test_linear__agrees_with_the_formula_in_double(void **state)
{
    (void)state;
    static const int tokens[] = {1, 2, 5, 33};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            int n = tokens[i];
            size_t R = (size_t)shapes[s].rows, C = (size_t)shapes[s].cols;
            double *value = malloc(R * C * sizeof *value);
            struct weight w = make(shapes[s].format, shapes[s].dtype, shapes[s].scale, shapes[s].rows, shapes[s].cols, value);
            float *x = rand_array((size_t)n * C, 1), *y = rand_array((size_t)n * R, 1), *y0 = malloc((size_t)n * R * sizeof *y0);
            memcpy(y0, y, (size_t)n * R * sizeof *y0);
            run(y, x, &w, n, i % 2);
            for (size_t t = 0; t < (size_t)n; t++)
                for (size_t r = 0; r < R; r++) {
                    double sum = i % 2 ? (double)y0[t * R + r] : 0, size = fabs(sum);
                    for (size_t k = 0; k < C; k++) {
                        sum += value[r * C + k] * (double)x[t * C + k];
                        size += fabs(value[r * C + k] * (double)x[t * C + k]);
                    }
                    if (!(fabs((double)y[t * R + r] - sum) <= size * 0x1p-20))
                        fail_msg("format %d, [%zu, %zu], token %zu of %d, row %zu: %g, expected %g", shapes[s].format, R, C, t, n, r,
                                 (double)y[t * R + r], sum);
                }
            free(value), free(x), free(y), free(y0);
            free((void *)w.data), free((void *)w.scale), free((void *)w.zeros);
        }
}

/* Returns up to INT8_APART columns of `cols`, ascending, each with a value in x that would drown its group. */
static struct int8_apart some_apart(float *x, int n, int cols, int every)
{
    struct int8_apart apart = {0};
    for (int k = every / 2; every && k < cols && apart.n < INT8_APART; k += every) {
        apart.column[apart.n++] = (int16_t)k;
        for (int t = 0; t < n; t++)
            x[(size_t)t * (size_t)cols + (size_t)k] *= 100;
    }
    return apart;
}

/* With sums of codes in integers. */
static void test_linear__int8_agrees_with_the_formula(void **state)
{
    (void)state;
    static const struct { int rows, cols, n, every; } cases[] = {{8, 128, 1, 0}, {264, 384, 5, 37}, {64, 3072, 33, 96}, {16, 1024, 4, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int n = cases[i].n, cols = cases[i].cols;
        const size_t R = (size_t)cases[i].rows, C = (size_t)cols;
        double *value = malloc(R * C * sizeof *value);
        struct weight w = make(WEIGHT_INT4, DT_I32, DT_F16, (int)R, cols, value);
        float *x = rand_array((size_t)n * C, 1), *y = rand_array((size_t)n * R, 1);
        const struct int8_apart apart = some_apart(x, n, cols, cases[i].every);
        memset(x, 0, INT8_GROUP * sizeof *x);           /* a group of zeros */
        x[C - 1] = 1e30f;                               /* one that drowns its group; apart or not */
        RUN(dev, linear_int4, .l = {.y = y, .x = x, .w = w, .n_tokens = n, .int8 = &apart});
        for (size_t t = 0; t < (size_t)n; t++) {
            int8_t code[INT8_COLS];
            float scale[INT8_COLS / INT8_GROUP];
            int8_codes(code, scale, x + t * C, cols, &apart);
            for (size_t r = 0; r < R; r++) {
                double sum = 0, size = 0;
                for (size_t g = 0; g < C / INT8_GROUP; g++) {
                    const double step = (double)f16_f32(((const uint16_t *)w.scale)[g * R + r]);
                    int32_t whole = 0;
                    for (size_t k = g * INT8_GROUP; k < (g + 1) * INT8_GROUP; k++) {
                        whole += code[k] * (step != 0 ? (int)lrint(value[r * C + k] / step) : 0);
                        size += fabs(value[r * C + k] * code[k] * (double)scale[g]);
                    }
                    sum += whole * step * (double)scale[g];
                }
                for (int a = 0; a < apart.n; a++) {
                    const size_t k = (size_t)apart.column[a];
                    const double v = (double)f16_f32(f32_f16(fminf(x[t * C + k], 65504)));
                    assert_int_equal(code[k], 0);
                    sum += value[r * C + k] * v;
                    size += fabs(value[r * C + k] * v);
                }
                if (!(fabs((double)y[t * R + r] - sum) <= size * 0x1p-20))
                    fail_msg("[%zu, %zu], token %zu of %d, row %zu: %g, expected %g", R, C, t, n, r, (double)y[t * R + r], sum);
            }
        }
        free(value), free(x), free(y), free((void *)w.data), free((void *)w.scale), free((void *)w.zeros);
    }
}

static void test_linear__int8_rounds_to_half_a_step_and_keeps_what_is_no_number(void **state)
{
    (void)state;
    enum { COLS = 300 };                                /* the last group is narrower */
    static const float awkward[] = {0, -0.0f, 1e-45f, 1e-38f, 3.4e38f, NAN, INFINITY};
    const struct int8_apart none = {0};
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++) {
        float *x = rand_array(COLS, 1), y[COLS];
        x[130] = awkward[i];
        int8_round(y, x, COLS, &none);
        for (int g = 0; g < COLS; g += INT8_GROUP) {
            float largest = 0;
            for (int k = g; k < COLS && k < g + INT8_GROUP; k++)
                largest = fmaxf(largest, fabsf(x[k]));
            for (int k = g; k < COLS && k < g + INT8_GROUP; k++)
                if (g == INT8_GROUP && !isfinite(awkward[i]))
                    assert_true(isnan(y[k]));
                else
                    assert_true(fabs((double)y[k] - (double)x[k]) <= (double)largest / 254 * 1.00001);
        }
        free(x);
    }
}

static void test_linear__columns_apart_are_those_far_above_the_median(void **state)
{
    (void)state;
    enum { COLS = 3072 };
    static float w[COLS], scratch[COLS];
    struct int8_apart apart;
    for (int large = 0; large <= 40; large += 20) {
        for (int k = 0; k < COLS; k++)
            w[k] = rand_unit() - 0.5f;
        for (int i = 0; i < large; i++)
            w[i * 70 + 3] = (float)(i % 2 ? 30 + i : -32 - i);
        int8_choose(&apart, w, scratch, COLS);
        assert_int_equal(apart.n, large < INT8_APART ? large : INT8_APART);
        for (int i = 0; i < apart.n; i++)               /* of forty, those with the smallest weights do not fit */
            assert_int_equal(apart.column[i], (i + large - apart.n) * 70 + 3);
    }
    memset(w, 0, sizeof w);
    w[5] = NAN;
    int8_choose(&apart, w, scratch, COLS);
    assert_int_equal(apart.n, 0);
}

static void test_linear__a_row_has_the_same_bits_alone_and_in_company(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        enum { N = 7 };
        size_t R = (size_t)shapes[s].rows, C = (size_t)shapes[s].cols;
        double *value = malloc(R * C * sizeof *value);
        struct weight w = make(shapes[s].format, shapes[s].dtype, shapes[s].scale, shapes[s].rows, shapes[s].cols, value);
        float *x = rand_array(N * C, 1), *together = malloc(N * R * sizeof(float)), *alone = malloc(R * sizeof(float));
        run(together, x, &w, N, false);
        for (size_t t = 0; t < N; t++) {
            run(alone, x + t * C, &w, 1, false);
            assert_memory_equal(alone, together + t * R, R * sizeof(float));
        }
        free(value), free(x), free(together), free(alone);
        free((void *)w.data), free((void *)w.scale), free((void *)w.zeros);
    }
}

/* Heads of `dim` rows; in place, and with z and what is gated apart. */
static void test_linear__with_a_gate_is_the_product_and_then_the_gated_norm(void **state)
{
    (void)state;
    static const struct { struct shape s; int dim; } all[] = {
        {{WEIGHT_INT4, DT_I32, DT_F16, 1024, 384}, 128},      {{WEIGHT_DENSE, DT_BF16, DT_NONE, 48, 100}, 16},
        {{WEIGHT_FP8, DT_F8_E4M3, DT_F32, 84, 200}, 12},      {{WEIGHT_INT4, DT_I32, DT_F16, 72, 128}, 4},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        enum { N = 7 };
        const struct shape *s = &all[i].s;
        const size_t R = (size_t)s->rows, C = (size_t)s->cols, D = (size_t)all[i].dim, bytes = N * R * sizeof(float);
        double *value = malloc(R * C * sizeof *value);
        struct weight w = make(s->format, s->dtype, s->scale, s->rows, s->cols, value);
        float *x = rand_array(N * C, 0.1f), *y = rand_array(N * R, 1), *norm = rand_array(D, 1), *z = malloc(bytes), *want = malloc(bytes),
            *got = malloc(bytes);
        struct rmsnorm_gated_args gate = {.y = want, .x = y, .z = z, .w = norm, .n_rows = (int)(N * R / D), .dim = (int)D, .eps = 1e-6f};
        run(z, x, &w, N, false);
        dev->ops->rmsnorm_gated(dev, &gate);
        for (int in_place = 0; in_place < 2; in_place++) {
            memset(z, 0xff, bytes);
            gate.y = in_place ? z : got;
            run_args(&(struct linear_args){.y = z, .x = x, .w = w, .n_tokens = N, .gate = &gate});
            assert_memory_equal(gate.y, want, bytes);
        }
        free(value), free(x), free(y), free(norm), free(z), free(want), free(got);
        free((void *)w.data), free((void *)w.scale), free((void *)w.zeros);
    }
}

static void test_linear__a_pair_has_the_bits_of_both_alone(void **state)
{
    (void)state;
    static const struct { enum dtype dtype; int rows[2], cols, n; } pairs[] = {
        {DT_BF16, {64, 64}, 3072, 33}, {DT_BF16, {256, 1}, 1024, 5}, {DT_F32, {1, 40}, 131, 7}, {DT_F16, {17, 9}, 64, 1},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const int n = pairs[i].n, cols = pairs[i].cols;
        struct weight w[2];
        float *x = rand_array((size_t)n * (size_t)cols, 1), *y[2], *alone[2];
        for (int m = 0; m < 2; m++) {
            const size_t R = (size_t)pairs[i].rows[m], cells = (size_t)n * R;
            double *value = malloc(R * (size_t)cols * sizeof *value);
            w[m] = make(WEIGHT_DENSE, pairs[i].dtype, DT_NONE, pairs[i].rows[m], cols, value);
            y[m] = rand_array(cells, 1), alone[m] = malloc(cells * sizeof(float));
            run(alone[m], x, &w[m], n, false);
            free(value);
        }
        RUN(dev, linear_pair, .y = {y[0], y[1]}, .x = x, .w = {w[0], w[1]}, .n_tokens = n);
        for (int m = 0; m < 2; m++) {
            assert_memory_equal(y[m], alone[m], (size_t)n * (size_t)w[m].rows * sizeof(float));
            free(y[m]), free(alone[m]), free((void *)w[m].data);
        }
        free(x);
    }
}

static void test_vec__sixteen_bit_conversions_are_exact_and_round_to_even(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        bool nan16 = (h & 0x7fff) > 0x7c00, nanb = (h & 0x7fff) > 0x7f80;
        if (!nan16)
            assert_int_equal(f32_f16(f16_f32(h)), h);
        if (!nanb)
            assert_int_equal(f32_bf16(bf16_f32(h)), h);
        if (!nan16 && (h & 0x7fff) < 0x7bff) {          /* half-way to the next: to the even one */
            float mid = (float)(((double)f16_f32(h) + (double)f16_f32((uint16_t)(h + 1))) / 2);
            assert_int_equal(f32_f16(mid), h & 1 ? h + 1 : h);
        }
    }
    assert_int_equal(f32_f16(65519.0f), 0x7bff);
    assert_int_equal(f32_f16(65520.0f), 0x7c00);
    assert_true(isnan(fp8_f32(0x7f)) && isnan(fp8_f32(0xff)));
    uint8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    for (int i = 0; i < 256; i += 8) {
        f32x8 v = load_fp8(all + i);
        for (int j = 0; j < 8; j++)
            assert_true(v[j] == fp8_f32(all[i + j]) || (isnan(v[j]) && isnan(fp8_f32(all[i + j]))));
    }
}

static int open_dev(void **state) { (void)state; dev = dev_open_cpu(3, NULL); return !dev; }
static int close_dev(void **state) { (void)state; dev_close(dev); return 0; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vec__sixteen_bit_conversions_are_exact_and_round_to_even),
        cmocka_unit_test(test_linear__agrees_with_the_formula_in_double),
        cmocka_unit_test(test_linear__int8_agrees_with_the_formula),
        cmocka_unit_test(test_linear__int8_rounds_to_half_a_step_and_keeps_what_is_no_number),
        cmocka_unit_test(test_linear__columns_apart_are_those_far_above_the_median),
        cmocka_unit_test(test_linear__a_row_has_the_same_bits_alone_and_in_company),
        cmocka_unit_test(test_linear__with_a_gate_is_the_product_and_then_the_gated_norm),
        cmocka_unit_test(test_linear__a_pair_has_the_bits_of_both_alone),
    };
    return cmocka_run_group_tests(tests, open_dev, close_dev);
}

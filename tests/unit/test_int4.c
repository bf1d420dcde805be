#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "kernels/cpu/vec.h"
#include "kernels/pack_piece.h"
#include "model/quantize.h"
#include "tests/kernels/rand.h"

enum { ROWS = 40, COLS = 640, GROUPS = COLS / 128 };

/* Numbers of a matrix, about normal or with heavy tails (Student's t with three degrees of freedom). */
static void fill(float *x, size_t n, bool heavy)
{
    for (size_t i = 0; i < n; i++) {
        float by = 0;
        for (int k = 0; k < 3; k++) {
            const float z = rand_normal();
            by += z * z / 3;
        }
        x[i] = 0.02f * rand_normal() / (heavy ? sqrtf(by) : 1);
    }
}

static struct weight dense_of(const float *x, void *store, enum dtype type, int rows, int cols)
{
    for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++)
        if (type == DT_F32)
            ((float *)store)[i] = x[i];
        else
            ((uint16_t *)store)[i] = type == DT_F16 ? f32_f16(x[i]) : f32_bf16(x[i]);
    return (struct weight){.format = WEIGHT_DENSE, .dtype = type, .rows = rows, .cols = cols, .data = store};
}

static float stored(const struct weight *w, size_t i)
{
    float f;
    floats_f32(&f, (const char *)w->data + i * (w->dtype == DT_F32 ? 4 : 2), w->dtype, 1);
    return f;
}

/* q less its zero point, and the scale, as kernels/tensor.h describes the format. */
static int level(const struct weight *w, size_t row, size_t col)
{
    const size_t rows = (size_t)w->rows;
    const int q = (int)(((const uint32_t *)w->data)[col / 8 * rows + row] >> 4 * (col % 8) & 15);
    const int zero = (int)(((const uint32_t *)w->zeros)[col / 128 * (rows / 8) + row / 8] >> 4 * (row % 8) & 15);
    return q - (zero + 1);
}
static double scale_of(const struct weight *w, size_t row, size_t group)
{
    return (double)f16_f32(((const uint16_t *)w->scale)[group * (size_t)w->rows + row]);
}

static void test_int4__every_number_is_the_nearest_that_its_scale_has(void **state)
{
    (void)state;
    static const enum dtype types[] = {DT_BF16, DT_F16, DT_F32};
    static const int sizes[][2] = {{8, 128}, {24, 256}, {ROWS, COLS}};
    static float x[ROWS * COLS], store[ROWS * COLS];
    int n_negative = 0, n_positive = 0;
    for (int i = 0; i < 9; i++) {
        struct arena a = {0};
        const size_t rows = (size_t)sizes[i % 3][0], cols = (size_t)sizes[i % 3][1];
        fill(x, rows * cols, i % 2);
        const struct weight w = dense_of(x, store, types[i / 3], (int)rows, (int)cols), q = quantize_int4(&w, &a);
        assert_true(q.format == WEIGHT_INT4 && q.scale_dtype == DT_F16 && q.rows == w.rows && q.cols == w.cols);
        assert_int_equal(quantize_int4_bytes(w.rows, w.cols), rows * cols / 2 + rows * cols / 128 * 2 + rows * cols / 128 / 2);
        for (size_t at = 0; at < rows * cols; at++) {
            const size_t r = at / cols, k = at % cols;
            const double s = scale_of(&q, r, k / 128), v = (double)stored(&w, at) / s;
            const int l = level(&q, r, k);
            if (fabs(v - l) > 0.50001 && !(v < -8 && l == -8) && !(v > 7 && l == 7))
                fail_msg("%g became %d times %g", (double)stored(&w, at), l, s);
            n_negative += s < 0;
            n_positive += s > 0;
        }
        arena_free(&a);
    }
    assert_true(n_negative > 1000 && n_positive > 1000);        /* of either sign, and none is zero */
}

/* Squared error of a group with a scale, in plain double arithmetic. */
static double error_of(const float *x, double scale)
{
    double e = 0;
    for (int k = 0; k < 128; k++) {
        const double l = nearbyint((double)x[k] / scale), cut = l < -8 ? -8 : l > 7 ? 7 : l;
        e += ((double)x[k] - cut * scale) * ((double)x[k] - cut * scale);
    }
    return e;
}

static void test_int4__no_scale_that_is_tried_is_better(void **state)
{
    (void)state;
    static float x[ROWS * COLS], store[ROWS * COLS];
    for (int heavy = 0; heavy < 2; heavy++) {
        struct arena a = {0};
        double of_best = 0, of_plain = 0, all = 0;
        fill(x, ROWS * COLS, heavy);
        const struct weight w = dense_of(x, store, DT_F32, ROWS, COLS), q = quantize_int4(&w, &a);
        for (size_t g = 0; g < ROWS * GROUPS; g++) {
            const float *group = x + g * 128;
            float top = 0;
            for (int k = 0; k < 128; k++) {
                top = fabsf(group[k]) > fabsf(top) ? group[k] : top;
                all += (double)group[k] * (double)group[k];
            }
            const double got = error_of(group, scale_of(&q, g / GROUPS, g % GROUPS));
            for (int i = 26; i <= 33; i++) {
                const double tried = error_of(group, (double)f16_f32(f32_f16(-top / 8 * (float)i / 32)));
                if (got > tried * 1.00001)
                    fail_msg("group %zu: squared error %g, but %g with %d / 32", g, got, tried, i);
                of_plain += i == 32 ? tried : 0;
            }
            of_best += got;
        }
        print_message("%s: squared error %.2f %% of the squares, %.2f %% if the greatest became -8\n", heavy ? "heavy tails" : "normal numbers",
                      100 * of_best / all, 100 * of_plain / all);
        assert_true(of_best < 0.92 * of_plain);
        arena_free(&a);
    }
}

/* 8 rows of one group. */
static struct weight rows_of(const float x[8 * 128], struct arena *a)
{
    return quantize_int4(&(struct weight){.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = 8, .cols = 128, .data = x}, a);
}

static void test_int4__zeros_stay_zeros_and_one_number_stays_itself(void **state)
{
    (void)state;
    static float x[8 * 128];
    struct arena a = {0};
    memset(x, 0, sizeof x);
    x[128 + 5] = 0.75f;
    x[2 * 128 + 127] = -0.75f;
    x[3 * 128] = -0.0f;
    x[4 * 128 + 64] = 1e-9f;                            /* its scale is none of F16's */
    x[5 * 128 + 1] = x[5 * 128 + 2] = 1;                /* of numbers of one magnitude a negative one becomes -8 */
    x[5 * 128 + 3] = -1;
    const struct weight q = rows_of(x, &a);
    for (size_t r = 0; r < 8; r++)
        for (size_t k = 0; k < 128; k++)
            assert_int_equal(level(&q, r, k), r == 1 && k == 5 ? -8 : r == 2 && k == 127 ? -8 : r == 5 && k == 3 ? level(&q, 5, 3)
                                              : r == 5 && (k == 1 || k == 2) ? 7 : 0);
    assert_true(scale_of(&q, 1, 0) == -0.75 / 8 && scale_of(&q, 2, 0) == 0.75 / 8 && scale_of(&q, 5, 0) > 0 && level(&q, 5, 3) < -7);
    for (size_t r = 0; r < 8; r++)
        assert_true(r == 1 || r == 2 || r == 5 || ((const uint16_t *)q.scale)[r] == 0);
    arena_free(&a);
}

static void test_int4__what_is_no_number_or_too_great_becomes_the_greatest(void **state)
{
    (void)state;
    static float x[8 * 128];
    struct arena a = {0};
    for (size_t i = 0; i < 8 * 128; i++)
        x[i] = rand_normal();
    x[7] = INFINITY;
    x[128 + 7] = -INFINITY;
    x[128 + 8] = INFINITY;
    x[2 * 128 + 7] = NAN;
    x[3 * 128 + 7] = 1e30f;
    x[4 * 128 + 7] = -8 * 65504.0f;
    const struct weight q = rows_of(x, &a);
    const uint16_t *scale = q.scale;
    assert_true(scale[0] == 0xfbff && level(&q, 0, 7) == -8);           /* -65504 */
    assert_true(scale[1] == 0x7bff && level(&q, 1, 7) == -8 && level(&q, 1, 8) == 7);
    assert_true((scale[2] & 0x7fff) == 0x7bff && level(&q, 2, 7) == 7);
    assert_true(scale[3] == 0xfbff && level(&q, 3, 7) == -8);
    assert_true(scale_of(&q, 4, 0) <= 65504 && scale_of(&q, 4, 0) > 53000 && level(&q, 4, 7) == -8);
    for (size_t k = 0; k < 128; k++)
        assert_true(k == 7 || k == 8 || (level(&q, 0, k) == 0 && level(&q, 1, k) == 0 && level(&q, 2, k) == 0));
    arena_free(&a);
}

static void test_int4__what_fits(void **state)
{
    (void)state;
    assert_true(quantize_int4_fits(8, 128) && quantize_int4_fits(3072, 8192) && quantize_int4_fits(1024, 3072));
    assert_true(!quantize_int4_fits(1, 128) && !quantize_int4_fits(12, 128) && !quantize_int4_fits(8, 64) && !quantize_int4_fits(8, 200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int4__every_number_is_the_nearest_that_its_scale_has),
        cmocka_unit_test(test_int4__no_scale_that_is_tried_is_better),
        cmocka_unit_test(test_int4__zeros_stay_zeros_and_one_number_stays_itself),
        cmocka_unit_test(test_int4__what_is_no_number_or_too_great_becomes_the_greatest),
        cmocka_unit_test(test_int4__what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* kernels/stream.h against the same arithmetic in double precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/stream.h"
#include "tests/kernels/rand.h"

enum { N = 2000000 };
static const double unit = 1.0 / (1 << 30);

/* Any finite magnitude below 2^high. */
static float any_float(int high)
{
    return ldexpf((float)(rand_u64() >> 40) / (1 << 24), high - (int)(rand_u64() % 60)) * (rand_u64() % 2 ? 1 : -1);
}

static void test_stream__an_addend_is_rounded_to_the_nearest_unit(void **state)
{
    (void)state;
    static const float edges[] = {0, -0.0f, 0x1p-30f, 0x1p-31f, 0x1.8p-30f, 0x1.4p-29f, -0x1p-31f, -0x1.8p-30f, 0x1p-60f, 0x1p-149f, 1,
                                  0x1.fffffep19f, -0x1.fffffep19f};
    for (size_t i = 0; i < N; i++) {
        const float x = i < sizeof edges / sizeof *edges ? edges[i] : any_float(20);
        assert_int_equal(stream_from_float(x), (int64_t)nearbyint((double)x / unit));
    }
}

static void test_stream__a_number_reads_as_the_nearest_fp32(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) {
        const int64_t v = (int64_t)rand_u64() >> (17 + rand_u64() % 47);        /* below 2^47 units, 2^17 */
        assert_true(stream_to_float(v) == (float)((double)v * unit));
    }
    for (size_t i = 0; i < N; i++) {
        const int64_t v = (int64_t)rand_u64() >> 9;     /* up to the last that can be read */
        const double x = (double)v * unit;
        const float got = stream_to_float(v);
        assert_true(fabs((double)got - x) <= (double)(nextafterf(fabsf(got), INFINITY) - fabsf(got)));
    }
}

static void test_stream__order_does_not_matter(void **state)
{
    (void)state;
    enum { ADDENDS = 500 };
    float x[ADDENDS];
    for (int round = 0; round < 200; round++) {
        int64_t forth = 0, back = 0;
        for (int i = 0; i < ADDENDS; i++)
            x[i] = any_float(20);
        for (int i = 0; i < ADDENDS; i++) {
            forth += stream_from_float(x[i]);
            back += stream_from_float(x[ADDENDS - 1 - i]);
        }
        assert_int_equal(forth, back);
    }
}

/* The worst that may come before and after. */
static void test_stream__no_sum_hides_what_was_no_number(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, STREAM_LIMIT, -STREAM_LIMIT, 3e38f};
    const float most = nextafterf(STREAM_LIMIT, 0);
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        for (int sign = -1; sign <= 1; sign += 2) {
            int64_t v = stream_from_float(bad[b]);
            assert_true(v == STREAM_POISON);
            for (int i = 0; i < STREAM_ADDENDS; i++) {
                assert_true(isnan(stream_to_float(v)));
                v = (int64_t)((uint64_t)v + (uint64_t)stream_from_float((float)sign * most));
            }
            assert_true(isnan(stream_to_float(v)));
        }
}

/* Sums of what may be added do not wrap, and are NaN from 2^24 on. */
static void test_stream__a_sum_that_grew_too_large_is_nan(void **state)
{
    (void)state;
    const float most = nextafterf(STREAM_LIMIT, 0);
    for (int sign = -1; sign <= 1; sign += 2) {
        int64_t v = 0;
        for (int i = 1; i <= STREAM_ADDENDS; i++) {
            assert_false(__builtin_add_overflow(v, stream_from_float((float)sign * most), &v));
            const float got = stream_to_float(v);
            assert_true((double)i * (double)most < 0x1p24 ? fabsf(got) <= 0x1p24f && got * (float)sign > 0 : isnan(got));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream__an_addend_is_rounded_to_the_nearest_unit),
        cmocka_unit_test(test_stream__a_number_reads_as_the_nearest_fp32),
        cmocka_unit_test(test_stream__order_does_not_matter),
        cmocka_unit_test(test_stream__no_sum_hides_what_was_no_number),
        cmocka_unit_test(test_stream__a_sum_that_grew_too_large_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ui/tui/figures.h"

static struct stats after(int steps, double ms)
{
    return (struct stats){.n_tokens = 2 * steps, .n_steps = steps, .decode_ms = ms,
                          .drafts = {{{steps, steps / 2}}, {{steps, 0}}}};
}

static void test_steps__those_that_come_together_have_their_mean(void **state)
{
    (void)state;
    struct steps s = {0};
    struct stats one = after(1, 10), three = after(3, 50);
    steps_add(&s, &one);
    steps_add(&s, &one);                /* nothing has come */
    steps_add(&s, &three);
    assert_int_equal(s.n, 3);
    assert_float_equal(s.ms[0], 10, 1e-6);
    assert_float_equal(s.ms[2], 20, 1e-6);
    steps_begin(&s);
    assert_int_equal(s.n, 0);
}

static void test_steps__the_last_ones_are_kept(void **state)
{
    (void)state;
    struct steps s = {0};
    for (int i = 1; i <= 100; i++) {
        struct stats now = after(i, 5.0 * i * (i + 1));
        steps_add(&s, &now);
    }
    assert_int_equal(s.n, STEPS_KEPT);
    assert_float_equal(s.ms[STEPS_KEPT - 1], 1000, 1e-3);
    assert_float_equal(s.ms[0], 1000 - 10 * (STEPS_KEPT - 1), 1e-3);
}

static void test_steps__what_is_recent_forgets_what_is_old(void **state)
{
    (void)state;
    struct steps s = {0};
    struct stats recent;
    for (int i = 0; i <= 50; i++) {
        struct stats now = after(i, i <= 30 ? 100.0 * i : 3000 + 10.0 * (i - 30));        /* it has become faster */
        steps_add(&s, &now);
        steps_sample(&s, &now);
        steps_recent(&s, &recent);
        assert_true(recent.n_steps >= 0 && recent.n_steps < STEPS_SAMPLES);
    }
    assert_int_equal(recent.n_steps, STEPS_SAMPLES - 1);
    assert_float_equal(recent.decode_ms / recent.n_steps, 10, 1e-6);
    assert_int_equal(recent.drafts[DRAFT_MTP][0].drafted, STEPS_SAMPLES - 1);
    assert_int_equal(recent.drafts[DRAFT_LOOKUP][0].drafted, STEPS_SAMPLES - 1);
    assert_int_equal(recent.n_tokens, 2 * (STEPS_SAMPLES - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps__those_that_come_together_have_their_mean),
        cmocka_unit_test(test_steps__the_last_ones_are_kept),
        cmocka_unit_test(test_steps__what_is_recent_forgets_what_is_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

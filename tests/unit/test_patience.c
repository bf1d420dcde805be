/* Waiting for what takes about as long every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"

static const int64_t ms = 1000000, us = 1000, oversleeps = 70 * 1000;

/* Waits for something that comes after `takes`; each sleep is 70 us too long.  How late it is noticed; *awake: how long it was looked for. */
static int64_t wait_for(struct patience *p, int64_t takes, int64_t *awake)
{
    int64_t now = 0;
    bool slept = false;
    *awake = 0;
    while (now < takes) {
        const int64_t nap = patience_nap_ns(p, now);
        slept = nap > 0;
        now += slept ? nap + oversleeps : us;
        *awake += slept ? 0 : us;
    }
    patience_learn(p, now, slept);
    return now - takes;
}

static void test_patience__what_takes_as_long_as_ever_is_noticed_at_once_and_mostly_slept_through(void **state)
{
    (void)state;
    const int64_t all[] = {500 * us, 4 * ms, 25 * ms, 300 * ms};
    for (int i = 0; i < 4; i++) {
        struct patience p = {0};
        int64_t awake;
        for (int k = 0; k < 40; k++)
            wait_for(&p, all[i], &awake);
        for (int k = 0; k < 40; k++) {
            const int64_t takes = all[i] + (k % 5 - 2) * all[i] / 100;
            assert_true(wait_for(&p, takes, &awake) <= us);
            assert_true(awake <= 200 * us + all[i] / 8);
        }
    }
}

static void test_patience__one_hiccup_is_not_slept_through_next_time(void **state)
{
    (void)state;
    struct patience p = {0};
    int64_t awake;
    for (int k = 0; k < 40; k++)
        wait_for(&p, 4 * ms, &awake);
    wait_for(&p, 2000 * ms, &awake);
    assert_true(awake < 100 * ms);
    assert_true(wait_for(&p, 4 * ms, &awake) < 2 * ms);
    for (int k = 0; k < 5; k++)
        wait_for(&p, 4 * ms, &awake);
    assert_true(wait_for(&p, 4 * ms, &awake) <= us);
}

static void test_patience__what_became_quicker_is_noticed_in_a_few_turns(void **state)
{
    (void)state;
    struct patience p = {0};
    int64_t awake;
    for (int k = 0; k < 60; k++)
        wait_for(&p, 300 * ms, &awake);
    for (int k = 0; k < 12; k++)
        wait_for(&p, 2 * ms, &awake);
    assert_true(wait_for(&p, 2 * ms, &awake) <= us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience__what_takes_as_long_as_ever_is_noticed_at_once_and_mostly_slept_through),
        cmocka_unit_test(test_patience__one_hiccup_is_not_slept_through_next_time),
        cmocka_unit_test(test_patience__what_became_quicker_is_noticed_in_a_few_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

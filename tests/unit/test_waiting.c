#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ui/printer.h"

static struct waiting w;
static struct buf line;

static void begin(bool adds)
{
    w = (struct waiting){.tells = true, .adds = adds};
    phase_open(&w.phase, 0);
    waiting_follow(&w, &(struct chat_event){.kind = CHAT_READY}, 0);
    phase_turn(&w.phase, 0);
    waiting_follow(&w, &(struct chat_event){.kind = CHAT_PREFILL, .total = 1000}, 0);
}

static const char *told(int64_t ms)
{
    buf_reset(&line);
    return waiting_line(&w, ms, &line) ? buf_str(&line) : "";
}

static const char *reads(size_t done, size_t total, size_t cached, int64_t ms)
{
    waiting_follow(&w, &(struct chat_event){.kind = CHAT_PREFILL, .done = done, .total = total, .cached = cached}, ms);
    return told(ms);
}

static void test_waiting__a_short_wait_is_not_shown(void **state)
{
    (void)state;
    begin(false);
    assert_string_equal(reads(250, 1000, 0, 300), "");
    assert_string_equal(reads(500, 1000, 0, 600), "");          /* 600 ms are left */
    assert_string_equal(reads(1000, 1000, 0, 1200), "");
}

static void test_waiting__a_long_one_is_shown_with_the_time_left(void **state)
{
    (void)state;
    begin(false);
    assert_string_equal(reads(10, 1000, 0, 300), "");
    assert_string_equal(reads(20, 1000, 0, 600), "reading 20 of 1000 tokens, about 30 s left");
    assert_string_equal(reads(21, 1000, 0, 650), "");           /* not at every event */
    assert_string_equal(reads(500, 1000, 0, 15000), "reading 500 of 1000 tokens, about 15 s left");
}

static void test_waiting__a_model_loaded_again_is_counted_in_bytes(void **state)
{
    (void)state;
    begin(true);
    for (int i = 0; i <= 20; i++)
        waiting_follow(&w, &(struct chat_event){.kind = CHAT_LOADING, .done = (size_t)i * 1000000, .total = 90000000}, 1000 + 300 * i);
    assert_string_equal(told(7000), "loading 20.0 of 90.0 MB, 3.3 MB/s, about 21 s left");
    waiting_follow(&w, &(struct chat_event){.kind = CHAT_READY}, 8000);
    reads(100, 10000, 0, 8300);
    assert_string_equal(reads(200, 10000, 0, 12000), "reading 200 of 10000 tokens, about 4 min left");
}

static void test_waiting__lines_that_stay_are_few(void **state)
{
    (void)state;
    begin(true);
    reads(10, 10000, 0, 300);
    int n = 0;
    for (int64_t ms = 600; ms < 60000; ms += 300)
        n += *reads((size_t)(ms / 30), 10000, 0, ms) != 0;
    assert_int_equal(n, 6);
}

static void test_waiting__another_wait_has_its_own_time(void **state)
{
    (void)state;
    begin(false);
    reads(10, 1000, 0, 300);
    assert_string_not_equal(reads(20, 1000, 0, 600), "");
    waiting_follow(&w, &(struct chat_event){.kind = CHAT_REASONING}, 30000);
    assert_string_equal(told(30000), "");
    assert_string_equal(told(30999), "");
    assert_string_equal(told(42000), "thinking for 12 s");
    waiting_follow(&w, &(struct chat_event){.kind = CHAT_DONE}, 43000);
    assert_string_equal(told(50000), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting__a_short_wait_is_not_shown),
        cmocka_unit_test(test_waiting__a_long_one_is_shown_with_the_time_left),
        cmocka_unit_test(test_waiting__a_model_loaded_again_is_counted_in_bytes),
        cmocka_unit_test(test_waiting__lines_that_stay_are_few),
        cmocka_unit_test(test_waiting__another_wait_has_its_own_time),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&line);
    return failed;
}

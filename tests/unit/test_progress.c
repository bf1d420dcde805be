#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/phase.h"

static uint32_t seed;

static int draw_lot(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

static struct buf shown;

static const char *drawn(void (*draw)(const struct progress *, int64_t, struct cells *, struct area), const struct progress *p, int64_t ms, int rows,
                         int cols)
{
    struct cells c = {0};
    cells_size(&c, rows, cols);
    draw(p, ms, &c, cells_all(&c));
    buf_reset(&shown);
    cells_dump(&c, false, &shown);
    cells_free(&c);
    return buf_str(&shown);
}

/* A prompt of 61.4k tokens, 41.0k of them known, 1.9k read a second. */
static struct progress reading(void)
{
    struct progress p;
    progress_start(&p, 10000);
    progress_add(&p, 10000, 41000, 61400, 41000);
    for (int i = 1; i <= 4; i++)
        progress_add(&p, 10000 + 1000 * i, 41000 + 1900 * (size_t)i, 61400, 41000);
    return p;
}

static void test_progress__the_bar_tells_cached_from_computed(void **state)
{
    (void)state;
    struct progress p = reading();
    assert_string_equal(drawn(progress_draw_prompt, &p, 14000, 2, 80),
                        "  reading   [================##------]  48.6k of 61.4k tok   41.0k from cache\n"
                        "            1.9k tok/s, about 7 s left; Ctrl-C gives the draft back\n");
    assert_string_equal(drawn(progress_draw_prompt, &p, 14000, 2, 40),
                        "reading [=====#--]  48.6k of 61.4k tok\n1.9k tok/s, about 7 s left\n");
}

static void test_progress__the_load_counts_bytes(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 0);
    progress_add(&p, 0, 0, 68400000000u, 0);
    assert_string_equal(drawn(progress_draw_load, &p, 0, 2, 80),
                        "  weights  [------------------------]   0%   0.0 of 68.4 GB\n  then check and warm up\n");
    for (int i = 1; i <= 10; i++)
        progress_add(&p, 1000 * i, 3010000000u * (size_t)i, 68400000000u, 0);
    assert_string_equal(drawn(progress_draw_load, &p, 10000, 2, 80),
                        "  weights  [##########--------------]  44%   30.1 of 68.4 GB   3.0 GB/s\n  about 13 s left; then check and warm up\n");
}

static void test_progress__the_time_left_comes_after_two_chunks_and_is_rounded_up(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 0);
    progress_add(&p, 0, 0, 10000, 0);
    assert_int_equal(progress_left_s(&p, 0), -1);
    progress_add(&p, 1000, 1000, 10000, 0);
    assert_int_equal(progress_left_s(&p, 1000), -1);
    progress_add(&p, 2000, 2000, 10000, 0);
    assert_int_equal(progress_left_s(&p, 2000), 8);
    assert_int_equal(progress_left_s(&p, 2001), 8);
    assert_int_equal(progress_left_s(&p, 3000), 7);
    assert_int_equal(progress_left_s(&p, 60000), 1);
    progress_add(&p, 9000, 10000, 10000, 0);
    assert_int_equal(progress_left_s(&p, 9000), 0);
}

/* A GB10 reads 8,192 tokens in 2.3 s. */
static void test_progress__a_long_chunk_tells_the_time_left_alone(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 0);
    progress_add(&p, 0, 0, 20000, 0);
    progress_add(&p, 2300, 8192, 20000, 0);
    assert_int_equal(progress_left_s(&p, 2300), 4);
    progress_add(&p, 4600, 16384, 20000, 0);
    assert_int_equal(progress_left_s(&p, 4600), 2);
}

static void test_progress__it_says_so_when_the_time_left_grows(void **state)
{
    (void)state;
    struct progress p;
    progress_start(&p, 0);
    progress_add(&p, 0, 0, 100000, 0);
    int64_t ms = 0;
    size_t done = 0;
    for (int i = 0; i < 10; i++)
        progress_add(&p, ms += 1000, done += 2000, 100000, 0);
    int left = progress_left_s(&p, ms);
    assert_int_equal(left, 40);
    progress_add(&p, ms += 1100, done += 2000, 100000, 0);      /* a little slower: the time goes on */
    assert_true(progress_left_s(&p, ms) < left);
    assert_null(strstr(drawn(progress_draw_prompt, &p, ms, 2, 100), "slower"));
    for (int i = 0; i < 10; i++) {
        int before = progress_left_s(&p, ms);
        progress_add(&p, ms += 4000, done += 2000, 100000, 0);
        assert_true(progress_left_s(&p, ms) <= before || strstr(drawn(progress_draw_prompt, &p, ms, 2, 100), "slower than thought"));
    }
    assert_true(progress_left_s(&p, ms) > 90);
}

static void test_progress__many_small_events_give_the_rate_of_the_last_seconds(void **state)
{
    (void)state;
    struct progress p;
    int64_t ms = 0;
    size_t done = 0;
    progress_start(&p, 0);
    for (; ms < 5000; ms += 10)
        progress_add(&p, ms, done += 10, 100000, 0);            /* 1000 a second, then half of it */
    assert_true(progress_rate(&p) > 950 && progress_rate(&p) < 1050);
    for (; ms < 10000; ms += 10)
        progress_add(&p, ms, done += 5, 100000, 0);
    assert_true(progress_rate(&p) > 475 && progress_rate(&p) < 525);
}

static int filled(const char *screen)
{
    int n = 0;
    for (; *screen && *screen != '-' && *screen != ']'; screen++)
        n += *screen == '=' || *screen == '#';
    return n;
}

static void test_progress__events_of_any_size_never_move_the_bar_back(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct progress p;
        int bar = 0, percent = 0;
        int64_t ms = 0;
        progress_start(&p, ms);
        for (int i = 0; i < 60; i++) {
            size_t total = 5000 + (size_t)draw_lot(3) * 100, done = (size_t)draw_lot(i * 100 + 100), cached = (size_t)draw_lot(900);
            progress_add(&p, ms += draw_lot(300), done, total, cached);
            int now = filled(drawn(progress_draw_prompt, &p, ms, 2, 80)), is = progress_percent(&p);
            assert_true(now >= bar && is >= percent && is <= 100 && p.cached <= p.done && p.done <= p.total);
            assert_true(progress_left_s(&p, ms) >= -1);
            bar = now;
            percent = is;
        }
    }
}

static void test_progress__every_size_stays_inside_its_area(void **state)
{
    (void)state;
    struct progress p = reading(), none = {0};
    struct cells c = {0};
    for (int rows = 0; rows <= 3; rows++)
        for (int cols = 0; cols <= 130; cols++) {
            cells_size(&c, rows + 2, cols + 2);
            struct area a = {1, 1, rows, cols};
            progress_draw_prompt(&p, 14000, &c, a);
            progress_draw_load(&p, 14000, &c, a);
            progress_draw_load(&none, 14000, &c, a);
            for (int i = 0; i < c.rows * c.cols; i++) {
                int row = i / c.cols, col = i % c.cols;
                assert_true((row >= 1 && row <= rows && col >= 1 && col <= cols) || c.at[i].glyph.text[0] == ' ');
            }
        }
    cells_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress__the_bar_tells_cached_from_computed),
        cmocka_unit_test(test_progress__the_load_counts_bytes),
        cmocka_unit_test(test_progress__the_time_left_comes_after_two_chunks_and_is_rounded_up),
        cmocka_unit_test(test_progress__a_long_chunk_tells_the_time_left_alone),
        cmocka_unit_test(test_progress__it_says_so_when_the_time_left_grows),
        cmocka_unit_test(test_progress__many_small_events_give_the_rate_of_the_last_seconds),
        cmocka_unit_test(test_progress__events_of_any_size_never_move_the_bar_back),
        cmocka_unit_test(test_progress__every_size_stays_inside_its_area),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How long a prompt's chunks are, on machines that are given by what a call and a row cost them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/price.h"

enum { MOST = 8192 };

struct machine {
    const char *name;
    double call_ms, row_ms;
    int    rows;                        /* of its chunks */
};

/* With 122B.  About 62 GB of weights at 240 GB/s, 16.5 GFLOP a row. */
static const struct machine gpus[] = {
    {"GB10",                      260,  0.25,  MOST},
    {"GB10 whose reads are slow", 400,  0.40,  5500},
    {"H200",                      30,   0.061, MOST},
    {"a third of a GB10",         780,  0.90,  2022},
    {"too slow for any chunk",    2000, 5,     512},
};

static double took(const struct machine *m, int rows) { return m->call_ms + rows * m->row_ms; }

static void near(int a, int b)
{
    assert_true(a >= b - b / 100 - 1 && a <= b + b / 100 + 1);
}

static void begin(struct pace *p, const struct machine *m)
{
    pace_init(p, true);
    pace_begin(p, 64, took(m, 64), 512, took(m, 512));
}

static void test_pace__a_chunk_of_a_gpu_is_as_long_as_the_next_request_may_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        const struct machine *m = &gpus[i];
        struct pace p;
        begin(&p, m);
        for (int k = 0; k < 3; k++) {   /* measuring it changes nothing */
            const int rows = pace_rows(&p, PACE_NEXT, MOST);
            print_message("%s: %d rows, %.0f ms\n", m->name, rows, took(m, rows));
            near(rows, m->rows);
            assert_true(rows == 512 || took(m, rows) <= 2601);
            pace_took(&p, rows, took(m, rows));
        }
    }
}

/* A message of 100 tokens reads nearly all experts for few rows. */
static void test_pace__a_short_prompt_leaves_the_chunks_of_a_gpu_long(void **state)
{
    (void)state;
    for (int rows = 1; rows < 512; rows += 30) {
        struct pace p;
        begin(&p, &gpus[0]);
        pace_took(&p, rows, took(&gpus[0], rows));
        near(pace_rows(&p, PACE_NEXT, MOST), MOST);
    }
}

/* Two prompts of 400 tokens take one call on a GPU, those of a CPU two. */
static void test_pace__rows_that_cost_less_than_a_call_join_another(void **state)
{
    (void)state;
    struct pace gb10, slow, cpu;
    begin(&gb10, &gpus[0]);
    begin(&slow, &gpus[4]);
    pace_init(&cpu, false);
    pace_begin(&cpu, 0, 0, 8, 16);
    assert_true(pace_joins(&gb10, 400) && pace_joins(&gb10, 1030) && !pace_joins(&gb10, 1050));
    assert_true(pace_joins(&slow, 512) && !pace_joins(&slow, 513));
    assert_false(pace_joins(&cpu, 1));
}

/* A call is known from the beginning on; rows may be slower than it seemed, since the bytes of the experts hide some of them. */
static void test_pace__chunks_follow_what_the_last_one_took(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, true);
    pace_begin(&p, 64, 300, 512, 310);
    assert_int_equal(pace_rows(&p, PACE_NEXT, MOST), MOST);
    pace_took(&p, MOST, 6000);
    const int rows = pace_rows(&p, PACE_NEXT, MOST);
    near(rows, 3306);                   /* (2600 - 299) / (5701 / 8192) */
    pace_took(&p, rows, 1800);          /* it was a hiccup */
    near(pace_rows(&p, PACE_NEXT, MOST), 5068);
}

static void test_pace__what_is_read_ahead_keeps_a_submit_waiting_for_less(void **state)
{
    (void)state;
    struct pace p;
    begin(&p, &gpus[2]);
    near(pace_rows(&p, PACE_AHEAD, MOST), 5245);        /* 350 ms */
    begin(&p, &gpus[0]);
    assert_int_equal(pace_rows(&p, PACE_AHEAD, MOST), 512);
    assert_int_equal(pace_rows(&p, PACE_AHEAD, 256), 256);
}

/* A chunk of a GB10 takes longer than that however short it is. */
static void test_pace__pictures_keep_answers_waiting_for_60_ms_where_that_can_be(void **state)
{
    (void)state;
    struct pace p;
    begin(&p, &gpus[2]);
    near(pace_rows(&p, PACE_SEEN, MOST), 393);
    assert_true(took(&gpus[2], pace_rows(&p, PACE_SEEN, MOST)) <= 54);
    near(pace_rows(&p, PACE_OTHERS, MOST), 5245);
    assert_int_equal(pace_rows(&p, PACE_SEEN, 128), 128);
    for (int i = 0; i < 5; i += 1 + (i == 1)) {
        begin(&p, &gpus[i]);
        assert_int_equal(pace_rows(&p, PACE_SEEN, MOST), pace_rows(&p, PACE_OTHERS, MOST));
    }
}

/* Rows of short chunks take longer than those of long ones.  One delay does not count for long, and leaves the long chunks as they are. */
static void test_pace__short_chunks_of_pictures_follow_what_they_take(void **state)
{
    (void)state;
    struct pace p;
    int rows = 0;
    begin(&p, &gpus[2]);
    pace_took(&p, MOST, took(&gpus[2], MOST));
    for (int i = 0; i < 10; i++) {
        rows = pace_rows(&p, PACE_SEEN, MOST);
        pace_took(&p, rows, 30 + 0.09 * rows);
    }
    assert_true(30 + 0.09 * rows < 55);
    pace_took(&p, rows, 400);
    assert_int_equal(pace_rows(&p, PACE_SEEN, MOST), 256);
    for (int i = 0; i < 20; i++) {
        rows = pace_rows(&p, PACE_SEEN, MOST);
        pace_took(&p, rows, 30 + 0.07 * rows);
    }
    near(rows, 343);
    assert_int_equal(pace_rows(&p, PACE_NEXT, MOST), MOST);
}

/* A call that once took long, as by another program's work, is not believed to be all that there is. */
static void test_pace__a_slow_start_of_a_gpu_is_forgotten(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, true);
    pace_begin(&p, 64, 5000, 512, 400);
    int rows = pace_rows(&p, PACE_NEXT, MOST);
    assert_true(rows >= 512 && rows <= MOST);
    for (int k = 0; k < 2; k++) {
        pace_took(&p, rows, took(&gpus[0], rows));
        rows = pace_rows(&p, PACE_NEXT, MOST);
    }
    assert_true(rows >= 2000 && rows <= MOST);
    assert_true(took(&gpus[0], rows) <= 2601);
}

static void test_pace__a_cpu_takes_as_many_rows_as_fit_in_60_ms(void **state)
{
    (void)state;
    static const struct { double row_ms; int rows; } cpus[] = {{0.1, 256}, {2, 30}, {40, 1}, {250, 1}};
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        struct pace p;
        pace_init(&p, false);
        pace_begin(&p, 0, 0, 8, 8 * cpus[i].row_ms);
        near(pace_rows(&p, PACE_NEXT, 256), cpus[i].rows);
        assert_int_equal(pace_rows(&p, PACE_AHEAD, 256), pace_rows(&p, PACE_NEXT, 256));
    }
}

/* The time of few rows is a bound for many. */
static void test_pace__a_cpu_that_was_busy_gets_long_chunks_again(void **state)
{
    (void)state;
    struct pace p;
    pace_init(&p, false);
    pace_begin(&p, 0, 0, 8, 400);
    assert_int_equal(pace_rows(&p, PACE_NEXT, 256), 1);
    pace_took(&p, 1, 2);
    near(pace_rows(&p, PACE_NEXT, 256), 30);
    pace_took(&p, 30, 90);              /* dearer each, but too few to tell, and in time */
    near(pace_rows(&p, PACE_NEXT, 256), 20);
    pace_took(&p, 20, 20);
    near(pace_rows(&p, PACE_NEXT, 256), 60);
    pace_took(&p, 8, 40);
    near(pace_rows(&p, PACE_NEXT, 256), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace__a_chunk_of_a_gpu_is_as_long_as_the_next_request_may_wait),
        cmocka_unit_test(test_pace__a_short_prompt_leaves_the_chunks_of_a_gpu_long),
        cmocka_unit_test(test_pace__rows_that_cost_less_than_a_call_join_another),
        cmocka_unit_test(test_pace__chunks_follow_what_the_last_one_took),
        cmocka_unit_test(test_pace__what_is_read_ahead_keeps_a_submit_waiting_for_less),
        cmocka_unit_test(test_pace__pictures_keep_answers_waiting_for_60_ms_where_that_can_be),
        cmocka_unit_test(test_pace__short_chunks_of_pictures_follow_what_they_take),
        cmocka_unit_test(test_pace__a_slow_start_of_a_gpu_is_forgotten),
        cmocka_unit_test(test_pace__a_cpu_takes_as_many_rows_as_fit_in_60_ms),
        cmocka_unit_test(test_pace__a_cpu_that_was_busy_gets_long_chunks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

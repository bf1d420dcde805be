/* Moments as people read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"

/* A Unix time of January 2026, or of the days around it, in the local zone. */
static int64_t at(int day, int hour, int minute)
{
    struct tm tm = {.tm_year = 126, .tm_mday = day, .tm_hour = hour, .tm_min = minute, .tm_isdst = -1};
    return (int64_t)mktime(&tm);
}

static void test_when__an_age_is_written_in_the_words_of_its_day(void **state)
{
    static const struct { int day, hour, minute; const char *ago; } moments[] = {       /* as seen from Saturday the 31st, 14:02 */
        {31, 14, 2, "just now"}, {31, 14, 3, "just now"}, {31, 14, 1, "1 min ago"}, {31, 13, 3, "59 min ago"}, {31, 13, 2, "today 13:02"},
        {31, 0, 0, "today 00:00"}, {30, 23, 59, "yesterday 23:59"}, {30, 0, 0, "yesterday 00:00"}, {29, 23, 59, "Thu 23:59"},
        {25, 0, 0, "Sun 00:00"}, {24, 23, 59, "2026-01-24"}, {-40, 12, 0, "2025-11-21"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct buf out = {0};
        when_ago(&out, at(moments[i].day, moments[i].hour, moments[i].minute), at(31, 14, 2));
        assert_string_equal(buf_str(&out), moments[i].ago);
        buf_free(&out);
    }
}

static void test_when__a_few_minutes_ago_is_no_matter_of_midnight(void **state)
{
    struct buf out = {0};
    (void)state;
    when_ago(&out, at(30, 23, 55), at(31, 0, 5));
    assert_string_equal(out.data, "10 min ago");
    buf_free(&out);
}

static void test_when__yesterday_is_a_day_of_the_calendar_when_clocks_change(void **state)
{
    static const struct { int day, hour; const char *ago; } moments[] = {       /* as seen from 29 March, 22:00: a day of 23 hours */
        {88, 0, "today 00:00"}, {87, 23, "yesterday 23:00"}, {87, 0, "yesterday 00:00"}, {86, 23, "Fri 23:00"},
    };
    (void)state;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct buf out = {0};
        when_ago(&out, at(moments[i].day, moments[i].hour, 0), at(88, 22, 0));
        assert_string_equal(out.data, moments[i].ago);
        buf_free(&out);
    }
    setenv("TZ", "UTC", 1);
    tzset();
}

static void test_when__a_clock_shows_the_day_only_if_it_is_another_one(void **state)
{
    struct buf out = {0};
    (void)state;
    when_clock(&out, at(31, 14, 2), at(31, 23, 59));
    when_clock(&out, at(30, 14, 2), at(31, 0, 0));
    when_clock(&out, at(32, 14, 2), at(31, 0, 0));
    when_minute(&out, at(31, 14, 2));
    assert_string_equal(out.data, "14:022026-01-30 14:022026-02-01 14:022026-01-31 14:02");
    buf_free(&out);
}

static void test_when__nothing_is_written_of_a_moment_that_is_not_known(void **state)
{
    struct buf out = {0};
    (void)state;
    when_clock(&out, 0, at(31, 0, 0));
    when_minute(&out, 0);
    when_ago(&out, 0, at(31, 0, 0));
    when_ago(&out, INT64_MAX, at(31, 0, 0));            /* no calendar has it */
    when_minute(&out, INT64_MAX);
    when_minute(&out, -5);
    assert_string_equal(buf_str(&out), "just now");     /* a file from the future, by a wrong clock */
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when__an_age_is_written_in_the_words_of_its_day),
        cmocka_unit_test(test_when__a_few_minutes_ago_is_no_matter_of_midnight),
        cmocka_unit_test(test_when__yesterday_is_a_day_of_the_calendar_when_clocks_change),
        cmocka_unit_test(test_when__a_clock_shows_the_day_only_if_it_is_another_one),
        cmocka_unit_test(test_when__nothing_is_written_of_a_moment_that_is_not_known),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

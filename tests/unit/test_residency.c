/* Which conversation gives up its place in memory, as a table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/residency.h"

enum { SEATS = 4 };

static void test_residency__the_price_is_in_tokens_to_compute_again(void **state)
{
    (void)state;
    const struct { struct seat s; double price; } rows[] = {
        {{0}, 0},
        {{.n = 1000}, 1000},
        {{.n = 1000, .idle_s = RESIDENCY_HALF_S}, 500},
        {{.n = 1600, .kept = true}, 100},
        {{.n = 1600, .kept = true, .idle_s = 2 * RESIDENCY_HALF_S}, 25},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(fabs(residency_price(&rows[i].s) - rows[i].price) < 1e-9);
}

static void test_residency__the_cheapest_place_that_may_be_taken(void **state)
{
    (void)state;
    const struct { const char *what; struct seat all[SEATS]; int n; struct newcomer who; int index; } rows[] = {
        {"an empty place", {{.n = 10}, {0}}, 2, {.n = 5}, 1},
        {"the shorter one", {{.n = 20000}, {.n = 9000}}, 2, {.n = 5000}, 1},
        {"not a busy one", {{.n = 20000}, {.n = 9000, .busy = true}}, 2, {.n = 5000}, 0},
        {"all are busy", {{.n = 10, .busy = true}, {.n = 10, .busy = true}}, 2, {.n = 5}, -1},
        {"of equals the least recently used one", {{.n = 500, .idle_s = 1}, {.n = 500, .idle_s = 2}}, 2, {.n = 5}, 1},
        {"a long one that has a file before a short one", {{.n = 3000}, {.n = 20000, .kept = true}}, 2, {.n = 5000}, 1},
        {"a long one that was left before a new one", {{.n = 40000, .idle_s = 6000}, {.n = 3000}}, 2, {.n = 5000}, 0},
        {"a side request takes that of the last one", {{.n = 20000}, {.n = 20000}, {.n = 30}, {.n = 90000}}, 4, {.n = 40}, 2},
        {"a long one leaves the side place, though it is empty", {{.n = 30000}, {.n = 20000}, {0}}, 3, {.n = 5000}, 1},
        {"... and though it is cheap", {{.n = 30000}, {.n = 20000}, {.n = 7}}, 3, {.n = 5000}, 1},
        {"... but takes it when the others are busy", {{.n = 30000, .busy = true}, {.n = 20000, .busy = true}, {.n = 7}}, 3, {.n = 5000}, 2},
        {"of two places none is for side requests", {{.n = 30000}, {.n = 7}}, 2, {.n = 5000}, 1},
        {"a client with several gives up one of them", {{.n = 9000, .client = 1}, {.n = 20000, .client = 2}, {.n = 30000, .client = 2},
                                                         {.n = 7, .client = 2}}, 4, {.n = 5000, .client = 2}, 1},
        {"its own only one before another's", {{.n = 9000, .client = 1}, {.n = 20000, .client = 2}}, 2, {.n = 5000, .client = 2}, 1},
        {"each has one: the cheapest", {{.n = 9000, .client = 1}, {.n = 20000, .client = 2}}, 2, {.n = 5000, .client = 3}, 0},
        {"an only one that was left is no share", {{.n = 9000, .client = 1, .idle_s = 6000}, {.n = 20000, .client = 2}}, 2,
         {.n = 5000, .client = 2}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (residency_choose(rows[i].all, rows[i].n, &rows[i].who) != rows[i].index)
            fail_msg("%s: place %d, expected %d", rows[i].what, residency_choose(rows[i].all, rows[i].n, &rows[i].who), rows[i].index);
}

static void test_residency__a_side_request_waits_for_another_rather_than_take_a_long_one(void **state)
{
    (void)state;
    const struct { struct seat all[SEATS]; int n; struct newcomer who; bool waits; } rows[] = {
        {{{.n = 20000}, {.n = 30, .busy = true}}, 2, {.n = 40}, true},
        {{{.n = 20000}, {.n = 30}}, 2, {.n = 40}, false},
        {{{.n = 20000}, {.n = 30, .busy = true}}, 2, {.n = 4000}, false},              /* it is long itself */
        {{{.n = 20000}, {.n = 30000, .busy = true}}, 2, {.n = 40}, false},             /* that may take long */
        {{{.n = 20000, .idle_s = 6000}, {.n = 30, .busy = true}}, 2, {.n = 40}, false},
        {{{.n = 30, .busy = true}, {.n = 30, .busy = true}}, 2, {.n = 40}, false},     /* there is no place to refuse */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(residency_waits(rows[i].all, rows[i].n, &rows[i].who), rows[i].waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_residency__the_price_is_in_tokens_to_compute_again),
        cmocka_unit_test(test_residency__the_cheapest_place_that_may_be_taken),
        cmocka_unit_test(test_residency__a_side_request_waits_for_another_rather_than_take_a_long_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

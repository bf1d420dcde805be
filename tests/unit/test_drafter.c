/* How many drafts that are found in the text a step gets.  No stepper: what is found needs none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdbool.h>

#include "engine/drafts.h"

enum { PERIOD = 50, TEXT = 400 };       /* of an answer that says the same again and again */

static int32_t id_at(int pos) { return 100 + pos % PERIOD; }

/* An answer that has had TEXT tokens, a device on which rows cost next to nothing. */
static void begin(struct drafter *d, struct price *p, int room)
{
    int32_t ids[TEXT];
    for (int i = 0; i < TEXT; i++)
        ids[i] = id_at(i);
    for (int i = 0; i < 10; i++)
        for (int rows = 1; rows <= PRICE_ROWS; rows++)
            price_step_took(p, rows, 1 + 0.02 * (rows - 1));
    drafter_init(d, NULL, ENGINE_MAX_DEPTH, false, p);
    drafter_begin(d, DRAFTER_AUTO, room, true, spans_text(ids, TEXT));
}

/* The step of several answers never has one row, so nothing waits for such a step. */
static void test_drafter__what_is_found_is_verified_however_long_several_answers_step_together(void **state)
{
    (void)state;
    struct price p = {0};
    struct drafter d;
    begin(&d, &p, 100000);
    for (int i = 0; i < 1000; i++) {
        const struct step_result r = {.n = 1, .ids = {id_at(TEXT + i)}};
        drafter_learn(&d, &r);
        if (d.by != DRAFT_LOOKUP || d.n < 1)
            fail_msg("after %d steps nothing is found", i + 1);
        price_step_took(&p, 3, 1.04);
    }
    drafter_free(&d);
}

/* An answer alone leaves out its drafts for a step, so that the price of one row stays known. */
static void test_drafter__alone_a_step_of_one_row_comes_in_between(void **state)
{
    (void)state;
    struct price p = {0};
    struct drafter d;
    int n_one = 0;
    begin(&d, &p, 100000);
    for (int i = 0; i < 1000; i++) {
        const struct step_result r = {.n = 1, .ids = {id_at(TEXT + i)}};
        struct err e;
        assert_true(drafter_prepare_next(&d, &r, &e));
        n_one += d.by != DRAFT_LOOKUP;
        price_step_took(&p, 1 + (d.by == DRAFT_LOOKUP ? d.n : 0), 1.04);
    }
    assert_in_range(n_one, 3, 4);
    drafter_free(&d);
}

/* An answer of at most so many tokens: a step gives one itself, so it has a draft less. */
static void test_drafter__no_draft_that_the_answer_has_no_room_for(void **state)
{
    (void)state;
    struct price p = {0};
    struct drafter d;
    const int all = 30;
    begin(&d, &p, all);
    for (int i = 1; i < all; i++) {
        const struct step_result r = {.n = 1, .ids = {id_at(TEXT + i - 1)}};
        const int room = all - i;
        struct err e;
        assert_true(drafter_prepare_next(&d, &r, &e));
        assert_int_equal(d.by == DRAFT_LOOKUP ? d.n : 0, room > ENGINE_MAX_DEPTH ? ENGINE_MAX_DEPTH : room - 1);
        assert_int_equal(drafter_share(&d).most, room > ENGINE_MAX_DEPTH ? ENGINE_MAX_DEPTH : room - 1);
        price_step_took(&p, 1 + (d.by == DRAFT_LOOKUP ? d.n : 0), 1.02);
    }
    drafter_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafter__what_is_found_is_verified_however_long_several_answers_step_together),
        cmocka_unit_test(test_drafter__alone_a_step_of_one_row_comes_in_between),
        cmocka_unit_test(test_drafter__no_draft_that_the_answer_has_no_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

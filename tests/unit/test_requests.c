/* The engine thread's next piece of work: requests, saves and what is read ahead, in the order in which they must be done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/requests.h"

/* An engine without a thread. */
struct engine { struct requests requests; };

static const int32_t ids[] = {1, 2, 3};
static uint64_t moves;                  /* the conversation that must wait */

static bool may_begin(void *arg, uint64_t sequence)
{
    (void)arg;
    return sequence != moves;
}

static void begin(struct engine *g)
{
    struct err e = {0};
    moves = 0;
    assert_true(requests_init(&g->requests, &e));
}

static void read_ahead(struct engine *g, uint64_t sequence)
{
    engine_read_ahead(g, sequence, ids, 3, 3);
}

/* The next piece of work is to read ahead for that conversation; stays with the caller. */
static struct work expect_ahead(struct engine *g, uint64_t sequence)
{
    struct work w;
    assert_true(requests_next(&g->requests, false, may_begin, NULL, &w));
    assert_non_null(w.ahead_ids);
    assert_int_equal(w.ahead.sequence, sequence);
    return w;
}

/* ... to save that conversation, which has an end at once. */
static void expect_save(struct engine *g, uint64_t sequence)
{
    struct work w;
    assert_true(requests_next(&g->requests, false, may_begin, NULL, &w));
    assert_null(w.ahead_ids);
    assert_non_null(w.save);
    assert_int_equal(w.save->sequence, sequence);
    save_order_free(w.save);
    requests_saved(&g->requests);
}

static void test_requests__a_save_begins_after_what_was_to_be_read_before_it(void **state)
{
    struct engine g;
    (void)state;
    begin(&g);
    read_ahead(&g, 1);
    engine_save(&g, 1, "one");
    free(expect_ahead(&g, 1).ahead_ids);
    expect_save(&g, 1);
    read_ahead(&g, 1);
    engine_save(&g, 1, "one");
    read_ahead(&g, 1);                  /* what is saved is what was read before */
    expect_save(&g, 1);
    free(expect_ahead(&g, 1).ahead_ids);
    requests_free(&g.requests);
}

/* The engine thread has what is to be read in its hands and finds that it must wait. */
static void test_requests__another_conversations_save_makes_none_of_this_one_early(void **state)
{
    struct engine g;
    (void)state;
    for (int i = 0; i < 2; i++) {       /* the first one's save is asked for before, or meanwhile */
        begin(&g);
        read_ahead(&g, 1);
        if (!i)
            engine_save(&g, 1, "one");
        struct work w = expect_ahead(&g, 1);
        if (i)
            engine_save(&g, 1, "one");
        engine_save(&g, 2, "two");
        requests_put_back(&g.requests, &w);
        expect_save(&g, 2);
        free(expect_ahead(&g, 1).ahead_ids);
        expect_save(&g, 1);
        requests_free(&g.requests);
    }
}

static void test_requests__a_save_waits_for_nothing_of_another_conversation(void **state)
{
    struct engine g;
    (void)state;
    begin(&g);
    moves = 1;
    read_ahead(&g, 1);
    engine_save(&g, 1, "one");
    engine_save(&g, 2, "two");
    expect_save(&g, 2);
    moves = 0;
    free(expect_ahead(&g, 1).ahead_ids);
    expect_save(&g, 1);
    requests_free(&g.requests);
}

/* Nothing is read any more, and nothing that was to be saved is lost. */
static void test_requests__all_is_saved_when_the_engine_closes(void **state)
{
    struct engine g;
    struct work w;
    int n = 0;
    (void)state;
    begin(&g);
    read_ahead(&g, 1);
    engine_save(&g, 1, "one");
    engine_save(&g, 2, "two");
    requests_close(&g.requests);
    assert_false(requests_next(&g.requests, false, may_begin, NULL, &w));
    for (struct save_order *s; (s = requests_last_save(&g.requests)); n++) {
        assert_int_equal(s->sequence, n + 1);
        save_order_free(s);
        requests_saved(&g.requests);
    }
    assert_int_equal(n, 2);
    requests_free(&g.requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests__a_save_begins_after_what_was_to_be_read_before_it),
        cmocka_unit_test(test_requests__another_conversations_save_makes_none_of_this_one_early),
        cmocka_unit_test(test_requests__a_save_waits_for_nothing_of_another_conversation),
        cmocka_unit_test(test_requests__all_is_saved_when_the_engine_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

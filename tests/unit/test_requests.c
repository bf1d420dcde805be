/* The engine thread's next piece of work: requests, saves and what is read ahead, in the order in which they must be done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/requests.h"

static const int32_t ids[] = {1, 2, 3};
static uint64_t moves;                  /* the conversation that must wait */

static bool may_begin(void *arg, uint64_t sequence, const struct request *r)
{
    (void)arg, (void)r;
    return sequence != moves;
}

static void begin(struct requests *q)
{
    struct err e = {0};
    moves = 0;
    assert_true(requests_init(q, &e));
}

static void save(struct requests *q, uint64_t sequence)
{
    struct request *r = calloc(1, sizeof *r);
    r->kind = REQUEST_SAVE;
    r->sequence = sequence;
    requests_add(q, r);
}

static void read_ahead(struct requests *q, uint64_t sequence)
{
    requests_read_ahead(q, &(struct beginning){.sequence = sequence, .spans = spans_text(ids, 3), .snapshot_pos = 3});
}

/* The next piece of work is to read ahead for that conversation; stays with the caller. */
static struct work expect_ahead(struct requests *q, uint64_t sequence)
{
    struct work w;
    assert_true(requests_next(q, false, may_begin, NULL, &w));
    assert_int_equal(w.ahead_spans.ids.n, 3);
    assert_int_equal(w.ahead.sequence, sequence);
    return w;
}

static void finish_ahead(struct requests *q, uint64_t sequence)
{
    struct work w = expect_ahead(q, sequence);
    span_buf_free(&w.ahead_spans);
}

/* ... to save that conversation, which has an end at once. */
static void expect_save(struct requests *q, uint64_t sequence)
{
    struct work w;
    assert_true(requests_next(q, false, may_begin, NULL, &w));
    assert_int_equal(w.ahead_spans.ids.n, 0);
    assert_non_null(w.save);
    assert_int_equal(w.save->sequence, sequence);
    request_free(w.save);
    requests_saved(q);
}

static void test_requests__a_save_begins_after_what_was_to_be_read_before_it(void **state)
{
    struct requests q;
    (void)state;
    begin(&q);
    read_ahead(&q, 1);
    save(&q, 1);
    finish_ahead(&q, 1);
    expect_save(&q, 1);
    read_ahead(&q, 1);
    save(&q, 1);
    read_ahead(&q, 1);                  /* what is saved is what was read before */
    expect_save(&q, 1);
    finish_ahead(&q, 1);
    requests_free(&q);
}

/* The engine thread has what is to be read in its hands and finds that it must wait. */
static void test_requests__another_conversations_save_makes_none_of_this_one_early(void **state)
{
    struct requests q;
    (void)state;
    for (int i = 0; i < 2; i++) {       /* the first one's save is asked for before, or meanwhile */
        begin(&q);
        read_ahead(&q, 1);
        if (!i)
            save(&q, 1);
        struct work w = expect_ahead(&q, 1);
        if (i)
            save(&q, 1);
        save(&q, 2);
        requests_put_back(&q, &w);
        expect_save(&q, 2);
        finish_ahead(&q, 1);
        expect_save(&q, 1);
        requests_free(&q);
    }
}

static void test_requests__a_save_waits_for_nothing_of_another_conversation(void **state)
{
    struct requests q;
    (void)state;
    begin(&q);
    moves = 1;
    read_ahead(&q, 1);
    save(&q, 1);
    save(&q, 2);
    expect_save(&q, 2);
    moves = 0;
    finish_ahead(&q, 1);
    expect_save(&q, 1);
    requests_free(&q);
}

/* Nothing is read any more, and nothing that was to be saved is lost. */
static void test_requests__all_is_saved_when_the_engine_closes(void **state)
{
    struct requests q;
    struct work w;
    int n = 0;
    (void)state;
    begin(&q);
    read_ahead(&q, 1);
    save(&q, 1);
    save(&q, 2);
    requests_close(&q);
    assert_false(requests_next(&q, false, may_begin, NULL, &w));
    for (struct request *s; (s = requests_last_save(&q)); n++) {
        assert_int_equal(s->sequence, n + 1);
        request_free(s);
        requests_saved(&q);
    }
    assert_int_equal(n, 2);
    requests_free(&q);
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

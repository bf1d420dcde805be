/* The order of requests that wait for an answer of the server. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "serve/server_state.h"

#define S INT64_C(1000000000)

static struct job *come(struct queue *q, bool attached, int64_t since_ns)
{
    struct job *j = memory_zeroed(1, sizeof *j);
    j->question.format = attached ? &format_tokens : &format_openai;
    job_waits(j, since_ns);
    queue_add(q, j);
    return j;
}

static void expect(struct queue *q, struct job *j)
{
    struct job *next = queue_take(q);
    assert_ptr_equal(next, j);
    job_free(next);
}

static void test_queue__people_first_else_in_order(void **state)
{
    (void)state;
    struct queue q = {0};
    struct job *a = come(&q, false, 1 * S), *b = come(&q, true, 2 * S), *c = come(&q, false, 3 * S), *d = come(&q, true, 4 * S),
        *e = come(&q, true, 4 * S);
    assert_int_equal(q.n, 5);
    expect(&q, b);
    expect(&q, d);
    expect(&q, e);
    expect(&q, a);
    queue_remove(c);
    job_free(c);
    assert_int_equal(q.n, 0);
    assert_null(q.first);
}

/* An attached chat asks every second, for ever: of the programs that wait each has its turn when its patience is over. */
static void test_queue__every_request_gets_its_turn(void **state)
{
    (void)state;
    const int patience = DUE_PATIENCE_MS / 1000;
    struct queue q = {0};
    struct job *pipe = come(&q, false, 100 * S), *next = come(&q, false, 101 * S);
    int n_before = 0;
    for (int at = 100; pipe; at++) {
        come(&q, true, at * S + S / 2);
        struct job *j = queue_take(&q);
        if (j == pipe)
            pipe = NULL;
        else
            n_before++;
        job_free(j);
        assert_true(n_before <= patience);
    }
    assert_int_equal(n_before, patience);
    come(&q, true, (102 + patience) * S);
    struct job *j = queue_take(&q);     /* the chat's that was passed, */
    assert_true(j != next && j->question.format->attached);
    job_free(j);
    expect(&q, next);
    while (q.n)
        job_free(queue_take(&q));
}

static void test_queue__what_was_waited_for_counts_later_too(void **state)
{
    (void)state;
    const int64_t due = due_ns(7 * S, DUE_PATIENCE_MS);
    assert_int_equal(due_patience_ms(due, 7 * S), DUE_PATIENCE_MS);
    assert_int_equal(due_patience_ms(due, 12 * S), DUE_PATIENCE_MS - 5000);
    assert_int_equal(due_patience_ms(due, 999 * S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue__people_first_else_in_order),
        cmocka_unit_test(test_queue__every_request_gets_its_turn),
        cmocka_unit_test(test_queue__what_was_waited_for_counts_later_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

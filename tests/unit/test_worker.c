#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/worker.h"

enum { MS = 1000000 };

/* Adds up numbers of a queue, one in each step, without the lock. */
struct adder {
    struct worker worker;
    int queued, sum, n_under_way, most_under_way;
    int64_t begin_ns;                   /* no step works before */
};

static int64_t add_step(void *arg)
{
    struct adder *a = arg;
    if (!a->queued)
        return WORKER_IDLE;
    if (clock_ns() < a->begin_ns)
        return a->begin_ns;
    a->queued--;
    a->n_under_way++;
    a->most_under_way = a->n_under_way > a->most_under_way ? a->n_under_way : a->most_under_way;
    worker_unlock(&a->worker);
    int64_t start = clock_ns();
    while (clock_ns() - start < MS / 10)
        ;
    worker_lock(&a->worker);
    a->n_under_way--;
    a->sum++;
    return WORKER_AGAIN;
}

static void queue(struct adder *a, int n)
{
    worker_lock(&a->worker);
    for (int i = 0; i < n; i++) {
        a->queued++;
        worker_wake(&a->worker);
    }
    worker_unlock(&a->worker);
}

static void wait_for_sum(struct adder *a, int sum)
{
    worker_lock(&a->worker);
    while (a->sum < sum)
        worker_wait(&a->worker, WORKER_IDLE);
    worker_unlock(&a->worker);
}

static void test_worker__every_step_is_done_once(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        struct adder a = {.begin_ns = 0};
        assert_true(worker_start(&a.worker, n_threads, add_step, &a));
        for (int i = 1; i <= 5; i++) {
            queue(&a, 20);
            wait_for_sum(&a, 20 * i);
        }
        worker_stop(&a.worker);
        assert_int_equal(a.sum, 100);
        assert_true(a.most_under_way <= n_threads);
        worker_stop(&a.worker);         /* again: nothing */
    }
}

static void test_worker__a_step_sleeps_until_its_time(void **state)
{
    struct adder a = {.begin_ns = clock_ns() + 30 * MS};
    (void)state;
    assert_true(worker_start(&a.worker, 1, add_step, &a));
    queue(&a, 1);
    wait_for_sum(&a, 1);
    assert_true(clock_ns() >= a.begin_ns);
    worker_stop(&a.worker);
}

static void test_worker__the_end_does_not_wait_for_the_queue(void **state)
{
    struct adder a = {.begin_ns = clock_ns() + (int64_t)3600 * 1000 * MS};
    (void)state;
    assert_true(worker_start(&a.worker, 2, add_step, &a));
    queue(&a, 5);
    worker_lock(&a.worker);
    assert_false(worker_wait(&a.worker, clock_ns() + 5 * MS));
    worker_unlock(&a.worker);
    worker_stop(&a.worker);
    assert_int_equal(a.queued, 5);
    assert_int_equal(a.worker.n_threads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker__every_step_is_done_once),
        cmocka_unit_test(test_worker__a_step_sleeps_until_its_time),
        cmocka_unit_test(test_worker__the_end_does_not_wait_for_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

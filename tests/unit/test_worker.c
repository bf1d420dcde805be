#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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

enum { JOBS = 1000, SCRATCH = 64 };
struct tally { atomic_int done[JOBS], n_mixed; int bad; };

static bool do_job(void *arg, uint64_t i, void *scratch, struct err *e)
{
    struct tally *t = arg;
    memset(scratch, (int)i, SCRATCH);
    atomic_fetch_add(&t->done[i], 1);
    for (int k = 0; k < SCRATCH; k++)
        atomic_fetch_add(&t->n_mixed, ((unsigned char *)scratch)[k] != (i & 255));     /* another thread has it, too */
    return (int)i != t->bad || err_set(e, "job %d is bad", (int)i);
}

static void test_worker__each_job_is_done_once(void **state)
{
    (void)state;
    for (int n_threads = 0; n_threads < 9; n_threads += 4) {
        static struct tally t;
        struct err e = {0};
        t = (struct tally){.bad = -1};
        struct worker_jobs j = {.n = JOBS, .n_threads = n_threads, .scratch = SCRATCH, .job = do_job, .arg = &t};
        assert_true(worker_run_jobs(&j, &e));
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(atomic_load(&t.done[i]), 1);
        assert_int_equal(atomic_load(&t.n_mixed), 0);
    }
    assert_true(worker_run_jobs(&(struct worker_jobs){.job = do_job}, NULL));   /* no job */
}

static void test_worker__no_job_begins_after_one_has_failed(void **state)
{
    static struct tally t;
    struct err e = {0};
    int n = 0;
    (void)state;
    t = (struct tally){.bad = 10};
    struct worker_jobs j = {.n = JOBS, .n_threads = 1, .scratch = SCRATCH, .job = do_job, .arg = &t};
    assert_false(worker_run_jobs(&j, &e));
    assert_string_equal(e.msg, "job 10 is bad");
    for (int i = 0; i < JOBS; i++)
        n += atomic_load(&t.done[i]);
    assert_int_equal(n, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker__every_step_is_done_once),
        cmocka_unit_test(test_worker__a_step_sleeps_until_its_time),
        cmocka_unit_test(test_worker__the_end_does_not_wait_for_the_queue),
        cmocka_unit_test(test_worker__each_job_is_done_once),
        cmocka_unit_test(test_worker__no_job_begins_after_one_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

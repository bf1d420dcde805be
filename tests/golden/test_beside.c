/* The stepper on a device that works beside the host, on trained weights: launches return at once, and a thread does the work some
 * milliseconds later.  So the host waits for results as it does for a GPU's, in CI and under the sanitizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/golden/answers.h"

/* ---- the device ---- */

static struct dev cpu;                  /* as it was opened */
static const struct dev_ops *cpu_ops;
static struct {
    pthread_t thread;
    bool      runs;
    bool      lost;                     /* the device has failed: nothing is done any more */
    long      late_ns;
    struct dev_graph *graph;
} work;

static void *do_work(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_nsec = work.late_ns}, NULL);
    cpu.graph_launch(model.dev, work.graph);
    return NULL;
}

/* Work is done in the order of the queue: all else waits for what was launched. */
static void join_work(void)
{
    if (work.runs)
        pthread_join(work.thread, NULL);
    work.runs = false;
}

static void beside_launch(struct dev *d, struct dev_graph *g)
{
    (void)d;
    join_work();
    work.graph = g;
    work.runs = !work.lost;
    if (work.runs)
        assert_int_equal(pthread_create(&work.thread, NULL, do_work, NULL), 0);
}

static bool beside_finish(struct dev *d, struct err *e)
{
    join_work();
    return work.lost ? err_set(e, "operation step_pick failed: the device is lost") : cpu.finish(d, e);
}

static void beside_copy(struct dev *d, void *dst, const void *src, size_t n) { join_work(); cpu.copy(d, dst, src, n); }
static void beside_zero(struct dev *d, void *p, size_t n)                    { join_work(); cpu.zero(d, p, n); }
static void beside_begin(struct dev *d)                                      { join_work(); cpu.graph_begin(d); }
static void beside_graph_free(struct dev *d, struct dev_graph *g)            { join_work(); cpu.graph_free(d, g); }

static void beside_copy_rows(struct dev *d, void *dst, size_t dst_step, const void *src, size_t src_step, size_t bytes, int n)
{
    join_work();
    cpu.copy_rows(d, dst, dst_step, src, src_step, bytes, n);
}

#define OP(name) static void beside_##name(struct dev *d, const struct name##_args *a) { join_work(); cpu_ops->name(d, a); }
#include "kernels/ops.def"
#undef OP

static const struct dev_ops beside_ops = {
#define OP(name) .name = beside_##name,
#include "kernels/ops.def"
#undef OP
};

static void go_beside(long late_ns)
{
    static struct dev_caps caps;
    struct dev *d = model.dev;
    caps = *cpu.caps;
    caps.beside_host = true;
    work.late_ns = late_ns;
    d->caps = &caps;
    d->ops = &beside_ops;
    d->graph_begin = beside_begin;
    d->graph_launch = beside_launch;
    d->graph_free = beside_graph_free;
    d->finish = beside_finish;
    d->copy = beside_copy;
    d->copy_rows = beside_copy_rows;
    d->zero = beside_zero;
}

static void come_back(void)
{
    join_work();
    work.lost = false;
    *model.dev = cpu;
}

/* ---- tests ---- */

/* With as many picks queued as the engine queues. */
static struct answer ask_ahead(const struct request *q, int ahead)
{
    struct answer a = {0};
    struct step_result r;
    struct err e;
    begin(q);
    for (int n = 0; !a.ended;) {
        for (; n < a.n_steps + ahead; n++)
            stepper_launch(asked());
        assert_true(stepper_wait(asked(), &r, &e));
        take(&a, &r);
    }
    assert_int_equal(stepper_end(asked(), a.n_steps, &e), n_prompt(q) + a.n - 1);
    return a;
}

static void test_beside__answers_are_those_of_a_device_that_is_waited_for(void **state)
{
    (void)state;
    for (int depth = 0; depth <= 4; depth += 2) {
        const struct request q = {.how = {.temperature = 0.8f, .top_k = 20, .rng = 3, .room = 9}, .depth = depth};
        const struct answer want = ask(&q);
        for (int ahead = 1; ahead <= 2; ahead++) {
            go_beside(ahead == 1 ? 4000000 : 0);
            const struct answer got = ask_ahead(&q, ahead);
            come_back();
            same_answer(&got, &want);
        }
    }
}

static void test_beside__so_are_answers_that_step_together(void **state)
{
    go_beside(0);
    test_stepper__answers_of_one_step_are_those_that_each_has_alone(state);
    come_back();
}

static void test_beside__picks_are_made_again_as_on_a_device_that_is_waited_for(void **state)
{
    go_beside(500000);
    test_stepper__greedy_picks_made_again_are_those_with_a_ban_from_the_start(state);
    test_stepper__picks_made_again_are_the_same_in_shared_steps(state);
    come_back();
}

/* Drafts that are decided on one by one are waited for, too. */
static void test_beside__drafts_are_those_of_a_device_that_is_waited_for(void **state)
{
    (void)state;
    struct step_drafts made[2];
    struct step_result r;
    struct err e;
    for (int i = 0; i < 2; i++) {
        if (i)
            go_beside(3000000);
        begin(&(struct request){.depth = 0});
        for (int step = 0; step < 4; step++) {
            stepper_step(asked(), 1);
            assert_true(stepper_wait(asked(), &r, &e));
        }
        stepper_draft(asked(), 1);
        assert_true(stepper_drafts(asked(), &made[i], &e));
        stepper_draft(asked(), 2);
        assert_true(stepper_drafts(asked(), &made[i], &e));
        assert_true(stepper_end(asked(), 4, &e) > 0);
        come_back();
    }
    assert_memory_equal(made[0].ids, made[1].ids, 3 * sizeof *made[0].ids);
}

static void test_beside__a_device_that_fails_is_noticed_while_it_is_waited_for(void **state)
{
    (void)state;
    struct step_result r;
    struct err e = {0};
    begin(&(struct request){.depth = 0});
    go_beside(0);
    stepper_step(asked(), 1);
    assert_true(stepper_wait(asked(), &r, &e));
    work.lost = true;
    stepper_step(asked(), 1);
    assert_false(stepper_wait(asked(), &r, &e));
    assert_string_equal(e.msg, "operation step_pick failed: the device is lost");
    assert_int_equal(stepper_end(asked(), 1, &e), -1);
    come_back();
    const struct answer a = ask(&(struct request){.depth = 0}), b = ask(&(struct request){.depth = 0});
    same_answer(&a, &b);                /* nothing of it stays */
}

/* ---- on any device ---- */

/* Whatever is proposed, the answer is the same; what is right is accepted. */
static void test_beside__what_is_proposed_is_verified(void **state)
{
    (void)state;
    enum { N = 3 };
    const struct answer want = ask(&(struct request){.depth = 0});
    assert_int_equal(want.n, MOST);
    for (int n_right = 0; n_right <= N; n_right++) {
        struct answer a = {0};
        struct step_result r;
        struct err e;
        begin(&(struct request){.depth = 0});
        for (int rows = 1; !a.ended;) {
            stepper_step(asked(), rows);
            assert_true(stepper_wait(asked(), &r, &e));
            take(&a, &r);
            assert_true(rows == 1 || a.ended || r.n == n_right + 1);
            if (a.ended)
                break;
            int32_t ids[N];
            for (int i = 0; i < N; i++) {
                const int32_t right = want.ids[a.n + i < MOST ? a.n + i : MOST - 1];
                ids[i] = i < n_right ? right : (right + 1) % model.cfg.vocab;
            }
            stepper_propose(asked(), ids, N);
            rows = N + 1;
        }
        assert_true(stepper_end(asked(), a.n_steps, &e) > 0);
        same_answer(&a, &want);
    }
}

/* There is room for the inputs of so many MTP rows; then they are run, while the answer goes on. */
static void test_beside__more_mtp_rows_are_left_out_than_there_is_room_for(void **state)
{
    (void)state;
    enum { LONG = 80, ROOM = 64 };          /* of the chunk that the model was opened with */
    const struct stepper_counts before = stepper_counts(stepper);
    float *want = NULL;
    struct step_result r;
    struct err e;
    int n = 0, most_behind = 0;
    for (int depth = 3; depth >= 0; depth -= 3) {
        int n_steps = 0;
        begin(&(struct request){.how = {.room = LONG}, .depth = depth});
        do {
            stepper_launch(asked());
            assert_true(stepper_wait(asked(), &r, &e));
            n_steps++;
            most_behind = stepper_behind(asked()) > most_behind ? stepper_behind(asked()) : most_behind;
        } while (!r.ended);
        n = stepper_end(asked(), n_steps, &e);
        assert_true(n > ROOM);
        if (depth)
            want = mtp_keys_of(slot);
    }
    assert_int_equal(most_behind, ROOM);
    assert_int_equal(stepper_counts(stepper).late_runs - before.late_runs, 2);
    same_mtp_keys(slot, n - 1, want);
    free(want);
}

static int open_trained(void **state)
{
    (void)state;
    if (open_model("assets/demo", "cpu", "f32"))
        return -1;
    cpu = *model.dev;
    cpu_ops = cpu.ops;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside__answers_are_those_of_a_device_that_is_waited_for),
        cmocka_unit_test(test_beside__so_are_answers_that_step_together),
        cmocka_unit_test(test_stepper__what_a_shared_step_rejects_leaves_no_trace),
        cmocka_unit_test(test_beside__picks_are_made_again_as_on_a_device_that_is_waited_for),
        cmocka_unit_test(test_beside__drafts_are_those_of_a_device_that_is_waited_for),
        cmocka_unit_test(test_beside__a_device_that_fails_is_noticed_while_it_is_waited_for),
        cmocka_unit_test(test_beside__what_is_proposed_is_verified),
        cmocka_unit_test(test_beside__more_mtp_rows_are_left_out_than_there_is_room_for),
    };
    return cmocka_run_group_tests_name("beside the host", tests, open_trained, close_model);
}

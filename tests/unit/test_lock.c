/* Locks are taken in the order of base/lock.h. */
#define LOCK_CHECKED 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/lock.h"

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

/* True if a process that takes two locks of these ranks, one after the other and then both at once, comes to its end. */
static bool may_take(enum lock_rank outer, enum lock_rank inner)
{
    int status;
    pid_t child = fork();
    if (!child) {
        close(STDERR_FILENO);
        lock_take(&second, inner);
        lock_release(&second, inner);
        lock_take(&first, outer);
        lock_take(&second, inner);
        lock_release(&second, inner);
        lock_release(&first, outer);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void test_lock__a_higher_rank_may_be_taken_while_a_lower_one_is_held(void **state)
{
    (void)state;
    assert_true(may_take(LOCK_WORKER, LOCK_REQUESTS));
    assert_true(may_take(LOCK_WORKER, LOCK_MAILBOX));
    assert_true(may_take(LOCK_REQUESTS, LOCK_HOMES));
    assert_true(may_take(LOCK_HOMES, LOCK_MAILBOX));
}

static void test_lock__a_wrong_order_is_caught(void **state)
{
    (void)state;
    assert_false(may_take(LOCK_REQUESTS, LOCK_WORKER));
    assert_false(may_take(LOCK_MAILBOX, LOCK_HOMES));
    assert_false(may_take(LOCK_MAILBOX, LOCK_WORKER));
    assert_false(may_take(LOCK_REQUESTS, LOCK_REQUESTS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock__a_higher_rank_may_be_taken_while_a_lower_one_is_held),
        cmocka_unit_test(test_lock__a_wrong_order_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

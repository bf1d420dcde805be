/* Time without a processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

enum { CROWD = 4, MS = 1000000 };

static atomic_bool crowd_ends;

static void *crowd(void *cpu)
{
    sched_setaffinity(0, sizeof(cpu_set_t), cpu);
    while (!crowd_ends)
        ;
    return NULL;
}

static int64_t ran_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

/* One of five threads that want the same processor waits four times as long as it runs. */
static void test_clock__waiting_for_a_processor_is_not_running_on_it(void **state)
{
    pthread_t threads[CROWD];
    cpu_set_t all, one;
    (void)state;
    if (access("/proc/thread-self/schedstat", R_OK))
        skip();                         /* the kernel does not tell */
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < CROWD; i++)
        CHECK(!pthread_create(&threads[i], NULL, crowd, &one));
    const int64_t waited = clock_waited_ns(), ran = ran_ns(), start = clock_ns();
    int64_t waits = 0;
    while (waits < 200 * MS && clock_ms_since(start) < 120e3)
        waits = clock_waited_ns() - waited;
    const int64_t runs = ran_ns() - ran;
    crowd_ends = true;
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    sched_setaffinity(0, sizeof all, &all);
    print_message("waited for %.0f ms, ran for %.0f ms\n", (double)waits / MS, (double)runs / MS);
    assert_true(waits >= 200 * MS && runs < waits / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock__waiting_for_a_processor_is_not_running_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/cores.h"

static cpu_set_t before;
static int cpus[CPU_SETSIZE], n_cpus;   /* that this process may use */

static int note_cores(void **state)
{
    (void)state;
    n_cpus = 0;
    if (sched_getaffinity(0, sizeof before, &before))
        return -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before))
            cpus[n_cpus++] = i;
    return 0;
}

static int give_cores_back(void **state)
{
    (void)state;
    return sched_setaffinity(0, sizeof before, &before);
}

/* As sysfs has it, with these capacities in turn; 0: no file. */
static int keep_to_fast(const int *capacities, int n)
{
    char root[] = "/tmp/q35cores.XXXXXX", command[64], path[128];
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < n_cpus; i++) {
        snprintf(path, sizeof path, "%s/cpu%d", root, cpus[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        if (!capacities[i % n])
            continue;
        snprintf(path, sizeof path, "%s/cpu%d/cpu_capacity", root, cpus[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "%d\n", capacities[i % n]);
        fclose(f);
    }
    const int kept = cores_keep_to_fast(root);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    return kept;
}

static void test_cores__where_there_are_two_kinds_the_fast_ones_are_kept_to(void **state)
{
    (void)state;
    cpu_set_t now;
    if (n_cpus < 2)
        skip();
    const int kept = keep_to_fast((int[]){718, 1024}, 2);
    assert_int_equal(kept, n_cpus / 2);
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_int_equal(CPU_COUNT(&now), kept);
    for (int i = 0; i < n_cpus; i++)
        assert_int_equal(!!CPU_ISSET(cpus[i], &now), i % 2);
}

static void test_cores__where_all_are_alike_or_nothing_is_told_nothing_changes(void **state)
{
    (void)state;
    static const int rows[][2] = {{1024, 1024}, {1024, 980}, {0, 0}};
    cpu_set_t now;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(keep_to_fast(rows[i], 2), 0);
        assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
        assert_true(CPU_EQUAL(&now, &before));
    }
    assert_int_equal(cores_keep_to_fast("/nonexistent"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cores__where_there_are_two_kinds_the_fast_ones_are_kept_to, note_cores, give_cores_back),
        cmocka_unit_test_setup_teardown(test_cores__where_all_are_alike_or_nothing_is_told_nothing_changes, note_cores, give_cores_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

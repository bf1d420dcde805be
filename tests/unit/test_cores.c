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

/* Writes the files of sysfs with these capacities; 0: no file. */
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

static void test_cores__nothing_changes_if_all_are_alike_or_unknown(void **state)
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

/* ---- whole machines, as sysfs has them ---- */

static void put(const char *path, long n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%ld\n", n);
    fclose(f);
}

struct machine {
    int  n;
    long capacity[20], khz[20];         /* 0: no file */
    const char *fast;                   /* F: a core that is to be kept to */
};

/* Which of the usable cores are kept to, F or a dot each. */
static void fast_of(const struct machine *m, const cpu_set_t *usable, char out[21])
{
    char root[] = "/tmp/q35cores.XXXXXX", command[64], path[128];
    cpu_set_t fast;
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < m->n; i++) {
        snprintf(path, sizeof path, "%s/cpu%d", root, i);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/cpu%d/cpufreq", root, i);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/cpu%d/cpufreq/cpuinfo_max_freq", root, i);
        if (m->khz[i])
            put(path, m->khz[i]);
        snprintf(path, sizeof path, "%s/cpu%d/cpu_capacity", root, i);
        if (m->capacity[i])
            put(path, m->capacity[i]);
    }
    cores_fast(root, usable, &fast);
    for (int i = 0; i < m->n; i++)
        out[i] = CPU_ISSET(i, &fast) ? 'F' : '.';
    out[m->n] = 0;
    assert_true(CPU_COUNT(&fast) <= m->n);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

#define TEN(a, b) a, a, a, a, a, b, b, b, b, b

static void test_cores__of_a_gb10_the_ten_big_ones_are_kept_to(void **state)
{
    (void)state;
    static const struct machine rows[] = {
        {20, {TEN(718, 997), TEN(718, 1024)}, {TEN(2808000, 3900000), TEN(2808000, 4004000)}, ".....FFFFF.....FFFFF"},
        {20, {0}, {TEN(2808000, 3900000), TEN(2808000, 4004000)}, ".....FFFFF.....FFFFF"},      /* only clocks are told */
        {20, {718, 718}, {TEN(2808000, 3900000), TEN(2808000, 4004000)}, ".....FFFFF.....FFFFF"},       /* not of all cores */
        {4, {1024, 1024, 1024, 1024}, {0}, "FFFF"},
        {4, {0}, {3500000, 3600000, 3500000, 3400000}, "FFFF"},
        {4, {0}, {5000000, 5000000, 3700000, 3700000}, "FF.."},
        {4, {0}, {5000000, 5000000}, "FFFF"},
        {4, {0}, {0}, "FFFF"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cpu_set_t usable;
        char got[21];
        CPU_ZERO(&usable);
        for (int k = 0; k < rows[i].n; k++)
            CPU_SET(k, &usable);
        fast_of(&rows[i], &usable, got);
        assert_string_equal(got, rows[i].fast);
    }
}

/* Restricts the process, like taskset or a container. */
static void test_cores__only_those_that_may_be_used_count(void **state)
{
    (void)state;
    static const struct machine m = {20, {TEN(718, 997), TEN(718, 1024)}, {0}, NULL};
    static const struct { int from, to; const char *fast; } rows[] = {
        {0, 5, "FFFFF..............."}, {3, 7, ".....FF............."}, {5, 9, ".....FFFF..........."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cpu_set_t usable;
        char got[21];
        CPU_ZERO(&usable);
        for (int k = rows[i].from; k < rows[i].to; k++)
            CPU_SET(k, &usable);
        fast_of(&m, &usable, got);
        assert_string_equal(got, rows[i].fast);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cores__where_there_are_two_kinds_the_fast_ones_are_kept_to, note_cores, give_cores_back),
        cmocka_unit_test(test_cores__of_a_gb10_the_ten_big_ones_are_kept_to),
        cmocka_unit_test(test_cores__only_those_that_may_be_used_count),
        cmocka_unit_test_setup_teardown(test_cores__nothing_changes_if_all_are_alike_or_unknown, note_cores, give_cores_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Figures of the machine in the status line: from a library and files that the test makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/machine.h"
#include "tests/tmpdir.h"

struct fake_nvml {                      /* fake_nvml.c */
    int fail_init, fail_all;
    int n_init, n_shutdown;
    unsigned celsius, milliwatts;
    unsigned long long millijoules, reasons, memory[3];
};

static struct tmpdir dir;
static char library[512], proc[128], rapl[128];
static struct fake_nvml *nvml;
static const struct machine_places places = {.proc = proc, .rapl = rapl, .nvml = library};
static const char pci[] = "0000:0f:00.0";

static void put(const char *name, const char *text)
{
    assert_true(tmpdir_put(&dir, name, text, strlen(text)));
}

static struct machine_figures read_once(struct machine *m)
{
    struct machine_figures r;
    machine_read(m, &r);
    return r;
}

static void test_machine__the_gpu_says_it_all(void **state)
{
    (void)state;
    *nvml = (struct fake_nvml){.celsius = 71, .milliwatts = 41500, .millijoules = 123456789, .memory = {80ull << 30, 60ull << 30, 20ull << 30}};
    struct machine *m = machine_open(&places, pci);
    struct machine_figures r = read_once(m);
    assert_int_equal(r.celsius, 71);
    assert_true(r.watts == 41.5 && r.joules == 123456.789);
    assert_true(r.memory_used == 20.0 * (1 << 30) && r.memory_total == 80.0 * (1 << 30));
    assert_string_equal(r.throttled, "");
    const struct { unsigned long long reasons; const char *word; } rows[] = {
        {0x1, NULL}, {0x2, NULL}, {0x4, "power"}, {0x8, "hardware"}, {0x20, "heat"}, {0x48, "heat"}, {0x80, "power"}, {0x100, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nvml->reasons = rows[i].reasons;
        r = read_once(m);
        if (rows[i].word)
            assert_string_equal(r.throttled, rows[i].word);
        else
            assert_string_equal(r.throttled, "");
    }
    machine_close(m);
    assert_int_equal(nvml->n_init, 1);
    assert_int_equal(nvml->n_shutdown, 1);
}

/* An integrated GPU has no memory of its own. */
static void test_machine__what_the_gpu_does_not_say_is_the_hosts_or_nothing(void **state)
{
    (void)state;
    *nvml = (struct fake_nvml){.fail_all = 3, .celsius = 71};
    struct machine *m = machine_open(&places, pci);
    struct machine_figures r = read_once(m);
    assert_true(r.memory_total == 1000 * 1024.0 && r.memory_used == 600 * 1024.0);
    assert_true(!r.celsius && !r.watts && !r.joules && !*r.throttled);
    machine_close(m);
}

static void test_machine__without_the_library_there_is_memory(void **state)
{
    (void)state;
    struct machine_places none = places;
    none.nvml = "/nowhere/libnvidia-ml.so.1";
    const struct { const struct machine_places *p; const char *pci; int fail_init; } rows[] = {{&none, pci, 0}, {&places, "0000:ff:00.0", 0},
                                                                                               {&places, pci, 9}};
    for (size_t i = 0; i < 3; i++) {
        *nvml = (struct fake_nvml){.fail_init = rows[i].fail_init, .celsius = 50};
        struct machine *m = machine_open(rows[i].p, rows[i].pci);
        struct machine_figures r = read_once(m);
        assert_true(r.memory_total == 1000 * 1024.0);
        assert_int_equal(r.celsius, 0);
        machine_close(m);
    }
}

static void test_machine__on_the_cpu_memory_is_this_process_and_energy_the_packages(void **state)
{
    (void)state;
    put("rapl:0/energy_uj", "4000000\n");
    put("rapl:0/max_energy_range_uj", "10000000\n");
    put("rapl:1/energy_uj", "1000000\n");
    put("rapl:1/max_energy_range_uj", "10000000\n");
    struct machine *m = machine_open(&places, NULL);
    struct machine_figures r = read_once(m);
    assert_true(r.memory_total == 1000 * 1024.0 && r.memory_used == 50.0 * (double)sysconf(_SC_PAGESIZE));
    assert_true(r.joules == 0);
    put("rapl:0/energy_uj", "9000000\n");
    put("rapl:1/energy_uj", "1500000\n");
    r = read_once(m);
    assert_true(r.joules == 5.5);
    put("rapl:0/energy_uj", "500000\n");        /* started over */
    r = read_once(m);
    assert_true(r.joules == 7);
    machine_close(m);
    for (int i = 0; i < 2; i++)
        tmpdir_drop(&dir, i ? "rapl:1/energy_uj" : "rapl:0/energy_uj");
    m = machine_open(&places, NULL);
    r = read_once(m);
    assert_true(r.joules == 0 && r.watts == 0);
    machine_close(m);
}

static void test_machine__this_one_has_memory(void **state)
{
    (void)state;
    struct machine *m = machine_open(NULL, NULL);
    struct machine_figures r = read_once(m);
    assert_true(r.memory_used > 0 && r.memory_used < r.memory_total);
    machine_close(m);
}

static int make_dir(const char *name)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    return mkdir(path, 0700);
}

static int setup(void **state)
{
    (void)state;
    ssize_t n = readlink("/proc/self/exe", library, sizeof library - 32);
    if (n < 0 || !tmpdir_make(&dir) || make_dir("self") || make_dir("rapl:0") || make_dir("rapl:1"))
        return -1;
    library[n] = 0;
    strcpy(strrchr(library, '/'), "/fake_nvml.so");
    void *so = dlopen(library, RTLD_NOW);
    nvml = so ? dlsym(so, "fake_nvml") : NULL;
    snprintf(proc, sizeof proc, "%s", dir.path);
    snprintf(rapl, sizeof rapl, "%s/rapl", dir.path);
    put("meminfo", "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     400 kB\n");
    put("self/statm", "200 50 10 1 0 20 0\n");
    return nvml ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = {"meminfo", "self/statm", "rapl:0/energy_uj", "rapl:0/max_energy_range_uj", "rapl:1/energy_uj",
                                        "rapl:1/max_energy_range_uj"};
    static const char *const dirs[] = {"self", "rapl:0", "rapl:1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tmpdir_drop(&dir, names[i]);
    for (size_t i = 0; i < 3; i++) {
        char path[192];
        snprintf(path, sizeof path, "%s/%s", dir.path, dirs[i]);
        rmdir(path);
    }
    tmpdir_remove(&dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine__the_gpu_says_it_all),
        cmocka_unit_test(test_machine__what_the_gpu_does_not_say_is_the_hosts_or_nothing),
        cmocka_unit_test(test_machine__without_the_library_there_is_memory),
        cmocka_unit_test(test_machine__on_the_cpu_memory_is_this_process_and_energy_the_packages),
        cmocka_unit_test(test_machine__this_one_has_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

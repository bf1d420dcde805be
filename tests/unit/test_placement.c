/* Placement of the weights of a GPU that shares the host's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "engine/memory_speed.h"

static struct placement machine;        /* as it is */
static int n_reads;

static double read_gb_s(struct dev *d, size_t bytes, struct err *e)
{
    (void)e;
    n_reads++;
    return !d->weights_in_host ? machine.device : bytes > (size_t)64 << 20 ? machine.host : machine.again;
}

static void test_placement__host_memory_must_be_faster_and_cached(void **state)
{
    (void)state;
    static const struct {
        struct placement p;
        bool host;
        const char *says;
    } rows[] = {
        {{241, 252, 900}, true, "in pinned host memory: pinned memory of the host is read at 252 GB/s, device memory at 241"},
        {{241, 252, 255}, false,
         "in device memory: pinned memory of the host is read at 252 GB/s, device memory at 241; no cache holds it (255 GB/s when "
                                 "it is read again), and prompts read weights several times"},
        {{241, 242, 900}, false, "in device memory: pinned memory of the host is read at 242 GB/s, device memory at 241"},
        {{4500, 51, 60}, false, "in device memory: pinned memory of the host is read at 51 GB/s, device memory at 4500"},
        {{0, 0, 0}, false, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf line = {0};
        assert_int_equal(placement_prefers_host(&rows[i].p), rows[i].host);
        placement_say(&rows[i].p, &line);
        assert_string_equal(buf_str(&line), rows[i].says);
        buf_free(&line);
    }
}

static void test_placement__a_device_is_measured_once(void **state)
{
    (void)state;
    char path[] = "/tmp/q35placement.XXXXXX";
    struct dev d = {.read_gb_s = read_gb_s};
    struct placement p;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    machine = (struct placement){241, 252, 900};
    n_reads = 0;
    placement_find(&p, &d, "a GPU, CUDA 13.0", path);
    assert_true(n_reads == 3 && !d.weights_in_host && placement_prefers_host(&p));
    machine = (struct placement){250, 240, 900};
    placement_find(&p, &d, "a GPU, CUDA 13.0", path);
    assert_true(n_reads == 3 && placement_prefers_host(&p));
    placement_find(&p, &d, "a GPU, CUDA 13.1", path);           /* another driver */
    assert_true(n_reads == 6 && !placement_prefers_host(&p));
    placement_find(&p, &d, "a GPU", path);
    assert_int_equal(n_reads, 9);
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs("1 2 a GPU\n-1 2 3 another\nnan nan nan another\n\n4 5", f);          /* whatever else is there */
    fclose(f);
    placement_find(&p, &d, "another", path);
    assert_int_equal(n_reads, 12);
    placement_find(&p, &d, "a GPU, CUDA 13.0", path);
    assert_true(n_reads == 12 && p.host == 252);
    unlink(path);
    d.weights_in_host = true;
    placement_find(&p, &d, "a GPU, CUDA 13.0", NULL);
    assert_true(n_reads == 15 && d.weights_in_host);
}

static void test_placement__without_room_for_a_probe_nothing_is_known(void **state)
{
    (void)state;
    struct dev d = {.read_gb_s = read_gb_s};
    struct placement p;
    machine = (struct placement){241, 0, 0};
    placement_find(&p, &d, "a GPU", "/nonexistent/file");
    assert_true(p.device == 0 && !placement_prefers_host(&p) && !d.weights_in_host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement__host_memory_must_be_faster_and_cached),
        cmocka_unit_test(test_placement__a_device_is_measured_once),
        cmocka_unit_test(test_placement__without_room_for_a_probe_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

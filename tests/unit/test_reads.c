#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/memory_speed.h"

static void test_reads__a_read_that_lost_a_third_is_slow(void **state)
{
    (void)state;
    static const struct {
        struct reads h;
        bool slow;
        const char *says;
    } rows[] = {
        {{.now = 230, .usual = 230}, false, "memory is read at 230 GB/s, 100 % of the 230 GB/s that such devices reach"},
        {{.now = 160, .usual = 230}, true, "70 % of the 230 GB/s that such devices reach: "},
        {{.now = 200, .best = 240, .usual = 230}, true, "83 % of the 240 GB/s that this machine reached before: "},
        {{.now = 20}, false, "memory is read at 20 GB/s; there is no earlier figure to compare it with"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf line = {0};
        assert_int_equal(reads_slow(&rows[i].h, &line), rows[i].slow);
        assert_non_null(strstr(buf_str(&line), rows[i].says));
        assert_int_equal(!!strstr(buf_str(&line), "power plug"), rows[i].slow);
        assert_int_equal(!!strstr(buf_str(&line), "page cache"), rows[i].slow);
        buf_free(&line);
    }
    assert_true(reads_usual("NVIDIA GB10") > 200);
    assert_true(reads_usual("something else") == 0);
    assert_true(reads_usual("NVIDIA H200") > 4000 && reads_usual("NVIDIA H200 NVL") > 4000);
    assert_true(reads_usual("NVIDIA GH200 480GB") == 0 && reads_usual("NVIDIA H200 MIG 1g.18gb") == 0);
}

static void test_reads__the_best_is_remembered_by_device(void **state)
{
    (void)state;
    char path[] = "/tmp/q35health.XXXXXX";
    struct err e;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(reads_best(path, "one") == 0);
    assert_true(reads_remember(path, "one", 100, &e) && reads_remember(path, "one more", 300, &e) && reads_remember(path, "one", 90, &e));
    assert_true(reads_best(path, "one") == 100);
    assert_true(reads_remember(path, "one", 110, &e));
    assert_true(reads_best(path, "one") == 110);
    assert_true(reads_best(path, "one more") == 300);
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs("one\n-5 one\n1e9\n7", f);     /* whatever else is there */
    fclose(f);
    assert_true(reads_best(path, "one") == 110);
    unlink(path);
    assert_false(reads_remember("/nonexistent/file", "one", 1, &e));
    assert_non_null(strstr(e.msg, "/nonexistent/file"));
}

static void test_reads__a_file_that_does_not_end_is_not_read(void **state)
{
    (void)state;
    char path[] = "/tmp/q35health.XXXXXX";
    struct err e;
    assert_true(reads_best("/dev/zero", "one") == 0);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(reads_best(path, "one") == 0);
    assert_false(reads_remember(path, "one", 100, &e));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads__a_read_that_lost_a_third_is_slow),
        cmocka_unit_test(test_reads__a_file_that_does_not_end_is_not_read),
        cmocka_unit_test(test_reads__the_best_is_remembered_by_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <fcntl.h>
#include <poll.h>
#include <cmocka.h>

#include "base/syncer.h"
#include "tests/slow_disk.h"
#include "tests/tmpdir.h"

static struct tmpdir dir;
static char path[160];

static int make_file(void)
{
    assert_true(tmpdir_make(&dir));
    snprintf(path, sizeof path, "%s/file", dir.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void drop_file(int fd)
{
    close(fd);
    unlink(path);
    tmpdir_remove(&dir);
}

static void wait_for_word(const struct syncer *s)
{
    struct pollfd p = {.fd = syncer_fd(s), .events = POLLIN};
    while (poll(&p, 1, -1) < 1)
        ;
}

static bool has_word(const struct syncer *s)
{
    struct pollfd p = {.fd = syncer_fd(s), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_syncer__who_wants_a_sync_does_not_wait(void **state)
{
    int fd = make_file();
    struct syncer *s = syncer_open(fd, NULL);
    (void)state;
    assert_non_null(s);
    assert_true(syncer_settled(s));
    disk_slow();
    syncer_now(s);
    disk_asked();
    for (int i = 0; i < 100; i++)
        syncer_want(s);
    assert_false(syncer_settled(s));
    assert_false(has_word(s));
    disk_fast();
    syncer_wait(s);
    assert_true(has_word(s));
    assert_true(syncer_settled(s));
    assert_false(has_word(s));
    assert_int_equal(syncer_failed(s), 0);
    assert_int_equal(disk_n_waits, 0);
    assert_int_equal(disk_n_files, 2);  /* the hundred are one */
    assert_int_equal(disk_n_directories, 0);
    syncer_close(s);
    drop_file(fd);
}

static void test_syncer__a_failure_is_reported_once(void **state)
{
    int fd = make_file();
    struct syncer *s = syncer_open(fd, NULL);
    (void)state;
    disk_fail(ENOSPC);
    syncer_now(s);
    wait_for_word(s);
    disk_fail(0);
    assert_true(syncer_settled(s));
    assert_int_equal(syncer_failed(s), ENOSPC);
    assert_int_equal(syncer_failed(s), 0);
    syncer_now(s);
    syncer_wait(s);
    assert_int_equal(syncer_failed(s), 0);
    syncer_close(s);
    drop_file(fd);
}

static void test_syncer__a_name_comes_after_what_it_names(void **state)
{
    int fd = make_file();
    struct syncer *s = syncer_open(fd, path);
    (void)state;
    disk_slow();
    disk_fast();
    disk_fail(EIO);
    syncer_now(s);
    syncer_wait(s);
    assert_int_equal(disk_n_directories, 0);
    disk_fail(0);
    for (int i = 0; i < 3; i++) {
        syncer_now(s);
        syncer_wait(s);
        assert_int_equal(disk_n_directories, 1);
    }
    syncer_close(s);
    drop_file(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syncer__who_wants_a_sync_does_not_wait),
        cmocka_unit_test(test_syncer__a_failure_is_reported_once),
        cmocka_unit_test(test_syncer__a_name_comes_after_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unixsocket.h"
#include "fetch/http.h"
#include "tests/tmpdir.h"

enum { ANOTHER_USER = 12345, PATIENCE_MS = 20000 };

static struct tmpdir tmp;
static char path[128];

static int fresh(void **state)
{
    (void)state;
    if (!tmpdir_make(&tmp))
        return -1;
    snprintf(path, sizeof path, "%s/there.sock", tmp.path);
    return 0;
}

static int done(void **state)
{
    (void)state;
    tmpdir_drop(&tmp, "there.sock");
    tmpdir_remove(&tmp);
    return 0;
}

static int listener(int backlog)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path, path, strlen(path));
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) || chmod(path, 0666) || listen(fd, backlog))
        _exit(1);
    return fd;
}

/* Starts a process of that user that listens, and writes what it received into the pipe when the connection ends. */
static pid_t start_listener(uid_t user, int *received)
{
    int pipes[2], ready[2];
    char c;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (!pid) {
        if (setgid(user) || setuid(user) || prctl(PR_SET_PDEATHSIG, SIGKILL))
            _exit(1);
        int fd = listener(8);
        char got[256];
        (void)!write(ready[1], "x", 1);
        for (ssize_t n;;) {
            int client = accept(fd, NULL, NULL);
            while ((n = read(client, got, sizeof got)) > 0)
                (void)!write(pipes[1], got, (size_t)n);
            (void)!write(pipes[1], "", 1);
            close(client);
        }
    }
    close(pipes[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    *received = pipes[0];
    return pid;
}

static void stop_listener(pid_t pid, int received)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(received);
}

static int connected(struct err *e)
{
    int fd = unixsocket_connect(path, 0, e), why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return fd;
}

static void test_unixsocket__connects_to_a_program_of_the_same_user(void **state)
{
    (void)state;
    struct err e = {{0}};
    int fd = listener(8);
    assert_true(connected(&e) >= 0);
    close(fd);
    assert_int_equal(connected(&e), -1);
    assert_int_equal(errno, ECONNREFUSED);
    unlink(path);
    assert_int_equal(connected(&e), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_unixsocket__a_full_backlog_is_no_missing_server(void **state)
{
    (void)state;
    struct err e = {{0}};
    int fd = listener(0), first = unixsocket_connect(path, 0, &e);
    assert_true(first >= 0);
    assert_int_equal(connected(&e), -1);
    assert_int_equal(errno, EAGAIN);
    close(first);
    close(fd);
}

static void test_unixsocket__a_folder_that_others_can_change_is_refused(void **state)
{
    (void)state;
    struct err e = {{0}};
    char link[128];
    int fd = listener(8);
    assert_int_equal(chmod(tmp.path, 0777), 0);
    assert_int_equal(connected(&e), -1);
    assert_int_equal(errno, EPERM);
    assert_non_null(strstr(e.msg, "can be written by other users"));
    assert_int_equal(chmod(tmp.path, 01777), 0);             /* as /tmp: only the owner of a file can replace it */
    assert_true(connected(&e) >= 0);
    if (!geteuid()) {
        assert_int_equal(chown(tmp.path, ANOTHER_USER, ANOTHER_USER), 0);
        assert_int_equal(connected(&e), -1);
        assert_non_null(strstr(e.msg, "belongs to another user"));
        assert_int_equal(chown(tmp.path, 0, 0), 0);
        snprintf(link, sizeof link, "%s-link", tmp.path);
        assert_int_equal(symlink(tmp.path, link), 0);
        assert_int_equal(lchown(link, ANOTHER_USER, ANOTHER_USER), 0);
        snprintf(path, sizeof path, "%.100s/there.sock", link);
        assert_int_equal(connected(&e), -1);
        assert_int_equal(errno, EPERM);
        unlink(link);
    }
    close(fd);
}

static bool begin(void *arg, const struct http_reply *r, struct err *e)
{
    (void)arg, (void)r, (void)e;
    return true;
}

static bool take(void *arg, const void *bytes, size_t n, struct err *e)
{
    (void)arg, (void)bytes, (void)n, (void)e;
    return true;
}

static enum http_result ask(struct err *e)
{
    struct http_reply r = {0};
    struct http *h = http_open();
    enum http_result result = http_ask(h, &(struct http_request){.url = "http://localhost/", .socket = path, .post = "my secret prompt",
                                                                 .post_bytes = 16, .stall_s = 1, .begin = begin, .take = take}, &r, e);
    http_reply_free(&r);
    http_close(h);
    return result;
}

/* Returns what the listener received until the connection ended. */
static int received_bytes(int fd)
{
    char got[256];
    int n = 0;
    for (struct pollfd p = {.fd = fd, .events = POLLIN}; poll(&p, 1, PATIENCE_MS) == 1 && read(fd, got, 1) == 1 && *got;)
        n++;
    return n;
}

static void test_unixsocket__nothing_is_sent_to_another_users_program(void **state)
{
    (void)state;
    struct err e = {{0}};
    int received;
    if (geteuid())
        skip();
    assert_int_equal(chmod(tmp.path, 01777), 0);
    pid_t pid = start_listener(ANOTHER_USER, &received);
    assert_int_equal(connected(&e), -1);
    assert_int_equal(errno, EPERM);
    assert_non_null(strstr(e.msg, "is another user's (uid 12345)"));
    assert_int_equal(received_bytes(received), 0);
    assert_int_equal(ask(&e), HTTP_HOPELESS);
    assert_non_null(strstr(e.msg, "is another user's (uid 12345)"));
    assert_int_equal(received_bytes(received), 0);
    stop_listener(pid, received);
}

static void test_unixsocket__a_request_reaches_the_users_own_program(void **state)
{
    (void)state;
    struct err e = {{0}};
    int received;
    pid_t pid = start_listener(geteuid(), &received);
    assert_int_equal(ask(&e), HTTP_BROKEN);             /* it never answers */
    assert_true(received_bytes(received) > 16);
    stop_listener(pid, received);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unixsocket__connects_to_a_program_of_the_same_user, fresh, done),
        cmocka_unit_test_setup_teardown(test_unixsocket__a_full_backlog_is_no_missing_server, fresh, done),
        cmocka_unit_test_setup_teardown(test_unixsocket__a_folder_that_others_can_change_is_refused, fresh, done),
        cmocka_unit_test_setup_teardown(test_unixsocket__nothing_is_sent_to_another_users_program, fresh, done),
        cmocka_unit_test_setup_teardown(test_unixsocket__a_request_reaches_the_users_own_program, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

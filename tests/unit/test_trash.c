/* Deleted conversations, and what killed programs leave behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "session/file.h"
#include "session/list.h"
#include "session/trash.h"
#include "tests/put.h"

enum { DAY_S = 24 * 60 * 60 };

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/q35chat-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("XDG_STATE_HOME", dir, 1);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static const char *file(const char *folder, const char *name)
{
    static char path[4][256];
    static int k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/q35chat/%s/%s", dir, folder, name);
    return path[k];
}

static bool there(const char *folder, const char *name)
{
    return !access(file(folder, name), F_OK);
}

static struct session *talk(const char *name, const char *text)
{
    struct err e = {0};
    struct transcript t = {0};
    struct session *s = session_create(name, "m", &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_true(put_entry(s, transcript_add(&t, ROLE_USER, text, strlen(text)), &e));
    transcript_free(&t);
    return s;
}

static void put(const char *folder, const char *name, const char *text, int age_s)
{
    const char *path = file(folder, name);
    struct timespec then[2] = {{time(NULL) - age_s, 0}, {time(NULL) - age_s, 0}};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

static void discard(const char *name, const char *expected)
{
    struct err e = {0};
    struct buf as = {0}, path = {0};
    buf_adds(&as, name);
    if (!trash_put(&as, &path, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(as.data, expected);
    assert_int_equal(access(path.data, F_OK), 0);
    buf_free(&as);
    buf_free(&path);
}

static void test_trash__what_was_deleted_comes_back_as_it_was(void **state)
{
    struct err e = {0};
    struct buf before = {0}, after = {0}, name = {0}, path = {0};
    struct sessions s;
    (void)state;
    struct session *open = talk("a", "Hello");
    buf_adds(&name, "a");
    assert_false(trash_put(&name, &path, &e));
    assert_string_equal(e.msg, "a is open, here or in another q35chat");
    session_close(open);
    put("sessions", "a.jsonl.unsent", "a draft", 0);
    assert_true(file_read(&before, file("sessions", "a.jsonl"), 1000, &e));
    discard("a", "a");
    assert_false(there("sessions", "a.jsonl") || there("sessions", "a.jsonl.unsent"));
    assert_true(sessions_list(&s, NULL, &e));
    assert_int_equal(s.n, 0);
    sessions_free(&s);
    assert_true(sessions_list_trash(&s, &e));
    assert_int_equal(s.n, 1);
    assert_string_equal(s.items[0].title, "Hello");
    sessions_free(&s);
    session_close(talk("a", "Another one"));
    assert_false(trash_take("a", &e));
    assert_non_null(strstr(e.msg, "the conversation a exists again"));
    discard("a", "a-2");                /* both are kept */
    assert_true(trash_take("a", &e));
    assert_true(file_read(&after, file("sessions", "a.jsonl"), 1000, &e));
    assert_string_equal(after.data, before.data);
    assert_true(there("sessions", "a.jsonl.unsent"));
    assert_false(trash_take("a", &e));
    assert_string_equal(e.msg, "no conversation a in the trash");
    assert_false(trash_take("../a", &e));
    assert_true(trash_take("a-2", &e));
    buf_free(&before);
    buf_free(&after);
    buf_free(&name);
    buf_free(&path);
}

static void test_trash__after_thirty_days_it_is_gone(void **state)
{
    (void)state;
    session_close(talk("a", "Hello"));
    put("sessions", "a.jsonl", "{\"q35chat\":1}\n", 400 * DAY_S);      /* how old it was does not matter */
    discard("a", "a");
    trash_sweep(time(NULL));
    trash_sweep(time(NULL) + 29 * DAY_S);
    assert_true(there("trash", "a.jsonl"));
    trash_sweep(time(NULL) + 31 * DAY_S);
    assert_false(there("trash", "a.jsonl"));
}

static void test_trash__what_killed_programs_left_is_swept_after_a_day(void **state)
{
    static const struct { const char *name, *text; int age_s; bool stays; } files[] = {
        {"a.jsonl.Ab12Cd", "x", 2 * DAY_S, false}, {"a.jsonl.unsent.Ab12Cd", "x", 2 * DAY_S, false}, {"b.jsonl", "", 2 * DAY_S, false},
        {"a.jsonl.Ab12Ce", "x", DAY_S / 2, true}, {"c.jsonl", "", DAY_S / 2, true}, {"d.jsonl", "x", 2 * DAY_S, true},
        {"a.jsonl.unsent", "x", 2 * DAY_S, true}, {"a.jsonl.damaged", "x", 2 * DAY_S, true}, {"a.jsonl.abc-ef", "x", 2 * DAY_S, true},
        {"a.text.Ab12Cd", "x", 2 * DAY_S, true}, {".jsonl", "", 2 * DAY_S, true}, {"a.jsonl.open12", "x", 2 * DAY_S, true},
    };
    (void)state;
    session_close(talk("a", "Hello"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put("sessions", files[i].name, files[i].text, files[i].age_s);
    int fd = open(file("sessions", "a.jsonl.open12"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    trash_sweep(time(NULL));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (there("sessions", files[i].name) != files[i].stays)
            fail_msg("%s %s", files[i].name, files[i].stays ? "is gone" : "is still there");
    assert_true(there("sessions", "a.jsonl"));
    close(fd);
}

/* The file has a name only with its first line in it: a program that may not write a byte leaves none. */
static void test_trash__no_session_is_made_without_its_first_line(void **state)
{
    struct rlimit none = {0, RLIM_INFINITY};
    int status;
    (void)state;
    session_close(talk("a", "Hello"));
    pid_t child = fork();
    if (!child) {
        setrlimit(RLIMIT_FSIZE, &none); /* ended by SIGXFSZ in the first write */
        signal(SIGXFSZ, SIG_DFL);
        session_create("b", "m", NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    assert_false(there("sessions", "b.jsonl"));
    session_close(talk("b", "The name is free"));
}

static void test_trash__no_file_is_moved_over_another(void **state)
{
    (void)state;
    session_close(talk("a", "Hello"));
    session_close(talk("b", "Hello"));
    assert_false(file_move(file("sessions", "a.jsonl"), file("sessions", "b.jsonl")));
    assert_true(there("sessions", "a.jsonl"));
    assert_false(file_move(file("sessions", "none"), file("sessions", "c")));
    assert_true(file_move(file("sessions", "a.jsonl"), file("sessions", "c")));
    assert_false(there("sessions", "a.jsonl"));
}

/* A checkpoint is made again from its session: it goes with that, and the oldest go when there is no room for all. */
static void test_trash__checkpoints_go_before_anything_else(void **state)
{
    struct err e = {0};
    static char large[8192];
    struct sessions s;
    (void)state;
    memset(large, 'x', sizeof large - 1);
    session_close(talk("a", "Hello"));
    session_close(talk("b", "Hello"));
    session_close(talk("c", "Hello"));
    put("sessions", "a.jsonl.checkpoint", large, 30);
    put("sessions", "b.jsonl.checkpoint", large, 20);
    put("sessions", "c.jsonl.checkpoint", large, 10);
    put("sessions", "gone.jsonl.checkpoint", large, 10);
    put("sessions", "a.jsonl.checkpoint.Ab12Cd", large, 2 * DAY_S);
    put("sessions", "b.jsonl.checkpoint.Ab12Cd", large, 0);
    trash_sweep(time(NULL));
    assert_false(there("sessions", "gone.jsonl.checkpoint") || there("sessions", "a.jsonl.checkpoint.Ab12Cd"));
    assert_true(there("sessions", "b.jsonl.checkpoint.Ab12Cd"));
    assert_true(sessions_list(&s, NULL, &e));
    assert_int_equal(s.n, 3);
    assert_true(s.items[0].checkpoint_bytes >= sizeof large);
    size_t one = s.items[0].checkpoint_bytes;
    sessions_free(&s);
    assert_true(trash_trim(3 * one, file("sessions", "a.jsonl.checkpoint")));
    assert_true(there("sessions", "a.jsonl.checkpoint") && there("sessions", "b.jsonl.checkpoint"));
    assert_true(trash_trim(2 * one, file("sessions", "a.jsonl.checkpoint")));
    assert_true(there("sessions", "a.jsonl.checkpoint") && there("sessions", "c.jsonl.checkpoint"));
    assert_false(there("sessions", "b.jsonl.checkpoint"));
    assert_false(trash_trim(one - 1, file("sessions", "a.jsonl.checkpoint")));
    assert_false(there("sessions", "a.jsonl.checkpoint") || there("sessions", "c.jsonl.checkpoint"));
    put("sessions", "a.jsonl.checkpoint", large, 0);
    put("sessions", "b.jsonl.checkpoint", large, 0);
    discard("a", "a");
    assert_true(sessions_delete("b", &e));
    assert_false(there("sessions", "a.jsonl.checkpoint") || there("sessions", "b.jsonl.checkpoint"));
    assert_true(there("sessions", "c.jsonl"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_trash__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_deleted_comes_back_as_it_was),
        TEST(after_thirty_days_it_is_gone),
        TEST(what_killed_programs_left_is_swept_after_a_day),
        TEST(no_session_is_made_without_its_first_line),
        TEST(no_file_is_moved_over_another),
        TEST(checkpoints_go_before_anything_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

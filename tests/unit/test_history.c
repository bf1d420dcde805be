#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/err.h"
#include "tests/slow_disk.h"
#include "tests/tmpdir.h"
#include "ui/tui/history.h"

static struct tmpdir dir;
static char path[128];
static char warned[256];

static void on_warning(const char *line, void *arg)
{
    (void)arg;
    snprintf(warned, sizeof warned, "%s", line);
}

static int setup(void **state)
{
    (void)state;
    *warned = 0;
    err_set_sink(on_warning, NULL);
    if (!tmpdir_make(&dir))
        return -1;
    snprintf(path, sizeof path, "%s/history", dir.path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_drop(&dir, "history");
    tmpdir_remove(&dir);                /* fails if something else was left there */
    err_set_sink(NULL, NULL);
    return access(dir.path, F_OK) ? 0 : -1;
}

static void assert_file(const char *expected)
{
    struct buf b = {0};
    assert_true(file_read(&b, path, 1 << 20, NULL));
    assert_string_equal(buf_str(&b), expected);
    buf_free(&b);
}

static void test_history__walks_there_and_back(void **state)
{
    (void)state;
    struct history *h = history_open(NULL, 10);
    assert_null(history_older(h, "x"));
    assert_null(history_newer(h));
    history_add(h, "one");
    history_add(h, "two");
    history_add(h, "two");
    history_add(h, " secret");
    history_add(h, "");
    history_add(h, "three");
    assert_string_equal(history_older(h, "draft"), "three");
    assert_string_equal(history_older(h, "three"), "two");
    assert_string_equal(history_older(h, "changed"), "one");
    assert_null(history_older(h, "one"));
    assert_string_equal(history_newer(h), "two");
    assert_string_equal(history_newer(h), "three");
    assert_string_equal(history_newer(h), "draft");
    assert_null(history_newer(h));
    assert_string_equal(history_older(h, "three"), "two");      /* what is in the draft already is not shown again */
    h->back = 0;
    assert_string_equal(history_older(h, ""), "three");
    history_close(h);
}

static void test_history__searches_the_newest_first_and_each_text_once(void **state)
{
    (void)state;
    struct history *h = history_open(NULL, 10);
    static const char *const typed[] = {"make test", "git Log", "make all", "git log", "make test"};
    for (int i = 0; i < 5; i++)
        history_add(h, typed[i]);
    assert_string_equal(history_search(h, "make", 0), "make test");
    assert_string_equal(history_search(h, "make", 1), "make all");
    assert_null(history_search(h, "make", 2));
    assert_string_equal(history_search(h, "log", 1), "git Log");
    assert_string_equal(history_search(h, "Log", 0), "git Log");
    assert_null(history_search(h, "Log", 1));
    assert_null(history_search(h, "nothing", 0));
    history_close(h);
}

static void test_history__comes_back_from_the_file(void **state)
{
    (void)state;
    static const char *const typed[] = {"plain", "two\nlines\t\"quoted\" \\", "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80",
                                        "\033[31m", "bad \xff byte"};
    struct history *h = history_open(path, 100);
    for (int i = 0; i < 5; i++)
        history_add(h, typed[i]);
    history_close(h);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    h = history_open(path, 100);
    assert_string_equal(history_older(h, ""), "bad \xef\xbf\xbd byte");
    for (int i = 3; i >= 0; i--)
        assert_string_equal(history_older(h, ""), typed[i]);
    assert_null(history_older(h, ""));
    history_close(h);
    assert_string_equal(warned, "");
}

static void test_history__damaged_lines_are_skipped_and_kept(void **state)
{
    (void)state;
    const char *damaged = "\"one\"\n{\"no\": 1}\n\x01\xff\n\n\"two\" x\n\"three\"\n\"torn";
    tmpdir_put(&dir, "history", damaged, strlen(damaged));
    struct history *h = history_open(path, 100);
    assert_string_equal(history_older(h, ""), "three");
    assert_string_equal(history_older(h, ""), "one");
    assert_null(history_older(h, ""));
    history_add(h, "four");
    history_close(h);
    assert_file("\"one\"\n{\"no\": 1}\n\x01\xff\n\n\"two\" x\n\"three\"\n\"torn\n\"four\"\n");
}

static void test_history__two_programs_write_one_file(void **state)
{
    (void)state;
    struct history *a = history_open(path, 2), *b = history_open(path, 2);
    char text[32];
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "a%d", i);
        history_add(a, text);
        snprintf(text, sizeof text, "b%d", i);
        history_add(b, text);
    }
    history_close(a);
    history_close(b);
    struct history *c = history_open(path, 2);
    assert_string_equal(history_older(c, ""), "b19");
    assert_string_equal(history_older(c, ""), "a19");
    history_close(c);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 12 * 6);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_history__is_cut_only_when_twice_too_long(void **state)
{
    (void)state;
    struct history *h = history_open(path, 3);
    for (const char *c = "abcdef"; *c; c++)
        history_add(h, (char[]){*c, 0});
    assert_file("\"a\"\n\"b\"\n\"c\"\n\"d\"\n\"e\"\n\"f\"\n");
    history_close(h);
    assert_file("\"a\"\n\"b\"\n\"c\"\n\"d\"\n\"e\"\n\"f\"\n");
    h = history_open(path, 3);
    disk_slow();
    history_add(h, "g");                /* no key waits for that */
    assert_int_equal(disk_n_waits, 0);
    disk_fast();
    history_close(h);
    assert_file("\"e\"\n\"f\"\n\"g\"\n");
}

static void test_history__another_kind_of_file_is_never_cut(void **state)
{
    (void)state;
    const char *prose = "once\nupon\na\ntime\n\"there\"\nwas\n";
    tmpdir_put(&dir, "history", prose, strlen(prose));
    struct history *h = history_open(path, 1);
    history_close(h);
    assert_file(prose);
}

static void test_history__what_cannot_be_read_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    struct history *h = history_open(path, 5);
    history_add(h, "one");
    assert_string_equal(history_older(h, ""), "one");
    history_close(h);
    assert_non_null(strstr(warned, "not a plain file; what you type is remembered only until the end"));
    assert_int_equal(rmdir(path), 0);
}

static void test_history__a_link_stays_a_link(void **state)
{
    (void)state;
    char real[192];
    struct stat st;
    snprintf(real, sizeof real, "%s/real", dir.path);
    tmpdir_put(&dir, "real", "\"0\"\n", 4);
    assert_int_equal(symlink(real, path), 0);
    struct history *h = history_open(path, 1);
    history_add(h, "1");
    history_add(h, "2");
    history_close(h);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_file("\"2\"\n");
    tmpdir_drop(&dir, "real");
}

static void test_history__huge_entries_are_not_written(void **state)
{
    (void)state;
    char *huge = malloc(300001);
    memset(huge, 'x', 300000);
    huge[300000] = 0;
    struct history *h = history_open(path, 5);
    history_add(h, "small");
    history_add(h, huge);
    assert_string_equal(history_older(h, ""), huge);
    history_close(h);
    assert_file("\"small\"\n");
    free(huge);
}

/* The same bytes each time. */
static void test_history__random_bytes_are_no_harm(void **state)
{
    static const char *const bits[] = {"\"", "a", "\\", "\n", "\"x\"\n", "\\u", "0041", "{", "[\"y\"]\n",
                                       "\xff", "\"\\u0000\"\n", "null\n", "\"\"\n"};
    uint64_t r = 5;
    (void)state;
    for (int n = 0; n < 300; n++) {
        struct buf b = {0};
        for (int i = 0; i < 40; i++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            buf_adds(&b, bits[(r >> 33) % (sizeof bits / sizeof *bits)]);
        }
        tmpdir_put(&dir, "history", b.data, b.len);
        struct history *h = history_open(path, 1000);
        assert_file(b.data);
        history_add(h, "z");
        assert_string_equal(history_older(h, ""), "z");
        history_close(h);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(test_history__##name, setup, teardown)
        T(walks_there_and_back),
        T(searches_the_newest_first_and_each_text_once),
        T(comes_back_from_the_file),
        T(damaged_lines_are_skipped_and_kept),
        T(two_programs_write_one_file),
        T(is_cut_only_when_twice_too_long),
        T(another_kind_of_file_is_never_cut),
        T(what_cannot_be_read_is_left_alone),
        T(a_link_stays_a_link),
        T(huge_entries_are_not_written),
        T(random_bytes_are_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

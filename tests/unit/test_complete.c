#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/tmpdir.h"
#include "ui/tui/complete.h"

static struct tmpdir dir;
static struct complete c;

static const char *const files[] = {"main.c", "main.o", "Makefile", "my notes.txt", ".hidden",
                                    "\xc3\xa4rger", "\xc3\xb6l", "bad\xff", "new\nline"};
static const char *const dirs[] = {"src", "build", "my dir"};

static int setup(void **state)
{
    char path[128];
    (void)state;
    if (!tmpdir_make(&dir) || chdir(dir.path))
        return -1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tmpdir_put(&dir, files[i], "0123456789", i == 0 ? 10 : 4);
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        mkdir(dirs[i], 0700);
    tmpdir_put(&dir, ".gitignore", "# made\n*.o\n/build/\nsrc.bak\n", 28);
    tmpdir_put(&dir, "src/one.c", "", 0);
    tmpdir_put(&dir, "src/two.c", "", 0);
    tmpdir_put(&dir, "my dir/in it", "", 0);
    snprintf(path, sizeof path, "%s", dir.path);
    setenv("HOME", path, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    complete_free(&c);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tmpdir_drop(&dir, files[i]);
    tmpdir_drop(&dir, ".gitignore");
    tmpdir_drop(&dir, "src/one.c");
    tmpdir_drop(&dir, "src/two.c");
    tmpdir_drop(&dir, "my dir/in it");
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        rmdir(dirs[i]);
    tmpdir_remove(&dir);
    return chdir("/");
}

/* The words, with '|' between them. */
static const char *words(const char *before)
{
    static struct buf all;
    static char text[4096];
    complete_find(&c, before, NULL);
    buf_reset(&all);
    for (int i = 0; i < c.n; i++)
        buf_addf(&all, "%s%s", i ? "|" : "", c.items[i].word);
    snprintf(text, sizeof text, "%s", buf_str(&all));
    buf_free(&all);
    return text;
}

static void test_complete__files(void **state)
{
    static const struct row {
        const char *before, *words, *common;
        int start;
    } rows[] = {
        {"@m", "@\"my dir/|@\"main.c\"|@\"my notes.txt\"", "@\"m", 0},        /* all quoted, so that they begin alike */
        {"@mai", "@main.c", "@main.c", 0},
        {"see @sr", "@src/", "@src/", 4},
        {"see (@src/", "@src/one.c|@src/two.c", "@src/", 5},
        {"two\n@src/o", "@src/one.c", "@src/one.c", 4},
        {"@.h", "@.hidden", "@.hidden", 0},
        {"@b", "", "", 0},                              /* build/ is ignored, bad\xff cannot be typed */
        {"@ne", "", "", 0},
        {"read @\"my d", "@\"my dir/", "@\"my dir/", 5},
        {"read @\"my dir/i", "@\"my dir/in it\"", "@\"my dir/in it\"", 5},
        {"read @\"my dir/in it\" ", "", "", 21},
        {"@my\xef\xbf\xbc@mai", "@main.c", "@main.c", 6},
        {"//text @mai", "@main.c", "@main.c", 7},
        {"look at src/o", "src/one.c", "src/one.c", 8},
        {"look at ./build", "./build/", "./build/", 8},         /* typed without @ nothing is ignored */
        {"~/mai", "~/main.c|~/main.o", "~/main.", 0},
        {"@~/mai", "@~/main.c", "@~/main.c", 0},
        {"@nowhere/x", "", "", 0},
        {"word", "", "", 0},
        {"", "", "", 0},
        {"/save m", "my dir/|main.c|main.o|my notes.txt", "m", 6},
        {"/save my d", "my dir/", "my dir/", 6},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(words(rows[i].before), rows[i].words);
        assert_string_equal(buf_str(&c.common), rows[i].common);
        assert_int_equal(c.start, rows[i].start);
    }
}

static void test_complete__sizes_and_tokens_stand_beside(void **state)
{
    (void)state;
    words("@main");
    assert_string_equal(c.items[0].note, "10 bytes  ~3 tok");
    words("@sr");
    assert_string_equal(c.items[0].note, "");
    static const struct { const char *bytes; size_t n; } others[] = {{"\x7f" "ELF\0\0\0\0", 8}, {"\x89PNG\r\n\x1a\n", 8}};      /* not texts */
    for (size_t i = 0; i < 2; i++) {
        tmpdir_put(&dir, "zz", others[i].bytes, others[i].n);
        words("@zz");
        assert_string_equal(c.items[0].note, "8 bytes");
    }
    tmpdir_drop(&dir, "zz");
}

static int five_hundred(void *arg, const char *path, const struct stat *st)
{
    (void)arg, (void)path, (void)st;
    return 500;
}

static void test_complete__the_time_to_read_a_file_stands_beside(void **state)
{
    static const struct { double tok_s; const char *note; } rows[] = {
        {0, "10 bytes  500 tok"}, {1000, "10 bytes  500 tok"}, {250, "10 bytes  500 tok, about 2 s"}, {2, "10 bytes  500 tok, about 5 min"},
        {1e-9, "10 bytes  500 tok"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        complete_free(&c);
        complete_find(&c, "@main", &(struct complete_counter){five_hundred, NULL, rows[i].tok_s});
        assert_string_equal(c.items[0].note, rows[i].note);
    }
}

static void test_complete__common_parts_hold_whole_characters(void **state)
{
    (void)state;
    words("./\xc3");
    assert_int_equal(c.n, 2);                   /* two names whose first bytes are the same */
    assert_string_equal(buf_str(&c.common), "./");
}

static void test_complete__ends_when_nothing_can_follow(void **state)
{
    (void)state;
    words("@mai");
    assert_true(complete_ends(&c));
    words("@sr");
    assert_false(complete_ends(&c));
    words("@");
    assert_false(complete_ends(&c));
    words("nothing");
    assert_false(complete_ends(&c));
}

static void test_complete__commands_have_their_help(void **state)
{
    (void)state;
    assert_string_equal(words("/sy"), "/system");
    assert_true(*c.items[0].help && *c.items[0].note);
    assert_true(complete_ends(&c));
    words("/");
    assert_true(c.n > 5);
    assert_string_equal(buf_str(&c.common), "/");
    assert_string_equal(words("/set temperat"), "temperature");
    assert_int_equal(c.start, 5);
    assert_true(*c.items[0].help);
    assert_string_equal(words("/set  temperat"), "temperature");
    assert_int_equal(c.start, 6);
    assert_string_equal(words("/nothing"), "");
    assert_string_equal(words("//"), "");
    assert_string_equal(words("a /syst"), "");
}

static void test_complete__paths_are_no_commands(void **state)
{
    char before[128], expected[128];
    (void)state;
    snprintf(before, sizeof before, "%s/src/o", dir.path);
    snprintf(expected, sizeof expected, "%s/src/one.c", dir.path);
    assert_string_equal(words(before), expected);
    assert_int_equal(c.start, 0);
}

static void test_complete__long_directories_are_cut_with_a_note(void **state)
{
    char name[32];
    (void)state;
    for (int i = 0; i < 512; i++) {
        snprintf(name, sizeof name, "build/n%03d", i);
        tmpdir_put(&dir, name, "", 0);
    }
    words("@build/");
    assert_int_equal(c.n, COMPLETE_MAX);
    assert_string_equal(c.items[0].word, "@build/n000");
    assert_string_equal(c.items[499].word, "@build/n499");
    assert_string_equal(buf_str(&c.note), "the first 500 of 512; type more of the name");
    words("@build/n00");
    assert_int_equal(c.n, 10);
    assert_string_equal(buf_str(&c.note), "");
    for (int i = 0; i < 512; i++) {
        snprintf(name, sizeof name, "build/n%03d", i);
        tmpdir_drop(&dir, name);
    }
}

/* The same drafts each time. */
static void test_complete__every_word_begins_with_what_was_typed(void **state)
{
    static const char *const bits[] = {"@", "\"", "/", "m", "my ", "src", "~", ".", " ", "\n", "(", "set", "load ", "\xef\xbf\xbc", "\xc3\xa4", "."};
    uint64_t r = 3;
    (void)state;
    for (int n = 0; n < 3000; n++) {
        struct buf b = {0};
        r = r * 6364136223846793005u + 1442695040888963407u;
        for (uint64_t bit = r >> 20; bit % 7; bit /= 7) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            buf_adds(&b, bits[(r >> 33) % (sizeof bits / sizeof *bits)]);
        }
        complete_find(&c, buf_str(&b), NULL);
        assert_true(c.start <= b.len);
        const char *typed = buf_str(&b) + c.start;
        size_t at = *typed == '@', quote = at && typed[1] != '"' && c.n && c.items[0].word[1] == '"';
        for (int i = 0; i < c.n; i++) {
            assert_memory_equal(c.items[i].word, c.common.data, c.common.len);
            assert_memory_equal(c.items[i].word, typed, at);
            assert_memory_equal(c.items[i].word + at + quote, typed + at, strlen(typed + at));
        }
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete__files),
        cmocka_unit_test(test_complete__sizes_and_tokens_stand_beside),
        cmocka_unit_test(test_complete__the_time_to_read_a_file_stands_beside),
        cmocka_unit_test(test_complete__common_parts_hold_whole_characters),
        cmocka_unit_test(test_complete__ends_when_nothing_can_follow),
        cmocka_unit_test(test_complete__commands_have_their_help),
        cmocka_unit_test(test_complete__paths_are_no_commands),
        cmocka_unit_test(test_complete__every_word_begins_with_what_was_typed),
        cmocka_unit_test(test_complete__long_directories_are_cut_with_a_note),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

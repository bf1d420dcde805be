#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "session/file.h"
#include "tests/put.h"
#include "session/list.h"
#include "session/search.h"

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

/* A conversation of messages and answers in turn, last changed `age` seconds before a fixed day. */
static struct session *talk(const char *name, int age, const char *const *texts)
{
    struct transcript t = {0};
    struct err e = {0};
    struct session *s = session_create(name, "the model", &e);
    if (!s)
        fail_msg("%s", e.msg);
    for (int i = 0; texts[i]; i++)
        assert_true(put_entry(s, transcript_add(&t, i % 2 ? ROLE_ASSISTANT : ROLE_USER, texts[i], strlen(texts[i])), &e));
    transcript_free(&t);
    const struct timespec times[2] = {{.tv_sec = 1700000000 - age}, {.tv_sec = 1700000000 - age}};
    assert_int_equal(utimensat(AT_FDCWD, session_path(s), times, 0), 0);
    return s;
}

static void kept(const char *name, int age, const char *const *texts)
{
    session_close(talk(name, age, texts));
}

#define TEXTS(...) (const char *const[]){__VA_ARGS__, NULL}

static struct sessions list(const char *find)
{
    struct sessions s;
    struct err e = {0};
    if (!sessions_list(&s, find, &e))
        fail_msg("%s", e.msg);
    return s;
}

/* A million ways back in one file: looking at it takes a second or so.  Looking from each of them to the end of the file took minutes. */
static void test_sessions__a_line_is_looked_for_in_itself_alone(void **state)
{
    enum { N = 1000000, PATIENCE_S = 240 };
    struct buf file = {0};
    (void)state;
    buf_addf(&file, "%s/q35chat/sessions", dir);
    session_close(talk("keeps", 1, TEXTS("a")));
    buf_adds(&file, "/keeps.jsonl");
    FILE *f = fopen(file.data, "a");
    assert_non_null(f);
    for (int i = 0; i < N; i++)
        fputs("{\"keep\":1}\n", f);
    fclose(f);
    alarm(PATIENCE_S);
    struct sessions l = list(NULL);
    alarm(0);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.items[0].n_turns, 1);
    sessions_free(&l);
    buf_free(&file);
}

static void test_sessions__the_newest_is_first_with_its_title_and_figures(void **state)
{
    struct err e = {0};
    struct stat st;
    (void)state;
    kept("old", 100, TEXTS("Where is Oslo?\nAnd why?", "In Norway."));
    kept("new", 1, TEXTS("\n  Hello", "Hi.", "And now?", "What?", "\"quoted\""));
    struct session *s = talk("named", 50, TEXTS("x"));
    assert_true(put_title(s, "First title", &e));
    assert_true(put_title(s, "Trip to Oslo", &e));
    session_close(s);
    struct sessions l = list(NULL);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.items[0].name, "named");      /* the title was written now */
    assert_string_equal(l.items[0].title, "Trip to Oslo");
    assert_string_equal(l.items[1].name, "new");
    assert_string_equal(l.items[1].title, "Hello");
    assert_string_equal(l.items[1].model, "the model");
    assert_int_equal(l.items[1].n_turns, 3);
    assert_int_equal(l.items[1].changed_s, 1700000000 - 1);
    assert_null(l.items[1].hit);
    assert_int_equal(stat(l.items[1].path, &st), 0);
    assert_int_equal(l.items[1].bytes, st.st_size);
    assert_string_equal(l.items[2].title, "Where is Oslo?");
    sessions_free(&l);
}

/* Three ways from the first answer, the shown one is the first and longest of them; then it goes back to the beginning. */
static void test_sessions__turns_are_those_of_the_path_that_is_shown(void **state)
{
    struct buf path = {0};
    (void)state;
    session_close(talk("tree", 1, TEXTS("a", "b", "c", "d", "e")));
    buf_addf(&path, "%s/q35chat/sessions/tree.jsonl", dir);
    static const struct { const char *lines; int turns; } steps[] = {
        {"{\"keep\":2}\n{\"role\":\"user\",\"content\":\"f\"}\n", 2}, {"{\"keep\":2}\n{\"role\":\"user\",\"content\":\"g\"}\n", 2},
        {"{\"go\":4}\n", 3}, {"{\"keep\":4}\n", 2}, {"{\"go\":5}\n", 2}, {"{\"keep\":1}\n", 1}, {"{\"go\":99}\n{\"go\":-1}\n{\"keep\":\"x\"}\n", 1},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        FILE *f = fopen(path.data, "a");
        assert_non_null(f);
        fputs(steps[i].lines, f);
        fclose(f);
        struct sessions l = list(NULL);
        assert_int_equal(l.n, 1);
        assert_int_equal(l.items[0].n_turns, steps[i].turns);
        sessions_free(&l);
    }
    buf_free(&path);
}

/* Forgets a message or an answer, and the one before it next. */
static void test_sessions__a_turn_whose_answer_was_replaced_counts(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    (void)state;
    struct session *s = talk("again", 1, TEXTS("a", "b", "c"));
    struct entry *m = NULL;
    for (int i = 0; i < 4; i++)
        m = transcript_add(&t, i % 2 ? ROLE_ASSISTANT : ROLE_USER, "x", 1);
    assert_true(put_entry(s, m, &e));
    assert_true(put_system(s, "Be brief.", &e));
    assert_true(put_instead(s, m, &e));
    struct sessions l = list(NULL);
    assert_int_equal(l.items[0].n_turns, 2);
    sessions_free(&l);
    assert_true(put_forget(s, 3, &e));
    assert_true(put_forget(s, 2, &e));
    l = list(NULL);
    assert_int_equal(l.items[0].n_turns, 1);
    sessions_free(&l);
    session_close(s);
    transcript_free(&t);
}

static void test_sessions__what_is_no_conversation_or_has_none_is_left_out(void **state)
{
#define HEAD "{\"q35chat\":1}\n"
#define USER "{\"role\":\"user\",\"content\":\"x\"}\n"
    static const struct { const char *file, *text; } files[] = {
        {"notes.txt", "x"}, {"empty.jsonl", ""}, {"other.jsonl", "{\"a\":1}\n"}, {"nothing.jsonl", HEAD}, {".hidden.jsonl", HEAD USER},
        {"forgotten.jsonl", HEAD USER "{\"keep\":0,\"forget\":true}\n"}, {"good.jsonl.new", HEAD USER},
    };
    struct sessions l = list(NULL);
    struct buf name = {0};
    (void)state;
    assert_int_equal(l.n, 0);           /* no directory yet */
    sessions_free(&l);
    assert_false(sessions_newest(&name));
    kept("good", 1, TEXTS("x"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/q35chat/sessions/%s", dir, files[i].file);
        FILE *f = fopen(path, "w");
        fputs(files[i].text, f);
        fclose(f);
    }
    l = list("");
    assert_int_equal(l.n, 1);
    assert_string_equal(l.items[0].name, "good");
    sessions_free(&l);
    assert_true(sessions_newest(&name));
    assert_string_equal(name.data, "good");
    buf_free(&name);
}

static void test_sessions__a_search_needs_every_word_somewhere_in_name_or_text(void **state)
{
    static const struct { const char *find, *name, *hit; } rows[] = {
        {"norway", "a", "In Norway, on a fjord."},
        {"fjord oslo", "a", "In Norway, on a fjord."}, {"oslo", "a", NULL}, {"why oslo", "a", "And why?"},
        {"the fjord", NULL, NULL},
        {"  Say \"no\"  ", "trip-b", NULL},
        {"to\\from", "trip-b", NULL},
        {"\xc3\xa9t\xc3\xa9", "trip-b", "l'\xc3\xa9t\xc3\xa9"},
        {"trip", "trip-b", NULL}, {"TRIP no", "trip-b", NULL}, {"trip norway", NULL, NULL},
        {"role", NULL, NULL}, {"content", NULL, NULL}, {"jsonl", NULL, NULL}, {"x%s", NULL, NULL},
    };
    (void)state;
    kept("a", 2, TEXTS("Where is Oslo?\nAnd why?", "First line\nIn Norway, on a fjord."));
    kept("trip-b", 1, TEXTS("say \"no\" to\\from", "l'\xc3\xa9t\xc3\xa9"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sessions l = list(rows[i].find);
        assert_int_equal(l.n, rows[i].name != NULL);
        if (l.n) {
            assert_string_equal(l.items[0].name, rows[i].name);
            assert_string_equal(l.items[0].hit ? l.items[0].hit : "", rows[i].hit ? rows[i].hit : "");
        }
        sessions_free(&l);
    }
}

static void test_sessions__a_hit_in_a_long_line_shows_what_is_around_it(void **state)
{
    struct buf text = {0};
    (void)state;
    for (int i = 0; i < 500; i++)
        buf_adds(&text, "\xc3\xa9 ");
    buf_adds(&text, "needle");
    for (int i = 0; i < 500; i++)
        buf_adds(&text, "\xc3\xa9\xc3\xa9 ");
    kept("a", 1, TEXTS(text.data));
    struct sessions l = list("NEEDLE");
    assert_int_equal(l.n, 1);
    assert_non_null(strstr(l.items[0].hit, "needle"));
    assert_true(strlen(l.items[0].hit) <= 200);
    assert_int_equal(strncmp(l.items[0].hit, "\xc3\xa9 ", 3), 0);
    sessions_free(&l);
    buf_free(&text);
}

static void test_sessions__equal_titles_are_distinguished_by_what_came_after(void **state)
{
    static const char *const labels[] = {"Sum: And now?", "Sum: It is 4.", "Sum", "Other"};
    (void)state;
    kept("a", 1, TEXTS("Sum", "3", "And now?\n@file", "5"));
    kept("b", 2, TEXTS("Sum", "\nIt is 4.\nSure."));
    kept("c", 3, TEXTS("Sum"));         /* has no answer */
    kept("d", 4, TEXTS("Other", "x"));
    struct sessions l = list(NULL);
    assert_int_equal(l.n, 4);
    for (int i = 0; i < l.n; i++) {
        struct buf label = {0};
        sessions_label(&l.items[i], &label);
        assert_string_equal(label.data, labels[i]);
        buf_free(&label);
    }
    sessions_free(&l);
    l = list("other");                  /* of those that are listed */
    assert_null(l.items[0].apart);
    sessions_free(&l);
}

/* A search in slices finds what the list finds, wherever the slices are cut. */
static void test_sessions__a_file_is_scanned_in_slices(void **state)
{
    static const struct { const char *find; enum scan_result result; const char *hit; } rows[] = {
        {"needle", SCAN_FOUND, "a needle"}, {"needle hay", SCAN_FOUND, "hay hay hay"}, {"last", SCAN_FOUND, "the last line"},
        {"needles", SCAN_NOT, NULL},
        {"talk needle", SCAN_FOUND, "a needle"}, {"talk", SCAN_FOUND, ""}, {"beginning end", SCAN_FOUND, "the end"},
    };
    enum { BIG = 700000 };
    struct buf big = {0}, path = {0};
    struct err e = {0};
    (void)state;
    for (int i = 0; i < BIG / 4; i++)
        buf_adds(&big, "hay ");
    kept("talk", 1, TEXTS("the beginning", "x", big.data, big.data, "a needle", "y", "the end\nthe last line"));
    assert_true(session_path_of("talk", &path, &e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scan s = {0};
        enum scan_result result;
        int n = 1;
        scan_begin(&s, rows[i].find);
        while ((result = scan_step(&s, "talk", "beginning", path.data)) == SCAN_MORE)
            n++;
        assert_int_equal(result, rows[i].result);
        if (rows[i].hit)
            assert_int_equal(strncmp(buf_str(&s.found.hit), rows[i].hit, strlen(rows[i].hit)), 0);
        assert_true(n > 2 || !strcmp(rows[i].find, "talk"));    /* the name says it all */
        assert_int_equal(scan_step(&s, "other", "", "/nowhere"), SCAN_NOT);         /* and on to the next one */
        scan_free(&s);
    }
    buf_free(&big);
    buf_free(&path);
}

static void test_sessions__a_line_without_end_is_given_up(void **state)
{
    struct scan s = {0};
    struct buf path = {0};
    struct err e = {0};
    enum scan_result result;
    (void)state;
    kept("zeros", 1, TEXTS("x"));
    assert_true(session_path_of("zeros", &path, &e));
    assert_int_equal(truncate(path.data, (off_t)1 << 30), 0);
    int n = 0;
    scan_begin(&s, "y");
    while ((result = scan_step(&s, "zeros", "", path.data)) == SCAN_MORE)
        n++;
    assert_int_equal(result, SCAN_NOT);
    assert_true(n < 100);
    assert_false(s.open);
    scan_free(&s);
    buf_free(&path);
}

/* A gigabyte that does not begin like a session is left after its beginning: it would take a second to read, and the memory. */
static void test_sessions__a_large_file_of_another_kind_is_not_read(void **state)
{
    struct buf path = {0};
    struct err e = {0};
    (void)state;
    kept("good", 1, TEXTS("x"));
    assert_true(session_path_of("zeros", &path, &e));
    int fd = open(path.data, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)1 << 30), 0);
    close(fd);
    struct rusage a, b;
    getrusage(RUSAGE_SELF, &a);
    struct sessions l = list(NULL);
    getrusage(RUSAGE_SELF, &b);
    assert_int_equal(l.n, 1);
    assert_true(b.ru_maxrss - a.ru_maxrss < 100 << 10);         /* kilobytes */
    sessions_free(&l);
    buf_free(&path);
}

static void test_sessions__only_what_is_closed_is_deleted(void **state)
{
    struct err e = {0};
    char path[128];
    (void)state;
    struct session *s = talk("open", 1, TEXTS("x"));
    assert_false(sessions_delete("open", &e));
    assert_string_equal(e.msg, "open is open, here or in another q35chat");
    session_close(s);
    snprintf(path, sizeof path, "%s/q35chat/sessions/open.jsonl", dir);
    assert_false(sessions_delete(path, &e));
    assert_non_null(strstr(e.msg, "not by a path"));
    assert_int_equal(access(path, F_OK), 0);
    assert_true(sessions_delete("open", &e));
    assert_int_equal(access(path, F_OK), -1);
    assert_false(sessions_delete("open", &e));
    assert_string_equal(e.msg, "no conversation open");
    assert_false(sessions_delete("..", &e));
}

static void test_sessions__a_thousand_are_listed_and_searched(void **state)
{
    struct buf file = {0}, path = {0};
    (void)state;
    kept("first", 0, TEXTS("x"));       /* makes the directory */
    buf_adds(&file, "{\"q35chat\":1,\"model\":\"m\"}\n");
    for (int i = 0; i < 20; i++) {
        buf_adds(&file, "{\"role\":\"user\",\"content\":\"a question of some length\"}\n");
        buf_adds(&file, "{\"role\":\"assistant\",\"content\":\"an answer\",\"ids\":[1");
        for (int k = 0; k < 200; k++)
            buf_adds(&file, ",12345");
        buf_adds(&file, "]}\n");
    }
    for (int i = 0; i < 1000; i++) {
        buf_reset(&path);
        buf_addf(&path, "%s/q35chat/sessions/talk-%d.jsonl", dir, i);
        FILE *f = fopen(path.data, "w");
        fwrite(file.data, 1, file.len, f);
        if (i == 500)
            fputs("{\"role\":\"user\",\"content\":\"12345 needles\"}\n", f);
        fclose(f);
    }
    struct sessions l = list(NULL);
    assert_int_equal(l.n, 1001);
    sessions_free(&l);
    l = list("12345 needles");
    assert_int_equal(l.n, 1);
    assert_string_equal(l.items[0].name, "talk-500");
    assert_int_equal(l.items[0].n_turns, 21);
    sessions_free(&l);
    buf_free(&file);
    buf_free(&path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_sessions__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_newest_is_first_with_its_title_and_figures),
        TEST(a_line_is_looked_for_in_itself_alone),
        TEST(a_turn_whose_answer_was_replaced_counts),
        TEST(turns_are_those_of_the_path_that_is_shown),
        TEST(what_is_no_conversation_or_has_none_is_left_out),
        TEST(a_search_needs_every_word_somewhere_in_name_or_text),
        TEST(a_hit_in_a_long_line_shows_what_is_around_it),
        TEST(equal_titles_are_distinguished_by_what_came_after),
        TEST(a_file_is_scanned_in_slices),
        TEST(a_line_without_end_is_given_up),
        TEST(a_large_file_of_another_kind_is_not_read),
        TEST(only_what_is_closed_is_deleted),
        TEST(a_thousand_are_listed_and_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

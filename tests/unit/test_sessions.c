#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "chat/session.h"
#include "chat/sessions.h"

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
        assert_true(session_append(s, transcript_add(&t, i % 2 ? ROLE_ASSISTANT : ROLE_USER, texts[i], strlen(texts[i])), &e));
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
    assert_true(session_title(s, "First title", &e));
    assert_true(session_title(s, "Trip to Oslo", &e));
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

/* What is forgotten may be a message or an answer, and the one before it next. */
static void test_sessions__a_turn_whose_answer_was_replaced_counts(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    (void)state;
    struct session *s = talk("again", 1, TEXTS("a", "b", "c"));
    struct entry *m = NULL;
    for (int i = 0; i < 4; i++)
        m = transcript_add(&t, i % 2 ? ROLE_ASSISTANT : ROLE_USER, "x", 1);
    assert_true(session_append(s, m, &e));
    assert_true(session_system(s, "Be brief.", &e));
    assert_true(session_replace(s, m, &e));
    struct sessions l = list(NULL);
    assert_int_equal(l.items[0].n_turns, 2);
    sessions_free(&l);
    assert_true(session_forget(s, 3, &e));
    assert_true(session_forget(s, 2, &e));
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

static void test_sessions__a_search_needs_every_word_somewhere_in_the_text(void **state)
{
    static const struct { const char *find, *name, *hit; } rows[] = {
        {"norway", "a", "In Norway, on a fjord."},
        {"fjord oslo", "a", "Where is Oslo?"},
        {"the fjord", NULL, NULL},
        {"  Say \"no\"  ", "b", "say \"no\" to\\from"},
        {"to\\from", "b", "say \"no\" to\\from"},
        {"\xc3\xa9t\xc3\xa9", "b", "l'\xc3\xa9t\xc3\xa9"},
        {"role", NULL, NULL}, {"content", NULL, NULL}, {"jsonl", NULL, NULL}, {"x%s", NULL, NULL},
    };
    (void)state;
    kept("a", 2, TEXTS("Where is Oslo?\nAnd why?", "First line\nIn Norway, on a fjord."));
    kept("b", 1, TEXTS("say \"no\" to\\from", "l'\xc3\xa9t\xc3\xa9"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sessions l = list(rows[i].find);
        assert_int_equal(l.n, rows[i].name != NULL);
        if (l.n) {
            assert_string_equal(l.items[0].name, rows[i].name);
            assert_string_equal(l.items[0].hit, rows[i].hit);
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
    assert_non_null(strstr(e.msg, "not files by path"));
    assert_int_equal(access(path, F_OK), 0);
    assert_true(sessions_delete("open", &e));
    assert_int_equal(access(path, F_OK), -1);
    assert_false(sessions_delete("open", &e));
    assert_string_equal(e.msg, "there is no conversation open");
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
        TEST(a_search_needs_every_word_somewhere_in_the_text),
        TEST(a_hit_in_a_long_line_shows_what_is_around_it),
        TEST(only_what_is_closed_is_deleted),
        TEST(a_thousand_are_listed_and_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "chat/session.h"

static char dir[64], path[80];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/q35chat-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/talk", dir);
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

static void holds(struct text t, const char *expected, size_t n)
{
    assert_int_equal(t.n, n);
    assert_memory_equal(t.p, expected, n);
}

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void read_file(struct buf *out)
{
    struct err e = {0};
    buf_reset(out);
    if (!buf_read_file(out, path, 1 << 20, &e))
        fail_msg("%s", e.msg);
}

/* A user's message, an answer with everything, a tool's result. */
static void fill(struct transcript *t)
{
    transcript_system(t, "Be brief.");
    transcript_add(t, ROLE_USER, "a\0b \xc3\xa9\n\"\\\x01", 10);
    struct entry *m = transcript_add(t, ROLE_ASSISTANT, "", 0);
    entry_reasoning(m, "why", 3);
    entry_call(m, "clock", "{}", 2);
    entry_call(m, "x", "{\"a\": 1}", 8);
    ids_add(&m->ids, 7);
    ids_add(&m->ids, 248046);
    m->stopped = true;
    entry_tool(transcript_add(t, ROLE_TOOL, "noon", 4), "clock");
}

static struct session *save(const struct transcript *t)
{
    struct err e = {0};
    struct session *s = session_create(path, "dir", &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_true(session_system(s, t->system ? t->system : "", &e));
    for (int i = 0; i < t->n; i++)
        assert_true(session_append(s, t->entries[i], &e));
    return s;
}

static void test_session__what_was_saved_is_loaded(void **state)
{
    struct transcript t = {0}, back = {0};
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    fill(&t);
    session_close(save(&t));
    struct session *s = session_open(path, &back, &note, &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_int_equal(note.len, 0);
    assert_string_equal(back.system, "Be brief.");
    assert_int_equal(back.n, 3);
    holds(back.entries[0]->m.content, "a\0b \xc3\xa9\n\"\\\x01", 10);
    const struct entry *m = back.entries[1];
    assert_int_equal(m->m.role, ROLE_ASSISTANT);
    assert_true(m->m.has_reasoning && m->stopped);
    holds(m->m.reasoning, "why", 3);
    assert_int_equal(m->m.n_calls, 2);
    holds(m->m.calls[1].arguments, "{\"a\": 1}", 8);
    assert_int_equal(m->ids.n, 2);
    assert_int_equal(m->ids.data[1], 248046);
    holds(back.entries[2]->tool, "clock", 5);
    session_close(s);
    transcript_free(&t);
    transcript_free(&back);
}

static void test_session__files_are_for_the_owner_alone_and_never_overwritten(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    struct stat st;
    (void)state;
    session_close(save(&t));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_null(session_create(path, "dir", &e));
    assert_non_null(strstr(e.msg, "exists already"));
}

static void test_session__names_live_in_the_state_directory(void **state)
{
    struct err e = {0};
    char expected[160];
    (void)state;
    struct session *a = session_create(NULL, "dir", &e), *b = session_create(NULL, "dir", &e), *c = session_create("holiday", "dir", &e);
    assert_true(a && b && c);
    assert_string_not_equal(session_path(a), session_path(b));
    snprintf(expected, sizeof expected, "%s/q35chat/sessions/holiday.jsonl", dir);
    assert_string_equal(session_path(c), expected);
    assert_null(session_create(".hidden", "dir", &e));
    session_close(a);
    session_close(b);
    session_close(c);
}

static void test_session__taking_back_is_a_record_too(void **state)
{
    struct transcript t = {0}, back = {0};
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    fill(&t);
    struct session *s = save(&t);
    assert_true(session_keep(s, 1, &e));
    assert_true(session_append(s, t.entries[2], &e));
    assert_true(session_system(s, "", &e));
    session_close(s);
    s = session_open(path, &back, &note, &e);
    assert_non_null(s);
    assert_int_equal(back.n, 2);
    assert_int_equal(back.entries[1]->m.role, ROLE_TOOL);
    assert_null(back.system);
    session_close(s);
    transcript_free(&t);
    transcript_free(&back);
}

/* A file cut anywhere loads with all whole lines, says so, and goes on with a whole line. */
static void test_session__a_file_cut_anywhere_loses_at_most_its_last_line(void **state)
{
    struct transcript t = {0};
    struct buf whole = {0}, now = {0}, note = {0};
    struct err e = {0};
    (void)state;
    fill(&t);
    session_close(save(&t));
    read_file(&whole);
    size_t header = strcspn(whole.data, "\n") + 1;
    for (size_t n = header; n <= whole.len; n++) {
        struct transcript back = {0};
        FILE *f = fopen(path, "w");
        fwrite(whole.data, 1, n, f);
        fclose(f);
        buf_reset(&note);
        struct session *s = session_open(path, &back, &note, &e);
        if (!s)
            fail_msg("%zu: %s", n, e.msg);
        assert_int_equal(note.len > 0, whole.data[n - 1] != '\n');
        assert_true(session_append(s, t.entries[0], &e));
        session_close(s);
        int before = back.n;
        transcript_free(&back);
        s = session_open(path, &back, &note, &e);
        assert_non_null(s);
        assert_int_equal(back.n, before + 1);
        session_close(s);
        transcript_free(&back);
    }
    buf_free(&whole);
    buf_free(&now);
    buf_free(&note);
    transcript_free(&t);
}

static void test_session__a_damaged_file_gets_a_sentence_and_stays_as_it_is(void **state)
{
#define HEAD "{\"q35chat\":1}\n"
#define TAIL "{\"role\":\"user\",\"content\":\"x\"}\n"
    static const struct { const char *text, *says; } rows[] = {
        {"", "is empty"},
        {"hello\n", "the first line is not JSON"},
        {"{}\n" TAIL, "has no \"q35chat\""},
        {"{\"q35chat\":2}\n" TAIL, "has format 2, this program reads 1"},
        {HEAD "{\"role\":\"user\",\"content\":\n" TAIL, ":2: the line is damaged"},
        {HEAD "{\"role\":\"user\"}\n" TAIL, ":2: the line is damaged"},
        {HEAD "[]\n" TAIL, ":2: the line is damaged"},
        {HEAD TAIL "{\"keep\":5}\n" TAIL, ":3: the line is damaged"},
        {HEAD TAIL "{\"keep\":-1}\n" TAIL, ":3: the line is damaged"},
        {HEAD "{\"role\":\"assistant\",\"content\":\"x\",\"ids\":[-1]}\n" TAIL, ":2: the line is damaged"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct transcript t = {0};
        struct buf note = {0}, after = {0};
        struct err e = {0};
        write_file(rows[i].text);
        assert_null(session_open(path, &t, &note, &e));
        if (!strstr(e.msg, rows[i].says) || !strstr(e.msg, path))
            fail_msg("%s", e.msg);
        assert_int_equal(t.n, 0);
        read_file(&after);
        assert_string_equal(buf_str(&after), rows[i].text);
        buf_free(&after);
        buf_free(&note);
    }
}

static void test_session__a_session_in_use_is_not_opened_twice(void **state)
{
    struct transcript t = {0};
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    struct session *s = save(&t);
    assert_null(session_open(path, &t, &note, &e));
    assert_non_null(strstr(e.msg, "in use by another q35chat"));
    session_close(s);
}

static void test_session__unknown_records_are_skipped(void **state)
{
    struct transcript t = {0};
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    write_file(HEAD "{\"role\":\"mood\",\"content\":\"x\"}\n{\"title\":\"x\"}\n" TAIL);
    struct session *s = session_open(path, &t, &note, &e);
    assert_non_null(s);
    assert_int_equal(t.n, 1);
    session_close(s);
    transcript_free(&t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_session__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_saved_is_loaded),
        TEST(files_are_for_the_owner_alone_and_never_overwritten),
        TEST(names_live_in_the_state_directory),
        TEST(taking_back_is_a_record_too),
        TEST(a_file_cut_anywhere_loses_at_most_its_last_line),
        TEST(a_damaged_file_gets_a_sentence_and_stays_as_it_is),
        TEST(a_session_in_use_is_not_opened_twice),
        TEST(unknown_records_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

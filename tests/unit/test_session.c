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

#include "session/file.h"
#include "base/file.h"
#include "tests/put.h"
#include "session/record.h"

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
    if (!file_read(out, path, 1 << 20, &e))
        fail_msg("%s", e.msg);
}

static bool read_only(const char *name, struct transcript *t, struct err *e)
{
    struct buf note = {0};
    bool ok = session_read(name, t, &note, e);
    buf_free(&note);
    return ok;
}

/* A user's message, an answer with everything, a tool's result. */
static void fill(struct transcript *t)
{
    transcript_system(t, "Be brief.");
    transcript_add(t, ROLE_USER, "a\0b \xc3\xa9\n\"\\\x01", 10);
    struct entry *m = transcript_add(t, ROLE_ASSISTANT, "", 0);
    entry_reasoning(m, "why", 3);
    entry_call(m, "call_1", "clock", "{}", 2);
    entry_call(m, "call_2", "x", "{\"a\": 1}", 8);
    ids_add(&m->ids, 7);
    ids_add(&m->ids, 248046);
    m->stopped = true;
    entry_tool(transcript_add(t, ROLE_TOOL, "noon", 4), "clock", "call_1");
}

static struct session *save(const struct transcript *t)
{
    struct err e = {0};
    struct session *s = session_create(path, "dir", &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_true(put_system(s, t->system ? t->system : "", &e));
    for (int i = 0; i < t->n; i++)
        assert_true(put_entry(s, t->entries[i], &e));
    return s;
}

enum { PART_S = 1769870000 };

static void part(struct session *s, size_t reasoning_at, size_t content_at, int ids_at, const char *reasoning, const char *content, int32_t id)
{
    struct err e = {0};
    struct answer_part p = {
        .reasoning_at = reasoning_at, .content_at = content_at, .ids_at = ids_at, .reasoning = text_of(reasoning), .content = text_of(content),
        .time_s = PART_S, .ids = &id, .n_ids = 1,
    };
    if (!session_part(s, &p, &e))
        fail_msg("%s", e.msg);
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
    holds(m->m.calls[1].id, "call_2", 6);
    assert_int_equal(m->ids.n, 2);
    assert_int_equal(m->ids.data[1], 248046);
    holds(back.entries[2]->tool, "clock", 5);
    holds(back.entries[2]->m.call_id, "call_1", 6);
    session_close(s);
    transcript_free(&t);
    transcript_free(&back);
}

/* A list in a line costs memory in proportion to it, whatever the line says. */
static void test_session__a_hostile_list_takes_memory_as_its_bytes(void **state)
{
    enum { N = 20000, A_BYTE = 80 };
    static const struct { const char *before, *item, *behind; } rows[] = {
        {"{\"role\":\"assistant\",\"content\":\"x\",\"calls\":[", "{},", "{}]}\n"},
        {"{\"role\":\"user\",\"content\":\"x\",\"files\":[", "{},", "{}]}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct transcript t = {0};
        struct buf text = {0};
        struct err e = {0};
        buf_addf(&text, "{\"q35chat\":1}\n%s", rows[i].before);
        for (int k = 1; k < N; k++)
            buf_adds(&text, rows[i].item);
        buf_adds(&text, rows[i].behind);
        write_file(text.data);
        if (!read_only(path, &t, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(t.entries[0]->m.n_calls + t.entries[0]->n_files, N);
        assert_true(t.entries[0]->mem.total < A_BYTE * text.len);
        transcript_free(&t);
        buf_free(&text);
    }
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
    assert_non_null(strstr(e.msg, "exists; choose another name"));
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
    assert_true(put_keep(s, 1, &e));
    assert_true(put_entry(s, t.entries[2], &e));
    assert_true(put_system(s, "", &e));
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
        assert_true(put_entry(s, t.entries[0], &e));
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

#define HEAD "{\"q35chat\":1}\n"
#define TAIL "{\"role\":\"user\",\"content\":\"x\"}\n"
static void test_session__a_file_without_its_first_line_gets_a_sentence_and_stays_as_it_is(void **state)
{
    static const struct { const char *text, *says; } rows[] = {
        {"", "is empty"},
        {"hello\n", "the first line is not JSON"},
        {"{}\n" TAIL, "has no \"q35chat\""},
        {"{\"q35chat\":2}\n" TAIL, "has format 2, this program reads 1"},
        {"{\"q35chat\":1}", "the first line is not JSON"},
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

/* A damaged message keeps its place, so that later lines mean what they meant. */
static void test_session__a_damaged_line_costs_that_line(void **state)
{
#define LOST "(a line of this conversation's file was damaged here)"
#define LAST "{\"role\":\"user\",\"content\":\"last\"}\n"
    static const struct { const char *text, *path; int line; } rows[] = {
        {HEAD "{\"role\":\"user\",\"content\":\n" LAST, LOST " last", 2},
        {HEAD "{\"role\":\"user\"}\n" LAST, LOST " last", 2},
        {HEAD "{ \"role\": \"assistant\", \"content\"\n" LAST, LOST " last", 2},
        {HEAD TAIL "\"role\":\"tool\",\n{\"go\":0}\n" LAST, "x last", 3},
        {HEAD TAIL "{\"role\":\"assistant\", \xff\n{\"role\":\"tool\",\"content\":\"t\"}\n{\"go\":2}\n" LAST, "x " LOST " t last", 3},
        {HEAD "[]\n" LAST, "last", 2},
        {HEAD "\n" LAST, "last", 2},
        {HEAD TAIL "{\"keep\":5}\n" LAST, "x last", 3},
        {HEAD TAIL "{\"keep\":-1}\n" LAST, "x last", 3},
        {HEAD TAIL "{\"go\":1}\n" LAST, "x last", 3},
        {HEAD TAIL "{\"go\":\"0\"}\n" LAST, "x last", 3},
        {HEAD TAIL TAIL "{\"keep\":0,\"forget\":true}\n" LAST, "x x last", 4},
        {HEAD TAIL "{\"keep\":0}\n" TAIL "{\"go\":0}\n{\"keep\":0,\"forget\":true}\n" LAST, "x last", 6},
        {HEAD LAST "{\"answering\":[1,0,0]}\n", "last", 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int again = 0; again < 2; again++) {
            struct transcript t = {0};
            struct buf note = {0}, found = {0}, after = {0}, number = {0};
            struct err e = {0};
            write_file(rows[i].text);
            struct session *s = session_open(path, &t, &note, &e);
            if (!s)
                fail_msg("%s", e.msg);
            for (int k = 0; k < t.n; k++)
                buf_addf(&found, k ? " %s" : "%s", t.entries[k]->m.content.p);
            assert_string_equal(buf_str(&found), rows[i].path);
            buf_addf(&number, "line %d of %s is damaged", rows[i].line, path);
            assert_non_null(strstr(buf_str(&note), number.data));
            read_file(&after);
            assert_string_equal(buf_str(&after), rows[i].text);
            if (again) {                /* what is written anew lacks it; what it was is kept beside */
                buf_addf(&number, " %s.damaged", path);
                assert_true(session_rewrite(s, &t, &e));
                buf_reset(&after);
                assert_true(file_read(&after, strrchr(number.data, ' ') + 1, 1000, &e));
                assert_string_equal(after.data, rows[i].text);
                unlink(strrchr(number.data, ' ') + 1);
            }
            session_close(s);
            transcript_free(&t);
            buf_free(&after);
            buf_free(&note);
            buf_free(&found);
            buf_free(&number);
        }
}

static void test_session__bad_ids_cost_the_ids(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    (void)state;
    write_file(HEAD TAIL "{\"role\":\"assistant\",\"content\":\"x\",\"ids\":[5,-1]}\n");
    assert_true(read_only(path, &t, &e));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.entries[1]->ids.n, 0);
    transcript_free(&t);
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
    assert_true(session_rewrite(s, &t, &e));            /* another file has its name now, and it is ours as well */
    assert_null(session_open(path, &t, &note, &e));
    assert_non_null(strstr(e.msg, "in use by another q35chat"));
    session_close(s);
}

static void test_session__a_message_keeps_its_time(void **state)
{
    enum { SENT_S = 1769868123 };
    struct transcript t = {0}, back = {0};
    struct buf lines = {0};
    struct err e = {0};
    (void)state;
    fill(&t);
    for (int i = 0; i < t.n; i++)
        t.entries[i]->time_s = SENT_S + i;
    struct session *s = save(&t);
    part(s, 0, 0, 0, "", "half of", 1);
    session_close(s);
    read_file(&lines);
    assert_non_null(strstr(lines.data, "{\"role\":\"tool\",\"name\":\"clock\",\"time\":\"2026-01-31T14:02:05Z\","));
    assert_true(read_only(path, &back, &e));
    assert_int_equal(back.n, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(back.entries[i]->time_s, SENT_S + i);
    assert_int_equal(back.entries[3]->time_s, PART_S);          /* the program ended within this one */
    buf_free(&lines);
    transcript_free(&t);
    transcript_free(&back);
}

static void test_session__a_message_without_a_time_that_can_be_read_has_none(void **state)
{
    static const char *const times[] = {
        "", "\"time\":\"\",", "\"time\":7,", "\"time\":\"2026-01-31\",", "\"time\":\"2026-01-31T14:02:05Z \",", "\"time\":\"1969-01-31T14:02:05Z\",",
        "\"time\":null,", "\"time\":\"99999999999999999999-01-31T14:02:05Z\",",
    };
    struct err e = {0};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct transcript t = {0};
        struct buf file = {0};
        buf_addf(&file, HEAD "{\"role\":\"user\",%s\"content\":\"x\"}\n", times[i]);
        write_file(file.data);
        assert_true(read_only(path, &t, &e));
        assert_int_equal(t.n, 1);
        assert_int_equal(t.entries[0]->time_s, 0);
        transcript_free(&t);
        buf_free(&file);
    }
}

static void test_session__unknown_records_are_skipped(void **state)
{
    struct transcript t = {0};
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    write_file(HEAD "{\"role\":\"mood\",\"content\":\"x\"}\n{\"colour\":\"x\"}\n" TAIL);
    struct session *s = session_open(path, &t, &note, &e);
    assert_non_null(s);
    assert_int_equal(t.n, 1);
    session_close(s);
    transcript_free(&t);
}

/* --- trees ------------------------------------------------------------------------------------------------------- */

static uint64_t seed;

static int below(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((seed >> 11) % (uint64_t)n);
}

static int number_of(const struct entry *m)
{
    return m ? m->number : -1;
}

static void same(const struct transcript *a, const struct transcript *b)
{
    assert_string_equal(a->system ? a->system : "", b->system ? b->system : "");
    assert_string_equal(a->title ? a->title : "", b->title ? b->title : "");
    assert_int_equal(a->n_all, b->n_all);
    assert_int_equal(a->n, b->n);
    assert_int_equal(number_of(a->shown), number_of(b->shown));
    for (int i = 0; i < a->n_all; i++) {
        const struct entry *x = a->all[i], *y = b->all[i];
        assert_int_equal(x->number, i);
        assert_int_equal(y->number, i);
        assert_int_equal(x->m.role, y->m.role);
        assert_int_equal(x->depth, y->depth);
        assert_int_equal(number_of(x->parent), number_of(y->parent));
        assert_int_equal(number_of(x->shown), number_of(y->shown));
        assert_int_equal(x->time_s, y->time_s);
        assert_string_equal(x->m.content.p, y->m.content.p);
    }
    for (int i = 0; i < a->n; i++)
        assert_int_equal(a->entries[i]->number, b->entries[i]->number);
}

/* Checks the path in any state: it begins with a root, goes from parent to child, and is what is noted as shown. */
static void sound(const struct transcript *t)
{
    for (int i = 0; i < t->n; i++) {
        assert_int_equal(t->entries[i]->depth, i);
        assert_ptr_equal(t->entries[i]->parent, i ? t->entries[i - 1] : NULL);
        assert_ptr_equal(i ? t->entries[i - 1]->shown : t->shown, t->entries[i]);
        assert_true(transcript_on_path(t, t->entries[i]));
    }
}

static void add_something(struct session *s, struct transcript *t, struct err *e)
{
    static const enum role roles[] = {ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL};
    char text[32];
    snprintf(text, sizeof text, "text %d", below(1000000));
    struct entry *m = transcript_add(t, roles[below(3)], text, strlen(text));
    m->time_s = below(2) ? 1 + below(INT32_MAX) : 0;
    assert_true(put_entry(s, m, e));
}

static void do_something(struct session *s, struct transcript *t, struct err *e)
{
    char text[32];
    int k;
    snprintf(text, below(3) ? sizeof text : 1, "text %d", below(1000000));     /* or nothing */
    switch (below(8)) {
    case 0:
        k = below(t->n + 1);
        transcript_cut(t, k);
        assert_true(put_keep(s, k, e));
        break;
    case 1:
    case 2:
        if (!t->n_all)
            break;
        k = below(t->n_all);
        transcript_go(t, t->all[k]);
        assert_true(put_go(s, k, e));
        break;
    case 3:
        add_something(s, t, e);
        transcript_forget(t);
        assert_true(put_forget(s, t->n, e));
        break;
    case 4:
        if (below(2)) {
            transcript_system(t, text);
            assert_true(put_system(s, text, e));
        } else {
            transcript_title(t, text);
            assert_true(put_title(s, text, e));
        }
        break;
    default:
        add_something(s, t, e);
        break;
    }
}

/* Three ways to the disk and back: record by record, all at once, and a rewrite that then goes on. */
static void test_session__any_tree_is_loaded_as_it_was(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct transcript t = {0}, back = {0};
        struct buf note = {0};
        struct err e = {0};
        char copy[96];
        seed = (uint64_t)round + 1;
        snprintf(copy, sizeof copy, "%s/copy", dir);
        struct session *s = session_create(path, "dir", &e);
        for (int n = below(40); n; n--) {
            do_something(s, &t, &e);
            sound(&t);
        }
        assert_true(read_only(path, &back, &e));
        same(&t, &back);
        transcript_free(&back);

        struct session *c = session_create(copy, "dir", &e);
        assert_true(put_transcript(c, &t, &e));
        assert_true(session_rewrite(s, &t, &e));
        for (int k = 0; k < 2; k++) {
            struct session *one = k ? s : c;
            assert_true(read_only(session_path(one), &back, &e));
            same(&t, &back);
            add_something(one, &back, &e);
            transcript_free(&back);
            session_close(one);
            one = session_open(k ? path : copy, &back, &note, &e);
            if (!one)
                fail_msg("%s", e.msg);
            assert_int_equal(back.n_all, t.n_all + 1);
            assert_int_equal(back.n, t.n + 1);
            session_close(one);
            transcript_free(&back);
        }
        transcript_free(&t);
        buf_free(&note);
        unlink(path);
        unlink(copy);
    }
}

/* The same without a disk, and so many more of them; small and bushy, where the ways that were shown last contradict each other. */
static void test_session__any_bushy_tree_is_written_at_once_as_it_was(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct transcript t = {0}, back = {0};
        struct unfinished u = {0};
        struct buf lines = {0};
        seed = (uint64_t)round + 1;
        for (int n = 2 + below(24); n; n--) {
            int what = t.n_all ? below(4) : 0;
            if (what < 2)
                transcript_add(&t, ROLE_USER, "x", 1);
            else if (what == 2)
                transcript_go(&t, t.all[below(t.n_all)]);
            else
                transcript_cut(&t, below(t.n + 1));
        }
        record_transcript(&lines, &t);
        for (size_t at = 0, n; at < lines.len; at += n + 1) {
            n = strcspn(lines.data + at, "\n");
            assert_int_not_equal(record_read(lines.data + at, n, &back, &u), RECORD_DAMAGED);
            sound(&back);               /* a file that ends here is one, too */
        }
        sound(&back);
        same(&t, &back);
        transcript_free(&t);
        transcript_free(&back);
        buf_free(&lines);
    }
}

static void test_session__a_file_from_before_there_were_trees_loads_as_before(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    (void)state;
    write_file(HEAD TAIL "{\"role\":\"assistant\",\"content\":\"one\"}\n{\"keep\":1}\n{\"role\":\"assistant\",\"content\":\"two\"}\n"
               "{\"role\":\"user\",\"content\":\"y\"}\n{\"keep\":2}\n");
    assert_true(read_only(path, &t, &e));
    assert_int_equal(t.n, 2);
    holds(t.entries[1]->m.content, "two", 3);
    assert_int_equal(t.n_all, 4);       /* and what was taken back then is still there */
    int which;
    assert_int_equal(transcript_siblings(&t, t.entries[1], &which), 2);
    assert_int_equal(which, 1);
    holds(transcript_sibling(&t, t.entries[1], 0)->m.content, "one", 3);
    transcript_free(&t);
}

static void test_session__the_first_line_gets_another_model_and_keeps_the_rest(void **state)
{
    struct transcript t = {0}, back = {0};
    struct buf before = {0}, after = {0}, note = {0};
    struct err e = {0};
    (void)state;
    struct session *s = session_create(path, "http://host", &e);
    transcript_add(&t, ROLE_USER, "Q", 1);
    assert_true(put_entry(s, t.entries[0], &e) && file_read(&before, path, 1 << 20, &e));
    assert_false(session_model(s, "http://host"));
    assert_true(session_model(s, "http://host tiny \xff"));
    assert_true(session_rewrite(s, &t, &e) && file_read(&after, path, 1 << 20, &e));
    session_close(s);
    char *at = strstr(before.data, "\"http://host\"");
    assert_non_null(at);
    struct buf wanted = {0};
    buf_addf(&wanted, "%.*s\"http://host tiny \xef\xbf\xbd\"%s", (int)(at - before.data), before.data, at + strlen("\"http://host\""));
    assert_string_equal(buf_str(&after), wanted.data);
    assert_true(session_read(path, &back, &note, &e));
    assert_int_equal(back.n, 1);
    struct buf *all[] = {&before, &after, &note, &wanted};
    for (int i = 0; i < 4; i++)
        buf_free(all[i]);
    transcript_free(&t);
    transcript_free(&back);
}

static void test_session__a_rewrite_that_fails_leaves_the_file(void **state)
{
    struct transcript t = {0}, back = {0};
    struct err e = {0};
    char gone[96];
    (void)state;
    fill(&t);
    struct session *s = save(&t);
    snprintf(gone, sizeof gone, "%s.gone", dir);        /* where no file can be made */
    assert_int_equal(rename(dir, gone), 0);
    assert_false(session_rewrite(s, &t, &e));
    assert_non_null(strstr(e.msg, path));
    assert_int_equal(rename(gone, dir), 0);
    assert_true(put_entry(s, t.entries[0], &e));
    assert_true(read_only(path, &back, &e));
    assert_int_equal(back.n, 4);
    session_close(s);
    transcript_free(&t);
    transcript_free(&back);
}

/* Another user of the directory may put links there. */
static void test_session__a_rewrite_follows_no_link(void **state)
{
    struct transcript t = {0};
    struct buf text = {0};
    struct err e = {0};
    struct stat st;
    char precious[96], link[96];
    (void)state;
    snprintf(precious, sizeof precious, "%s/precious", dir);
    snprintf(link, sizeof link, "%s.new", path);
    fill(&t);
    struct session *s = save(&t);
    FILE *f = fopen(precious, "w");
    fputs("dear", f);
    fclose(f);
    assert_int_equal(symlink(precious, link), 0);
    assert_true(session_rewrite(s, &t, &e));
    assert_true(file_read(&text, precious, 1000, &e));
    assert_string_equal(text.data, "dear");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    session_close(s);
    transcript_free(&t);
    buf_free(&text);
}

/* --- answers under way ------------------------------------------------------------------------------------------- */

static struct session *reopen(struct session *s, struct transcript *t)
{
    struct err e = {0};
    struct buf note = {0};
    session_close(s);
    transcript_free(t);
    s = session_open(path, t, &note, &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_int_equal(note.len, 0);
    return s;
}

static void is_cut(const struct transcript *t, int i, const char *reasoning, const char *content, int n_ids)
{
    const struct entry *m = t->entries[i];
    assert_int_equal(t->n, i + 1);
    assert_int_equal(m->m.role, ROLE_ASSISTANT);
    assert_true(m->stopped && m->cut);
    holds(m->m.reasoning, reasoning, strlen(reasoning));
    holds(m->m.content, content, strlen(content));
    assert_int_equal(m->ids.n, n_ids);
    for (int k = 0; k < n_ids; k++)
        assert_int_equal(m->ids.data[k], k + 1);
}

static void test_session__an_answer_under_way_is_there_in_parts(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    (void)state;
    transcript_add(&t, ROLE_USER, "Q", 1);
    struct session *s = save(&t);
    part(s, 0, 0, 0, "wh", "", 1);
    part(s, 2, 0, 1, "y", "A\xc3\xa9", 2);
    assert_true(put_title(s, "a title in the middle", &e));
    part(s, 3, 3, 2, "", " B", 3);
    for (int i = 0; i < 3; i++) {       /* opened and left: nothing has changed */
        s = reopen(s, &t);
        is_cut(&t, 1, "why", "A\xc3\xa9 B", 3);
    }
    assert_true(put_entry(s, transcript_add(&t, ROLE_USER, "next", 4), &e));
    s = reopen(s, &t);                  /* now it is a line of the file */
    assert_int_equal(t.n, 3);
    assert_int_equal(t.n_all, 3);
    t.n = 2;
    is_cut(&t, 1, "why", "A\xc3\xa9 B", 3);
    assert_string_equal(t.title, "a title in the middle");
    t.n = 3;
    part(s, 0, 0, 0, "", "half", 1);
    assert_true(put_entry(s, transcript_add(&t, ROLE_ASSISTANT, "half and half", 13), &e));
    s = reopen(s, &t);                  /* the finished answer takes their place */
    assert_int_equal(t.n, 4);
    holds(t.entries[3]->m.content, "half and half", 13);
    assert_false(t.entries[3]->stopped);
    assert_int_equal(t.n_all, 4);
    session_close(s);
    transcript_free(&t);
}

static void test_session__parts_make_a_stopped_answer_longer(void **state)
{
    (void)state;
    for (int others = 0; others < 2; others++) {
        struct transcript t = {0};
        struct err e = {0};
        transcript_add(&t, ROLE_USER, "Q", 1);
        struct entry *m = transcript_add(&t, ROLE_ASSISTANT, "One t", 5);
        m->stopped = true;
        ids_add(&m->ids, 1);
        struct session *s = save(&t);
        if (others) {                   /* came since */
            assert_true(put_entry(s, transcript_add(&t, ROLE_USER, "R", 1), &e));
            assert_true(put_keep(s, 2, &e));
        }
        part(s, 0, 4, 1, "", "two", 2);
        s = reopen(s, &t);
        is_cut(&t, 1, "", "One two", 2);
        assert_int_equal(t.n_all, others ? 4 : 2);
        assert_true(put_title(s, "x", &e));
        s = reopen(s, &t);
        is_cut(&t, 1, "", "One two", 2);
        assert_int_equal(t.n_all, others ? 4 : 2);
        part(s, 0, 7, 2, "", " three", 3);
        s = reopen(s, &t);
        is_cut(&t, 1, "", "One two three", 3);
        part(s, 0, 13, 9, "", "!", 3);          /* ids that do not fit are none; the text counts */
        s = reopen(s, &t);
        is_cut(&t, 1, "", "One two three!", 0);
        session_close(s);
        transcript_free(&t);
        unlink(path);
    }
}

static void test_session__parts_of_finished_answers_are_deleted(void **state)
{
    struct transcript t = {0};
    struct err e = {0};
    struct stat before, after;
    char piece[2000] = "";
    FILE *f;
    (void)state;
    memset(piece, 'a', sizeof piece - 1);
    transcript_add(&t, ROLE_USER, "Q", 1);
    struct session *s = save(&t);
    for (size_t i = 0; i < 50; i++)
        part(s, 0, i * (sizeof piece - 1), (int)i, "", piece, (int32_t)i + 1);
    assert_true(put_entry(s, transcript_add(&t, ROLE_ASSISTANT, "done", 4), &e));
    assert_true(put_entry(s, transcript_add(&t, ROLE_USER, "R", 1), &e));
    f = fopen(path, "a");
    fputs("{\"colour\":\"of a later version\"}\n", f);
    fclose(f);
    part(s, 0, 0, 0, "", "under way", 1);
    assert_int_equal(stat(path, &before), 0);
    s = reopen(s, &t);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_size > 100000 && after.st_size < 1000);
    is_cut(&t, 3, "", "under way", 1);
    struct buf text = {0};
    read_file(&text);
    assert_non_null(strstr(text.data, "colour"));
    s = reopen(s, &t);
    is_cut(&t, 3, "", "under way", 1);
    assert_true(put_entry(s, transcript_add(&t, ROLE_USER, "S", 1), &e));
    s = reopen(s, &t);
    assert_int_equal(t.n, 5);
    holds(t.entries[3]->m.content, "under way", 9);
    assert_int_equal(t.n_all, 5);
    session_close(s);
    transcript_free(&t);
    buf_free(&text);
}

static void test_session__names_that_would_hide_or_confuse_are_refused(void **state)
{
    static const char *const names[] = {"", ".x", "..", "a\nb", "a\033[31m", "\x7f", "\xff"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct err e = {0};
        assert_null(session_create(names[i], "dir", &e));
        assert_non_null(strstr(e.msg, "expected a name such as"));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_session__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_saved_is_loaded),
        TEST(a_hostile_list_takes_memory_as_its_bytes),
        TEST(files_are_for_the_owner_alone_and_never_overwritten),
        TEST(names_live_in_the_state_directory),
        TEST(taking_back_is_a_record_too),
        TEST(a_file_cut_anywhere_loses_at_most_its_last_line),
        TEST(a_file_without_its_first_line_gets_a_sentence_and_stays_as_it_is),
        TEST(a_damaged_line_costs_that_line),
        TEST(bad_ids_cost_the_ids),
        TEST(an_answer_under_way_is_there_in_parts),
        TEST(parts_make_a_stopped_answer_longer),
        TEST(parts_of_finished_answers_are_deleted),
        TEST(a_rewrite_follows_no_link),
        TEST(a_session_in_use_is_not_opened_twice),
        TEST(a_message_keeps_its_time),
        TEST(a_message_without_a_time_that_can_be_read_has_none),
        TEST(unknown_records_are_skipped),
        TEST(any_tree_is_loaded_as_it_was),
        TEST(any_bushy_tree_is_written_at_once_as_it_was),
        TEST(a_file_from_before_there_were_trees_loads_as_before),
        TEST(the_first_line_gets_another_model_and_keeps_the_rest),
        TEST(a_rewrite_that_fails_leaves_the_file),
        TEST(names_that_would_hide_or_confuse_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Answers that were left in the middle, by this program or another one, and what becomes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "chat/chat.h"
#include "responder/local.h"
#include "session/file.h"
#include "fake_engine.h"

static struct options *o;
static struct chat *c;
static char dir[64], file[128];
static struct buf told;                 /* by the last load */
static struct seen {
    struct buf text, notes;
    struct chat_event last;
} seen;

static void open_chat(void)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none", .keeps = true};
    struct err e = {0};
    c = chat_open(local_open(o, &e), o, &front, &e);
    if (!c)
        fail_msg("%s", e.msg);
}

static int setup(void **state)
{
    struct err e = {0};
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/q35chat-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/talk", dir);
    setenv("XDG_STATE_HOME", dir, 1);
    fake_reset();
    o = options_open();
    assert_true(options_set(o, OPT_model, "tests/data/chat", FROM_COMMAND_LINE, &e));
    assert_true(options_set(o, OPT_think, "off", FROM_COMMAND_LINE, &e));
    open_chat();
    return 0;
}

static void forget(void)
{
    buf_free(&seen.text);
    buf_free(&seen.notes);
    seen = (struct seen){0};
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    chat_close(c);
    options_close(o);
    forget();
    buf_free(&told);
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* True when the turn has ended. */
static bool step(void)
{
    int n;
    bool over = false;
    chat_wait(c, -1, 5000);
    const struct chat_event *ev = chat_drain(c, &n);
    for (int i = 0; i < n; i++) {
        if (ev[i].kind == CHAT_TEXT)
            buf_add(&seen.text, ev[i].text, ev[i].n);
        if (ev[i].kind == CHAT_NOTE)
            buf_addf(&seen.notes, "%s\n", ev[i].text);
        if (ev[i].kind == CHAT_DONE || ev[i].kind == CHAT_FATAL) {
            over = true;
            seen.last = ev[i];
        }
    }
    return over;
}

static void wait_for_the_end(void)
{
    while (!step())
        ;
    assert_false(chat_busy(c));
}

static void wait_until_ready(void)
{
    while (!chat_ready(c))
        step();
}

#define HEAD "{\"q35chat\":1,\"model\":\"other\"}\n"
#define ASKED "{\"role\":\"user\",\"content\":\"Write a poem\"}\n"

static void write_file(const char *text)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void load(const char *text)
{
    struct err e = {0};
    assert_true(chat_new(c, &e));
    write_file(text);
    buf_free(&told);
    if (!chat_load(c, file, &told, &e))
        fail_msg("%s", e.msg);
}

static void load_again(const char *name)
{
    struct err e = {0};
    struct buf path = {0};
    buf_adds(&path, name);              /* it may be the chat's own */
    assert_true(chat_new(c, &e));
    buf_free(&told);
    if (!chat_load(c, path.data, &told, &e))
        fail_msg("%s", e.msg);
    buf_free(&path);
}

static void go_on(void)
{
    struct err e = {0};
    forget();
    if (!chat_continue(c, &e))
        fail_msg("%s", e.msg);
    wait_for_the_end();
}

/* Writes the engine's last prompt as text, control tokens by name. */
static const char *begun(void)
{
    static struct buf text;
    const struct ids *ids = &fake.prompts[fake.n_submits - 1];
    buf_reset(&text);
    for (int i = 0; i < ids->n; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(fake.tok, ids->data[i], &n);
        buf_add(&text, bytes, n);
    }
    const char *last = text.data;
    for (const char *at; (at = strstr(last, "</think>\n\n"));)
        last = at + strlen("</think>\n\n");
    return last;
}

/* --- ids of another model ------------------------------------------------------------------------------------------ */

#define ROSES "Roses are red"
static const char *const foreign[] = {
    "{\"role\":\"assistant\",\"content\":\"" ROSES "\",\"ids\":[65,66,67],\"stopped\":true}\n",            /* other text */
    "{\"role\":\"assistant\",\"content\":\"" ROSES "\",\"ids\":[2147483647],\"stopped\":true}\n",          /* no such id */
    "{\"role\":\"assistant\",\"content\":\"" ROSES "\",\"ids\":[82],\"stopped\":true}\n",                  /* only its beginning */
};

static void test_recover__an_answer_of_another_model_continues_from_its_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        struct buf text = {0};
        struct err e = {0};
        buf_addf(&text, "%s%s%s", HEAD, ASKED, foreign[i]);
        load(text.data);
        wait_until_ready();
        assert_int_equal(chat_n_tokens(c, 1), 0);       /* the inspector shows none rather than wrong ones */
        fake_say(", violets are blue");
        go_on();
        assert_string_equal(begun(), ROSES);
        assert_non_null(strstr(buf_str(&seen.notes), "not those of this model"));
        assert_string_equal(chat_message(c, 1).text, ROSES ", violets are blue");
        assert_int_equal(chat_n_messages(c), 2);
        assert_true(chat_new(c, &e));
        buf_free(&text);
    }
}

static void test_recover__a_request_that_fails_leaves_the_answer_as_it_was(void **state)
{
    struct err e = {0};
    struct buf before = {0}, after = {0}, note = {0};
    (void)state;
    load(HEAD ASKED "{\"role\":\"assistant\",\"content\":\"" ROSES "\",\"ids\":[2147483647],\"stopped\":true}\n");
    wait_until_ready();
    assert_true(file_read(&before, file, 100000, &e));
    for (int i = 0; i < 2; i++) {
        if (i)
            fake_end("", END_INTERRUPTED, false);
        else
            fake_end("", END_FAILED, false);
        go_on();
        assert_int_equal(seen.last.end, i ? END_INTERRUPTED : END_FAILED);
        assert_null(seen.last.taken_back);
        assert_string_equal(chat_message(c, 1).text, ROSES);
        assert_true(chat_message(c, 1).stopped);
        assert_int_equal(chat_n_messages(c), 2);
        buf_reset(&after);
        assert_true(file_read(&after, file, 100000, &e));
        assert_string_equal(after.data, before.data);
    }
    assert_true(chat_new(c, &e));
    assert_true(chat_load(c, file, &note, &e));
    assert_string_equal(chat_message(c, 1).text, ROSES);
    buf_free(&before);
    buf_free(&after);
    buf_free(&note);
}

/* Our tokenizer gives neither these blanks nor this form of an accent back. */
static void test_recover__a_text_that_does_not_come_back_is_left_alone(void **state)
{
    struct err e = {0};
    (void)state;
    load(HEAD ASKED "{\"role\":\"assistant\",\"content\":\" e\\u0301 \",\"ids\":[7],\"stopped\":true}\n");
    wait_until_ready();
    assert_false(chat_continue(c, &e));
    assert_non_null(strstr(e.msg, "/regen answers again"));
    assert_false(chat_busy(c));
    assert_string_equal(chat_message(c, 1).text, " e\xcc\x81 ");
}

/* The call's tool is not offered here. */
static void test_recover__ids_that_make_the_text_are_used_whatever_tools_there_are(void **state)
{
    static const char called[] = "Ro\n\n<tool_call>\n<function=ask>\n<parameter=it>\n1\n</parameter>\n</function>\n</tool_call>";
    struct buf text = {0};
    struct ids ids = {0};
    (void)state;
    tokenizer_encode(fake.tok, called, strlen(called), true, &ids);
    buf_adds(&text, HEAD ASKED "{\"role\":\"assistant\",\"content\":\"Ro\",\"calls\":[{\"name\":\"ask\",\"arguments\":\"{}\"}],\"ids\":[");
    for (int i = 0; i < ids.n; i++)
        buf_addf(&text, i ? ",%d" : "%d", ids.data[i]);
    buf_adds(&text, "]}\n{\"role\":\"tool\",\"name\":\"ask\",\"content\":\"x\"}\n"
                    "{\"role\":\"assistant\",\"content\":\"Ab\",\"ids\":[65,98],\"stopped\":true}\n");
    load(text.data);
    wait_until_ready();
    assert_int_equal(chat_n_tokens(c, 1), ids.n);
    fake_say("c");
    go_on();
    assert_string_equal(begun(), "Ab");
    assert_int_equal(seen.notes.len, 0);
    assert_string_equal(chat_message(c, 3).text, "Abc");
    ids_free(&ids);
    buf_free(&text);
}

static void submit(const char *text)
{
    struct err e = {0};
    forget();
    if (!chat_submit(c, text, strlen(text), &e))
        fail_msg("%s", e.msg);
}

#define CALL "<tool_call>\n<function=calculator>\n<parameter=expression>\n6 * 7\n</parameter>\n</function>\n</tool_call>"

/* With other tools its tokens would be read in another way: what was said stays what it was. */
static void test_recover__a_stopped_answer_stays_what_it_was_with_other_tools(void **state)
{
    struct err e = {0};
    (void)state;
    wait_until_ready();
    assert_true(chat_offer_tools(c, "all", &e));
    fake_end(CALL "\n\nRoses", END_LENGTH, false);
    submit("Write a poem");
    wait_for_the_end();
    assert_string_equal(chat_message(c, 1).text, "Roses");
    assert_true(chat_offer_tools(c, "none", &e));
    fake_say(" are red");
    go_on();
    assert_string_equal(begun(), "Roses");
    assert_non_null(strstr(buf_str(&seen.notes), "tools that are not offered now"));
    assert_string_equal(chat_message(c, 1).text, "Roses are red");

    fake_end("As text: " CALL " and", END_LENGTH, false);
    submit("Write a call");
    wait_for_the_end();
    assert_true(chat_offer_tools(c, "all", &e));
    assert_false(chat_continue(c, &e));
    assert_non_null(strstr(e.msg, "/tools changes them"));
    assert_false(chat_busy(c));
    assert_true(chat_offer_tools(c, "none", &e));
    fake_say(" so on");
    go_on();
    assert_string_equal(chat_message(c, 3).text, "As text: " CALL " and so on");
}

/* --- answers under way ------------------------------------------------------------------------------------------- */

/* Returns the last message that a reader of the file finds now. */
static void on_disk(struct transcript *t)
{
    struct err e = {0};
    struct buf note = {0};
    transcript_free(t);
    if (!session_read(chat_saved_as(c), t, &note, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(note.len, 0);
    buf_free(&note);
}

static const char *last_on_disk(struct transcript *t)
{
    on_disk(t);
    return t->n ? t->entries[t->n - 1]->m.content.p : "";
}

/* The file as it would be if the program ended now. */
static void copy_of_file(struct buf *out)
{
    struct err e = {0};
    buf_reset(out);
    assert_true(file_read(out, chat_saved_as(c), 1 << 20, &e));
}

static void interrupt(void)
{
    chat_interrupt(c);
    wait_for_the_end();
}

static void test_recover__an_answer_is_on_disk_while_it_is_said(void **state)
{
    struct transcript t = {0};
    (void)state;
    wait_until_ready();
    fake_end("Once upon a time", END_STOP, true);
    submit("A story");
    while (strcmp(buf_str(&seen.text), "Once upon a time"))
        step();
    while (strcmp(last_on_disk(&t), "Once upon a time")) {      /* no token comes any more: it wakes by itself */
        assert_true(chat_timeout(c) >= 0 && chat_timeout(c) <= 1000);
        chat_wait(c, -1, -1);
        step();
    }
    assert_true(t.entries[1]->cut && t.entries[1]->stopped);
    assert_int_equal(t.entries[1]->ids.n, strlen("Once upon a time") + 1);         /* and the stop id */
    assert_int_equal(chat_timeout(c), -1);
    interrupt();
    on_disk(&t);
    assert_false(t.entries[1]->cut);
    assert_true(t.entries[1]->stopped);
    transcript_free(&t);
}

/* 4 KB do not wait for the time. */
static void test_recover__much_text_is_on_disk_at_once(void **state)
{
    struct transcript t = {0};
    char text[9001] = "";
    (void)state;
    for (uint32_t i = 0, x = 1; i < sizeof text - 1; i++)       /* letters that do not repeat */
        text[i] = (char)('a' + ((x = x * 1664525 + 1013904223) >> 16) % 26);
    wait_until_ready();
    fake_end(text, END_STOP, true);
    submit("Q");
    for (size_t looked = 0; seen.text.len < sizeof text - 1;) {
        step();
        if (seen.text.len < looked + 500)       /* reading it takes a while */
            continue;
        looked = seen.text.len;
        on_disk(&t);
        size_t kept = t.n > 1 ? t.entries[1]->m.content.n : 0;
        assert_true(seen.text.len - kept <= 4096);
    }
    struct buf file_now = {0};
    copy_of_file(&file_now);
    assert_true(file_now.len < 6 * sizeof text);        /* each part says what is new, and nothing twice: a byte and its id */
    buf_free(&file_now);
    interrupt();
    transcript_free(&t);
}

/* Cut anywhere, also inside a character or a tag: it goes on with the very ids that were sampled, and nothing is doubled. */
static void test_recover__an_answer_that_was_cut_continues_with_its_ids(void **state)
{
    static const char whole[] = "Two \xc3\xa9 and <b> <tool_cal\xc3\xa9 end.";
    enum { N = sizeof whole - 1 };      /* a token is a byte */
    struct buf at_crash = {0};
    (void)state;
    wait_until_ready();
    for (int cut = 1; cut < N; cut += cut < 8 ? 1 : 4) {
        struct transcript t = {0};
        struct err e = {0};
        fake_reset();
        fake.batch = 1;
        fake_end(whole, END_STOP, true);
        fake.answers[0].to = cut;
        fake_say(whole);
        fake.answers[1].from = cut;
        submit("Q");
        while (fake_engine->running && !(fake_engine->hangs && fake_engine->done == cut))
            step();
        while (chat_timeout(c) >= 0)
            step();
        copy_of_file(&at_crash);
        interrupt();
        load(at_crash.data);
        if (chat_n_messages(c) == 1) {  /* nothing could be shown yet */
            assert_int_equal(chat_rest(c), CHAT_UNANSWERED);
        } else {
            assert_int_equal(chat_rest(c), CHAT_CUT);
            assert_non_null(strstr(told.data, "is incomplete"));
            assert_non_null(strstr(told.data, "/continue continues it"));
            go_on();
            assert_int_equal(seen.notes.len, 0);
            assert_string_equal(chat_message(c, 1).text, whole);
            assert_int_equal(chat_n_messages(c), 2);
            assert_int_equal(chat_siblings(c, 1, NULL), 1);
            on_disk(&t);
            assert_string_equal(t.entries[1]->m.content.p, whole);
            assert_int_equal(t.n_all, 2);
        }
        assert_true(chat_new(c, &e));
        transcript_free(&t);
    }
    buf_free(&at_crash);
}

static void test_recover__an_answer_cut_while_it_continued_is_one_message(void **state)
{
    struct buf at_crash = {0};
    struct transcript t = {0};
    (void)state;
    load(HEAD ASKED "{\"role\":\"assistant\",\"content\":\"Ab\",\"ids\":[65,98],\"stopped\":true}\n");
    wait_until_ready();
    assert_non_null(strstr(told.data, "the last answer was stopped before its end: /continue continues it"));
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        fake_end("cd", END_INTERRUPTED, true);
        forget();
        assert_true(chat_continue(c, &e));
        while (!strstr(buf_str(&seen.text), i == 2 ? "cdcdcd" : i ? "cdcd" : "cd"))
            step();
        while (chat_timeout(c) >= 0)
            step();
        copy_of_file(&at_crash);
        interrupt();
        load(at_crash.data);
        assert_int_equal(chat_rest(c), CHAT_CUT);
        assert_int_equal(chat_n_messages(c), 2);
        assert_int_equal(chat_n_nodes(c), 2);
    }
    assert_string_equal(chat_message(c, 1).text, "Abcdcdcd");
    assert_int_equal(chat_n_tokens(c, 1), 8);
    transcript_free(&t);
    buf_free(&at_crash);
}

/* The program ended between the last token and the answer's line. */
static void test_recover__an_answer_cut_behind_its_end_is_whole(void **state)
{
    struct err e = {0};
    (void)state;
    load(HEAD ASKED "{\"answering\":[0,0,0],\"content\":\"Ab\",\"ids\":[65,98,258]}\n");
    wait_until_ready();
    assert_int_equal(chat_rest(c), CHAT_CUT);
    go_on();
    assert_int_equal(fake.n_submits, 0);
    assert_int_equal(seen.last.end, END_STOP);
    assert_string_equal(chat_message(c, 1).text, "Ab");
    assert_false(chat_continue(c, &e));
    load_again(file);
    assert_int_equal(chat_rest(c), CHAT_WHOLE);
    assert_int_equal(chat_n_nodes(c), 2);
}

/* --- questions without an answer ----------------------------------------------------------------------------------- */

static void test_recover__a_message_without_an_answer_is_answered(void **state)
{
    (void)state;
    load(HEAD ASKED);
    assert_int_equal(chat_rest(c), CHAT_UNANSWERED);
    assert_string_equal(told.data, "the last message has no answer yet: /continue answers it");
    fake_end("", END_FAILED, false);
    go_on();                            /* before the model is there */
    assert_int_equal(seen.last.end, END_FAILED);
    assert_null(seen.last.taken_back);
    assert_int_equal(chat_n_messages(c), 1);
    load_again(file);
    assert_string_equal(chat_message(c, 0).text, "Write a poem");
    fake_say(ROSES);
    go_on();
    assert_string_equal(chat_message(c, 1).text, ROSES);
    assert_int_equal(chat_rest(c), CHAT_WHOLE);
    load_again(file);
    assert_int_equal(told.len, 0);
    assert_int_equal(chat_n_messages(c), 2);
}

static void test_recover__tools_that_answered_are_answered_and_others_asked_again(void **state)
{
#define CALLED "{\"role\":\"assistant\",\"content\":\"\",\"calls\":[{\"name\":\"a\",\"arguments\":\"{}\"},{\"name\":\"b\",\"arguments\":\"{}\"}]}\n"
#define RESULT "{\"role\":\"tool\",\"name\":\"a\",\"content\":\"x\"}\n"
    static const struct { const char *text; enum chat_rest rest; int n; } rows[] = {
        {HEAD ASKED CALLED, CHAT_UNRUN, 2}, {HEAD ASKED CALLED RESULT, CHAT_UNRUN, 2}, {HEAD ASKED CALLED RESULT RESULT, CHAT_UNANSWERED, 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        load(rows[i].text);
        wait_until_ready();
        assert_int_equal(chat_rest(c), rows[i].rest);
        assert_non_null(strstr(told.data, rows[i].rest == CHAT_UNRUN ? "/continue asks the model again" : "/continue answers it"));
        fake_say(ROSES);
        go_on();
        assert_int_equal(chat_n_messages(c), rows[i].n);
        assert_string_equal(chat_message(c, rows[i].n - 1).text, ROSES);
        assert_true(chat_new(c, &e));
    }
}

/* The user went back to a message that has an answer: nothing is missing. */
static void test_recover__a_path_that_ends_before_an_answer_is_whole(void **state)
{
    struct err e = {0};
    (void)state;
    load(HEAD ASKED "{\"role\":\"assistant\",\"content\":\"x\"}\n{\"go\":0}\n");
    assert_int_equal(chat_rest(c), CHAT_WHOLE);
    assert_int_equal(told.len, 0);
    assert_false(chat_continue(c, &e));
}

/* --- a write that is torn ---------------------------------------------------------------------------------------- */

/* However much of the last write gets to the disk, the answer is there, as it was or as it went on. */
static void test_recover__a_torn_write_leaves_the_old_answer_or_the_new_one(void **state)
{
    static const char old[] = HEAD ASKED "{\"role\":\"assistant\",\"content\":\"" ROSES "\",\"stopped\":true}\n";
    static const char *const others[] = {"", "{\"keep\":1}\n{\"role\":\"assistant\",\"content\":\"no\"}\n{\"go\":1}\n"};      /* beside it */
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct buf text = {0}, after = {0};
        struct err e = {0};
        buf_addf(&text, "%s%s", old, others[i]);        /* load() writes it */
        load(text.data);
        wait_until_ready();
        fake_say(", violets are blue");
        go_on();
        assert_true(file_read(&after, file, 100000, &e));
        assert_true(after.len > text.len);
        for (size_t n = text.len; n <= after.len; n++) {
            struct transcript t = {0};
            struct buf note = {0};
            FILE *f = fopen(file, "w");
            assert_true(f && fwrite(after.data, 1, n, f) == n && !fclose(f));
            assert_true(session_read(file, &t, &note, &e));
            assert_int_equal(t.n, 2);
            assert_int_equal(strncmp(t.entries[1]->m.content.p, ROSES, strlen(ROSES)), 0);
            transcript_free(&t);
            buf_free(&note);
        }
        buf_free(&text);
        buf_free(&after);
    }
}

static void look(void)
{
    int n;
    chat_drain(c, &n);
    usleep(20000);
}

static void test_recover__an_answer_that_the_engine_broke_off_is_written_once(void **state)
{
    struct transcript t = {0};
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    load(HEAD);
    wait_until_ready();
    fake_end(ROSES, END_STOP, true);
    forget();
    assert_true(chat_submit(c, "Write", 5, &e));
    while (strcmp(buf_str(&seen.text), ROSES))
        step();
    fake_dies("it broke");
    wait_for_the_end();
    assert_int_equal(seen.last.kind, CHAT_FATAL);
    for (int64_t start = clock_ns(); clock_ms_since(start) < 700;)      /* longer than a running answer waits for the disk */
        look();
    assert_true(session_read(file, &t, &note, &e));
    assert_int_equal(t.n, 2);
    assert_false(t.entries[1]->cut);
    assert_string_equal(t.entries[1]->m.content.p, ROSES);
    transcript_free(&t);
    buf_free(&note);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_recover__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_of_another_model_continues_from_its_text),
        TEST(a_request_that_fails_leaves_the_answer_as_it_was),
        TEST(a_text_that_does_not_come_back_is_left_alone),
        TEST(ids_that_make_the_text_are_used_whatever_tools_there_are),
        TEST(a_stopped_answer_stays_what_it_was_with_other_tools),
        TEST(an_answer_is_on_disk_while_it_is_said),
        TEST(much_text_is_on_disk_at_once),
        TEST(an_answer_that_was_cut_continues_with_its_ids),
        TEST(an_answer_cut_while_it_continued_is_one_message),
        TEST(an_answer_cut_behind_its_end_is_whole),
        TEST(a_message_without_an_answer_is_answered),
        TEST(tools_that_answered_are_answered_and_others_asked_again),
        TEST(a_path_that_ends_before_an_answer_is_whole),
        TEST(a_torn_write_leaves_the_old_answer_or_the_new_one),
        TEST(an_answer_that_the_engine_broke_off_is_written_once),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}

/* Answers that were left in the middle, by this program or another one, and what becomes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "chat/chat.h"
#include "fake_engine.h"

static struct options *o;
static struct chat *c;
static char dir[64], file[128];
static struct seen {
    struct buf text, notes;
    struct chat_event last;
} seen;

static void open_chat(void)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none", .keeps = true};
    struct err e = {0};
    c = chat_open(o, &front, &e);
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
    struct buf note = {0};
    write_file(text);
    if (!chat_load(c, file, &note, &e))
        fail_msg("%s", e.msg);
    buf_free(&note);
}

static void go_on(void)
{
    struct err e = {0};
    forget();
    if (!chat_continue(c, &e))
        fail_msg("%s", e.msg);
    wait_for_the_end();
}

/* What the engine was asked last begins to answer: control tokens by name. */
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

static void test_recover__an_answer_of_another_model_goes_on_from_its_text(void **state)
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
    assert_true(buf_read_file(&before, file, 100000, &e));
    for (int i = 0; i < 2; i++) {
        if (i)
            fake_end("", FINISH_INTERRUPTED, false);
        else
            fake_end("", FINISH_ERROR, false);
        go_on();
        assert_int_equal(seen.last.end, i ? CHAT_INTERRUPTED : CHAT_FAILED);
        assert_null(seen.last.taken_back);
        assert_string_equal(chat_message(c, 1).text, ROSES);
        assert_true(chat_message(c, 1).stopped);
        assert_int_equal(chat_n_messages(c), 2);
        buf_reset(&after);
        assert_true(buf_read_file(&after, file, 100000, &e));
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
    assert_non_null(strstr(e.msg, "/regen answers anew"));
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_recover__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_of_another_model_goes_on_from_its_text),
        TEST(a_request_that_fails_leaves_the_answer_as_it_was),
        TEST(a_text_that_does_not_come_back_is_left_alone),
        TEST(ids_that_make_the_text_are_used_whatever_tools_there_are),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}

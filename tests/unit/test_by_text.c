/* A responder that knows no tokens: what the conversation does without them, and says where it cannot. */
#include <string.h>

#include "chat/command.h"
#include "base/file.h"
#include "talk.h"

static void start_by_text(struct talk *t, const char *think)
{
    begin(t);
    set(t, OPT_think, think);
    by_text = true;
    start(t);
}

static void stop_after(struct talk *t, size_t reasoning, size_t text)
{
    while (t->s.reasoning.len < reasoning || t->s.text.len < text)
        assert_false(step(t));
    chat_interrupt(t->c);
    finish_turn(t);
    assert_int_equal(t->s.last.end, END_INTERRUPTED);
    assert_int_equal(chat_rest(t->c), CHAT_STOPPED);
    forget(&t->s);
}

static void go_on(struct talk *t)
{
    struct err e = {0};
    if (!chat_continue(t->c, &e))
        fail_msg("%s", e.msg);
    finish_turn(t);
    assert_int_equal(t->s.last.end, END_STOP);
}

static void test_by_text__a_stopped_answer_continues_from_its_text(void **state)
{
    struct talk t;
    (void)state;
    start_by_text(&t, "off");
    fake_end("Half an ans", END_LENGTH, true);
    fake_say("wer.");
    submit(&t, "Q");
    stop_after(&t, 0, 11);
    go_on(&t);
    assert_string_equal(prompt(1), USER("Q") PLAIN "Half an ans");
    assert_string_equal(t.s.text.data, "Half an answer.");          /* what was given is told again */
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_string_equal(chat_message(t.c, 1).text, "Half an answer.");
    assert_false(chat_message(t.c, 1).stopped);
    end(&t);
}

static void test_by_text__a_stopped_thought_continues_too(void **state)
{
    struct talk t;
    (void)state;
    start_by_text(&t, "on");
    fake_end("I wonder", END_LENGTH, true);
    fake_say(" why.\n</think>\n\nSo.");
    submit(&t, "Q");
    stop_after(&t, 8, 0);
    go_on(&t);
    assert_string_equal(prompt(1), USER("Q") THINK "I wonder");
    assert_string_equal(chat_message(t.c, 1).reasoning, "I wonder why.");
    assert_string_equal(chat_message(t.c, 1).text, "So.");
    end(&t);
}

static void test_by_text__an_answer_that_gains_nothing_stays_as_it_was(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    start_by_text(&t, "off");
    fake_end("Half", END_LENGTH, true);
    fake_end("", END_LENGTH, true);
    submit(&t, "Q");
    stop_after(&t, 0, 4);
    assert_true(chat_continue(t.c, &e));
    step(&t);
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_string_equal(chat_message(t.c, 1).text, "Half");
    assert_int_equal(chat_rest(t.c), CHAT_STOPPED);
    end(&t);
}

static void test_by_text__there_are_no_tokens_to_look_at_or_to_leave(void **state)
{
    struct talk t;
    struct chat_token token;
    struct err e = {0};
    (void)state;
    start_by_text(&t, "on");
    fake_say("why\n</think>\n\nbecause");
    submit(&t, "Q");
    while (!t.s.reasoning.len)
        step(&t);
    assert_int_equal(chat_n_tokens(t.c, -1), 0);
    assert_false(chat_answer_now(t.c));
    finish_turn(&t);
    assert_int_equal(chat_n_tokens(t.c, 1), 0);
    assert_false(chat_token(t.c, 1, 0, &token));
    assert_false(chat_branch_token(t.c, 1, 0, 0, &e));
    assert_string_equal(e.msg, "this server cannot continue from a token");
    assert_string_equal(chat_message(t.c, 1).text, "because");      /* and nothing has changed */
    end(&t);
}

static void test_by_text__tokens_are_estimated(void **state)
{
    struct talk t;
    (void)state;
    start_by_text(&t, "off");
    fake_say("seven b");
    ask(&t, "Q");
    assert_true(chat_ready(t.c));
    assert_int_equal(chat_count_tokens(t.c, "seven bytes are 2", 14), 4);
    struct chat_count used = chat_context_used(t.c);
    assert_true(used.estimated && used.tokens > 0);
    assert_int_equal(t.s.last.stats.ctx_used, used.tokens);
    end(&t);
}

static void test_by_text__a_context_of_unknown_size_holds_everything(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf out = {0};
    const char *message;
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    fake.n_ctx = 0;
    by_text = true;
    start(&t);
    fake_say("A.");
    fake_say("B.");
    fake_say("what was said");
    ask(&t, "Q1");
    ask(&t, "Q2");
    assert_int_equal(chat_info(t.c)->n_ctx, 0);
    command_run(t.c, t.o, "/context", &message, &out);
    assert_null(strstr(out.data, " of 0"));
    assert_null(strstr(out.data, "inf"));
    if (!chat_compact(t.c, "", &e))
        fail_msg("%s", e.msg);
    finish_turn(&t);
    assert_true(chat_proposes(t.c, NULL));
    assert_int_equal(fake.samplings[2].max_tokens, 2048);
    buf_free(&out);
    end(&t);
}

static void test_by_text__a_summary_that_is_too_long_for_the_server_says_so(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    start_by_text(&t, "off");
    fake_say("A.");
    fake_say("B.");
    ask(&t, "Q1");
    ask(&t, "Q2");
    fake_end("", END_FAILED, false);
    by_text_finds_too_long = true;
    bool begun = chat_compact(t.c, "", &e);
    if (begun)
        finish_turn(&t);
    by_text_finds_too_long = false;
    assert_true(begun);
    assert_int_equal(t.s.last.end, END_TOO_LONG);
    assert_string_equal(t.s.last.text, "scripted error");
    assert_false(chat_proposes(t.c, NULL));
    end(&t);
}

static void test_by_text__sessions_hold_texts_and_come_back(void **state)
{
    static const struct chat_front front = {.can_ask = true, .keeps = true, .tools = "none"};
    struct talk t;
    struct err e = {0};
    struct buf note = {0}, text = {0};
    char path[] = "/tmp/q35chat-by-text-XXXXXX", file[64];
    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/s.jsonl", path);
    begin(&t);
    set(&t, OPT_think, "off");
    set(&t, OPT_save, file);
    by_text = true;
    fake_end("One", END_LENGTH, true);
    fake_say(" two.");
    start_with(&t, &front);
    submit(&t, "Q");
    stop_after(&t, 0, 3);
    assert_true(file_read(&text, file, 1 << 16, &e));
    assert_non_null(strstr(text.data, "http://server/v1"));         /* who answered */
    assert_null(strstr(text.data, "\"ids\""));
    assert_true(chat_new(t.c, &e));
    if (!chat_load(t.c, file, &note, &e))
        fail_msg("%s", e.msg);
    go_on(&t);
    assert_string_equal(chat_message(t.c, 1).text, "One two.");
    end(&t);
    unlink(file);
    rmdir(path);
    buf_free(&note);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_text__a_stopped_answer_continues_from_its_text),
        cmocka_unit_test(test_by_text__a_stopped_thought_continues_too),
        cmocka_unit_test(test_by_text__an_answer_that_gains_nothing_stays_as_it_was),
        cmocka_unit_test(test_by_text__there_are_no_tokens_to_look_at_or_to_leave),
        cmocka_unit_test(test_by_text__tokens_are_estimated),
        cmocka_unit_test(test_by_text__a_context_of_unknown_size_holds_everything),
        cmocka_unit_test(test_by_text__a_summary_that_is_too_long_for_the_server_says_so),
        cmocka_unit_test(test_by_text__sessions_hold_texts_and_come_back),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    talk_free();
    return failed;
}

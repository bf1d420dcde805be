/* The parts of a conversation in its next prompts: parts that are dropped and pinned, a summary in place of the rest. */
#include <math.h>
#include <string.h>

#include "chat/command.h"
#include "base/file.h"
#include "talk.h"
#include "tests/tmpdir.h"

static struct tmpdir home;

static void start_keeping(struct talk *t)
{
    static const struct chat_front front = {.can_ask = true, .keeps = true, .attaches = true, .tools = "none"};
    begin(t);
    set(t, OPT_think, "off");
    start_with(t, &front);
}

static struct buf out;

static enum command_result run(struct talk *t, const char *line)
{
    const char *message;
    buf_reset(&out);
    return command_run(t->c, t->o, line, &message, &out);
}

static int sum_of_parts(const struct talk *t)
{
    const struct chat_part *parts;
    int n = chat_context(t->c, &parts), sum = 0;
    for (int i = 0; i < n; i++)
        sum += parts[i].tokens;
    return sum;
}

static void test_context__a_dropped_message_leaves_a_line_in_the_next_prompts(void **state)
{
    struct talk t;
    (void)state;
    start_keeping(&t);
    for (int i = 0; i < 4; i++)
        fake_say("A.");
    ask(&t, "a long question that is dropped");
    ask(&t, "Q2");
    int before = chat_context_used(t.c).tokens;
    run(&t, "/drop 1");
    int after = chat_context_used(t.c).tokens;
    assert_int_equal(before - after, (int)strlen("a long question that is dropped") - (int)strlen("(left out)"));
    assert_string_equal(out.data, "dropped: user a long question that is dropped; 21 tokens less; the next prompt is computed again from there on\n");
    assert_int_equal(sum_of_parts(&t), after);
    ask(&t, "Q3");
    assert_string_equal(prompt(2), USER("(left out)") "<|im_start|>assistant\nA.<|im_end|>\n" USER("Q2") "<|im_start|>assistant\nA.<|im_end|>\n"
                                   USER("Q3") PLAIN);
    run(&t, "/drop 1");                 /* again: it is back */
    assert_string_equal(out.data, "back: user a long question that is dropped; 21 tokens more\n");
    ask(&t, "Q4");
    assert_non_null(strstr(prompt(3), "a long question"));
    end(&t);
}

static void test_context__the_message_that_is_answered_is_whole(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    start_keeping(&t);
    fake_say("A.");
    fake_say("B.");
    ask(&t, "Q1");
    run(&t, "/drop 1");
    assert_true(chat_regenerate(t.c, &e));
    finish_turn(&t);
    assert_string_equal(prompt(1), USER("Q1") PLAIN);
    end(&t);
}

static void test_context__a_dropped_answer_takes_its_calls_and_their_results_along(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    fake_say("x</think><tool_call>\n<function=calculator>\n<parameter=expression>\n7 * 12\n</parameter>\n</function>\n</tool_call>");
    fake_say("x</think>It is 84.");
    fake_say("x</think>B.");
    start(&t);
    ask(&t, "7 * 12?");
    run(&t, "/drop 2");
    ask(&t, "Q2");
    const char *asked = strstr(prompt(2), "7 * 12?");
    assert_non_null(asked);
    assert_null(strstr(asked, "tool_call"));
    assert_null(strstr(asked, "tool_response"));
    assert_non_null(strstr(asked, "<|im_start|>assistant\n(left out)<|im_end|>\n"));
    assert_non_null(strstr(asked, "It is 84."));
    end(&t);
}

static void test_context__a_dropped_tool_result_leaves_the_call(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    fake_say("x</think><tool_call>\n<function=calculator>\n<parameter=expression>\n7 * 12\n</parameter>\n</function>\n</tool_call>");
    fake_say("x</think>It is so.");
    fake_say("x</think>B.");
    start(&t);
    ask(&t, "7 * 12?");
    run(&t, "/drop 3");
    ask(&t, "Q2");
    assert_non_null(strstr(prompt(2), "<function=calculator>"));
    assert_non_null(strstr(prompt(2), "<tool_response>\n(left out)\n</tool_response>"));
    assert_null(strstr(prompt(2), "84"));
    end(&t);
}

static void test_context__a_file_is_dropped_and_its_message_stays(void **state)
{
    struct talk t;
    char said[256];
    (void)state;
    start_keeping(&t);
    snprintf(said, sizeof said, "%s/notes.txt", home.path);
    FILE *f = fopen(said, "w");
    assert_non_null(f);
    fputs("a long text of a file that nobody needs any more\n", f);
    fclose(f);
    fake_say("A.");
    fake_say("B.");
    snprintf(said, sizeof said, "see @%s/notes.txt", home.path);
    ask(&t, said);
    int before = chat_context_used(t.c).tokens;
    run(&t, "/drop 2");
    assert_int_equal(sum_of_parts(&t), chat_context_used(t.c).tokens);
    assert_true(chat_context_used(t.c).tokens < before);
    ask(&t, "Q2");
    assert_null(strstr(prompt(1), "nobody needs"));
    assert_non_null(strstr(prompt(1), "notes.txt\n(left out)<|im_end|>"));
    run(&t, "/context");
    assert_non_null(strstr(out.data, "notes.txt  (dropped: 4"));
    snprintf(said, sizeof said, "%s/notes.txt", home.path);
    unlink(said);
    end(&t);
}

static void test_context__parts_that_cannot_be_dropped_or_pinned_are_refused(void **state)
{
    struct talk t;
    (void)state;
    start_keeping(&t);
    run(&t, "/drop 1");
    assert_string_equal(out.data, "no messages yet\n");
    fake_say("A.");
    ask(&t, "Q1");
    run(&t, "/drop");
    assert_string_equal(out.data, "/drop needs a number, as /context shows it\n");
    run(&t, "/pin first");
    assert_string_equal(out.data, "/pin needs a number, as /context shows it, not first\n");
    run(&t, "/drop 3");
    assert_string_equal(out.data, "no part 3; /context shows 1 to 2\n");
    run(&t, "/unpin 1");
    assert_string_equal(out.data, "1 is not pinned\n");
    run(&t, "/pin 1");
    assert_string_equal(out.data, "pinned: user Q1\n");
    run(&t, "/drop 1");
    assert_string_equal(out.data, "1 is pinned; /unpin 1 first\n");
    run(&t, "/unpin 1");
    assert_string_equal(out.data, "not pinned: user Q1\n");
    run(&t, "/drop 1");
    assert_int_equal(strncmp(out.data, "dropped: user Q1", 16), 0);
    end(&t);
}

static void test_context__a_conversation_that_is_loaded_has_its_marks(void **state)
{
    struct talk t;
    struct buf note = {0}, text = {0};
    struct err e = {0};
    char path[512];
    (void)state;
    start_keeping(&t);
    fake_say("A.");
    fake_say("B.");
    fake_say("C.");
    ask(&t, "Q1");
    ask(&t, "Q2");
    run(&t, "/drop 1");
    run(&t, "/pin 3");
    snprintf(path, sizeof path, "%s", chat_saved_as(t.c));
    int used = chat_context_used(t.c).tokens;
    assert_true(chat_new(t.c, &e));
    if (!chat_load(t.c, path, &note, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(chat_context_used(t.c).tokens, used);
    run(&t, "/context");
    assert_non_null(strstr(out.data, "user    Q1  (dropped: 7)\n"));
    assert_non_null(strstr(out.data, "user    Q2  (pinned)\n"));
    assert_true(chat_export(t.c, "md", NULL, &text, &e));
    assert_non_null(strstr(text.data, "(dropped: later prompts do not hold it)"));
    assert_non_null(strstr(text.data, "(pinned)"));
    /* and after the whole file was written anew */
    snprintf(path, sizeof path, "%s/copy.jsonl", home.path);
    assert_true(chat_save(t.c, path, &e) && chat_new(t.c, &e) && chat_load(t.c, path, &note, &e));
    assert_int_equal(chat_context_used(t.c).tokens, used);
    unlink(path);
    buf_free(&note);
    buf_free(&text);
    end(&t);
}

/* --- a summary ------------------------------------------------------------------------------------------------------ */

#define ANSWER(t) "<|im_start|>assistant\n" t "<|im_end|>\n"
#define SUMMARY(t) "Summary of our conversation so far, which it replaces:\n\n" t

static void test_context__a_summary_calls_no_tool(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    if (by_text)                        /* who knows no tokens cannot ban one */
        return;
    begin(&t);
    set(&t, OPT_think, "off");
    set(&t, OPT_tools, "clock");
    fake_say("A1");
    fake_say("They said hello.");
    start(&t);
    ask(&t, "Q1");
    assert_int_equal(fake.samplings[0].n_bias, 0);
    assert_true(chat_compact(t.c, "", &e));
    finish_turn(&t);
    const struct sampling *s = &fake.samplings[1];
    assert_int_equal(s->n_bias, 1);
    struct ids call = {0};
    tokenizer_encode(fake.tok, "<tool_call>", strlen("<tool_call>"), true, &call);
    assert_int_equal(call.n, 1);
    assert_int_equal(s->bias_ids[0], call.data[0]);
    ids_free(&call);
    assert_true(isinf(s->bias[0]) && s->bias[0] < 0);
    chat_decide(t.c, false);
    end(&t);
}

static void compact(struct talk *t, const char *hint)
{
    struct err e = {0};
    forget(&t->s);
    if (!chat_compact(t->c, hint, &e))
        fail_msg("%s", e.msg);
    finish_turn(t);
}

static void test_context__a_summary_that_is_taken_stands_for_what_is_before_it(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf text = {0};
    (void)state;
    start_keeping(&t);
    set(&t, OPT_system, "Be brief.");
    fake_say("The first answer, which is long enough to be worth it.");
    fake_say("The second answer, which is also long enough.");
    fake_say("They said this and that.");
    fake_say("A3.");
    ask(&t, "Q1 is a question");
    ask(&t, "Q2 is another question");
    run(&t, "/pin 3");
    int before = chat_context_used(t.c).tokens;
    compact(&t, "the numbers");
    assert_string_equal(t.s.text.data, "They said this and that.");
    /* the request begins with the conversation as it was */
    static const char begin_with[] = "<|im_start|>system\nBe brief.<|im_end|>\n" USER("Q1 is a question")
        ANSWER("The first answer, which is long enough to be worth it.") USER("Q2 is another question")
        ANSWER("The second answer, which is also long enough.") "<|im_start|>user\nWrite a summary";
    assert_int_equal(strncmp(prompt(2), begin_with, strlen(begin_with)), 0);
    assert_non_null(strstr(prompt(2), "Above all keep: the numbers<|im_end|>\n" PLAIN));
    /* it only waits */
    assert_true(chat_proposes(t.c, &text));
    assert_int_equal(chat_n_messages(t.c), 4);
    assert_int_equal(chat_context_used(t.c).tokens, before);
    assert_false(chat_submit(t.c, "x", 1, &e));
    assert_string_equal(e.msg, "accept or discard the summary first");
    chat_decide(t.c, true);
    assert_int_equal(chat_n_messages(t.c), 5);
    assert_string_equal(chat_message(t.c, 4).role, "summary");
    /* the figures that were told are those that came */
    char told[128];
    snprintf(told, sizeof told, "replace 3 messages (next prompt: %d tokens instead of %d)", chat_context_used(t.c).tokens, before);
    assert_string_equal(text.data, told);
    assert_int_equal(sum_of_parts(&t), chat_context_used(t.c).tokens);
    /* system prompt and what is pinned are as they were, before it */
    ask(&t, "Q3");
    assert_string_equal(prompt(3), "<|im_start|>system\nBe brief.<|im_end|>\n" USER("Q2 is another question")
                                   USER(SUMMARY("They said this and that.")) USER("Q3") PLAIN);
    buf_free(&text);
    end(&t);
}

/* The answer behind a summary, of a file that was edited: there is no message that it could be given again to. */
static void test_context__a_replay_that_is_refused_compares_nothing_later(void **state)
{
    static const char line[] = "{\"role\":\"assistant\",\"content\":\"Half an\",\"stopped\":true}\n";
    struct talk t;
    struct buf note = {0};
    struct err e = {0};
    char path[512];
    (void)state;
    start_keeping(&t);
    fake_say("The first answer, which is long enough to be worth it.");
    fake_say("S.");
    fake_say(" answer.");
    fake_say("A2.");
    ask(&t, "Q1");
    compact(&t, "");
    chat_decide(t.c, true);
    snprintf(path, sizeof path, "%s", chat_saved_as(t.c));
    assert_true(chat_new(t.c, &e));
    FILE *f = fopen(path, "a");
    assert_true(f && fputs(line, f) >= 0 && !fclose(f));
    assert_true(chat_load(t.c, path, &note, &e) && chat_continue(t.c, &e));
    finish_turn(&t);
    assert_string_equal(chat_message(t.c, 3).text, "Half an answer.");
    assert_false(chat_replay(t.c, &e));
    assert_non_null(strstr(e.msg, "the last message is a summary"));
    ask(&t, "Q2");
    assert_string_equal(buf_str(&t.s.notes), "");
    buf_free(&note);
    end(&t);
}

static void test_context__a_summary_is_undone_and_brought_back(void **state)
{
    struct talk t;
    struct buf note = {0};
    struct err e = {0};
    char path[512];
    (void)state;
    start_keeping(&t);
    fake_say("The first answer, which is long enough to be worth it.");
    fake_say("S.");
    fake_say("A2.");
    ask(&t, "Q1");
    compact(&t, "");
    chat_decide(t.c, true);
    assert_int_equal(chat_rest(t.c), CHAT_WHOLE);       /* it asks for no answer */
    assert_false(chat_regenerate(t.c, &e));
    int summed = chat_context_used(t.c).tokens;
    run(&t, "/undo");
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_true(chat_context_used(t.c).tokens != summed);
    run(&t, "/redo");
    assert_int_equal(chat_context_used(t.c).tokens, summed);
    snprintf(path, sizeof path, "%s", chat_saved_as(t.c));
    assert_true(chat_new(t.c, &e) && chat_load(t.c, path, &note, &e));
    assert_string_equal(chat_message(t.c, 2).role, "summary");
    assert_int_equal(chat_context_used(t.c).tokens, summed);
    ask(&t, "Q2");
    assert_string_equal(prompt(2), USER(SUMMARY("S.")) USER("Q2") PLAIN);
    buf_free(&note);
    end(&t);
}

static void test_context__a_summary_that_is_left_changes_nothing(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf file[2] = {{0}};
    (void)state;
    start_keeping(&t);
    fake_say("A1.");
    fake_say("S.");
    fake_end("It was cut", END_LENGTH, true);        /* hangs until it is interrupted */
    fake_say("A2.");
    assert_false(chat_compact(t.c, "", &e));
    ask(&t, "Q1");
    assert_true(file_read(&file[0], chat_saved_as(t.c), 1 << 20, &e));
    compact(&t, "");
    chat_decide(t.c, false);
    assert_false(chat_proposes(t.c, NULL));
    assert_true(chat_compact(t.c, "", &e));
    forget(&t.s);
    while (!t.s.text.len)
        step(&t);
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_false(chat_proposes(t.c, NULL));
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_true(file_read(&file[1], chat_saved_as(t.c), 1 << 20, &e));
    assert_string_equal(file[0].data, file[1].data);
    ask(&t, "Q2");
    assert_string_equal(prompt(3), USER("Q1") ANSWER("A1.") USER("Q2") PLAIN);
    buf_free(&file[0]);
    buf_free(&file[1]);
    end(&t);
}

/* A conversation with a tool's result of some size, in a context of n tokens. */
static void long_talk(struct talk *t, int n_ctx)
{
    begin(t);
    set(t, OPT_tools, "calculator");
    fake.n_ctx = n_ctx;
    fake_say("x</think><tool_call>\n<function=a_tool_that_does_not_exist>\n</function>\n</tool_call>");
    fake_say("x</think>It is so.");
    fake_say("x</think>A second answer.");
    fake_say("x</think>A third answer.");
    fake_say("A sum.");
    start(t);
    ask(t, "first");
    ask(t, "second");
    ask(t, "third");
}

/* The oldest results of tools go first, then the oldest messages, and it is told; the last exchange stays. */
static void test_context__what_does_not_fit_is_left_out_of_the_summary(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    long_talk(&t, 100000);
    compact(&t, "");
    int all = fake.prompts[4].n;
    assert_int_equal(t.s.notes.len, 0);
    assert_int_equal(fake.samplings[4].max_tokens, 2048);
    end(&t);
    static const struct { int excess; const char *told; } rows[] = {
        {20, "the oldest 1 tool results and 0 messages are left out of the summary"},
        {90, "the oldest 1 tool results and 1 messages are left out of the summary"},
    };
    for (int i = 0; i < 2; i++) {
        int n_ctx = (all - rows[i].excess) * 8 / 7 + (all - rows[i].excess < 1792 ? 256 - (all - rows[i].excess) / 7 : 0);
        long_talk(&t, n_ctx);
        compact(&t, "");
        if (!strstr(buf_str(&t.s.notes), rows[i].told))
            fail_msg("%s", buf_str(&t.s.notes));
        assert_true(fake.prompts[4].n + fake.samplings[4].max_tokens <= n_ctx);
        assert_int_equal(i == 0, strstr(prompt(4), "<tool_response>\n(left out)\n</tool_response>") != NULL);
        assert_int_equal(i == 1, strstr(prompt(4), "<|im_start|>assistant\n(left out)<|im_end|>") != NULL);
        assert_non_null(strstr(prompt(4), "third"));
        chat_decide(t.c, false);
        fake_say("x</think>A4.");
        ask(&t, "fourth");              /* it was for the summary alone */
        assert_non_null(strstr(prompt(5), "a_tool_that_does_not_exist"));
        assert_null(strstr(prompt(5), "(left out)"));
        end(&t);
    }
    long_talk(&t, all * 7 / 8);
    run(&t, "/pin 3");
    assert_string_equal(out.data, "3 is the result of a tool: pin the answer that called it\n");
    run(&t, "/pin 1");
    for (int i = 2; i <= 6; i++) {
        char pin[24];
        snprintf(pin, sizeof pin, "/pin %d", i);
        run(&t, pin);
    }
    bool ok = chat_compact(t.c, "", &e);
    assert_false(ok);
    assert_non_null(strstr(e.msg, "a summary has no room: "));
    assert_true(chat_submit(t.c, "x", 1, &e));          /* and all is as it was */
    finish_turn(&t);
    end(&t);
}

static void test_context__a_nearly_full_context_is_reported_once(void **state)
{
    struct talk t;
    (void)state;
    for (int never = 0; never < 2; never++) {
        begin(&t);
        fake.n_ctx = 100;
        set(&t, OPT_think, "off");
        set(&t, OPT_compact, never ? "never" : "ask");
        fake_say("An answer that fills most of the window, so that it is nearly full.");
        start(&t);
        ask(&t, "Q1 is long");
        if (never)
            assert_int_equal(t.s.notes.len, 0);
        else
            assert_non_null(strstr(t.s.notes.data, "% full: /compact puts a summary in its place"));
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context__a_dropped_message_leaves_a_line_in_the_next_prompts),
        cmocka_unit_test(test_context__the_message_that_is_answered_is_whole),
        cmocka_unit_test(test_context__a_dropped_answer_takes_its_calls_and_their_results_along),
        cmocka_unit_test(test_context__a_dropped_tool_result_leaves_the_call),
        cmocka_unit_test(test_context__a_file_is_dropped_and_its_message_stays),
        cmocka_unit_test(test_context__parts_that_cannot_be_dropped_or_pinned_are_refused),
        cmocka_unit_test(test_context__a_conversation_that_is_loaded_has_its_marks),
        cmocka_unit_test(test_context__a_summary_calls_no_tool),
        cmocka_unit_test(test_context__a_summary_that_is_taken_stands_for_what_is_before_it),
        cmocka_unit_test(test_context__a_replay_that_is_refused_compares_nothing_later),
        cmocka_unit_test(test_context__a_summary_is_undone_and_brought_back),
        cmocka_unit_test(test_context__a_summary_that_is_left_changes_nothing),
        cmocka_unit_test(test_context__what_does_not_fit_is_left_out_of_the_summary),
        cmocka_unit_test(test_context__a_nearly_full_context_is_reported_once),
    };
    tmpdir_make(&home);
    setenv("XDG_STATE_HOME", home.path, 1);
    static const char *const exact[] = {
        "test_context__a_dropped_message_leaves_a_line_in_the_next_prompts", "test_context__a_file_is_dropped_and_its_message_stays",
        "test_context__a_conversation_that_is_loaded_has_its_marks", "test_context__what_does_not_fit_is_left_out_of_the_summary",
        "test_context__a_nearly_full_context_is_reported_once", "test_context__a_replay_that_is_refused_compares_nothing_later", NULL,
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += run_by_text("context by text", tests, sizeof tests / sizeof *tests, exact);
    tmpdir_remove(&home);
    buf_free(&out);
    talk_free();
    return failed;
}

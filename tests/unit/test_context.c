/* What of a conversation the next prompts hold: parts that are dropped and pinned. */
#include <string.h>

#include "chat/command.h"
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
    assert_string_equal(out.data, "dropped: user a long question that is dropped; 21 tokens less; the next prompt is read anew from there on\n");
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

static void test_context__what_cannot_be_dropped_or_pinned_is_told(void **state)
{
    struct talk t;
    (void)state;
    start_keeping(&t);
    run(&t, "/drop 1");
    assert_string_equal(out.data, "nothing was said yet\n");
    fake_say("A.");
    ask(&t, "Q1");
    run(&t, "/drop");
    assert_string_equal(out.data, "/drop needs a number, as /context shows it\n");
    run(&t, "/pin first");
    assert_string_equal(out.data, "/pin needs a number, as /context shows it, not first\n");
    run(&t, "/drop 3");
    assert_string_equal(out.data, "there is no part 3 of the context; /context shows 1 to 2\n");
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
    assert_true(chat_export(t.c, "md", &text, &e));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context__a_dropped_message_leaves_a_line_in_the_next_prompts),
        cmocka_unit_test(test_context__the_message_that_is_answered_is_whole),
        cmocka_unit_test(test_context__a_dropped_answer_takes_its_calls_and_their_results_along),
        cmocka_unit_test(test_context__a_dropped_tool_result_leaves_the_call),
        cmocka_unit_test(test_context__a_file_is_dropped_and_its_message_stays),
        cmocka_unit_test(test_context__what_cannot_be_dropped_or_pinned_is_told),
        cmocka_unit_test(test_context__a_conversation_that_is_loaded_has_its_marks),
    };
    tmpdir_make(&home);
    setenv("XDG_STATE_HOME", home.path, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&home);
    buf_free(&out);
    talk_free();
    return failed;
}

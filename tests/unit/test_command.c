#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "chat/command.h"
#include "chat/nearest.h"
#include "fake_engine.h"

static struct options *o;
static struct chat *c;
static struct buf out;
static const char *message;

static int setup(void **state)
{
    static const struct chat_front front = {.tools = "none"};
    struct err e = {0};
    (void)state;
    fake_reset();
    o = options_open();
    assert_true(options_set(o, OPT_model, "tests/data/chat", FROM_COMMAND_LINE, &e));
    c = chat_open(o, &front, &e);
    if (!c)
        fail_msg("%s", e.msg);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    chat_close(c);
    options_close(o);
    buf_free(&out);
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    return 0;
}

static enum command_result run(const char *line)
{
    buf_reset(&out);
    return command_run(c, o, line, &message, &out);
}

static void answer(const char *question)
{
    struct err e = {0};
    if (question)
        assert_true(chat_submit(c, question, strlen(question), &e));
    while (chat_busy(c)) {
        int n;
        chat_wait(c, -1, 1000);
        chat_drain(c, &n);
    }
}

static void test_command__text_is_told_from_commands(void **state)
{
    static const struct { const char *line, *message; } rows[] = {
        {"hello", "hello"}, {"//etc is a directory", "/etc is a directory"}, {"/usr/bin/env is what?", "/usr/bin/env is what?"},
        {"a /quit", "a /quit"}, {" /quit", " /quit"}, {"//", "/"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(run(rows[i].line), COMMAND_MESSAGE);
        assert_string_equal(message, rows[i].message);
    }
    assert_int_equal(run("/quit"), COMMAND_QUIT);
    assert_int_equal(run("/q"), COMMAND_QUIT);
}

static void test_command__an_unknown_command_is_not_sent_and_near_names_are_offered(void **state)
{
    (void)state;
    assert_int_equal(run("/hlep me"), COMMAND_DONE);
    assert_string_equal(out.data, "there is no command /hlep (did you mean /help?); /help lists them, //hlep sends it as text\n");
    assert_int_equal(run("/xyzzy"), COMMAND_DONE);
    assert_string_equal(out.data, "there is no command /xyzzy; /help lists them, //xyzzy sends it as text\n");
    assert_int_equal(run("/s"), COMMAND_DONE);
    assert_string_equal(out.data, "/s is short for several: /system, /set, /save, /stats\n");
    assert_int_equal(run("/"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "there is no command /;"));
}

static void test_command__help_lists_all_or_one(void **state)
{
    (void)state;
    run("/help");
    assert_non_null(strstr(out.data, "  /regen "));
    assert_non_null(strstr(out.data, "//text"));
    run("/help load");
    assert_string_equal(out.data, "  /load NAME|PATH       goes on with a kept conversation\n");
}

static void test_command__set_shows_changes_and_refuses(void **state)
{
    (void)state;
    run("/set temperature 0.5");
    assert_string_equal(out.data, "temperature = 0.5   (/set; 0 takes the likeliest token)\n");
    run("/set temperature = 0.7");
    assert_float_equal(options_real(o, OPT_temperature), 0.7, 0);
    run("/set temperature hot");
    assert_string_equal(out.data, "temperature is 'hot', expected a number\n");
    run("/set tempature 1");
    assert_string_equal(out.data, "there is no option tempature (did you mean temperature?)\n");
    run("/set ctx 4k");
    assert_non_null(strstr(out.data, "read at the start only"));
    run("/set");
    assert_non_null(strstr(out.data, "temperature = 0.7"));
    run("/think off");
    assert_string_equal(out.data, "thinking is off\n");
    run("/think perhaps");
    assert_string_equal(out.data, "think is 'perhaps', expected on or off\n");
    run("/think 2k");
    assert_string_equal(out.data, "thinking is on, at most 2048 tokens (0: no limit)\n");
    run("/think off");
    run("/think on");
    assert_string_equal(out.data, "thinking is on, at most 2048 tokens (0: no limit)\n");
    run("/think 0");
    assert_string_equal(out.data, "thinking is on\n");
}

static void test_command__system_takes_effect_in_the_next_prompt(void **state)
{
    (void)state;
    fake_say("x");
    run("/system Talk like a tree. ");
    assert_string_equal(out.data, "system prompt: Talk like a tree.\n");
    answer("hi");
    const char *p = "<|im_start|>system\nTalk like a tree.<|im_end|>\n";
    struct ids ids = {0};
    tokenizer_encode(fake.tok, p, strlen(p), true, &ids);
    assert_memory_equal(fake.prompts[0].data, ids.data, (size_t)ids.n * sizeof(int32_t));
    ids_free(&ids);
    run("/system none");
    assert_string_equal(out.data, "no system prompt\n");
}

static void test_command__regen_undo_and_new_change_the_conversation(void **state)
{
    (void)state;
    fake_say("x</think>one");
    fake_say("x</think>two");
    assert_int_equal(run("/regen"), COMMAND_DONE);
    assert_string_equal(out.data, "there is no message to answer yet\n");
    answer("first line\nsecond");
    assert_int_equal(run("/regen"), COMMAND_TURN);
    answer(NULL);
    assert_string_equal(chat_message(c, 1).text, "two");
    run("/stats");
    assert_non_null(strstr(out.data, "draft 1    8 of 10 accepted (80 %)"));
    run("/undo");
    assert_string_equal(out.data, "taken back: first line ...\n");
    run("/undo");
    assert_string_equal(out.data, "there is nothing to take back\n");
    run("/new");
    assert_string_equal(out.data, "a new conversation\n");
}

static void test_command__save_and_load_tell_where(void **state)
{
    char dir[] = "/tmp/q35chat-test-XXXXXX", line[128], file[80];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/talk", dir);
    fake_say("x</think>one");
    answer("hi");
    run("/save");
    assert_string_equal(out.data, "not kept; /save NAME keeps it\n");
    snprintf(line, sizeof line, "/save %s", file);
    run(line);
    assert_non_null(strstr(out.data, file));
    run("/new");
    snprintf(line, sizeof line, "/load %s", file);
    run(line);
    assert_non_null(strstr(out.data, "2 messages in /tmp/"));
    assert_non_null(strstr(out.data, "/talk\n> hi\none\n"));
    run("/load /nonexistent/x");
    assert_non_null(strstr(out.data, "/nonexistent/x"));
    assert_int_equal(chat_n_messages(c), 2);
    unlink(file);
    rmdir(dir);
}

static void test_command__tools_are_listed_and_offered(void **state)
{
    (void)state;
    run("/tools");
    assert_string_equal(out.data, "off clock            built in\noff calculator       built in\n");
    run("/tools clock");
    assert_string_equal(out.data, "on  clock            built in\noff calculator       built in\n");
    run("/tools rocket");
    assert_string_equal(out.data, "there is no tool rocket; there are clock, calculator\n");
}

static void collect(const char *word, void *arg)
{
    buf_addf(arg, "%s ", word);
}

static void test_command__words_are_completed_from_the_tables(void **state)
{
    static const struct { const char *line, *words; bool file; } rows[] = {
        {"/re", "/regen ", false}, {"/s", "/system /set /save /stats ", false}, {"/set top", "top_p top_k ", false}, {"/help un", "undo ", false},
        {"/load x", "", true}, {"/undo x", "", false}, {"look at ./fi", "", true}, {"/usr/bi", "", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf words = {0};
        assert_int_equal(command_complete(rows[i].line, collect, &words), rows[i].file);
        assert_string_equal(buf_str(&words), rows[i].words);
        buf_free(&words);
    }
}

static void test_nearest__a_slip_is_found_and_another_word_is_not(void **state)
{
    static const char *const names[] = {"temperature", "top_p", "seed", NULL};
    (void)state;
    assert_string_equal(nearest("temprature", names, 4), "temperature");
    assert_string_equal(nearest("sede", names, 4), "seed");
    assert_null(nearest("banana", names, 4));
    assert_null(nearest("", names, 4));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_command__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(text_is_told_from_commands),
        TEST(an_unknown_command_is_not_sent_and_near_names_are_offered),
        TEST(help_lists_all_or_one),
        TEST(set_shows_changes_and_refuses),
        TEST(system_takes_effect_in_the_next_prompt),
        TEST(regen_undo_and_new_change_the_conversation),
        TEST(save_and_load_tell_where),
        TEST(tools_are_listed_and_offered),
        TEST(words_are_completed_from_the_tables),
        cmocka_unit_test(test_nearest__a_slip_is_found_and_another_word_is_not),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}

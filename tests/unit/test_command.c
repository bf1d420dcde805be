#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "chat/command.h"
#include "base/file.h"
#include "responder/local.h"
#include "option/flags.h"
#include "fake_engine.h"

static struct options *o;
static struct chat *c;
static struct buf out;
static const char *message;

static void open_chat(bool screen)
{
    const struct chat_front front = {.tools = "none", .screen = screen};
    struct err e = {0};
    c = chat_open(local_open(o, &e), o, &front, &e);
    if (!c)
        fail_msg("%s", e.msg);
}

static int setup(void **state)
{
    struct err e = {0};
    (void)state;
    fake_reset();
    o = options_open();
    assert_true(options_set(o, OPT_model, "tests/data/chat", FROM_COMMAND_LINE, &e));
    open_chat(false);
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

static void test_command__text_and_commands_are_distinguished(void **state)
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
    assert_int_equal(run("/bye"), COMMAND_QUIT);
    assert_int_equal(run("/exit"), COMMAND_QUIT);
}

static void test_command__an_unknown_command_is_not_sent_and_near_names_are_offered(void **state)
{
    (void)state;
    assert_int_equal(run("/hlep me"), COMMAND_DONE);
    assert_string_equal(out.data, "unknown command /hlep (did you mean /help?); /help lists them, //hlep sends it as text\n");
    assert_int_equal(run("/xyzzy"), COMMAND_DONE);
    assert_string_equal(out.data, "unknown command /xyzzy; /help lists them, //xyzzy sends it as text\n");
    assert_int_equal(run("/s"), COMMAND_DONE);
    assert_string_equal(out.data, "/s is short for several: /system, /set, /sessions, /save, /stats\n");
    assert_int_equal(run("/"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "unknown command /;"));
}

static void test_command__words_behind_a_command_that_takes_none_do_not_run_it(void **state)
{
    (void)state;
    assert_int_equal(run("/quit smoking helps whom?"), COMMAND_DONE);
    assert_string_equal(out.data, "/quit takes no words, not 'smoking helps whom?'; // at the start sends a message that begins with a slash\n");
    assert_int_equal(run("/new York"), COMMAND_DONE);
    assert_int_equal(run("/quit  "), COMMAND_QUIT);
}

static void test_command__help_lists_all_or_one(void **state)
{
    (void)state;
    run("/help");
    assert_non_null(strstr(out.data, "  /regen "));
    assert_non_null(strstr(out.data, "//text"));
    for (const char *p = out.data; *p; p += strcspn(p, "\n") + 1)
        if (strcspn(p, "\n") > 80)
            fail_msg("%s", p);
    run("/help load");
    assert_string_equal(out.data, "  /resume NAME|PATH       continues a saved conversation (also /load)\n");
    run("/help xyzzy");
    assert_string_equal(out.data, "unknown command /xyzzy; /help lists them, //xyzzy sends it as text\n");
    run("/help /qui");
    assert_string_equal(out.data, "  /quit                   ends the program (also /exit, /bye, /q)\n");
}

static void test_command__help_leaves_out_what_needs_the_full_screen(void **state)
{
    (void)state;
    run("/help");
    assert_null(strstr(out.data, "/inspect"));
    assert_null(strstr(out.data, "/theme"));
    run("/help inspect");
    assert_non_null(strstr(out.data, "  /inspect "));
    chat_close(c);
    open_chat(true);
    run("/help");
    assert_non_null(strstr(out.data, "  /inspect "));
    assert_non_null(strstr(out.data, "  /theme "));
}

static void test_command__one_slip_is_another_word_by_one_letter_or_two(void **state)
{
    static const struct { const char *word, *name; bool is; } rows[] = {
        {"model", "model", true}, {"modl", "model", true}, {"modell", "model", true}, {"modle", "model", true}, {"nodel", "model", true},
        {"sesion", "session", true}, {"sessoin", "session", true}, {"sesions", "session", true},
        {"hello", "help", false}, {"medal", "model", false}, {"", "model", false}, {"serving", "serve", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(nearest_is(rows[i].word, rows[i].name), rows[i].is);
}

static void test_command__set_shows_changes_and_refuses(void **state)
{
    (void)state;
    run("/set temperature 0.5");
    assert_string_equal(out.data, "temperature = 0.5   (/set; temperature (0: always the most likely token))\n");
    run("/set temperature = 0.7");
    assert_float_equal(options_real(o, OPT_temperature), 0.7, 0);
    run("/set temperature hot");
    assert_string_equal(out.data, "temperature is 'hot', expected a number\n");
    run("/set tempature 1");
    assert_string_equal(out.data, "unknown option tempature (did you mean temperature?)\n");
    run("/set ctx 4k");
    assert_non_null(strstr(out.data, "read when the program starts"));
    run("/set");
    assert_non_null(strstr(out.data, "temperature = 0.7"));
    run("/think off");
    assert_string_equal(out.data, "reasoning is off\n");
    run("/think perhaps");
    assert_string_equal(out.data, "think is 'perhaps', expected on, off or a token limit\n");
    run("/think 2k");
    assert_string_equal(out.data, "reasoning is on, at most 2048 tokens (0: no limit)\n");
    run("/think off");
    run("/think on");
    assert_string_equal(out.data, "reasoning is on, at most 2048 tokens (0: no limit)\n");
    run("/think 0");
    assert_string_equal(out.data, "reasoning is on\n");
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
    assert_string_equal(out.data, "no message to answer yet\n");
    answer("first line\nsecond");
    assert_int_equal(run("/regen"), COMMAND_TURN);
    fake.n_looked_up = 3;
    fake.bytes = 8e9;
    answer(NULL);
    assert_string_equal(chat_message(c, 1).text, "two");
    run("/stats");
    assert_non_null(strstr(out.data, "draft 1    8 of 10 accepted (80 %)\ndraft 2    1 of 2 accepted (50 %)\n"
                                     "lookup 2   0 of 3 found in the text and accepted (0 %)\n"));
    assert_non_null(strstr(out.data, "memory     planned 3.00 GiB of 8.00 GiB, of which 0.50 stay free: weights 3.00 GiB\n"));
    assert_non_null(strstr(out.data, "KV cache   tq4, 6240 bytes a token\n"));
    assert_non_null(strstr(out.data, "traffic    about 1.6 GB a token: weights, states, KV rows, drafts\n"));
    assert_null(strstr(out.data, "refill"));
    assert_int_equal(run("/undo"), COMMAND_MOVED);
    assert_string_equal(out.data, "taken back: first line ...\n");
    assert_int_equal(run("/undo"), COMMAND_DONE);
    assert_string_equal(out.data, "nothing to undo\n");
    assert_int_equal(run("/redo"), COMMAND_MOVED);
    assert_string_equal(out.data, "restored: first line ...\n");
    assert_int_equal(chat_n_messages(c), 2);
    assert_int_equal(run("/redo"), COMMAND_DONE);
    assert_string_equal(out.data, "nothing to redo\n");
    assert_int_equal(run("/clear"), COMMAND_MOVED);
    assert_string_equal(out.data, "a new conversation\n");
    assert_int_equal(chat_n_nodes(c), 0);
}

static void test_command__set_tells_what_of_drafts_is_in_force(void **state)
{
    static const char said[] = "   (/set; drafted tokens per step (auto: as many as pay); auto|off|0|1|2|3|4|5|6|7)\n";
    static const struct { int depth; const char *line, *value, *more; } rows[] = {
        {7, "/set draft 3", "3", "draft is 3: nothing is looked up; with auto it is\n"},
        {7, "/set draft auto", "auto", ""},
        {2, "/set draft 5", "5", "at most 2 are made\n"},
        {0, "/set draft auto", "auto",
         "no drafts are made: the model has no MTP block, or was loaded without (--draft off); --draft auto at the start loads it\n"},
        {0, "/set draft off", "off", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf want = {0};
        teardown(NULL);
        setup(NULL);
        snprintf(fake_engine->info.formats, sizeof fake_engine->info.formats, "INT4");
        fake_engine->info.draft_depth = rows[i].depth;
        fake_say("x</think>one");
        fake_say("x</think>two");
        answer("anything");
        assert_int_equal(run(rows[i].line), COMMAND_DONE);
        buf_addf(&want, "draft = %s%s%s", rows[i].value, said, rows[i].more);
        assert_string_equal(out.data, want.data);
        buf_free(&want);
    }
    run("/set draft 8");
    assert_non_null(strstr(out.data, "8"));
    run("/set draft 3");
    run("/set lookup off");
    answer("again");
    assert_int_equal(fake.samplings[0].draft_depth, -1);
    assert_true(fake.samplings[0].lookup);
    assert_int_equal(fake.samplings[1].draft_depth, 3);
    assert_false(fake.samplings[1].lookup);
}

static void test_command__stats_tell_where_weights_lie_and_what_to_do_when_reads_are_slow(void **state)
{
    (void)state;
    fake_say("x</think>one");
    snprintf(fake_engine->info.weights_in, sizeof fake_engine->info.weights_in, "in device memory: so it is");
    snprintf(fake_engine->info.reads, sizeof fake_engine->info.reads, "memory is read at 160 GB/s: do something");
    fake_engine->info.slow = true;
    answer("anything");
    run("/stats");
    assert_non_null(strstr(out.data, "weights    in device memory: so it is\nreads      memory is read at 160 GB/s: do something\n"));
    assert_true(chat_info(c)->slow);
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
    assert_string_equal(out.data, "not saved; /save NAME saves it\n");
    snprintf(line, sizeof line, "/save %s", file);
    run(line);
    assert_non_null(strstr(out.data, file));
    run("/new");
    snprintf(line, sizeof line, "/load %s", file);
    assert_int_equal(run(line), COMMAND_MOVED);
    assert_non_null(strstr(out.data, "2 messages in /tmp/"));
    assert_string_equal(chat_message(c, 1).text, "one");
    run("/load /nonexistent/x");
    assert_non_null(strstr(out.data, "/nonexistent/x"));
    assert_int_equal(chat_n_messages(c), 2);
    unlink(file);
    rmdir(dir);
}

static void collect(const char *word, const char *note, void *arg)
{
    buf_addf(arg, note ? "%s (%s) " : "%s ", word, note);
}

static void test_command__undo_takes_a_number(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char q[] = {'Q', (char)('1' + i), 0};
        fake_say("x</think>A");
        answer(q);
    }
    assert_int_equal(run("/undo 2"), COMMAND_MOVED);
    assert_string_equal(out.data, "taken back: Q3\ntaken back: Q2\n");
    assert_int_equal(chat_n_messages(c), 2);
    run("/undo x");
    assert_string_equal(out.data, "/undo takes a number of messages, not 'x'\n");
    run("/undo 0");
    assert_string_equal(out.data, "/undo takes a number of messages, not '0'\n");
    assert_int_equal(run("/undo 99"), COMMAND_MOVED);
    assert_string_equal(out.data, "taken back: Q1\nthe conversation had no more than 1 message of yours, not 99\n");
    assert_int_equal(chat_n_messages(c), 0);
}

static void test_command__edit_gives_the_text_back_as_it_must_be_typed(void **state)
{
    const char *text;
    (void)state;
    for (int i = 0; i < 2; i++)
        fake_say("x</think>A");
    assert_int_equal(run("/edit"), COMMAND_DONE);
    assert_string_equal(out.data, "you have no message yet\n");
    run("/copy");
    assert_string_equal(out.data, "no answer yet\n");
    run("/continue");
    assert_string_equal(out.data, "no answer yet\n");
    run("/stats");
    assert_non_null(strstr(out.data, "answer     none yet"));
    assert_null(strstr(out.data, " 0 tokens in 0 steps"));
    assert_int_equal(run("//etc"), COMMAND_MESSAGE);
    answer(message);
    answer("Q2\nline two");
    assert_int_equal(run("/edit"), COMMAND_EDIT);
    assert_string_equal(out.data, "Q2\nline two");
    assert_int_equal(chat_edited(c), 2);
    assert_int_equal(run("/edit 2"), COMMAND_EDIT);
    assert_string_equal(out.data, "//etc");
    assert_int_equal(chat_edited(c), 0);
    assert_int_equal(chat_n_messages(c), 4);
    struct buf typed = {0};
    buf_adds(&typed, out.data);
    assert_int_equal(command_run(c, o, typed.data, &text, &out), COMMAND_MESSAGE);
    assert_string_equal(text, "/etc");
    buf_free(&typed);
    assert_int_equal(run("/edit 3"), COMMAND_DONE);
}

static void test_command__branches_are_listed_and_switched(void **state)
{
    (void)state;
    fake_say("x</think>A1");
    fake_say("x</think>A1b");
    fake_say("x</think>A2");
    run("/tree");
    assert_string_equal(out.data, "no messages yet\n");
    answer("Q1");
    run("/branch");
    assert_non_null(strstr(out.data, "this conversation has no branches"));
    run("/retry 7");
    answer(NULL);
    assert_int_equal(fake.samplings[1].seed, 7);
    answer("Q2\nmore");
    run("/branch");
    assert_string_equal(out.data, "   1  A1\n*  2  A1b\n");
    run("/tree");
    assert_string_equal(out.data, "*   1  > Q1\n    2  A1\n*   3  A1b\n*   4    > Q2\n*   5    A2\n");
    assert_int_equal(run("/branch 1"), COMMAND_MOVED);
    assert_string_equal(out.data, "branch 1 of 2\n");
    assert_string_equal(chat_message(c, chat_n_messages(c) - 1).text, "A1");
    assert_int_equal(run("/branch 3"), COMMAND_DONE);
    assert_string_equal(out.data, "no branch 3, expected 1 to 2\n");
    assert_int_equal(run("/tree 4"), COMMAND_MOVED);
    assert_string_equal(chat_message(c, chat_n_messages(c) - 1).text, "Q2\nmore");
    run("/tree 6");
    assert_string_equal(out.data, "no message 6, expected 1 to 5\n");
    run("/regen -1");
    assert_string_equal(out.data, "the seed is '-1', expected a whole number from 0\n");
}

static void test_command__the_tree_tells_calls_and_answers_without_text(void **state)
{
    (void)state;
    run("/tools calculator");
    fake_say("x</think><tool_call>\n<function=calculator>\n<parameter=expression>\n1 + 2\n</parameter>\n</function>\n</tool_call>");
    fake_say("x</think>");
    answer("Q1");
    run("/tree");
    assert_string_equal(out.data, "*   1  > Q1\n*   2  $ calculator 1 + 2\n*   3  -> 3\n*   4  (no answer, only reasoning)\n");
}

static void test_command__copy_gives_an_answer_out_or_writes_it(void **state)
{
    char dir[] = "/tmp/q35chat-test-XXXXXX", line[128], file[80];
    struct buf text = {0};
    struct err e = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/answer", dir);
    fake_say("x</think>one");
    fake_say("x</think>two");
    assert_int_equal(run("/copy"), COMMAND_DONE);
    answer("a");
    answer("b");
    assert_int_equal(run("/copy"), COMMAND_COPY);
    assert_string_equal(out.data, "two");
    assert_int_equal(run("/copy 2"), COMMAND_COPY);
    assert_string_equal(out.data, "one");
    assert_int_equal(run("/copy 3"), COMMAND_DONE);
    snprintf(line, sizeof line, "/copy 2 %s", file);
    assert_int_equal(run(line), COMMAND_DONE);
    assert_true(file_read(&text, file, 100, &e));
    assert_string_equal(text.data, "one\n");
    snprintf(line, sizeof line, "/copy %s", file);
    run(line);
    assert_non_null(strstr(out.data, "exists; choose another name"));
    unlink(file);
    rmdir(dir);
    buf_free(&text);
}

static void test_command__sessions_are_listed_found_renamed_and_deleted(void **state)
{
    char dir[] = "/tmp/q35chat-test-XXXXXX", command[256];
    (void)state;
    assert_non_null(mkdtemp(dir));
    setenv("XDG_STATE_HOME", dir, 1);
    fake_say("x</think>one");
    fake_say("x</think>two");
    run("/sessions");
    assert_string_equal(out.data, "no saved conversation yet\n");
    answer("Where is Oslo?");
    run("/save norway");
    run("/rename  My trip ");
    assert_string_equal(out.data, "title: My trip\n");
    run("/new");
    answer("Hello");
    run("/save other");
    run("/sessions");
    assert_non_null(strstr(out.data, "norway                    just now           1 turn   My trip\n"));
    assert_non_null(strstr(out.data, "other                     just now           1 turn   Hello\n"));
    run("/sessions TRIP");
    assert_null(strstr(out.data, "other"));
    assert_non_null(strstr(out.data, "norway"));
    run("/find oslo");
    assert_non_null(strstr(out.data, "My trip\n    Where is Oslo?\n"));
    run("/find oslo hello");
    assert_string_equal(out.data, "no saved conversation has all these words\n");
    run("/delete other");
    assert_non_null(strstr(out.data, "other is open"));
    run("/delete norway");
    assert_string_equal(out.data, "/delete norway once more moves it to the trash\n");
    assert_int_equal(run("/sessions trip"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "norway"));
    assert_int_equal(run("/delete norway"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "deleted norway; /restore norway brings it back within 30 days, it is in /"));
    assert_non_null(strstr(out.data, "/trash/norway.jsonl\n"));
    struct buf words = {0};
    assert_false(command_complete("/restore n", collect, &words));
    assert_string_equal(buf_str(&words), "norway ");
    buf_reset(&words);
    run("/restore");
    assert_non_null(strstr(out.data, "norway"));
    run("/restore norway");
    assert_string_equal(out.data, "/resume norway continues it\n");
    run("/restore norway");
    assert_string_equal(out.data, "no conversation norway in the trash\n");
    run("/delete norway");              /* asked anew */
    assert_non_null(strstr(out.data, "once more"));
    run("/delete norway");
    run("/sessions norway");
    assert_string_equal(out.data, "no saved conversation has all these words\n");
    run("/resume norway");
    assert_string_equal(out.data, "no conversation norway; /sessions and q35chat session list show the names\n");
    assert_int_equal(run("/resume"), COMMAND_SCREEN);
    assert_string_equal(message, "resume");
    run("/rename \"\"");
    assert_string_equal(out.data, "title: Hello\n");
    assert_false(command_complete("/resume o", collect, &words));
    assert_string_equal(buf_str(&words), "other (Hello, just now) ");
    buf_reset(&words);
    snprintf(command, sizeof command, "cd \"$(dirname \"$(find '%s' -name other.jsonl)\")\" && head -n 1 other.jsonl > only.jsonl", dir);
    assert_int_equal(system(command), 0);
    assert_false(command_complete("/resume o", collect, &words));       /* one without messages is in no list */
    assert_string_equal(buf_str(&words), "other (Hello, just now) ");
    buf_reset(&words);
    assert_false(command_complete("/resume HELL", collect, &words));
    assert_string_equal(buf_str(&words), "other (Hello, just now) ");
    buf_reset(&words);
    assert_false(command_complete("/resume hell no", collect, &words));
    assert_string_equal(buf_str(&words), "");
    buf_free(&words);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void test_command__export_writes_a_new_file(void **state)
{
    char dir[] = "/tmp/q35chat-test-XXXXXX", line[128], command[64];
    struct buf text = {0};
    struct err e = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    fake_say("x</think>one");
    run("/export md x");
    assert_string_equal(out.data, "no messages yet\n");
    answer("hi");
    snprintf(line, sizeof line, "/export %s/talk.txt", dir);
    run(line);
    assert_non_null(strstr(out.data, "wrote 60 bytes to /tmp/"));
    assert_true(file_read(&text, line + 8, 100, &e));
    assert_non_null(strstr(text.data, "You (20"));      /* the time is that of now */
    assert_non_null(strstr(text.data, "):\nhi\n\nAnswer (20"));
    assert_non_null(strstr(text.data, "):\none\n\n"));
    run(line);
    assert_non_null(strstr(out.data, "exists; choose another name"));
    snprintf(line, sizeof line, "/export md %s/talk.json", dir);
    run(line);
    buf_reset(&text);
    assert_true(file_read(&text, line + 11, 100, &e));
    assert_int_equal(strncmp(text.data, "# hi\n", 5), 0);
    buf_free(&text);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void test_command__files_are_put_into_the_next_message(void **state)
{
    char dir[] = "/tmp/q35chat-test-XXXXXX", line[256], expected[256], command[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(line, sizeof line, "touch %s/a '%s/b c'", dir, dir);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "/attach %s/a \"%s/b c\" @%s/a", dir, dir, dir);
    assert_int_equal(run(line), COMMAND_EDIT);
    snprintf(expected, sizeof expected, "@%s/a @\"%s/b c\" @%s/a ", dir, dir, dir);
    assert_string_equal(out.data, expected);
    snprintf(line, sizeof line, "/attach %s/b c", dir);
    assert_int_equal(run(line), COMMAND_EDIT);
    snprintf(expected, sizeof expected, "@\"%s/b c\" ", dir);
    assert_string_equal(out.data, expected);
    assert_int_equal(run("/attach /nonexistent/x"), COMMAND_DONE);
    assert_string_equal(out.data, "cannot open /nonexistent/x: No such file or directory\n");
    assert_int_equal(run("/attach"), COMMAND_DONE);
    run("/files");
    assert_string_equal(out.data, "no files; @PATH in a message attaches one\n");
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void test_command__presets_themes_and_the_context_are_shown(void **state)
{
    (void)state;
    fake_say("x</think>one");
    run("/preset");
    assert_string_equal(out.data, "preset auto (now: thinking); choose one of auto|thinking|coding|plain; "
                                  "the model's own values are known when it is loaded\n"
                                  "temperature 1, top_p 0.95, min_p 0, presence_penalty 1.5, repetition_penalty 1, top_k 20\n");
    answer("hi");
    run("/preset coding");
    assert_non_null(strstr(out.data, "preset coding; choose one of auto"));
    assert_non_null(strstr(out.data, "temperature 0.6,"));
    run("/preset wild");
    assert_string_equal(out.data, "preset is 'wild', expected one of auto|thinking|coding|plain\n");
    assert_int_equal(run("/theme mono"), COMMAND_SCREEN);
    assert_string_equal(message, "theme");
    assert_string_equal(out.data, "mono");
    assert_int_equal(run("/theme plaid"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "theme is 'plaid', expected one of default|"));
    run("/theme");
    assert_int_equal(strncmp(out.data, "theme mono; choose one of default ", 34), 0);
    run("/context");
    assert_string_equal(out.data, "   1       7  user    hi\n   2       8  answer  one\n          15  tokens of 100000, 0 %\n");
    run("/stats");
    assert_non_null(strstr(out.data, "context    15 of 100000\n"));
}

/* The words are those of the prompt around the token at which it is no longer what was there. */
static void test_command__stats_tell_why_a_prompt_was_read_again(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        fake_say("x</think>one");
    fake.refill = (struct refill){.happened = true};
    answer("one two");
    run("/stats");
    assert_null(strstr(out.data, "refill"));            /* the first prompt is new */
    fake.refill.pos = 5;
    answer("three");
    run("/stats");
    assert_non_null(strstr(out.data, "refill     only the first 5 tokens of the conversation were cached, in memory or in a checkpoint\n"));
    fake.refill = (struct refill){.happened = true, .resident = true, .common = 3, .pos = 2, .from_file = true};
    answer("four");
    run("/stats");
    const char *line = strstr(out.data, "refill     the prompt differs from the cached one from token 3 on: after \"<|im_start|>");
    assert_non_null(line);
    assert_non_null(strstr(line, "; the nearest snapshot is at 2, from the checkpoint on the disk\n"));
    assert_true(strcspn(line, "\n") > 120);            /* the line feed behind "user" is a blank */
    fake.refill = (struct refill){0};
    answer("five");
    run("/stats");
    assert_null(strstr(out.data, "refill"));
}

static int n_lines(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += *s == '\n';
    return n;
}

static void test_command__the_context_of_a_long_conversation_is_a_summary(void **state)
{
    char said[16];
    (void)state;
    for (int i = 0; i < 15; i++) {
        fake_say("x</think>one");
        snprintf(said, sizeof said, "hi %d", i);
        answer(said);
    }
    run("/context");
    assert_int_equal(n_lines(out.data), 22);
    assert_non_null(strstr(out.data, "before  10 parts; /context all lists them\n"));
    assert_non_null(strstr(out.data, "hi 14\n"));
    assert_null(strstr(out.data, "hi 4\n"));
    const char *sum = strdup(strrchr(out.data, '\n') - 30);
    run("/context all");
    assert_int_equal(n_lines(out.data), 31);
    assert_non_null(strstr(out.data, "hi 4\n"));
    assert_non_null(strstr(out.data, sum));             /* the sum is the same */
    free((char *)sum);
    run("/context most");
    assert_string_equal(out.data, "/context knows only 'all', not 'most'\n");
}

static void test_command__values_in_force_are_shown(void **state)
{
    (void)state;
    run("/set temperature");
    assert_non_null(strstr(out.data, "temperature: the model's default, which is known when it is loaded   ("));
    fake_say("x</think>one");
    answer("hi");
    run("/set temperature");
    assert_non_null(strstr(out.data, "temperature: 1   (thinking; "));
    run("/set top_k");
    assert_non_null(strstr(out.data, "top_k: 20   (thinking; "));
    run("/set temperature 0.5");
    assert_non_null(strstr(out.data, "temperature = 0.5   (/set; "));
}

static void test_command__a_pipe_is_no_file(void **state)
{
    (void)state;
    fake_say("x</think>one");
    answer("hi");
    assert_int_equal(run("/copy | wc -c"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "pipes do not work here ('| wc -c')"));
    assert_int_equal(access("| wc -c", F_OK), -1);
    assert_int_equal(run("/export > x.md"), COMMAND_DONE);
    assert_non_null(strstr(out.data, "pipes do not work here"));
    assert_int_equal(access("> x.md", F_OK), -1);
}

static void test_command__what_only_a_screen_can_do_comes_back(void **state)
{
    const char *argument;
    (void)state;
    assert_int_equal(run("/keys"), COMMAND_SCREEN);
    assert_string_equal(message, "keys");
    assert_int_equal(run("/keys foo"), COMMAND_DONE);
    assert_string_equal(out.data, "/keys takes all, test or nothing, not 'foo'\n");
    assert_int_equal(run("/insp 2 "), COMMAND_SCREEN);
    assert_string_equal(message, "inspect");
    assert_string_equal(out.data, "2");
    assert_string_equal(command_name("/ret  5", &argument), "regen");
    assert_string_equal(argument, "5");
    assert_string_equal(command_name("/tree", &argument), "tree");
    assert_string_equal(argument, "");
    assert_null(command_name("/re", &argument));
    assert_null(command_name("//tree", &argument));
    assert_null(command_name("tree", &argument));
}

static void test_command__tools_are_listed_and_offered(void **state)
{
    (void)state;
    run("/tools");
    assert_string_equal(out.data, "off clock            built in\noff calculator       built in\n");
    run("/tools clock");
    assert_string_equal(out.data, "on  clock            built in\noff calculator       built in\n");
    run("/tools rocket");
    assert_string_equal(out.data, "unknown tool rocket; expected one of clock, calculator\n");
    run("/set tools calculator");
    run("/tools");
    assert_string_equal(out.data, "off clock            built in\non  calculator       built in\n");
    run("/set tools rocket");
    assert_string_equal(out.data, "unknown tool rocket; expected one of clock, calculator\n");
    assert_string_equal(options_text(o, OPT_tools), "calculator");
    run("/tools all");
    assert_string_equal(options_text(o, OPT_tools), "all");
    run("/set tools auto");             /* what the front end has by itself: nothing */
    run("/tools");
    assert_string_equal(out.data, "off clock            built in\noff calculator       built in\n");
    run("/set tools_approve rocket");
    assert_non_null(strstr(out.data, "unknown tool rocket"));
    assert_string_equal(options_text(o, OPT_tools_approve), "auto");
    run("/set tools_approve clock");
    assert_string_equal(options_text(o, OPT_tools_approve), "clock");
}

static void test_command__words_are_completed_from_the_tables(void **state)
{
    static const struct { const char *line, *words; bool file; } rows[] = {
        {"/re", "/regen /replay /redo /resume /rename /restore /retry ", false}, {"/s", "/system /set /sessions /save /stats ", false},
        {"/set top", "top_p top_k ", false}, {"/set preset c", "coding ", false}, {"/set think ", "on off ", false}, {"/set nothing ", "", false},
        {"/help un", "undo unpin ", false}, {"/help /un", "/undo /unpin ", false}, {"/load ./x", "", true}, {"/attach x", "", true},
        {"/undo x", "", false},
        {"/preset ", "auto thinking coding plain ", false}, {"/theme d", "default dark ", false}, {"/export ", "md json txt ", false},
        {"/export md ", "", true}, {"look at ./fi", "", true}, {"/usr/bi", "", true},
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
    assert_string_equal(nearest_name("temprature", names, 4), "temperature");
    assert_string_equal(nearest_name("sede", names, 4), "seed");
    assert_null(nearest_name("banana", names, 4));
    assert_null(nearest_name("nope", (const char *const[]){"copy", "note"}, 1));      /* two of four letters are wrong */
    assert_null(nearest_name("", names, 4));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_command__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(text_and_commands_are_distinguished),
        TEST(an_unknown_command_is_not_sent_and_near_names_are_offered),
        TEST(words_behind_a_command_that_takes_none_do_not_run_it),
        TEST(help_lists_all_or_one),
        TEST(help_leaves_out_what_needs_the_full_screen),
        TEST(one_slip_is_another_word_by_one_letter_or_two),
        TEST(set_shows_changes_and_refuses),
        TEST(system_takes_effect_in_the_next_prompt),
        TEST(regen_undo_and_new_change_the_conversation),
        TEST(stats_tell_why_a_prompt_was_read_again),
        TEST(set_tells_what_of_drafts_is_in_force),
        TEST(stats_tell_where_weights_lie_and_what_to_do_when_reads_are_slow),
        TEST(save_and_load_tell_where),
        TEST(undo_takes_a_number),
        TEST(edit_gives_the_text_back_as_it_must_be_typed),
        TEST(branches_are_listed_and_switched),
        TEST(the_tree_tells_calls_and_answers_without_text),
        TEST(copy_gives_an_answer_out_or_writes_it),
        TEST(sessions_are_listed_found_renamed_and_deleted),
        TEST(export_writes_a_new_file),
        TEST(files_are_put_into_the_next_message),
        TEST(presets_themes_and_the_context_are_shown),
        TEST(the_context_of_a_long_conversation_is_a_summary),
        TEST(values_in_force_are_shown),
        TEST(a_pipe_is_no_file),
        TEST(what_only_a_screen_can_do_comes_back),
        TEST(tools_are_listed_and_offered),
        TEST(words_are_completed_from_the_tables),
        cmocka_unit_test(test_nearest__a_slip_is_found_and_another_word_is_not),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}

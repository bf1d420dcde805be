#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "chat/chat.h"
#include "base/file.h"
#include "responder/local.h"
#include "fake_engine.h"

static struct options *o;
static struct chat *c;
static char dir[64], shown[2048];
static char taken_back[64];

static void open_chat(bool keeps)
{
    const struct chat_front front = {.tools = "none", .keeps = keeps};
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
    setenv("XDG_STATE_HOME", dir, 1);
    fake_reset();
    o = options_open();
    assert_true(options_set(o, OPT_model, "tests/data/chat", FROM_COMMAND_LINE, &e));
    assert_true(options_set(o, OPT_think, "off", FROM_COMMAND_LINE, &e));
    open_chat(false);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    chat_close(c);
    options_close(o);
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static bool step(void)
{
    int n;
    bool over = false;
    chat_wait(c, -1, 5000);
    const struct chat_event *ev = chat_drain(c, &n);
    for (int i = 0; i < n; i++)
        if (ev[i].kind == CHAT_DONE) {
            over = true;
            snprintf(taken_back, sizeof taken_back, "%s", ev[i].taken_back ? ev[i].taken_back : "");
        }
    return over;
}

static void wait_for_the_end(void)
{
    while (!step())
        ;
}

static void submit(const char *text)
{
    struct err e = {0};
    if (!chat_submit(c, text, strlen(text), &e))
        fail_msg("%s", e.msg);
}

static void ask(const char *text, const char *answer)
{
    fake_say(answer);
    submit(text);
    wait_for_the_end();
}

static void again(const char *answer)
{
    struct err e = {0};
    fake_say(answer);
    assert_true(chat_regenerate(c, &e));
    wait_for_the_end();
}

/* "Q1 A1 Q2" */
static const char *path(void)
{
    *shown = 0;
    for (int i = 0; i < chat_n_messages(c); i++)
        snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%s", i ? " " : "", chat_message(c, i).text);
    return shown;
}

static void test_tree__another_answer_stands_beside_the_first(void **state)
{
    struct err e = {0};
    int which;
    (void)state;
    ask("Q1", "A1");
    ask("Q2", "A2");
    again("A2b");
    assert_string_equal(path(), "Q1 A1 Q2 A2b");
    assert_int_equal(chat_siblings(c, 3, &which), 2);
    assert_int_equal(which, 1);
    assert_int_equal(chat_siblings(c, 2, &which), 1);
    assert_true(chat_show_sibling(c, 3, 0, &e));
    assert_string_equal(path(), "Q1 A1 Q2 A2");
    assert_false(chat_show_sibling(c, 3, 2, &e));
    assert_false(chat_show_sibling(c, 3, -1, &e));
    assert_string_equal(path(), "Q1 A1 Q2 A2");
}

static void test_tree__a_switch_goes_back_to_where_one_was(void **state)
{
    struct err e = {0};
    (void)state;
    ask("Q1", "A1");
    ask("Q2", "A2");
    assert_true(chat_go(c, 0, &e));
    again("B1");
    ask("Q3", "B3");
    assert_string_equal(path(), "Q1 B1 Q3 B3");
    assert_true(chat_show_sibling(c, 1, 0, &e));
    assert_string_equal(path(), "Q1 A1 Q2 A2");
    assert_true(chat_show_sibling(c, 1, 1, &e));
    assert_string_equal(path(), "Q1 B1 Q3 B3");
}

static void test_tree__undo_and_redo_lose_nothing(void **state)
{
    struct err e = {0};
    struct buf back = {0};
    (void)state;
    ask("Q1", "A1");
    ask("Q2", "A2");
    assert_false(chat_redo(c, &e));
    assert_string_equal(e.msg, "nothing to redo");
    assert_true(chat_undo(c, &back, &e));
    assert_true(chat_undo(c, &back, &e));
    assert_string_equal(back.data, "Q2Q1");
    assert_string_equal(path(), "");
    assert_true(chat_redo(c, &e));
    assert_string_equal(path(), "Q1 A1");
    assert_true(chat_redo(c, &e));
    assert_string_equal(path(), "Q1 A1 Q2 A2");
    buf_free(&back);
}

static void test_tree__an_edited_message_stands_beside_the_old_one(void **state)
{
    struct err e = {0};
    struct buf text = {0};
    int which;
    (void)state;
    ask("Q1", "A1");
    ask("Q2", "A2");
    assert_false(chat_edit(c, 1, &text, &e));
    assert_false(chat_edit(c, 4, &text, &e));
    assert_true(chat_edit(c, 0, &text, &e));
    assert_string_equal(text.data, "Q1");
    assert_int_equal(chat_edited(c), 0);
    assert_string_equal(path(), "Q1 A1 Q2 A2");
    ask("Q1b", "A1b");
    assert_int_equal(chat_edited(c), -1);
    assert_string_equal(path(), "Q1b A1b");
    assert_int_equal(chat_siblings(c, 0, &which), 2);
    assert_int_equal(which, 1);
    assert_true(chat_show_sibling(c, 0, 0, &e));
    assert_string_equal(path(), "Q1 A1 Q2 A2");
    buf_free(&text);
}

static void test_tree__a_message_that_is_edited_stays_until_another_is_sent(void **state)
{
    struct err e = {0};
    struct buf text = {0}, before = {0}, after = {0};
    (void)state;
    chat_close(c);
    open_chat(true);
    ask("Q1", "A1");
    ask("Q2", "A2");
    assert_true(file_read(&before, chat_saved_as(c), 1 << 20, &e));
    assert_true(chat_edit(c, 0, &text, &e));
    assert_true(file_read(&after, chat_saved_as(c), 1 << 20, &e));
    assert_string_equal(after.data, before.data);       /* on disk, too */
    chat_edit_end(c);
    assert_int_equal(chat_edited(c), -1);
    ask("Q3", "A3");
    assert_string_equal(path(), "Q1 A1 Q2 A2 Q3 A3");
    assert_true(chat_edit(c, 2, &text, &e));
    assert_true(chat_undo(c, &text, &e));               /* another path: nothing is marked on it */
    assert_int_equal(chat_edited(c), -1);
    ask("Q4", "A4");
    assert_string_equal(path(), "Q1 A1 Q2 A2 Q4 A4");
    assert_true(chat_edit(c, 2, &text, &e));
    again("A4b");                       /* another turn */
    assert_int_equal(chat_edited(c), -1);
    assert_true(chat_edit(c, 4, &text, &e));
    assert_true(chat_new(c, &e));
    assert_int_equal(chat_edited(c), -1);
    buf_free(&text);
    buf_free(&before);
    buf_free(&after);
}

static void test_tree__nodes_tell_their_parents_and_whether_they_are_shown(void **state)
{
    static const struct { int parent; const char *role, *text; bool on_path; } expected[] = {
        {-1, "user", "Q1", true}, {0, "assistant", "A1", false}, {0, "assistant", "A1b", true},
    };
    struct err e = {0};
    (void)state;
    ask("Q1", "A1");
    again("A1b");
    assert_int_equal(chat_n_nodes(c), 3);
    for (int i = 0; i < 3; i++) {
        struct chat_node k = chat_node(c, i);
        assert_int_equal(k.parent, expected[i].parent);
        assert_string_equal(k.role, expected[i].role);
        assert_string_equal(k.text, expected[i].text);
        assert_int_equal(k.on_path, expected[i].on_path);
    }
    assert_false(chat_go(c, 3, &e));
    assert_true(chat_go(c, 1, &e));
    assert_string_equal(path(), "Q1 A1");
}

static void test_tree__a_message_that_got_no_answer_leaves_no_trace(void **state)
{
    struct err e = {0};
    struct buf text = {0};
    (void)state;
    ask("Q1", "A1");
    fake_end("", END_LENGTH, true);
    submit("Q2");
    while (fake.n_submits < 2)
        step();
    chat_interrupt(c);
    wait_for_the_end();
    assert_string_equal(taken_back, "Q2");
    assert_int_equal(chat_n_nodes(c), 2);
    assert_false(chat_redo(c, &e));
    assert_true(chat_edit(c, 0, &text, &e));
    fake_end("", END_LENGTH, true);
    submit("Q3");
    while (fake.n_submits < 3)
        step();
    chat_interrupt(c);
    wait_for_the_end();
    assert_string_equal(taken_back, "Q3");
    assert_string_equal(path(), "Q1 A1");               /* as before it was sent */
    assert_int_equal(chat_edited(c), 0);
    assert_int_equal(chat_n_nodes(c), 2);
    buf_free(&text);
}

static void test_tree__another_answer_that_got_no_word_brings_the_old_one_back(void **state)
{
    struct err e = {0};
    (void)state;
    ask("Q1", "A1");
    again("A1b");
    fake_end("", END_LENGTH, true);
    assert_true(chat_regenerate(c, &e));
    while (fake.n_submits < 3)
        step();
    chat_interrupt(c);
    wait_for_the_end();
    assert_string_equal(taken_back, "");
    assert_string_equal(path(), "Q1 A1b");
    assert_int_equal(chat_siblings(c, 1, NULL), 2);
}

static void test_tree__every_answer_to_a_message_has_its_own_seed(void **state)
{
    struct err e = {0};
    (void)state;
    assert_true(options_set(o, OPT_seed, "5", FROM_COMMAND_LINE, &e));
    ask("Q1", "A1");
    again("A1b");
    assert_true(chat_show_sibling(c, 1, 0, &e));
    again("A1c");
    for (int i = 0; i < 3; i++)
        assert_int_equal(fake.samplings[i].seed, 5 + i);
    assert_int_equal(chat_siblings(c, 1, NULL), 3);
}

static void test_tree__nothing_moves_while_an_answer_runs(void **state)
{
    struct err e = {0};
    struct buf text = {0};
    (void)state;
    ask("Q1", "A1");
    fake_end("Half", END_LENGTH, true);
    submit("Q2");
    assert_false(chat_undo(c, &text, &e) || chat_redo(c, &e) || chat_edit(c, 0, &text, &e));
    assert_false(chat_show_sibling(c, 0, 0, &e) || chat_go(c, 0, &e));
    assert_string_equal(e.msg, "the last message is still being answered; Ctrl-C stops it");
    chat_interrupt(c);
    wait_for_the_end();
    buf_free(&text);
}

/* --- on disk ------------------------------------------------------------------------------------------------------ */

static void again_from_disk(void)
{
    struct err e = {0};
    struct buf note = {0}, saved = {0};
    buf_adds(&saved, chat_saved_as(c));
    chat_close(c);
    open_chat(true);
    if (!chat_load(c, saved.data, &note, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(note.len, 0);
    buf_free(&saved);
}

static void test_tree__a_resumed_conversation_has_its_branches(void **state)
{
    struct err e = {0};
    struct buf back = {0};
    (void)state;
    chat_close(c);
    open_chat(true);
    ask("Q1", "A1");
    again("A1b");
    ask("Q2", "A2");
    assert_true(chat_show_sibling(c, 1, 0, &e));
    again_from_disk();
    assert_string_equal(path(), "Q1 A1");
    assert_true(chat_show_sibling(c, 1, 1, &e));
    assert_string_equal(path(), "Q1 A1b Q2 A2");
    assert_true(chat_undo(c, &back, &e));
    again_from_disk();
    assert_string_equal(path(), "Q1 A1b");
    assert_true(chat_redo(c, &e));
    assert_string_equal(path(), "Q1 A1b Q2 A2");
    buf_free(&back);
}

static void test_tree__a_continued_answer_is_one_message_on_disk_too(void **state)
{
    struct err e = {0};
    struct buf file = {0};
    (void)state;
    chat_close(c);
    open_chat(true);
    fake_end("Half", END_LENGTH, false);
    submit("Q1");
    wait_for_the_end();
    assert_true(chat_message(c, 1).stopped);
    fake_say(" and more");
    assert_true(chat_continue(c, &e));
    wait_for_the_end();
    ask("Q2", "A2");
    again_from_disk();
    assert_string_equal(path(), "Q1 Half and more Q2 A2");
    assert_int_equal(chat_n_nodes(c), 4);
    assert_true(file_read(&file, chat_saved_as(c), 100000, &e));
    assert_non_null(strstr(file.data, "{\"role\":\"assistant\",\"instead\":true,\"time\":"));
    assert_non_null(strstr(file.data, ",\"content\":\"Half and more\""));
    buf_free(&file);
}

static void test_tree__a_title_is_the_first_line_until_one_is_given(void **state)
{
    struct err e = {0};
    (void)state;
    chat_close(c);
    open_chat(true);
    assert_string_equal(chat_title(c), "");
    ask("  What is a fairly long question that somebody may ask at some time?\nmore", "A1");
    assert_string_equal(chat_title(c), "What is a fairly long question that somebody may ask at s...");
    assert_true(chat_rename(c, " Long\t\033[1mquestions ", &e));
    assert_string_equal(chat_title(c), "Long  [1mquestions");
    again_from_disk();
    assert_string_equal(chat_title(c), "Long  [1mquestions");
    assert_true(chat_rename(c, "", &e));
    again_from_disk();
    assert_string_equal(chat_title(c), "What is a fairly long question that somebody may ask at s...");
}

/* The directory is a file: nothing can be saved until it is gone. */
static void test_tree__what_could_not_be_saved_is_saved_when_the_disk_is_back(void **state)
{
    struct err e = {0};
    struct buf path_of_sessions = {0};
    (void)state;
    chat_close(c);
    open_chat(true);
    buf_addf(&path_of_sessions, "%s/q35chat", dir);
    assert_int_equal(mkdir(path_of_sessions.data, 0700), 0);
    buf_adds(&path_of_sessions, "/sessions");
    FILE *f = fopen(path_of_sessions.data, "w");
    fclose(f);
    ask("Q1", "A1");
    assert_true(chat_unsaved(c));
    assert_null(chat_saved_as(c));
    assert_false(chat_new(c, &e));
    assert_non_null(strstr(e.msg, "/save"));
    assert_int_equal(unlink(path_of_sessions.data), 0);
    again("A1b");
    assert_false(chat_unsaved(c));
    ask("Q2", "A2");
    again_from_disk();
    assert_string_equal(path(), "Q1 A1b Q2 A2");
    assert_int_equal(chat_n_nodes(c), 5);
    buf_free(&path_of_sessions);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* A limit on the size of files stands for the disk that is full: in the middle of a record. */
static void test_tree__a_disk_that_fills_up_costs_nothing(void **state)
{
    struct err e = {0};
    struct stat st;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    chat_close(c);
    open_chat(true);
    ask("Q1", "A1");
    assert_int_equal(stat(chat_saved_as(c), &st), 0);
    limit_files((rlim_t)st.st_size + 10);
    ask("Q2", "A2");
    assert_true(chat_unsaved(c));
    assert_true(chat_show_sibling(c, 0, 0, &e) && chat_rename(c, "a title", &e));
    again("A2b");
    assert_true(chat_unsaved(c));
    assert_false(chat_new(c, &e));
    limit_files(RLIM_INFINITY);
    ask("Q3", "A3");
    assert_false(chat_unsaved(c));
    again_from_disk();
    assert_string_equal(path(), "Q1 A1 Q2 A2b Q3 A3");
    assert_string_equal(chat_title(c), "a title");
    assert_int_equal(chat_n_nodes(c), 7);
}

static void test_tree__what_is_unsaved_at_the_end_is_tried_once_more(void **state)
{
    struct err e = {0};
    struct buf saved = {0}, note = {0};
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    chat_close(c);
    open_chat(true);
    ask("Q1", "A1");
    buf_adds(&saved, chat_saved_as(c));
    limit_files(1);
    ask("Q2", "A2");
    limit_files(RLIM_INFINITY);
    chat_close(c);
    open_chat(true);
    assert_true(chat_load(c, saved.data, &note, &e));
    assert_string_equal(path(), "Q1 A1 Q2 A2");
    buf_free(&saved);
    buf_free(&note);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_tree__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(another_answer_stands_beside_the_first),
        TEST(a_switch_goes_back_to_where_one_was),
        TEST(undo_and_redo_lose_nothing),
        TEST(an_edited_message_stands_beside_the_old_one),
        TEST(a_message_that_is_edited_stays_until_another_is_sent),
        TEST(nodes_tell_their_parents_and_whether_they_are_shown),
        TEST(a_message_that_got_no_answer_leaves_no_trace),
        TEST(another_answer_that_got_no_word_brings_the_old_one_back),
        TEST(every_answer_to_a_message_has_its_own_seed),
        TEST(nothing_moves_while_an_answer_runs),
        TEST(a_resumed_conversation_has_its_branches),
        TEST(a_continued_answer_is_one_message_on_disk_too),
        TEST(a_title_is_the_first_line_until_one_is_given),
        TEST(what_could_not_be_saved_is_saved_when_the_disk_is_back),
        TEST(a_disk_that_fills_up_costs_nothing),
        TEST(what_is_unsaved_at_the_end_is_tried_once_more),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}

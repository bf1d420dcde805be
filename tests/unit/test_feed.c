#include <time.h>

#include "stage.h"

static struct pane *pane(void)
{
    return stage.app.host.pane;
}

static const char *source(int item)
{
    return buf_str(&pane()->items.at[item].source);
}

#define assert_item(i, of_kind, of_message, text) do { \
    assert_int_equal(pane()->items.at[i].kind, of_kind); \
    assert_int_equal(pane()->items.at[i].message, of_message); \
    assert_string_equal(source(i), text); } while (0)

static void test_feed__a_turn_becomes_a_message_a_thought_and_an_answer(void **state)
{
    (void)state;
    stage_begin(24, 80);
    fake_say("Easy.\n</think>\n\nHello.");
    stage_open();
    stage_say("Hi");
    stage_answer();
    assert_int_equal(pane()->items.n, 3);
    assert_item(0, ITEM_USER, 0, "Hi");
    assert_item(1, ITEM_REASONING, 1, "Easy.");
    assert_item(2, ITEM_ANSWER, 1, "Hello.");
    assert_shows("  thought ");
    stage_end();
}

static void test_feed__what_streamed_in_is_what_a_load_would_show(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage_set(OPT_tools_approve, "always");
    fake_say("Hm.\n</think>\n\nI count.\n\n<tool_call>\n<function=calculator>\n<parameter=expression>\n2+3\n</parameter>\n</function>\n</tool_call>");
    fake_say("So.\n</think>\n\nIt is 5.");
    stage_open();
    stage_say("2+3?");
    stage_answer();
    int n = pane()->items.n;
    struct buf streamed = {0}, loaded = {0};
    for (int i = 0; i < n; i++)
        buf_addf(&streamed, "%d %d %s\n", pane()->items.at[i].kind, pane()->items.at[i].message, source(i));
    feed_sync(&stage.app.host.feed);                         /* finds nothing to change */
    assert_int_equal(pane()->items.n, n);
    pane_reset(pane());
    feed_sync(&stage.app.host.feed);                         /* makes all of it */
    for (int i = 0; i < pane()->items.n; i++)
        buf_addf(&loaded, "%d %d %s\n", pane()->items.at[i].kind, pane()->items.at[i].message, source(i));
    assert_string_equal(loaded.data, streamed.data);
    assert_int_equal(n, 6);
    assert_item(5, ITEM_ANSWER, 3, "It is 5.");
    assert_non_null(strstr(source(3), "calculator"));
    buf_free(&streamed);
    buf_free(&loaded);
    stage_end();
}

static void test_feed__another_answer_takes_the_place_of_the_first_and_is_counted(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
    fake_say("One.");
    fake_say("Two.");
    stage_open();
    stage_say("Say");
    stage_answer();
    stage_keys("Alt-V r");
    stage_answer();
    assert_int_equal(pane()->items.n, 2);
    assert_item(1, ITEM_ANSWER, 1, "Two.");
    assert_shows("<2/2>");
    stage_keys("Alt-V Left");
    assert_item(1, ITEM_ANSWER, 1, "One.");
    assert_shows("<1/2>");
    stage_end();
}

static void test_feed__messages_have_their_times_beside_them_if_that_is_wanted(void **state)
{
    char today[16];
    const time_t now = time(NULL);
    struct tm tm;
    (void)state;
    strftime(today, sizeof today, "%H:", localtime_r(&now, &tm));
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
    fake_say("One.");
    fake_say("Two.");
    stage_open();
    stage_say("Say");
    stage_answer();
    assert_hides(today);
    stage_say("/set times on");
    assert_shows(today);
    stage_keys("Alt-V r");
    stage_answer();
    assert_shows("  <2/2>");
    stage_key("Esc");
    stage_say("/set times off");
    assert_hides(today);
    stage_end();
}

static void test_feed__what_was_taken_back_leaves_the_screen_and_returns_to_the_input(void **state)
{
    (void)state;
    stage_begin(24, 80);
    fake_end("", END_LENGTH, true);
    stage_open();
    stage_say("Never mind");
    stage_answer();
    assert_int_equal(pane()->items.n, 1);
    stage_key("Ctrl-C");
    stage_answer();
    assert_int_equal(pane()->items.n, 0);
    assert_string_equal(stage_draft(), "Never mind");
    stage_end();
}

static void test_feed__notes_above_stay_when_the_path_changes_below(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
    fake_say("One.");
    fake_say("Two.");
    stage_open();
    feed_say(&stage.app.host.feed, ITEM_NOTE, "a note\n");
    stage_say("A");
    stage_answer();
    stage_say("B");
    stage_answer();
    stage_say("/undo");
    assert_item(0, ITEM_NOTE, -1, "a note");
    assert_item(1, ITEM_USER, 0, "A");
    assert_item(2, ITEM_ANSWER, 1, "One.");
    assert_item(3, ITEM_OUTPUT, -1, "taken back: B");
    assert_int_equal(pane()->items.n, 4);
    stage_end();
}

static void test_feed__a_stopped_answer_continues_in_its_place(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
    fake_end("One, two,", END_LENGTH, true);
    fake_say(" three.");
    stage_open();
    stage_say("Count");
    stage_answer();
    stage_key("Esc");
    stage_answer();
    assert_shows("Enter continues");
    stage_key("Enter");
    stage_answer();
    assert_int_equal(pane()->items.n, 2);
    assert_item(1, ITEM_ANSWER, 1, "One, two, three.");
    stage_end();
}

static void test_feed__a_dead_engine_leaves_everything_to_read(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
    fake_say("One.");
    fake_end("Half", END_LENGTH, true);
    stage_open();
    stage_say("A");
    stage_answer();
    stage_say("B");
    stage_answer();
    fake_dies("out of memory");
    stage_pass(10);
    stage_pass(10);
    assert_item(3, ITEM_ANSWER, 3, "Half");
    assert_shows("there is no model: out of memory");
    assert_shows("no model");
    stage_say("C");
    assert_string_equal(stage_draft(), "C");            /* not sent, not lost */
    stage_end();
}

static void test_feed__output_of_a_tool_is_there_while_it_runs(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
    stage_set(OPT_tools_approve, "always");
    stage_configure("[tool build]\ncommand = sh -c 'echo compiling; sleep 600'\n[tool fast]\ncommand = echo done\n");
    fake_say("<tool_call>\n<function=fast>\n</function>\n</tool_call>");
    fake_say("<tool_call>\n<function=build>\n</function>\n</tool_call>");
    stage_open();
    stage_say("Build it");
    for (int i = 0; i < 24000 && !strstr(stage_screen(), "  compiling"); i++) {
        chat_wait(stage.chat, -1, 5);
        stage_pass(20);
    }
    assert_shows("  compiling");
    assert_shows("running build");
    assert_item(2, ITEM_CALL, 3, "build\ncompiling");
    assert_item(1, ITEM_CALL, 1, "fast\ndone");
    stage_key("Ctrl-C");
    while (chat_busy(stage.chat)) {
        chat_wait(stage.chat, -1, 5);
        stage_pass(5);
    }
    assert_item(2, ITEM_CALL, 3, "build\ncompiling\nerror: the user interrupted");
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed__output_of_a_tool_is_there_while_it_runs),
        cmocka_unit_test(test_feed__a_turn_becomes_a_message_a_thought_and_an_answer),
        cmocka_unit_test(test_feed__what_streamed_in_is_what_a_load_would_show),
        cmocka_unit_test(test_feed__another_answer_takes_the_place_of_the_first_and_is_counted),
        cmocka_unit_test(test_feed__messages_have_their_times_beside_them_if_that_is_wanted),
        cmocka_unit_test(test_feed__what_was_taken_back_leaves_the_screen_and_returns_to_the_input),
        cmocka_unit_test(test_feed__notes_above_stay_when_the_path_changes_below),
        cmocka_unit_test(test_feed__a_stopped_answer_continues_in_its_place),
        cmocka_unit_test(test_feed__a_dead_engine_leaves_everything_to_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

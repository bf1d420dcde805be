/* Ctrl-C, Esc and Ctrl-D in every state: what is open closes, what runs stops, and nothing is lost. */
#include "stage.h"
#include "ui/tui/input.h"

static bool leaves(void)
{
    return stage.app.host.wishes & WISH_LEAVE;
}

static void open_plain(void)
{
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
}

static void open_answering(const char *text)
{
    open_plain();
    fake_end(text, END_LENGTH, true);
    stage_open();
    stage_say("Question");
    stage_answer();
}

static void test_stop__ctrl_c_on_an_empty_draft_asks_once_more(void **state)
{
    (void)state;
    open_plain();
    stage_open();
    stage_key("Ctrl-C");
    assert_shows("Ctrl-C again to quit");
    assert_false(leaves());
    stage_key("Left");                  /* any key disarms */
    stage_key("Ctrl-C");
    assert_false(leaves());
    stage_pass(2100);                   /* so does time */
    stage_key("Ctrl-C");
    assert_false(leaves());
    stage_key("Ctrl-C");
    assert_true(leaves());
    stage_end();
}

static void test_stop__ctrl_c_clears_the_draft_into_the_history(void **state)
{
    (void)state;
    open_plain();
    stage_open();
    stage_type("a long thought");
    stage_key("Ctrl-C");
    assert_string_equal(stage_draft(), "");
    assert_shows("Up brings it back");
    assert_false(leaves());
    stage_key("Up");
    assert_string_equal(stage_draft(), "a long thought");
    stage_end();
}

static void test_stop__ctrl_c_stops_the_answer_and_leaves_the_draft_alone(void **state)
{
    (void)state;
    open_answering("One, two,");
    stage_type("next");
    stage_key("Ctrl-C");
    assert_shows("stopping");
    stage_answer();
    assert_false(chat_busy(stage.chat));
    assert_int_equal(fake.n_interrupts, 1);
    assert_string_equal(stage_draft(), "next");
    assert_shows("One, two,");
    assert_true(chat_message(stage.chat, 1).stopped);
    stage_end();
}

static void test_stop__an_answer_without_a_word_gives_the_message_back(void **state)
{
    (void)state;
    open_answering("");
    stage_key("Esc");
    stage_answer();
    assert_string_equal(stage_draft(), "Question");
    assert_int_equal(chat_n_messages(stage.chat), 0);
    stage_end();
}

static void test_stop__a_message_given_back_to_a_busy_input_waits_in_the_queue(void **state)
{
    (void)state;
    open_answering("");
    stage_type("something else");
    stage_key("Ctrl-C");
    stage_answer();
    assert_string_equal(stage_draft(), "something else");
    assert_shows("held 1: Question");
    stage_key("Alt-Up");
    assert_string_equal(stage_draft(), "Question\nsomething else");
    assert_hides("held 1");
    stage_end();
}

static void test_stop__a_message_waiting_for_the_model_comes_back(void **state)
{
    (void)state;
    open_plain();
    fake.not_ready = true;
    stage_open();
    stage_say("Early");
    stage_pass(100);
    assert_shows("> Early");
    stage_key("Ctrl-C");
    stage_pass(10);
    assert_string_equal(stage_draft(), "Early");
    assert_false(leaves());
    stage_end();
}

static void test_stop__ctrl_d_deletes_and_leaves_only_from_an_empty_draft(void **state)
{
    (void)state;
    open_answering("One,");
    stage_key("Ctrl-D");
    assert_false(leaves());             /* an answer runs */
    assert_true(chat_busy(stage.chat));
    stage_key("Ctrl-C");
    stage_answer();
    stage_type("ab");
    stage_keys("Home Ctrl-D");
    assert_string_equal(stage_draft(), "b");
    stage_keys("Ctrl-D");
    assert_false(leaves());
    stage_keys("Ctrl-D");
    assert_true(leaves());
    stage_end();
}

static void test_stop__esc_twice_clears_the_draft_and_then_offers_earlier_messages(void **state)
{
    (void)state;
    open_plain();
    fake_say("One.");
    fake_say("Two.");
    stage_open();
    stage_say("First");
    stage_answer();
    stage_type("draft");
    stage_key("Esc");
    stage_pass(1000);
    stage_key("Esc");                   /* too late to be the second */
    assert_string_equal(stage_draft(), "draft");
    stage_key("Esc");
    assert_string_equal(stage_draft(), "");
    stage_pass(1000);
    stage_keys("Esc Esc");
    assert_shows("edit an earlier message");
    stage_key("Enter");
    assert_string_equal(stage_draft(), "First");
    assert_int_equal(chat_n_messages(stage.chat), 2);
    stage_pass(5000);
    stage_say(" again");
    stage_answer();
    assert_shows("> First again");
    assert_shows("<2/2>");
    stage_end();
}

static bool is_dim(const char *text)
{
    const struct cells *c = &stage.cells;
    for (int row = 0; row < c->rows; row++)
        for (int col = 0; col + (int)strlen(text) <= c->cols; col++) {
            int n = 0;
            while (text[n] && c->at[row * c->cols + col + n].glyph.text[0] == text[n])
                n++;
            if (!text[n])
                return c->at[row * c->cols + col].look.marks & LOOK_DIM;
        }
    fail_msg("\"%s\" is not on the screen", text);
    return false;
}

static void say_three(void)
{
    open_plain();
    fake_say("One.");
    fake_say("Two.");
    fake_say("Three.");
    stage_open();
    stage_say("First");
    stage_answer();
    stage_say("Second");
    stage_answer();
}

static void test_stop__an_earlier_message_is_replaced_when_another_is_sent(void **state)
{
    (void)state;
    say_three();
    stage_say("/edit 1");
    assert_shows("editing, replaces 2 messages");
    assert_shows("Esc cancels");
    assert_false(is_dim("First"));
    assert_false(is_dim("One."));
    assert_true(is_dim("Second"));
    assert_true(is_dim("Two."));
    stage_say(" thought");
    stage_answer();
    assert_shows("Second thought");
    assert_shows("Three.");
    assert_hides("Two.");
    assert_hides("replaces");
    assert_false(is_dim("Second thought"));
    stage_end();
}

static void test_stop__an_edit_is_left_and_all_is_as_it_was(void **state)
{
    static const char *const leaves[] = {"Esc", "Ctrl-C", "Ctrl-U Enter", "Ctrl-E Ctrl-U Enter"};
    (void)state;
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        say_three();
        stage_type("a draft");
        stage_key("Alt-V");
        stage_keys("( ( e");
        assert_string_equal(stage_draft(), "First");
        assert_shows("replaces 4 messages");
        stage_pass(1000);
        stage_keys(leaves[i]);
        assert_shows("nothing was changed");
        assert_hides("replaces");
        assert_string_equal(stage_draft(), "a draft");
        assert_int_equal(chat_n_messages(stage.chat), 4);
        assert_int_equal(chat_edited(stage.chat), -1);
        assert_false(is_dim("Two."));
        stage_key("Enter");
        stage_answer();
        assert_shows("Two.");
        assert_shows("Three.");
        assert_int_equal(chat_n_messages(stage.chat), 6);
        stage_end();
    }
}

/* Nothing came of it: the old path is there, and the message can be sent again in its place. */
static void test_stop__an_edit_that_got_no_answer_goes_back_to_the_draft(void **state)
{
    (void)state;
    open_plain();
    fake_say("One.");
    fake_end("", END_LENGTH, true);
    fake_say("Two.");
    stage_open();
    stage_say("First");
    stage_answer();
    stage_say("/edit");
    stage_say(" anew");
    stage_pass(100);
    assert_true(chat_busy(stage.chat));
    stage_key("Ctrl-C");
    stage_answer();
    assert_string_equal(stage_draft(), "First anew");
    assert_shows("One.");
    assert_true(is_dim("One."));
    stage_key("Enter");
    stage_answer();
    assert_shows("Two.");
    assert_hides("One.");
    assert_int_equal(chat_n_messages(stage.chat), 2);
    stage_end();
}

static void test_stop__windows_close_before_anything_stops(void **state)
{
    (void)state;
    open_answering("One, two,");
    stage_keys("F1");
    assert_shows("Everywhere");
    stage_key("Ctrl-C");
    assert_hides("Everywhere");
    assert_true(chat_busy(stage.chat));
    stage_type("/he");
    assert_shows("/help");
    stage_key("Esc");
    assert_hides("/help");
    assert_true(chat_busy(stage.chat));
    stage_key("Ctrl-R");
    stage_key("Ctrl-C");
    assert_string_equal(stage_draft(), "/he");
    assert_true(chat_busy(stage.chat));
    stage_key("Esc");
    stage_answer();
    assert_false(chat_busy(stage.chat));
    stage_end();
}

/* --- the queue -------------------------------------------------------------------------------------------------- */

static void test_stop__what_is_typed_meanwhile_is_sent_in_order(void **state)
{
    (void)state;
    open_plain();
    fake_say("One.");
    fake_say("Two.");
    fake_say("Three.");
    stage_open();
    stage_say("A");
    stage_say("B");
    stage_say("C");
    assert_shows("queued 1: B");
    assert_shows("queued 2: C");
    stage_answer();
    stage_answer();
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "B");
    assert_string_equal(chat_message(stage.chat, 5).text, "Three.");
    assert_hides("queued");
    stage_end();
}

static void test_stop__after_a_stop_the_queue_waits_for_enter(void **state)
{
    (void)state;
    open_plain();
    fake_end("One,", END_LENGTH, true);
    fake_say("Two.");
    stage_open();
    stage_say("A");
    stage_answer();
    stage_say("B");
    stage_key("Ctrl-C");
    stage_answer();
    assert_shows("held 1: B");
    assert_int_equal(fake.n_submits, 1);
    stage_key("Enter");
    stage_answer();
    assert_int_equal(fake.n_submits, 2);
    assert_shows("> B");
    stage_end();
}

/* B is held after a stop. */
static void hold_a_message(void)
{
    open_plain();
    fake_end("One,", END_LENGTH, true);
    fake_say("Two.");
    fake_say("Three.");
    fake_say("Four.");
    stage_open();
    stage_say("A");
    stage_answer();
    stage_say("B");
    stage_key("Ctrl-C");
    stage_answer();
    assert_shows("held 1: B");
}

static void test_stop__no_command_sends_what_is_held(void **state)
{
    static const char *const commands[] = {"/help", "/context", "/set temperature 0.6", "/nonsense", "/find x", "/new"};
    (void)state;
    hold_a_message();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        stage_say(commands[i]);
        stage_pass(100);
        stage_key("Esc");               /* a list that it opened */
        stage_pass(1000);
        assert_int_equal(fake.n_submits, 1);
        assert_shows("held 1: B");
    }
    stage_key("Enter");
    stage_answer();
    assert_int_equal(fake.n_submits, 2);
    assert_shows("> B");
    stage_end();
}

static void test_stop__another_answer_leaves_what_is_held(void **state)
{
    (void)state;
    hold_a_message();
    stage_say("/regen");
    stage_answer();
    assert_int_equal(fake.n_submits, 2);
    assert_shows("held 1: B");
    stage_say("C");                     /* sent, and then what was held */
    stage_answer();
    stage_answer();
    assert_int_equal(fake.n_submits, 4);
    assert_hides("held");
    stage_end();
}

static void test_stop__the_hint_says_what_enter_does(void **state)
{
    (void)state;
    hold_a_message();
    assert_shows("Enter sends it");
    assert_hides("Enter continues");
    assert_shows("1 held");
    assert_hides("queued");
    stage_type("draft");
    assert_shows("Enter sends this");
    stage_key("Ctrl-U");
    stage_type("/help");
    assert_hides("Enter sends");        /* it stays held */
    stage_keys("Ctrl-U Alt-Up Ctrl-U");
    assert_shows("Enter continues");
    stage_type("draft");
    assert_hides("Enter");
    stage_end();
}

static void test_stop__a_cancelled_summary_leaves_no_note(void **state)
{
    (void)state;
    open_plain();
    fake_say("One.");
    fake_end("They said", END_LENGTH, true);
    stage_open();
    stage_say("A");
    stage_answer();
    stage_say("/compact");
    stage_answer();
    stage_key("Ctrl-C");
    stage_answer();
    assert_hides("stopped");
    assert_hides("They said");
    stage_end();
}

static void test_stop__a_tool_is_timed_from_its_start_and_not_while_the_user_decides(void **state)
{
    (void)state;
    struct phase p = {0};
    phase_event(&p, &(struct chat_event){.kind = CHAT_READY, .text = "", .name = ""}, 0);
    phase_turn(&p, 1000);
    phase_event(&p, &(struct chat_event){.kind = CHAT_CALL, .text = "", .name = "weather"}, 5000);
    phase_event(&p, &(struct chat_event){.kind = CHAT_APPROVE, .text = "", .name = "weather"}, 6000);
    assert_string_equal(phase_name(&p), "waiting for approval");
    assert_int_equal(phase_seconds(&p, 16000), 10);
    phase_event(&p, &(struct chat_event){.kind = CHAT_RUNS, .text = "", .name = "weather"}, 16000);
    assert_string_equal(phase_name(&p), "running");
    assert_int_equal(phase_seconds(&p, 16500), 0);
    phase_event(&p, &(struct chat_event){.kind = CHAT_TOOL_RESULT, .text = "", .name = "weather"}, 17000);
    assert_int_equal(phase_seconds(&p, 18000), 17);
}

static void test_stop__steering_stops_and_sends_at_once(void **state)
{
    (void)state;
    open_plain();
    fake_end("One,", END_LENGTH, true);
    fake_say("Two.");
    stage_open();
    stage_say("A");
    stage_answer();
    stage_type("rather B");
    stage_key("Alt-S");
    stage_answer();
    stage_answer();
    assert_int_equal(fake.n_submits, 2);
    assert_string_equal(chat_message(stage.chat, 1).text, "One,");
    assert_string_equal(chat_message(stage.chat, 2).text, "rather B");
    assert_string_equal(chat_message(stage.chat, 3).text, "Two.");
    stage_end();
}

static void test_stop__steering_before_the_first_word_sends_both(void **state)
{
    (void)state;
    open_plain();
    fake_end("", END_LENGTH, true);
    fake_say("Two.");
    stage_open();
    stage_say("A");
    stage_answer();
    stage_type("and B");
    stage_keys("Ctrl-X s");
    stage_answer();
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 0).text, "A\n\nand B");
    assert_string_equal(stage_draft(), "");
    stage_end();
}

static void test_stop__what_is_said_about_leaving_is_true(void **state)
{
    (void)state;
    open_plain();
    stage_open();
    stage_key("Ctrl-C");
    assert_shows("Ctrl-C again to quit");
    stage_pass(2100);
    assert_hides("Ctrl-C again to quit");               /* it would not */
    stage_keys("Ctrl-C Left");
    assert_hides("Ctrl-C again to quit");
    stage_key("Ctrl-C");
    assert_int_equal(stage.app.host.wishes, 0);
    stage_key("Ctrl-C");
    assert_int_equal(stage.app.host.wishes, WISH_LEAVE);
    stage_end();
}

/* --- a tool asks ------------------------------------------------------------------------------------------------ */

#define CALL "<tool_call>\n<function=calculator>\n<parameter=expression>\n2+3\n</parameter>\n</function>\n</tool_call>"

static void open_asking(void)
{
    open_plain();
    stage_set(OPT_tools_approve, "ask");
    fake_say(CALL);
    fake_say("Done.");
    stage_open();
    stage_say("2+3?");
    stage_answer();
    assert_true(stage.app.host.open[WINDOW_approve]);
}

static void test_stop__keys_from_before_the_question_do_not_answer_it(void **state)
{
    (void)state;
    open_asking();
    stage_type("y");                    /* it was not even drawn */
    assert_true(stage.app.host.open[WINDOW_approve]);
    assert_shows("calculator wants to run with:");
    assert_shows("\"2+3\"");
    stage_pass(300);
    stage_type("ya");                   /* in full flow */
    stage_pass(400);
    stage_type("n");
    stage_pass(600);
    stage_key("Enter");
    assert_true(stage.app.host.open[WINDOW_approve]);
    assert_int_equal(chat_n_messages(stage.chat), 2);
    assert_string_equal(stage_draft(), "yyan");         /* what was typed is the draft's */
    stage_pass(600);
    stage_type("y");
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "5");
    assert_string_equal(chat_message(stage.chat, 3).text, "Done.");
    assert_string_equal(stage_draft(), "yyan");
    stage_end();
}

static void test_stop__a_question_can_be_answered_on_the_smallest_screen(void **state)
{
    (void)state;
    open_asking();
    cells_size(&stage.cells, VIEW_MIN_ROWS, VIEW_MIN_COLUMNS);
    stage_screen();
    stage_pass(600);
    for (int i = 0; i < 5; i++) {
        stage_key("PgDn");
        stage_screen();
    }
    stage_key("y");
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "5");
    stage_end();
}

static void test_stop__keys_count_only_while_the_question_stands_there(void **state)
{
    (void)state;
    open_asking();
    stage_screen();
    stage_pass(600);
    cells_size(&stage.cells, 3, 10);
    assert_shows("too small");
    stage_pass(600);
    stage_type("y");
    stage_keys("Enter y a");
    assert_true(stage.app.host.open[WINDOW_approve]);
    cells_size(&stage.cells, 4, 20);
    stage_screen();
    stage_type("y");                    /* it is deaf again for a while */
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_pass(600);
    assert_shows("calculator");
    assert_shows("y, n, a(lways), e:");
    stage_type("y");
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "5");
    stage_end();
}

static void test_stop__an_enter_by_habit_does_not_send_the_draft(void **state)
{
    (void)state;
    open_asking();
    stage_type("A draft");              /* the question is not even drawn */
    stage_screen();
    stage_pass(600);
    stage_keys("y Enter");
    assert_shows("Enter ignored (it followed the question)");
    stage_answer();
    assert_string_equal(stage_draft(), "A draft");
    assert_int_equal(input_state(&stage.app.host)->queue.n, 0);
    assert_int_equal(chat_n_messages(stage.chat), 4);
    stage_end();
    open_asking();
    fake_say("Again.");
    stage_type("A draft");
    stage_screen();
    stage_pass(600);
    stage_type("y");
    stage_answer();
    stage_pass(1000);
    stage_key("Enter");                 /* later it is meant */
    stage_answer();
    assert_string_equal(stage_draft(), "");
    assert_int_equal(chat_n_messages(stage.chat), 6);
    stage_end();
}

#define GREET "<tool_call>\n<function=greet>\n<parameter=who>\nyou\n</parameter>\n</function>\n</tool_call>"

static void open_configured(const char *conf)
{
    open_plain();
    stage_configure(conf);
    fake_say(GREET);
    fake_say("Done.");
    stage_open();
    stage_say("Greet");
    stage_answer();
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_screen();
    stage_pass(600);
}

static void test_stop__the_question_shows_the_command_and_where_it_runs(void **state)
{
    char *here = getcwd(NULL, 0), line[64];
    (void)state;
    open_configured("[tool greet]\ncommand = sh -c 'echo it''s; exit 3' --x=1\n");
    assert_shows("greet wants to run with:");
    assert_shows("runs sh -c 'echo its; exit 3' --x=1");
    snprintf(line, sizeof line, "in %.40s", here);
    assert_shows(line);
    stage_type("y");
    stage_answer();
    assert_shows("exit 3  0.");         /* on the folded line, beside the seconds */
    feed_sync(&stage.app.host.feed);
    pane_cut(stage.app.host.pane, 0);
    feed_sync(&stage.app.host.feed);
    assert_shows("exit 3");             /* when it is loaded, too */
    free(here);
    stage_end();
}

static void test_stop__a_call_that_was_denied_looks_so_whichever_key_denied_it(void **state)
{
    static const char *const keys[] = {"Esc", "n Enter", "Ctrl-C"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        open_configured("[tool greet]\ncommand = true\n");
        stage_keys(keys[i]);
        stage_answer();
        assert_shows("not run  1 line");
        stage_end();
    }
}

static void test_stop__the_model_sees_the_reason(void **state)
{
    (void)state;
    open_asking();
    stage_screen();
    stage_pass(600);
    stage_key("n");
    assert_shows("calculator will not run.  Why?");
    stage_type("yes");                  /* is text here */
    stage_key("Esc");                   /* back to the question */
    assert_shows("calculator wants to run with:");
    stage_key("n");
    stage_type("too easy");
    assert_true(chat_busy(stage.chat));
    stage_key("Enter");
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "error: the user did not allow this call: too easy");
    assert_string_equal(chat_message(stage.chat, 3).text, "Done.");
    assert_shows("$ calculator 2+3                                       (Ctrl-O)  not run  1 line");
    stage_end();
}

static void test_stop__arguments_are_edited_and_the_model_sees_it(void **state)
{
    (void)state;
    open_asking();
    stage_screen();
    stage_pass(600);
    stage_key("e");
    assert_shows("> {\"expression\": \"2+3\"}");
    stage_keys("Backspace Enter");      /* no JSON: the question stands */
    assert_true(stage.app.host.open[WINDOW_approve]);
    assert_shows("of the arguments is not JSON");
    stage_keys("Backspace Backspace");
    stage_type("7\"}");
    stage_key("Enter");
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text,
                        "[the user changed the arguments; it ran with: {\"expression\": \"2+7\"}]\n9");
    stage_key("Ctrl-O");
    assert_shows("[the user changed the arguments");
    assert_string_equal(chat_message_call(stage.chat, 1, 0).arguments, "{\"expression\": \"2+3\"}");  /* as the model said it */
    stage_end();
    open_asking();
    stage_screen();
    stage_pass(600);
    stage_keys("e Enter");              /* nothing was changed */
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "5");
    stage_end();
}

static void test_stop__help_over_a_question_is_closed_first(void **state)
{
    (void)state;
    open_asking();
    stage_screen();
    stage_pass(600);
    stage_key("F1");
    assert_shows("A tool asks");
    stage_keys("y Esc");
    assert_true(stage.app.host.open[WINDOW_approve]);
    assert_shows("calculator wants to run with:");
    stage_keys("F1 Ctrl-C");
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_end();
}

static void test_stop__no_continues_the_answer_and_esc_stops_it(void **state)
{
    (void)state;
    open_asking();
    stage_screen();
    stage_pass(600);
    stage_keys("n Enter");
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 2).text, "error: the user did not allow this call");
    assert_string_equal(chat_message(stage.chat, 3).text, "Done.");
    stage_end();
    open_asking();
    stage_screen();
    stage_pass(600);
    stage_key("Esc");
    stage_answer();
    assert_false(chat_busy(stage.chat));
    assert_int_equal(fake.n_submits, 1);
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_end();
}

static void test_stop__nobody_says_yes_to_what_was_not_seen(void **state)
{
    struct buf call = {0};
    (void)state;
    buf_adds(&call, "<tool_call>\n<function=calculator>\n<parameter=expression>\n");
    for (int i = 0; i < 200; i++)
        buf_adds(&call, "1 + ");
    buf_adds(&call, "31337\n</parameter>\n</function>\n</tool_call>");
    open_plain();
    cells_size(&stage.cells, 10, 40);
    stage_set(OPT_tools_approve, "ask");
    fake_say(call.data);
    fake_say("Done.");
    stage_open();
    stage_say("2+3?");
    for (int i = 0; i < 20 && !stage.app.host.open[WINDOW_approve]; i++)
        stage_answer();                 /* a long call is quiet for longer */
    assert_hides("31337");
    stage_pass(600);
    stage_keys("y a e");
    assert_shows("see the rest of it first");
    for (int i = 0; i < 20 && !strstr(stage_screen(), "31337"); i++) {
        assert_true(stage.app.host.open[WINDOW_approve]);
        stage_key("PgDn");
    }
    assert_shows("31337");
    stage_key("y");
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_end();
    buf_free(&call);
}

/* --- over the end of the program -------------------------------------------------------------------------------- */

static void test_stop__what_was_not_sent_is_there_again(void **state)
{
    struct queue q = {0}, back = {0};
    struct buf draft = {0};
    char path[] = "/tmp/q35-unsent-XXXXXX";
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    queue_push(&q, "first\nin two lines");
    queue_push(&q, "second");
    assert_true(unsent_save(path, "a \"draft\"", &q, true));
    unsent_load(path, &draft, &back);
    assert_string_equal(draft.data, "a \"draft\"");
    assert_int_equal(back.n, 2);
    assert_string_equal(back.texts[0], "first\nin two lines");
    buf_reset(&draft);
    unsent_load(path, &draft, &back);   /* a crash here loses nothing */
    assert_string_equal(draft.data, "a \"draft\"");
    assert_int_equal(back.n, 4);
    assert_true(unsent_save(path, "", &(struct queue){0}, true));
    buf_reset(&draft);
    unsent_load(path, &draft, &back);
    assert_int_equal(draft.len, 0);
    assert_int_equal(back.n, 4);
    buf_free(&draft);
    queue_free(&q);
    queue_free(&back);
    unlink(path);
}

static void test_stop__at_the_end_a_message_without_a_word_of_answer_joins_the_draft(void **state)
{
    (void)state;
    open_answering("");
    stage_say("queued");
    stage.app.closing = true;
    chat_interrupt(stage.chat);
    stage_answer();
    assert_string_equal(stage_draft(), "Question");
    assert_int_equal(input_state(&stage.app.host)->queue.n, 1);             /* and nothing was sent */
    assert_int_equal(fake.n_submits, 1);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop__ctrl_c_on_an_empty_draft_asks_once_more),
        cmocka_unit_test(test_stop__ctrl_c_clears_the_draft_into_the_history),
        cmocka_unit_test(test_stop__ctrl_c_stops_the_answer_and_leaves_the_draft_alone),
        cmocka_unit_test(test_stop__an_answer_without_a_word_gives_the_message_back),
        cmocka_unit_test(test_stop__a_message_given_back_to_a_busy_input_waits_in_the_queue),
        cmocka_unit_test(test_stop__a_message_waiting_for_the_model_comes_back),
        cmocka_unit_test(test_stop__ctrl_d_deletes_and_leaves_only_from_an_empty_draft),
        cmocka_unit_test(test_stop__esc_twice_clears_the_draft_and_then_offers_earlier_messages),
        cmocka_unit_test(test_stop__an_earlier_message_is_replaced_when_another_is_sent),
        cmocka_unit_test(test_stop__an_edit_is_left_and_all_is_as_it_was),
        cmocka_unit_test(test_stop__an_edit_that_got_no_answer_goes_back_to_the_draft),
        cmocka_unit_test(test_stop__windows_close_before_anything_stops),
        cmocka_unit_test(test_stop__what_is_typed_meanwhile_is_sent_in_order),
        cmocka_unit_test(test_stop__after_a_stop_the_queue_waits_for_enter),
        cmocka_unit_test(test_stop__no_command_sends_what_is_held),
        cmocka_unit_test(test_stop__another_answer_leaves_what_is_held),
        cmocka_unit_test(test_stop__the_hint_says_what_enter_does),
        cmocka_unit_test(test_stop__a_cancelled_summary_leaves_no_note),
        cmocka_unit_test(test_stop__a_tool_is_timed_from_its_start_and_not_while_the_user_decides),
        cmocka_unit_test(test_stop__steering_stops_and_sends_at_once),
        cmocka_unit_test(test_stop__steering_before_the_first_word_sends_both),
        cmocka_unit_test(test_stop__keys_from_before_the_question_do_not_answer_it),
        cmocka_unit_test(test_stop__what_is_said_about_leaving_is_true),
        cmocka_unit_test(test_stop__a_question_can_be_answered_on_the_smallest_screen),
        cmocka_unit_test(test_stop__keys_count_only_while_the_question_stands_there),
        cmocka_unit_test(test_stop__an_enter_by_habit_does_not_send_the_draft),
        cmocka_unit_test(test_stop__the_question_shows_the_command_and_where_it_runs),
        cmocka_unit_test(test_stop__a_call_that_was_denied_looks_so_whichever_key_denied_it),
        cmocka_unit_test(test_stop__the_model_sees_the_reason),
        cmocka_unit_test(test_stop__arguments_are_edited_and_the_model_sees_it),
        cmocka_unit_test(test_stop__help_over_a_question_is_closed_first),
        cmocka_unit_test(test_stop__no_continues_the_answer_and_esc_stops_it),
        cmocka_unit_test(test_stop__nobody_says_yes_to_what_was_not_seen),
        cmocka_unit_test(test_stop__what_was_not_sent_is_there_again),
        cmocka_unit_test(test_stop__at_the_end_a_message_without_a_word_of_answer_joins_the_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

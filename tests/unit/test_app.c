/* The parts together: lists, the inspector, completion; and whatever keys come, in whatever state. */
#include <signal.h>
#include <sys/resource.h>

#include "stage.h"

static void begin(void)
{
    stage_begin(24, 80);
    stage_set(OPT_think, "off");
}

static void test_app__a_first_key_after_ctrl_x_is_an_alt_key(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_type("draft");
    stage_key("Ctrl-X");
    assert_shows("Ctrl-X ...");
    stage_key("r");
    assert_shows("RAW");
    assert_string_equal(stage_draft(), "draft");
    stage_key("r");
    assert_string_equal(stage_draft(), "draftr");
    stage_end();
}

static void test_app__ctrl_v_takes_the_next_key_as_text(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_keys("Ctrl-V ? Ctrl-V Tab x Ctrl-V Enter");
    assert_string_equal(stage_draft(), "?\tx\n");
    stage_end();
}

static void test_app__a_backslash_before_enter_makes_a_line(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_say("one\\");
    stage_type("two");
    assert_string_equal(stage_draft(), "one\ntwo");
    assert_int_equal(fake.n_submits, 0);
    stage_end();
}

static void test_app__an_alt_enter_in_two_parts_makes_a_line(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_type("one");
    stage_keys("Esc Enter");
    stage_type("two");
    assert_string_equal(stage_draft(), "one\ntwo");
    stage_end();
}

static void test_app__a_picture_that_is_dropped_on_the_terminal_is_attached(void **state)
{
    (void)state;
    char path[4096], quoted[4200], word[4200];
    assert_non_null(realpath("tests/data/pictures/tiny.png", path));
    snprintf(quoted, sizeof quoted, "'%s' ", path);
    snprintf(word, sizeof word, "see @%s ", path);
    begin();
    stage_open();
    stage_type("see ");
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = quoted, .n = strlen(quoted)}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE_END}, stage.ms);
    assert_string_equal(stage_draft(), word);
    stage_end();
}

static void test_app__a_paste_never_sends_and_never_answers(void **state)
{
    (void)state;
    begin();
    stage_set(OPT_tools_approve, "ask");
    fake_say("<tool_call>\n<function=calculator>\n<parameter=expression>\n1+1\n</parameter>\n</function>\n</tool_call>");
    stage_open();
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = "two\nli", .n = 6}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = "nes\n", .n = 4}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE_END}, stage.ms);
    assert_string_equal(stage_draft(), "two\nlines\n");
    assert_int_equal(fake.n_submits, 0);
    stage_key("Enter");
    stage_answer();
    stage_screen();
    stage_pass(1000);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = "y\n", .n = 2}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE_END}, stage.ms);
    assert_true(stage.app.host.open[WINDOW_approve]);
    assert_string_equal(stage_draft(), "y\n");
    stage_type("y");                    /* behind an end of the paste that stood within it */
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_pass(400);
    stage_key("Enter");
    stage_type("y");
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_pass(5000);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_TEXT, .text = "y", .n = 1, .cut = true}, stage.ms);      /* the paste had stalled */
    app_key(&stage.app, &(struct key_event){.kind = KEYS_KEY, .code = KEY_ENTER, .cut = true}, stage.ms);
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_pass(600);
    stage_type("e");                    /* the arguments are edited */
    app_key(&stage.app, &(struct key_event){.kind = KEYS_KEY, .code = KEY_ENTER, .cut = true}, stage.ms);
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_pass(600);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = " ", .n = 1}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE_END}, stage.ms);
    stage_key("Enter");
    assert_true(stage.app.host.open[WINDOW_approve]);
    stage_pass(600);
    stage_key("Enter");
    assert_false(stage.app.host.open[WINDOW_approve]);
    stage_end();
}

static void test_app__commands_complete_and_run(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_type("/contex");
    stage_key("Tab");
    assert_string_equal(stage_draft(), "/context ");
    stage_key("Enter");
    assert_shows("context: 1.4k of 100k");
    stage_key("q");
    stage_type("/nonsense");
    stage_key("Enter");
    assert_shows("unknown command /nonsense");
    assert_int_equal(fake.n_submits, 0);
    stage_end();
}

static void test_app__parts_of_the_context_are_dropped_and_pinned_by_keys(void **state)
{
    (void)state;
    begin();
    fake_say("the answer to it");
    stage_open();
    stage_say("a question that is long enough");
    stage_answer();
    int used = chat_context_used(stage.chat).tokens;
    stage_say("/context");
    assert_shows("1  user    a question that is long enough");
    assert_shows("2  answer  the answer");
    stage_key("d");                     /* the newest is chosen */
    assert_true(chat_context_used(stage.chat).tokens != used);
    assert_shows("dropped: ");
    stage_key("d");
    assert_int_equal(chat_context_used(stage.chat).tokens, used);
    assert_hides("dropped: ");
    stage_keys("k p");
    assert_shows("pinned");
    stage_key("d");
    assert_shows("1 is pinned; /unpin 1 first");
    stage_keys("k d");                  /* the tools */
    assert_shows("/system and /tools change that");
    stage_key("q");
    assert_hides("context: ");
    assert_string_equal(stage_draft(), "");
    stage_end();
}

static void test_app__a_summary_is_shown_first_and_taken_by_enter(void **state)
{
    (void)state;
    begin();
    fake_say("a first answer");
    fake_say("they said hello");
    fake_say("they said goodbye");
    stage_open();
    stage_say("a question");
    stage_answer();
    stage_say("/compact");
    stage_answer();
    assert_shows("they said hello");
    assert_shows("this summary would replace 2 messages (next prompt: ");
    assert_shows("Enter accepts, Esc discards");
    stage_say("more");                  /* nothing goes on before that is decided, and nothing is lost */
    assert_shows("accept or discard the summary first");
    assert_string_equal(stage_draft(), "more");
    assert_int_equal(fake.n_submits, 2);
    stage_key("Esc");
    assert_shows("summary discarded; nothing has changed");
    assert_hides("they said hello");
    assert_string_equal(stage_draft(), "more");
    assert_int_equal(chat_n_messages(stage.chat), 2);
    stage_keys("Ctrl-U");
    stage_say("/compact");
    stage_answer();
    stage_key("Enter");
    assert_shows("summary accepted; /undo reverts it");
    assert_shows("they said goodbye");
    assert_shows("a first answer");     /* what it stands for is still there to read */
    assert_int_equal(chat_n_messages(stage.chat), 3);
    stage_say("/undo");
    assert_hides("they said goodbye");
    stage_end();
}

static void test_app__an_aside_stands_there_until_the_next_turn(void **state)
{
    (void)state;
    begin();
    fake_say("first</think>a first answer");
    fake_say("wonder</think>said aside");
    fake_say("second</think>a second answer");
    stage_open();
    stage_say("a question");
    stage_answer();
    stage_say("/aside what is meant?");
    assert_shows("aside: what is meant?");
    stage_answer();
    assert_shows("a first answer");
    assert_shows("said aside");
    assert_shows("aside: it is not part of the conversation");
    assert_int_equal(chat_n_messages(stage.chat), 2);
    stage_say("go on");
    stage_answer();
    assert_hides("aside");
    assert_shows("a first answer");
    assert_shows("a second answer");
    stage_say("/undo");
    assert_hides("a second answer");
    stage_end();
}

static void test_app__an_undo_takes_an_aside_along(void **state)
{
    (void)state;
    begin();
    fake_say("</think>one");
    fake_say("</think>two");
    fake_say("</think>said aside");
    fake_say("</think>three");
    stage_open();
    stage_say("a question");
    stage_answer();
    stage_say("another");
    stage_answer();
    stage_say("/aside what is meant?");
    stage_answer();
    stage_say("/undo");
    assert_hides("said aside");
    stage_say("a third");
    stage_answer();
    assert_shows("one");
    assert_shows("three");
    stage_end();
}

static void test_app__the_list_of_files_says_how_long_they_take_to_read(void **state)
{
    struct buf text = {0};
    (void)state;
    begin();
    fake_say("</think>read");
    stage_open();
    while (text.len < 100000)
        buf_adds(&text, "a word ");
    assert_true(tmpdir_put(&stage.home, "long.txt", text.data, text.len));
    buf_reset(&text);
    buf_addf(&text, "@%s/lon", stage.home.path);
    stage_type(text.data);
    assert_shows(" tok");
    assert_hides("about");              /* nothing was read yet */
    stage_keys("Esc Ctrl-U");
    fake.n_read = 100;                  /* in 5 ms */
    stage_say("a long message");
    stage_answer();
    stage_type(text.data);
    assert_shows(" tok, about 5 s");
    tmpdir_drop(&stage.home, "long.txt");
    buf_free(&text);
    stage_end();
}

static void test_app__a_list_closed_stays_closed_for_its_word(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_type("/s");
    assert_shows("/system");
    stage_key("Esc");
    stage_type("e");
    assert_hides("/sessions");
    stage_keys("Ctrl-U");
    stage_type("/se");
    assert_shows("/sessions");
    stage_end();
}

static void test_app__the_history_is_searched_and_the_draft_comes_back(void **state)
{
    (void)state;
    begin();
    fake_say("1");
    fake_say("2");
    stage_open();
    stage_say("alpha one");
    stage_answer();
    stage_say("alpha two");
    stage_answer();
    stage_type("my draft");
    stage_key("Ctrl-R");
    stage_type("alpha");
    assert_shows("alpha two");
    stage_key("Ctrl-R");
    stage_key("Esc");
    assert_string_equal(stage_draft(), "my draft");
    stage_key("Ctrl-R");
    stage_type("alpha");
    stage_keys("Ctrl-R Enter");
    assert_string_equal(stage_draft(), "alpha one");
    stage_end();
}

static void test_app__the_tree_goes_to_another_branch(void **state)
{
    (void)state;
    begin();
    fake_say("One.");
    fake_say("Two.");
    stage_open();
    stage_say("Say");
    stage_answer();
    stage_keys("Alt-V r");
    stage_answer();
    stage_say("/tree");
    assert_shows("One.");
    stage_type("one");
    stage_key("Enter");
    assert_string_equal(chat_message(stage.chat, 1).text, "One.");
    assert_shows("<1/2>");
    stage_end();
}

static void test_app__the_tree_names_the_call_of_an_answer_without_text(void **state)
{
    (void)state;
    begin();
    fake_say("<tool_call>\n<function=calculator>\n<parameter=expression>\n1+1\n</parameter>\n</function>\n</tool_call>");
    fake_say("That is two.");
    stage_open();
    stage_say("Add");
    stage_answer();
    stage_say("/tree");
    assert_shows(" * That is two.  ($ calculator 1+1)");
    stage_end();
}

static void test_app__view_mode_reads_searches_and_goes_back(void **state)
{
    (void)state;
    begin();
    fake_say("The first line.\n\nThe second line.\n\n```\ncode here\n```\n\nThe end.");
    stage_open();
    stage_type("draft");
    stage_keys("Ctrl-U");
    stage_say("Go");
    stage_answer();
    stage_type("draft");
    stage_keys("Alt-V j k G g /");
    stage_type("line");
    stage_key("Enter");
    assert_shows("hit 1 of 2");
    stage_key("n");
    assert_shows("hit 2 of 2");
    stage_key("c");
    assert_true(stage.app.host.wishes & WISH_COPY);
    assert_string_equal(stage.app.host.copied.data, "code here\n");
    stage.app.host.wishes = 0;
    stage_keys("5");
    assert_int_equal(stage.app.host.wishes, 0);              /* there is no fifth */
    stage_keys("G y");
    assert_non_null(strstr(stage.app.host.copied.data, "The first line.\n\nThe second"));
    stage_key("q");
    assert_string_equal(stage_draft(), "draft");
    stage_end();
}

static void test_app__every_fold_opens_by_key_and_by_click(void **state)
{
    struct key_event click = {.kind = KEYS_KEY, .code = KEY_CLICK, .row = 3, .col = 4};
    (void)state;
    stage_begin(24, 80);
    stage.keeps = true;
    fake_say("One word.\n</think>\n\nIt is a licence.");
    stage_open();
    stage_say("What is @LICENSE about?");
    stage_answer();
    assert_shows("> What is @LICENSE about?\n  LICENSE  1");
    stage_key("Ctrl-O");
    assert_shows("\n  One word.\n");
    assert_shows("Ctrl-O opens it");
    stage_key("Ctrl-O");                /* on to the file above; the thought is shut again */
    assert_shows("  Apache License\n");
    assert_hides("\n  One word.\n");
    stage_type("x");                    /* anything else: Ctrl-O now closes what is open */
    assert_shows("Ctrl-O closes it");
    stage_key("Ctrl-O");
    assert_hides("Apache License");
    stage_keys("Backspace Alt-V K K Enter");
    assert_shows("  Apache License\n");
    stage_keys("Enter J Enter");
    assert_hides("Apache License");
    assert_shows("\n  One word.\n");
    stage_keys("Enter q");
    stage_screen();
    app_key(&stage.app, &click, stage.ms);
    assert_shows("\n  One word.\n");
    app_key(&stage.app, &click, stage.ms);
    assert_hides("\n  One word.\n");
    stage_end();
}

/* The mouse at the row of the screen that begins with the text; what is on the screen then is drawn. */
static void mouse(uint32_t code, const char *text)
{
    char line[64];
    int row = 1;
    snprintf(line, sizeof line, "\n%s", text);
    const char *at = strstr(stage_screen(), line);
    if (!at)
        fail_msg("\"%s\" is not on the screen:\n%s", text, buf_str(&stage.screen));
    for (const char *p = buf_str(&stage.screen); p < at; p++)
        row += *p == '\n';
    app_key(&stage.app, &(struct key_event){.kind = KEYS_KEY, .code = code, .row = row, .col = 6}, stage.ms += 10);
}

static void test_app__the_mouse_chooses_in_every_list(void **state)
{
    (void)state;
    stage_begin(24, 80);
    fake_say("Well.\n</think>\n\nIt is so.");
    stage_open();
    for (int i = 1; i <= 5; i++) {
        char message[32];
        snprintf(message, sizeof message, "Message %d", i);
        fake_say("Well.\n</think>\n\nIt is so.");
        stage_say(message);
        stage_answer();
    }
    stage_keys("Esc Esc");
    assert_shows("\n> Message 5\n  Message 4\n");
    mouse(KEY_CLICK, "  Message 2");
    assert_shows("\n> Message 2\n  Message 1\n");
    mouse(KEY_WHEEL_UP, " edit an earlier message");
    assert_shows("\n> Message 5\n  Message 4\n");
    mouse(KEY_WHEEL_UP, " edit an earlier message");    /* it stops at the end */
    assert_shows("\n> Message 5\n  Message 4\n");
    mouse(KEY_WHEEL_DOWN, " edit an earlier message");
    assert_shows("\n> Message 2\n  Message 1\n");
    mouse(KEY_CLICK, " edit an earlier message");       /* no row */
    assert_shows("\n> Message 2\n  Message 1\n");
    mouse(KEY_CLICK, "  Message 4\n  Message 3");
    assert_string_equal(stage_draft(), "");
    mouse(KEY_CLICK, "> Message 4\n  Message 3");       /* what is chosen is taken, as by Enter */
    assert_string_equal(stage_draft(), "Message 4");
    stage_key("Esc");
    stage_type("/s");
    mouse(KEY_CLICK, "  /set ");
    assert_shows("\n> /set ");
    mouse(KEY_WHEEL_UP, "> /set ");
    assert_hides("\n> /set ");
    mouse(KEY_CLICK, "  /set ");
    mouse(KEY_CLICK, "> /set ");
    assert_string_equal(stage_draft(), "/set ");
    stage_keys("Ctrl-U F1");
    assert_shows("With an empty draft");
    mouse(KEY_WHEEL_DOWN, "");
    assert_hides("With an empty draft");
    stage_end();
}

static void arrows(uint32_t code, int n)                /* that came at once */
{
    for (int i = 0; i < n; i++)
        app_key(&stage.app, &(struct key_event){.kind = KEYS_KEY, .code = code, .burst = n > 1}, stage.ms);
    stage.ms += 10;
}

/* An answer of more rows than the screen has. */
static void open_long(void)
{
    static char text[400];
    size_t n = 0;
    begin();
    for (int i = 1; i <= 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "line %d\n\n", i);
    fake_say(text);
    stage_open();
    stage_say("old message");
    stage_answer();
    assert_shows("line 40");
}

static void test_app__a_wheel_that_comes_as_arrow_keys_scrolls_and_types_nothing(void **state)
{
    (void)state;
    open_long();
    arrows(KEY_UP, 3);
    assert_hides("line 40");
    assert_string_equal(stage_draft(), "");
    arrows(KEY_DOWN, 3);
    assert_shows("line 40");
    stage_type("draft");
    arrows(KEY_UP, 3);
    assert_string_equal(stage_draft(), "draft");
    assert_hides("line 40");
    stage_key("Ctrl-C");                /* clears the draft into the history */
    arrows(KEY_UP, 1);                  /* a key */
    assert_string_equal(stage_draft(), "draft");
    arrows(KEY_UP, 3);                  /* that is held */
    assert_string_equal(stage_draft(), "old message");
    stage_end();
}

static void test_app__a_drag_leaves_the_mouse_to_the_terminal_until_the_next_key(void **state)
{
    static const uint32_t keys[] = {KEY_GRAB, KEY_CLICK};
    (void)state;
    open_long();
    for (int i = 0; i < 2; i++) {       /* a drag; two clicks on the same word */
        stage.app.host.wishes = 0;
        for (int k = 0; k <= i; k++)
            app_key(&stage.app, &(struct key_event){.kind = KEYS_KEY, .code = keys[i], .row = 3, .col = 4}, stage.ms += 10);
        assert_true(stage.app.host.looks.lent);
        assert_true(stage.app.host.wishes & WISH_MOUSE);
        assert_shows("Do it again: the terminal has the mouse until your next key.");
        stage.app.host.wishes = 0;
        stage_type("x");
        assert_false(stage.app.host.looks.lent);
        assert_true(stage.app.host.wishes & WISH_MOUSE);
        stage_key("Backspace");
    }
    app_key(&stage.app, &(struct key_event){.kind = KEYS_KEY, .code = KEY_GRAB}, stage.ms += 10);
    arrows(KEY_UP, 1);                  /* the wheel of a terminal that has the mouse */
    assert_false(stage.app.host.looks.lent);
    assert_string_equal(stage_draft(), "");
    assert_hides("line 40");
    stage_end();
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Whether the user is called now. */
static bool rings(void)
{
    stage_pass(0);
    bool yes = stage.app.host.wishes & WISH_CALL;
    stage.app.host.wishes = 0;
    return yes;
}

static void ask_about_a_tool(const char *when)
{
    begin();
    stage_set(OPT_bell, when);
    stage_set(OPT_tools_approve, "ask");
    fake_say("<tool_call>\n<function=calculator>\n<parameter=expression>\n1+1\n</parameter>\n</function>\n</tool_call>");
    stage_open();
}

static void test_app__a_question_calls_the_user_who_looks_elsewhere(void **state)
{
    static const struct { const char *when; enum bell_focus focus; bool at_once, later; } rows[] = {
        {"unfocused", BELL_OUT, true, false}, {"unfocused", BELL_IN, false, false}, {"unfocused", BELL_UNKNOWN, false, true},
        {"never", BELL_OUT, false, false}, {"done", BELL_IN, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask_about_a_tool(rows[i].when);
        stage.app.host.bell.focus = rows[i].focus;
        stage_say("1+1?");
        stage_answer();
        assert_true(stage.app.host.open[WINDOW_approve]);
        assert_int_equal(rings(), rows[i].at_once);
        assert_int_equal(bell_timeout(&stage.app.host.bell, stage.ms) >= 0, rows[i].later);
        stage_pass(5000);
        assert_int_equal(rings(), rows[i].later);
        stage_end();
    }
}

static void test_app__a_key_or_the_focus_answers_a_call(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        ask_about_a_tool("unfocused");
        stage_say("1+1?");
        stage_answer();
        if (i)
            bell_focus(&stage.app.host.bell, true);
        else
            stage_key("PgUp");
        stage_pass(6000);
        assert_false(rings());
        stage_end();
    }
}

static void test_app__a_long_turn_calls_at_its_end_and_a_short_one_does_not(void **state)
{
    (void)state;
    begin();
    stage_set(OPT_bell, "done");
    fake_say("One.");
    fake.not_ready = true;
    stage_open();
    stage_say("a question");
    fake.not_ready = false;
    stage_pass(21000);                  /* for the user the wait for the model is a part of it */
    stage_load();
    stage_answer();
    assert_true(rings());
    assert_string_equal(buf_str(&stage.app.host.bell.text), "the answer is ready: a question");
    fake_say("Two.");
    stage_say("another");
    stage_answer();
    assert_false(rings());
    stage_end();
}

static void test_app__set_lists_what_can_be_set_with_its_value(void **state)
{
    (void)state;
    stage_begin(24, 100);
    stage_set(OPT_think, "off");
    stage_set(OPT_max_tokens, "77");
    stage_open();
    stage_type("/set m");
    assert_shows("max_tokens 77");
    assert_hides("model");              /* only at the start */
    assert_hides("mtp");
    stage_keys("Ctrl-U");
    stage_say("/set tempp 1");
    assert_shows("(did you mean temperature?)");
    stage_end();
}

static void test_app__enter_on_the_open_conversation_closes_the_list(void **state)
{
    (void)state;
    begin();
    stage.keeps = true;
    fake_say("the answer");
    stage_open();
    stage_say("a question");
    stage_answer();
    stage_say("/sessions");
    assert_shows("sessions");
    stage_key("Enter");
    assert_false(stage.app.host.open[WINDOW_picker]);
    assert_hides("already open");
    assert_hides("!");
    stage_end();
}

static void test_app__estimates_become_figures_when_the_model_is_there(void **state)
{
    struct buf note = {0};
    struct err e = {0};
    (void)state;
    stage_begin(24, 100);
    stage.keeps = true;
    fake_say("12345678901234567890\n</think>\n\nIt is a licence.");
    stage_open();
    stage_say("What is @LICENSE?");
    stage_answer();
    char *path = strdup(chat_saved_as(stage.chat));
    chat_close(stage.chat);
    app_close(&stage.app);
    app_open(&stage.app, stage.o, NULL);
    fake.not_ready = true;
    stage_open();
    assert_true(chat_load(stage.chat, path, &note, &e));
    host_changed(&stage.app.host);
    assert_shows("thought, about 6 tok");
    assert_shows("LICENSE  13.7 kB  ~3.9k tok");
    fake_ready();
    stage_load();
    assert_shows("thought 2");          /* a token a byte */
    assert_shows("LICENSE  13.7 kB  13.7k tok");
    assert_hides("~");
    free(path);
    buf_free(&note);
    stage_end();
}

/* A search that nobody waits for comes to its end. */
static void search(void)
{
    for (int i = 0; i < 1000 && !app_timeout(&stage.app); i++)
        stage_pass(0);
}

static void test_app__short_names_of_commands_open_their_lists(void **state)
{
    (void)state;
    begin();
    stage.keeps = true;
    fake_say("A pangolin.");
    fake_say("Two.");
    stage_open();
    stage_say("Which animal?");
    stage_answer();
    stage_say("/sess");
    assert_shows("Enter opens");
    stage_key("Esc");
    stage_say("/find pangolin");
    search();
    assert_shows("sessions: pangolin");
    assert_shows("Which animal?  ");
    stage_key("Esc");
    stage_say("/find unicorn");
    assert_shows("searching ...");
    search();
    assert_shows("no matching conversation");
    stage_key("Esc");
    stage_say("/find");
    assert_shows("Enter opens");
    stage_key("Esc");
    stage_say("/tre");
    assert_shows("the tree of this conversation");
    stage_end();
}

static void test_app__tab_on_the_only_file_completes_and_says_nothing(void **state)
{
    (void)state;
    begin();
    stage.keeps = true;
    stage_open();
    stage_type("@LICEN");
    assert_shows("LICENSE");
    assert_shows("13.7 kB  13.7k tok");                 /* counted: the tests' tokens are bytes */
    assert_hides("~");
    stage_key("Tab");
    assert_string_equal(stage_draft(), "@LICENSE ");
    assert_hides("nothing to complete");
    stage_type("@nothing-like-it");
    stage_key("Tab");
    assert_shows("nothing to complete");
    stage_end();
}

static void test_app__a_long_word_about_a_key_is_shown_whole(void **state)
{
    (void)state;
    stage_begin(12, 40);
    stage_open();
    host_hint(&stage.app.host, "copied 2,145 bytes to the tmux buffer, and the clipboard if the terminal lets it");
    assert_shows(" copied 2,145 bytes to the tmux buffer,\n and the clipboard if the terminal lets\n it\n");
    stage_end();
}

static void test_app__a_refused_message_keeps_its_folds(void **state)
{
    struct buf text = {0};
    (void)state;
    begin();
    stage.keeps = true;
    for (int i = 0; i < 30; i++)
        buf_addf(&text, "line %d\n", i);
    fake_end("", END_LENGTH, true);
    stage_open();
    stage_type("@nothere ");
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = text.data, .n = text.len}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE_END}, stage.ms);
    assert_shows("> @nothere [paste 1: 30 lines");
    stage_key("Enter");
    assert_shows("cannot open nothere");
    assert_shows("> @nothere [paste 1: 30 lines");
    stage_key("Enter");
    stage_pass(50);
    assert_true(chat_busy(stage.chat));
    stage_key("Ctrl-C");
    stage_answer();
    assert_shows("> @nothere [paste 1: 30 lines");
    stage_key("Ctrl-O");
    assert_shows("line 29");
    buf_free(&text);
    stage_end();
}

static void test_app__copies_are_of_what_is_in_view(void **state)
{
    struct buf text = {0};
    (void)state;
    begin();
    buf_adds(&text, "```\nfirst\n```\n\n");
    for (int i = 0; i < 60; i++)
        buf_addf(&text, "Line %d.\n\n", i);
    buf_adds(&text, "```\nsecond\n```\n");
    fake_say(text.data);
    stage_open();
    stage_say("Go");
    stage_answer();
    stage_screen();
    stage_keys("Alt-V c");
    assert_string_equal(stage.app.host.copied.data, "second\n");
    stage.app.host.wishes = 0;
    stage_keys("u u");
    stage_screen();
    stage_key("c");
    assert_int_equal(stage.app.host.wishes, 0);
    assert_shows("no code block here");
    stage_keys("t");
    assert_shows("no table here");
    stage_keys("g c");
    assert_string_equal(stage.app.host.copied.data, "first\n");
    buf_free(&text);
    stage_end();
}

static void limit_files(rlim_t bytes)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* A limit on the size of files stands for the disk that is full. */
static void test_app__a_full_disk_has_a_sign_until_there_is_room(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    stage_begin(24, 80);
    stage.keeps = true;
    fake_say("One.");
    fake_say("Two.");
    stage_open();
    limit_files(20);
    stage_say("Go");
    stage_answer();
    assert_shows("NO-SAVE");
    limit_files(RLIM_INFINITY);
    stage_say("Go on");
    stage_answer();
    assert_hides("NO-SAVE");
    stage_end();
}

static void test_app__a_full_context_comes_with_advice(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage.keeps = true;
    fake.n_ctx = 40;
    stage_open();
    stage_say("A question that is longer than forty bytes, which are tokens here");
    stage_answer();
    assert_shows("! failed: This model's maximum context length is 40 tokens; the prompt has ");
    assert_shows("shorten it");
    assert_shows(" too long: 1.5k of 40");   /* in the status line */
    assert_hides("/drop");              /* nothing was said that could be dropped */
    for (int i = 0; i < 3; i++) {
        stage_key("Enter");
        stage_answer();
    }
    const char *first = strstr(stage_screen(), "! failed");
    assert_non_null(first);
    assert_null(strstr(first + 1, "! failed"));
    stage_end();
}

static void test_app__view_mode_marks_selects_lines_and_lists_addresses(void **state)
{
    struct buf text = {0};
    (void)state;
    begin();
    for (int i = 1; i <= 40; i++)
        buf_addf(&text, "Line number %d.\n\n", i);
    buf_adds(&text, "See https://example.org/a and <https://example.org/b>.");
    fake_say(text.data);
    stage_open();
    stage_say("Go");
    stage_answer();
    stage_keys("Alt-V g m a G");
    assert_hides("Line number 1.");
    stage_keys("' a");
    assert_shows("Line number 1.");
    stage_keys("' '");
    assert_hides("Line number 1.");
    stage_keys("' z");
    assert_shows("nothing is marked so");
    stage_keys("g }");
    stage_pass(5000);
    stage_key("v");
    assert_shows("line 1 of 81");
    stage_keys("j j v j j");
    assert_shows("line 5 of 81");
    stage_key("y");
    assert_string_equal(stage.app.host.copied.data, "Line number 2.\n\nLine number 3.\n");
    stage_keys("v k v k G Esc");
    assert_int_equal(window_active(&stage.app.host), WINDOW_view);
    stage_key("o");
    assert_shows("https://example.org/a");
    stage_type("/b");
    stage_key("Enter");
    assert_string_equal(stage.app.host.copied.data, "https://example.org/b");
    assert_int_equal(window_active(&stage.app.host), WINDOW_view);
    stage_keys("o Esc q");
    assert_string_equal(stage_draft(), "");
    buf_free(&text);
    stage_end();
}

static void test_app__a_closed_window_shows_the_one_below(void **state)
{
    (void)state;
    begin();
    fake_say("t</think>The answer.");
    stage_open();
    stage_say("why?");
    stage_answer();
    stage_keys("Alt-V / F1 q Esc");     /* the list of keys over a search over view mode */
    assert_shows("view ");
    stage_keys("Alt-I q");              /* the tokens of what one reads */
    assert_shows("view ");
    stage_keys("Alt-I F1 Alt-V");       /* opening one closes what is above it */
    assert_shows("view ");
    stage_key("q");
    assert_hides("view ");
    assert_int_equal(window_active(&stage.app.host), WINDOW_input);
    stage_end();
}

static void test_app__the_inspector_continues_the_answer_from_another_token(void **state)
{
    (void)state;
    begin();
    fake_say("ab cd");
    fake_say("xyz");
    stage_open();
    stage_say("Go");
    stage_answer();
    stage_key("Alt-I");
    assert_shows("inspect 1/");
    assert_shows("> a ");
    stage_keys("Right Down");
    assert_shows("> c ");               /* instead of b */
    mouse(KEY_WHEEL_UP, "  token 2");
    assert_shows("> b ");
    mouse(KEY_CLICK, "    c ");
    assert_shows("> c ");
    mouse(KEY_CLICK, "  > c ");
    stage_answer();
    assert_string_equal(chat_message(stage.chat, 1).text, "acxyz");
    assert_shows("<2/2>");
    stage_key("Alt-I");
    stage_key("q");
    assert_hides("inspect");
    stage_end();
}

static void test_app__heat_colours_what_was_guessed_and_what_was_drafted(void **state)
{
    struct buf plain = {0}, hot = {0};
    (void)state;
    begin();
    fake_say("ab cd");
    stage_open();
    stage_say("Go");
    stage_answer();
    stage_screen();
    cells_dump(&stage.cells, true, &plain);
    stage_keys("Alt-H Alt-H");          /* of the scripted engine every token has p 0.5: unsure */
    assert_shows("ab cd");
    stage_pass(5000);
    stage_screen();
    cells_dump(&stage.cells, true, &hot);
    assert_null(strstr(plain.data, "uu uu"));
    assert_non_null(strstr(hot.data, "uuuuu"));
    stage_key("Alt-H");
    buf_reset(&hot);
    stage_pass(5000);
    stage_screen();
    cells_dump(&stage.cells, true, &hot);
    assert_string_equal(hot.data, plain.data);
    buf_free(&plain);
    buf_free(&hot);
    stage_end();
}

static void test_app__thinking_is_switched_for_the_next_turn(void **state)
{
    (void)state;
    begin();
    stage_open();
    assert_shows("NO-THINK");
    stage_key("Alt-T");
    assert_true(options_on(stage.o, OPT_think));
    stage_end();
}

static void test_app__a_dialog_takes_no_keys_of_the_transcript_away(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_keys("F1 j j k q");
    assert_string_equal(stage_draft(), "");
    stage_type("?");                    /* of an empty draft */
    assert_shows("Everywhere");
    stage_key("Esc");
    stage_type("why?");
    assert_string_equal(stage_draft(), "why?");
    stage_end();
}

static void test_app__figures_of_the_turn_are_there_while_it_runs(void **state)
{
    (void)state;
    stage_begin(40, 180);
    stage_set(OPT_think, "off");
    stage_set(OPT_temperature, "0.6");
    fake_end("one two three four five six", END_STOP, true);
    stage_open();
    stage_key("Alt-P");
    stage_say("Go");
    for (int i = 0; i < 12; i++) {
        chat_wait(stage.chat, -1, 1);
        stage_pass(50);
    }
    assert_true(chat_busy(stage.chat));
    assert_shows("accept 70%");
    assert_shows("temperature 0.6");
    assert_shows("step ms        10.0     10.0");  /* now and turn: as the engine says, whenever somebody looks */
    assert_shows("█");
    stage_key("Ctrl-C");
    stage_answer();
    assert_shows("read 10 in 0.0 s, 28 tok in 0.1 s, ");      /* reading and answering apart */
    assert_shows(" J");
    stage_end();
}

static void test_app__an_answer_that_continues_is_read_first_and_counted_once(void **state)
{
    char fills[32];
    (void)state;
    stage_begin(24, 160);
    stage_set(OPT_think, "off");
    stage_set(OPT_tools, "none");
    fake_end("one two three four five", END_LENGTH, true);
    fake_end(" six", END_LENGTH, true);
    stage_open();
    stage_say("Go");
    for (int i = 0; i < 12; i++)
        stage_pass(50);
    stage_key("Ctrl-C");
    stage_answer();
    assert_shows("stopped");
    fake.reads = true;
    stage_key("Enter");
    stage_pass(50);
    stage_pass(600);
    int prompt = fake.prompts[1].n, read = prompt / 2;
    assert_true(prompt > fake.prompts[0].n);            /* the old part is in it */
    assert_shows(" reading 0:00");
    snprintf(fills, sizeof fills, "%d of %d tok", read, prompt);
    assert_shows(fills);
    assert_int_equal(chat_context_used(stage.chat).tokens, prompt);
    fake_read();
    for (int i = 0; i < 12; i++)
        stage_pass(100);
    assert_shows(" answering 0:01");
    assert_int_equal(chat_context_used(stage.chat).tokens, prompt + 4);
    snprintf(fills, sizeof fills, "ctx %d/100k", prompt + 4);
    assert_shows(fills);
    stage_key("Ctrl-C");
    stage_answer();
    snprintf(fills, sizeof fills, "ctx %d/100k", chat_context_used(stage.chat).tokens);
    assert_shows(fills);
    assert_int_equal(chat_last_stats(stage.chat)->ctx_used, chat_context_used(stage.chat).tokens);
    stage_end();
}

static void wait_for_aheads(int n)
{
    while (fake.n_aheads < n) {
        chat_wait(stage.chat, -1, 20);
        stage_pass(10);
    }
    assert_int_equal(fake.n_aheads, n);
}

static void test_app__what_is_typed_is_read_ahead(void **state)
{
    (void)state;
    stage_begin(24, 80);
    stage.reads_ahead = true;
    fake_say("</think>A");
    stage_open();
    stage_type("What is said h");
    wait_for_aheads(2);
    int typed = fake.ahead.n;
    stage_key("Alt-v");                 /* keys of another window are no draft */
    stage_keys("j k");
    stage_key("Alt-v");
    stage_type("ere is more");
    wait_for_aheads(3);
    assert_true(fake.ahead.n > typed);
    stage_key("Enter");
    stage_answer();
    assert_memory_equal(fake.ahead.data, fake.prompts[0].data, sizeof(int32_t));
    wait_for_aheads(4);                 /* the answer; the draft is empty */
    for (int i = 0; i < 20; i++) {
        chat_wait(stage.chat, -1, 20);
        stage_pass(20);
    }
    assert_int_equal(fake.n_aheads, 4);
    stage_end();
}

static void test_app__values_of_sampling_are_shown_once_they_are_known(void **state)
{
    (void)state;
    stage_begin(24, 160);
    fake.gen_temperature = 0.75f;
    fake.not_ready = true;
    stage_open();
    assert_hides("temperature");
    fake_ready();
    stage_load();
    assert_shows("temperature 0.75");
    stage_say("/preset coding");
    assert_shows("coding, temperature 0.");
    stage_end();
}

static void test_app__keys_of_the_config_file_work_and_bad_ones_are_reported(void **state)
{
    (void)state;
    begin();
    app_close(&stage.app);
    stage_configure("key = Ctrl-S leave\nkey = Ctrl-Q fly\nkey = F5 panel\n");
    app_open(&stage.app, stage.o, NULL);
    stage_open();
    assert_shows("! key = Ctrl-Q fly: unknown action fly");
    stage_key("F5");
    assert_true(stage.app.host.looks.panel);
    stage_key("F1");
    assert_shows("Alt-P, F5");
    stage_key("q");
    stage_say("/keys all");
    assert_shows("# where    key");
    stage_end();
}

static void test_app__keys_are_shown_and_do_nothing_while_they_are_tested(void **state)
{
    (void)state;
    begin();
    stage_open();
    stage_say("/keys test");
    keyhelp_sent(&stage.app.host, "\033[1;5D", 6);
    stage_key("Ctrl-Left");
    assert_shows("  Ctrl-Left         ESC [ 1 ; 5 D             word_left");
    stage_keys("Alt-I Ctrl-D x Ctrl-F12 Esc q");
    assert_shows("inspect");
    assert_shows("nothing here");
    assert_shows("text");
    assert_int_equal(stage.app.host.wishes, 0);
    stage_keys("Esc Esc");
    assert_hides("nothing here");
    stage_say("/keys test");
    stage_key("F12");
    assert_shows("nothing here");
    stage_key("Ctrl-C");
    assert_hides("nothing here");
    assert_string_equal(stage_draft(), "");
    stage_end();
}

static void paste(const char *text, size_t n)
{
    for (size_t at = 0; at < n; at += 4096)
        app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE, .text = text + at, .n = n - at < 4096 ? n - at : 4096}, stage.ms);
    app_key(&stage.app, &(struct key_event){.kind = KEYS_PASTE_END}, stage.ms);
}

static void test_app__a_large_paste_asks_what_it_is(void **state)
{
    (void)state;
    enum { N = 300000 };
    char *text = malloc(N);
    memset(text, 'x', N);
    for (int i = 99; i < N; i += 100)
        text[i] = '\n';
    begin();
    stage.keeps = true;
    fake.n_ctx = 1000000;
    fake_say("Read.");
    stage_open();
    stage_type("look: ");
    paste(text, N);
    assert_shows("This paste is large: 300.0 kB, 3,000 lines, about 300k tok");      /* bytes are tokens here */
    stage_keys("Enter x d");
    assert_string_equal(stage_draft(), "look: ");
    paste(text, N);
    for (int i = 0; i < 3; i++)
        paste(text, N);
    assert_shows("This paste is too long: 1.2 MB, 12,000 lines, about 1.2M tok, and 999k still fit");
    stage_key("Esc");
    assert_string_equal(stage_draft(), "look: ");
    paste(text, N);
    stage_key("i");
    assert_int_equal(strlen(stage_draft()), N + 6);
    stage_keys("Ctrl-C");
    stage_type("look: ");
    paste(text, N);
    stage_key("a");
    assert_int_equal(strncmp(stage_draft(), "look: @", 7), 0);
    assert_non_null(strstr(stage_draft(), "q35chat/pastes/paste-"));
    stage_key("Enter");
    stage_answer();
    assert_int_equal(chat_n_messages(stage.chat), 2);
    assert_int_equal(chat_n_files(stage.chat, 0), 1);
    assert_int_equal(chat_file(stage.chat, 0, 0).bytes, N);
    stage_end();
    free(text);
}

static void test_app__sessions_are_looked_at_renamed_and_deleted_in_their_list(void **state)
{
    (void)state;
    begin();
    stage.keeps = true;
    fake_say("Blue, mostly.");
    fake_say("Green.");
    stage_open();
    stage_say("Sky?");
    stage_answer();
    stage_say("/new");
    stage_say("Grass?");
    stage_answer();
    stage_say("/sessions");
    assert_shows("Sky?");
    stage_type("sky");
    assert_hides("Blue, mostly.");
    stage_key("Tab");
    assert_shows("Blue, mostly.");
    assert_hides("Green.");
    stage_key("F2");
    assert_shows("new title; empty");
    stage_key("Ctrl-U");
    stage_type("Colours");
    stage_key("Enter");
    assert_shows("Colours");
    assert_hides("new title; empty");
    stage_type("grass");
    stage_keys("F2 Ctrl-U");
    stage_type("Lawn");
    stage_key("Enter");                 /* the one that is open */
    assert_string_equal(chat_title(stage.chat), "Lawn");
    stage_type("colours");
    stage_keys("F2 Esc");
    assert_shows("Lawn");               /* the list is whole again */
    stage_type("colours");
    stage_keys("Ctrl-D");
    assert_shows("Ctrl-D again moves it to the trash");
    stage_keys("Ctrl-D");
    assert_hides("Colours");
    assert_shows("Lawn");
    assert_shows("brings it back");
    stage_type("lawn");
    stage_keys("Ctrl-D Ctrl-D");
    assert_shows("is open, here or in another q35chat");
    stage_key("Esc");
    stage_say("/restore");
    assert_shows("Colours");
    stage_end();
}

static void test_app__typing_in_the_list_of_sessions_searches_titles_and_texts(void **state)
{
    (void)state;
    begin();
    stage.keeps = true;
    fake_say("Ask the ferryman\nat the *blue* harbour, he knows.");
    fake_say("Green.");
    stage_open();
    stage_say("Sky?");
    stage_answer();
    stage_say("/new");
    stage_say("Grass?");
    stage_answer();
    stage_say("/sessions");
    stage_key("Enter");                 /* the one that is open */
    assert_hides("Enter opens");
    assert_hides("already");
    stage_say("/sessions");
    stage_type("BLUE sky");
    assert_int_equal(app_timeout(&stage.app), 0);       /* no key waits for the search */
    search();
    assert_shows("Sky?  at the *blue* harbour, he knows.");
    assert_shows("1 of 1");
    assert_int_equal(app_timeout(&stage.app), -1);
    stage_keys("Ctrl-U");
    stage_type("een");
    search();
    assert_shows("1 of 1");
    assert_hides("harbour");
    stage_keys("Ctrl-U");
    stage_type("nobody");
    assert_shows("searching ...");
    search();
    assert_shows("no matching conversation");
    stage_keys("Ctrl-U");
    stage_type("ferryman");
    search();
    stage_key("Enter");
    assert_shows("at the blue harbour");
    stage_end();
}

static void test_app__sessions_of_the_same_title_show_the_last_question_or_the_answer(void **state)
{
    (void)state;
    begin();
    stage.keeps = true;
    fake_say("A fox and a crow.");
    fake_say("A bear.");
    fake_say("It slept.");
    stage_open();
    stage_say("Tell me a story");
    stage_answer();
    stage_say("/new");
    stage_say("Tell me a story");
    stage_answer();
    stage_say("What did it do?");
    stage_answer();
    stage_say("/sessions");
    assert_shows("Tell me a story: A fox and a crow.");
    assert_shows("Tell me a story: What did it do?");
    assert_shows("2 turns  just now");
    stage_key("Esc");
    stage_type("/resume sto");
    assert_shows("Tell me a story: A fox and a crow.");
    assert_shows("Tell me a story: What did it do?");
    assert_shows("just now");
    stage_type("ry nobody");
    assert_hides("just now");
    stage_keys("Ctrl-U");
    stage_say("/rename A story that has a title of so many words that there is no room for all of them on a row");
    stage_type("/resume sto");
    assert_shows("A story that has a title of so many");
    assert_shows("just now");                   /* the title is cut, not the time */
    stage_keys("Ctrl-U");
    stage_type("/resume story");
    stage_keys("Tab Tab Enter Enter");          /* the older one */
    assert_hides("It slept.");
    assert_shows("A fox and a crow.");
    stage_say("/sessions");
    stage_keys("F2");
    assert_hides("> Tell me a story:");         /* its title is still its own */
    stage_keys("Esc Esc");
    stage_end();
}

static void test_app__sleeps_when_nothing_happens(void **state)
{
    (void)state;
    begin();
    fake_say("One.");
    stage_open();
    stage_say("Go");
    stage_answer();
    stage_pass(10000);
    assert_int_equal(app_timeout(&stage.app), -1);
    stage_keys("Alt-P");                /* the machine's figures, once a second */
    stage_pass(10);
    assert_true(app_timeout(&stage.app) >= 100 && app_timeout(&stage.app) <= 200);         /* not at once: that would spin */
    stage_pass(200);
    assert_true(app_timeout(&stage.app) >= 900 && app_timeout(&stage.app) <= 1000);
    stage_end();
}

/* --- whatever is typed ------------------------------------------------------------------------------------------ */

static uint32_t stream;

static int pick(int n)
{
    stream = stream * 1664525u + 1013904223u;
    return (int)((stream >> 8) % (uint32_t)n);
}

static void press_any(void)
{
    static const char *const words[] = {"y", "a", "n", "x", "/", "@", "hello", "/tree", "/sessions", "/undo", "/redo", "/new", "\\", "é", " "};
    static const char *const keys[] = {"Enter", "Esc", "Tab", "Up", "Down", "Left", "Right", "PgUp", "PgDn", "Home", "End", "Backspace"};
    int n = stage.app.host.actions->n;
    const struct binding *b = &stage.app.host.actions->bindings[pick(n)];
    switch (pick(4)) {
    case 0:
        stage_type(words[pick(sizeof words / sizeof *words)]);
        break;
    case 1:
        stage_key(keys[pick(sizeof keys / sizeof *keys)]);
        break;
    default:
        if (b->behind_ctrl_x)
            stage_key("Ctrl-X");
        stage_key(b->behind_ctrl_x ? b->key + 7 : b->key);
        break;
    }
}

static void test_app__no_key_in_no_state_breaks_anything(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        stream = (uint32_t)round;
        stage_begin(24, 80);
        stage_set(OPT_tools_approve, "ask");
        for (int i = 0; i < FAKE_MAX; i++)
            if (i % 3 == 0)
                fake_say("t</think><tool_call>\n<function=calculator>\n<parameter=expression>\n1+1\n</parameter>\n</function>\n</tool_call>");
            else if (i % 3 == 1)
                fake_end("thought\n</think>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```c\nint x;\n```\n", END_LENGTH, i % 2);
            else
                fake_say("thought\n</think>\n\nSome *text*, \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb and \x1b[31m.");
        fake.not_ready = pick(4) == 0;
        stage_open();
        for (int step = 0; step < 300 && fake.n_submits < FAKE_MAX - 2; step++) {
            press_any();
            if (step == 40 && fake.not_ready)
                fake_ready();
            stage_pass(pick(3) ? pick(50) : pick(1500));
            stage.app.host.wishes = 0;
            if (pick(8) == 0)
                cells_size(&stage.cells, 1 + pick(40), 1 + pick(140));
            if (pick(3) == 0)
                stage_screen();
        }
        stage_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_app__a_first_key_after_ctrl_x_is_an_alt_key),
        cmocka_unit_test(test_app__ctrl_v_takes_the_next_key_as_text),
        cmocka_unit_test(test_app__a_backslash_before_enter_makes_a_line),
        cmocka_unit_test(test_app__an_alt_enter_in_two_parts_makes_a_line),
        cmocka_unit_test(test_app__a_picture_that_is_dropped_on_the_terminal_is_attached),
        cmocka_unit_test(test_app__a_paste_never_sends_and_never_answers),
        cmocka_unit_test(test_app__commands_complete_and_run),
        cmocka_unit_test(test_app__parts_of_the_context_are_dropped_and_pinned_by_keys),
        cmocka_unit_test(test_app__a_summary_is_shown_first_and_taken_by_enter),
        cmocka_unit_test(test_app__an_aside_stands_there_until_the_next_turn),
        cmocka_unit_test(test_app__an_undo_takes_an_aside_along),
        cmocka_unit_test(test_app__the_list_of_files_says_how_long_they_take_to_read),
        cmocka_unit_test(test_app__a_list_closed_stays_closed_for_its_word),
        cmocka_unit_test(test_app__the_history_is_searched_and_the_draft_comes_back),
        cmocka_unit_test(test_app__the_tree_goes_to_another_branch),
        cmocka_unit_test(test_app__the_tree_names_the_call_of_an_answer_without_text),
        cmocka_unit_test(test_app__view_mode_reads_searches_and_goes_back),
        cmocka_unit_test(test_app__every_fold_opens_by_key_and_by_click),
        cmocka_unit_test(test_app__the_mouse_chooses_in_every_list),
        cmocka_unit_test(test_app__estimates_become_figures_when_the_model_is_there),
        cmocka_unit_test(test_app__short_names_of_commands_open_their_lists),
        cmocka_unit_test(test_app__tab_on_the_only_file_completes_and_says_nothing),
        cmocka_unit_test(test_app__a_long_word_about_a_key_is_shown_whole),
        cmocka_unit_test(test_app__a_refused_message_keeps_its_folds),
        cmocka_unit_test(test_app__copies_are_of_what_is_in_view),
        cmocka_unit_test(test_app__a_full_disk_has_a_sign_until_there_is_room),
        cmocka_unit_test(test_app__a_full_context_comes_with_advice),
        cmocka_unit_test(test_app__set_lists_what_can_be_set_with_its_value),
        cmocka_unit_test(test_app__enter_on_the_open_conversation_closes_the_list),
        cmocka_unit_test(test_app__a_wheel_that_comes_as_arrow_keys_scrolls_and_types_nothing),
        cmocka_unit_test(test_app__a_drag_leaves_the_mouse_to_the_terminal_until_the_next_key),
        cmocka_unit_test(test_app__a_question_calls_the_user_who_looks_elsewhere),
        cmocka_unit_test(test_app__a_key_or_the_focus_answers_a_call),
        cmocka_unit_test(test_app__a_long_turn_calls_at_its_end_and_a_short_one_does_not),
        cmocka_unit_test(test_app__view_mode_marks_selects_lines_and_lists_addresses),
        cmocka_unit_test(test_app__a_closed_window_shows_the_one_below),
        cmocka_unit_test(test_app__the_inspector_continues_the_answer_from_another_token),
        cmocka_unit_test(test_app__heat_colours_what_was_guessed_and_what_was_drafted),
        cmocka_unit_test(test_app__thinking_is_switched_for_the_next_turn),
        cmocka_unit_test(test_app__a_dialog_takes_no_keys_of_the_transcript_away),
        cmocka_unit_test(test_app__figures_of_the_turn_are_there_while_it_runs),
        cmocka_unit_test(test_app__an_answer_that_continues_is_read_first_and_counted_once),
        cmocka_unit_test(test_app__values_of_sampling_are_shown_once_they_are_known),
        cmocka_unit_test(test_app__keys_of_the_config_file_work_and_bad_ones_are_reported),
        cmocka_unit_test(test_app__keys_are_shown_and_do_nothing_while_they_are_tested),
        cmocka_unit_test(test_app__a_large_paste_asks_what_it_is),
        cmocka_unit_test(test_app__typing_in_the_list_of_sessions_searches_titles_and_texts),
        cmocka_unit_test(test_app__sessions_of_the_same_title_show_the_last_question_or_the_answer),
        cmocka_unit_test(test_app__sessions_are_looked_at_renamed_and_deleted_in_their_list),
        cmocka_unit_test(test_app__what_is_typed_is_read_ahead),
        cmocka_unit_test(test_app__sleeps_when_nothing_happens),
        cmocka_unit_test(test_app__no_key_in_no_state_breaks_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

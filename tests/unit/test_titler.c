/* Titles by the model: when it is asked for one, and that nobody notices. */
#include "talk.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "chat/state.h"
#include "session/list.h"
#include "session/transcript.h"
#include "tests/tmpdir.h"

enum { SILENT_MS = 150, PATIENCE_MS = 20000 };   /* SILENT_MS: for what is not to come */

static struct tmpdir dir;
static int n_titled;
static const struct chat_front keeps = {.can_ask = true, .keeps = true, .reads_ahead = true, .tools = "none"};

static int setup(void **state)
{
    (void)state;
    n_titled = 0;
    return !tmpdir_make(&dir) || setenv("XDG_STATE_HOME", dir.path, 1);
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir.path);
    return system(command);
}

/* Runs until there are so many requests and titles, or so long.  It has been quiet for long. */
static void run_until(struct talk *t, int n_submits, int titles, int ms)
{
    const int64_t start = clock_ns();
    while ((fake.n_submits < n_submits || n_titled < titles) && clock_ms_since(start) < ms) {
        int n;
        t->c->title.quiet_ns = 0;
        chat_wait(t->c, -1, 20);
        const struct chat_event *ev = chat_drain(t->c, &n);
        for (int i = 0; i < n; i++) {
            n_titled += ev[i].kind == CHAT_TITLED;
            see(t, &ev[i]);
        }
    }
}

static const char *title_on_disk(void)
{
    static char title[200];
    struct sessions s;
    struct err e = {0};
    assert_true(sessions_list(&s, NULL, &e));
    snprintf(title, sizeof title, "%s", s.n ? s.items[0].title : "");
    sessions_free(&s);
    return title;
}

static void test_titler__in_idle_time_the_model_writes_a_title(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_say("x</think>One.");
    fake_say(" \"Bears and Foxes\".");
    start_with(&t, &keeps);
    ask(&t, "Tell me a story");
    for (int64_t start = clock_ns(); clock_ms_since(start) < SILENT_MS;) {
        int n;
        chat_wait(t.c, -1, 20);
        chat_drain(t.c, &n);
    }
    assert_int_equal(fake.n_submits, 1);                        /* somebody may be about to type */
    run_until(&t, 2, 1, PATIENCE_MS);
    assert_string_equal(chat_title(t.c), "Bears and Foxes");
    assert_string_equal(title_on_disk(), "Bears and Foxes");
    assert_non_null(strstr(prompt(1), USER("Tell me a story") "<|im_start|>assistant\nOne.<|im_end|>\n<|im_start|>user\nWrite a title "));
    assert_int_equal(strcmp(prompt(1) + strlen(prompt(1)) - strlen(PLAIN), PLAIN), 0);       /* no reasoning */
    assert_true(fake.samplings[1].max_tokens == 24 && fake.samplings[1].temperature == 0 && fake.samplings[1].patience_ms > 0);
    assert_int_equal(fake.sequence[1], fake.sequence[0]);
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_string_equal(buf_str(&t.s.text), "One.");            /* nothing of it was shown */
    assert_string_equal(buf_str(&t.s.notes), "");
    run_until(&t, 3, 1, SILENT_MS);
    assert_int_equal(fake.n_submits, 2);                        /* once */
    end(&t);
}

static void test_titler__a_title_that_the_user_gave_or_removed_stays(void **state)
{
    static const char *const titles[] = {"Mine", ""};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct talk t;
        struct err e = {0};
        begin(&t);
        fake_say("x</think>One.");
        start_with(&t, &keeps);
        ask(&t, "Hi there");
        assert_true(chat_rename(t.c, titles[i], &e));
        run_until(&t, 2, 1, SILENT_MS);
        assert_int_equal(fake.n_submits, 1);
        assert_string_equal(chat_title(t.c), i ? "Hi there" : "Mine");
        char path[300];
        snprintf(path, sizeof path, "%s", chat_saved_as(t.c));
        end(&t);
        begin(&t);                      /* nor after it was loaded */
        fake_say("x</think>Two.");
        start_with(&t, &keeps);
        struct buf note = {0};
        assert_true(chat_load(t.c, path, &note, &e));
        ask(&t, "And?");
        run_until(&t, 2, 1, SILENT_MS);
        assert_int_equal(fake.n_submits, 1);
        end(&t);
    }
}

static void test_titler__a_message_ends_the_request_and_is_answered_at_once(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_say("x</think>One.");
    fake_end("Half a", END_STOP, true);
    fake_say("x</think>Two.");
    fake_say("Two Answers Given");
    start_with(&t, &keeps);
    ask(&t, "Hi there");
    run_until(&t, 2, 0, PATIENCE_MS);
    assert_int_equal(fake.n_submits, 2);
    submit(&t, "And?");
    assert_int_equal(fake.n_interrupts, 1);
    finish_turn(&t);
    assert_string_equal(buf_str(&t.s.text), "Two.");
    assert_null(strstr(prompt(2), "Write a title"));
    assert_string_equal(chat_title(t.c), "Hi there");
    run_until(&t, 4, 1, PATIENCE_MS);   /* then it is asked for again */
    assert_string_equal(chat_title(t.c), "Two Answers Given");
    end(&t);
}

static void test_titler__a_key_ends_the_request_and_none_is_made_while_there_is_a_draft(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_say("x</think>One.");
    fake_end("Half a", END_STOP, true);
    start_with(&t, &keeps);
    ask(&t, "Hi there");
    run_until(&t, 2, 0, PATIENCE_MS);
    const int n_aheads = fake.n_aheads;
    chat_draft(t.c, "and so on", 9);
    assert_int_equal(fake.n_interrupts, 1);
    run_until(&t, 3, 1, SILENT_MS);
    assert_int_equal(fake.n_submits, 2);
    assert_true(fake.n_aheads > n_aheads);                      /* the draft was read ahead */
    assert_string_equal(chat_title(t.c), "Hi there");
    end(&t);
}

static void test_titler__another_conversation_does_not_get_the_title(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    fake_say("x</think>One.");
    fake_end("Half a title", END_STOP, true);
    fake_say("x</think>Two.");
    fake_say("Good Title Here");
    start_with(&t, &keeps);
    ask(&t, "Hi there");
    run_until(&t, 2, 0, PATIENCE_MS);
    assert_true(chat_new(t.c, &e));
    assert_int_equal(fake.n_interrupts, 1);
    ask(&t, "Another");
    assert_string_equal(chat_title(t.c), "Another");
    run_until(&t, 4, 1, PATIENCE_MS);
    assert_string_equal(chat_title(t.c), "Good Title Here");
    end(&t);
}

static void test_titler__more_than_a_line_and_what_is_no_title_end_it(void **state)
{
    static const struct { const char *answer; bool cut; const char *title; } rows[] = {
        {"Bears and Foxes\n\nThis title", true, "Bears and Foxes"}, {"Sure! Here is a title for our conversation so far: it is", true, NULL},
        {"Hello", false, NULL}, {"", false, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct talk t;
        begin(&t);
        fake_say("x</think>One.");
        fake_end(rows[i].answer, rows[i].cut ? END_LENGTH : END_STOP, false);
        start_with(&t, &keeps);
        ask(&t, "Hi there");
        run_until(&t, 2, 0, PATIENCE_MS);
        run_until(&t, rows[i].title ? 2 : 3, 1, rows[i].title ? PATIENCE_MS : SILENT_MS);
        assert_int_equal(fake.n_submits, 2);                    /* and the model is not asked again */
        assert_string_equal(chat_title(t.c), rows[i].title ? rows[i].title : "Hi there");
        n_titled = 0;
        end(&t);
    }
}

static void test_titler__nobody_is_asked_where_it_is_not_wanted(void **state)
{
    static const struct { const char *option; bool by_text, keeps, reads_ahead, stopped; int asked; } rows[] = {
        {"auto", false, true, true, false, 1}, {"off", false, true, true, false, 0}, {"on", true, true, true, false, 1},
        {"auto", true, true, true, false, 0},                   /* a server */
        {"auto", false, false, true, false, 0},                 /* a conversation that is not kept */
        {"on", false, true, false, false, 0},                   /* a pipe */
        {"auto", false, true, true, true, 0},                   /* a stopped answer */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chat_front front = keeps;
        struct talk t;
        begin(&t);
        set(&t, OPT_auto_title, rows[i].option);
        fake_end("x</think>One.", rows[i].stopped ? END_LENGTH : END_STOP, false);
        fake_say("Bears and Foxes");
        front.keeps = rows[i].keeps;
        front.reads_ahead = rows[i].reads_ahead;
        by_text = rows[i].by_text;
        start_with(&t, &front);
        ask(&t, "Hi there");
        n_titled = 0;
        run_until(&t, 2, 1, rows[i].asked ? PATIENCE_MS : SILENT_MS);
        assert_int_equal(n_titled, rows[i].asked);
        end(&t);
        by_text = false;
    }
}

static void test_title__what_a_model_writes_is_a_title_or_none(void **state)
{
    static const struct { const char *answer, *title; } rows[] = {
        {"Bears and Foxes", "Bears and Foxes"}, {"  **A Trip to Oslo**\nmore", "A Trip to Oslo"}, {"Title: \"A Trip to Oslo.\"", "A Trip to Oslo"},
        {"# Sorting in C", "Sorting in C"}, {"\u201eReise nach Oslo\u201c", "Reise nach Oslo"},
        {"\u5965\u65af\u9646\u4e4b\u884c\u3002", "\u5965\u65af\u9646\u4e4b\u884c"},
        {"Hello", NULL}, {"", NULL}, {"\n", NULL}, {"\"\"", NULL}, {"...", NULL}, {"a b", NULL},
        {"one two three four five six seven eight nine", NULL},
        {"<tool_call> x", NULL}, {"bad \xff bytes", NULL}, {"{\"title\": \"x y\"}", NULL},
        {"A word of more than sixty columnsssssssssssssssssssssssssssssssss", NULL}, {"control \033[31m code", "control  [31m code"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = {0};
        if (title_written(&out, rows[i].answer) != (rows[i].title != NULL))
            fail_msg("%s", rows[i].answer);
        assert_string_equal(buf_str(&out), rows[i].title ? rows[i].title : "");
        buf_free(&out);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_titler__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(in_idle_time_the_model_writes_a_title),
        TEST(a_title_that_the_user_gave_or_removed_stays),
        TEST(a_message_ends_the_request_and_is_answered_at_once),
        TEST(a_key_ends_the_request_and_none_is_made_while_there_is_a_draft),
        TEST(another_conversation_does_not_get_the_title),
        TEST(more_than_a_line_and_what_is_no_title_end_it),
        TEST(nobody_is_asked_where_it_is_not_wanted),
        cmocka_unit_test(test_title__what_a_model_writes_is_a_title_or_none),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    talk_free();
    return failed;
}

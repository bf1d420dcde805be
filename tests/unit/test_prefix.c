/* The prompt is append-only: what was sent up to the end of a user message is the beginning, byte for byte, of every later prompt of that
 * path, whatever day it is.  Otherwise each turn computes the conversation anew. */
#include "talk.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALL "<tool_call>\n<function=calculator>\n<parameter=expression>\n7 * 12\n</parameter>\n</function>\n</tool_call>"

/* Each turn is on another day, in another hour: these take the place of the library's. */
static int n_turns;

static time_t now(void)
{
    return 4000000000 + (time_t)n_turns * (40 * 86400 + 3 * 3600 + 61);
}

time_t time(time_t *t)
{
    if (t)
        *t = now();
    return now();
}

int clock_gettime(clockid_t which, struct timespec *t)
{
    if (which != CLOCK_REALTIME)
        return (int)syscall(SYS_clock_gettime, which, t);
    *t = (struct timespec){.tv_sec = now()};
    return 0;
}

enum { MOST = 16 };

static struct {
    struct talk t;
    struct ids head;                    /* system prompt and tools: what comes before the first message */
    struct ids upto[MOST];              /* of the path: what was sent up to and including its user message number i */
    int checked;                        /* prompts that were looked at */
    char folder[32], session[64], file[64];
} w;

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* ---- what prompts begin with ---- */

static int find(const struct ids *ids, int from, const char *text)
{
    struct ids what = {0};
    tokenizer_encode(fake.tok, text, strlen(text), true, &what);
    int at = from;
    while (at + what.n <= ids->n && memcmp(ids->data + at, what.data, (size_t)what.n * sizeof(int32_t)))
        at++;
    at = at + what.n <= ids->n ? at : -1;
    ids_free(&what);
    return at;
}

/* Behind the last user message that is no result of a tool. */
static int end_of_question(const struct ids *ids)
{
    int end = 0;
    for (int at = find(ids, 0, "<|im_start|>user\n"); at >= 0; at = find(ids, at + 1, "<|im_start|>user\n"))
        if (find(ids, at, "<|im_start|>user\n<tool_response>") != at)
            end = find(ids, at, "<|im_end|>\n") + 2;
    assert_true(end > 2);
    return end;
}

static void begins_with(const struct ids *prompt, const struct ids *with, const char *whose)
{
    int same = 0;
    while (same < with->n && same < prompt->n && with->data[same] == prompt->data[same])
        same++;
    if (same < with->n)
        fail_msg("%s: of the %d tokens that were sent before, only the first %d are there again", whose, with->n, same);
}

/* Prompts that were sent since, while the path has `depth` user messages before the newest one.  A side request leaves the path as it is. */
static void check_prompts(int depth, bool aside)
{
    for (; w.checked < fake.n_submits; w.checked++) {
        const struct ids *p = &fake.prompts[w.checked];
        if (!w.head.n)
            ids_append(&w.head, p->data, find(p, 0, "<|im_start|>user\n"));
        begins_with(p, depth ? &w.upto[depth - 1] : &w.head, prompt(w.checked));
        assert_true(fake.snapshot_pos[w.checked] >= end_of_question(p));       /* the states there are kept */
        if (aside)
            continue;
        w.upto[depth].n = 0;
        ids_append(&w.upto[depth], p->data, end_of_question(p));
    }
    n_turns++;
}

/* Text that is read ahead is the beginning of the next prompt. */
static void check_ahead(int depth)
{
    begins_with(&fake.ahead, &w.upto[depth], "read ahead");
}

/* ---- turns ---- */

static void turn(int depth, const char *message)
{
    ask(&w.t, message);
    check_prompts(depth, false);
    check_ahead(depth);
}

static void edit(int depth, int message, const char *text)
{
    struct err e = {0};
    assert_true(chat_edit(w.t.c, message, &w.t.s.text, &e));
    turn(depth, text);
}

static void stopped_turn(int depth, const char *message)
{
    submit(&w.t, message);
    while (w.t.s.text.len < 2)
        step(&w.t);
    chat_interrupt(w.t.c);
    finish_turn(&w.t);
    check_prompts(depth, false);
}

static void aside(int depth)
{
    struct err e = {0};
    forget(&w.t.s);
    assert_true(chat_aside(w.t.c, "What was that?", &e));
    finish_turn(&w.t);
    check_prompts(depth, true);
}

static void compact(int depth)
{
    struct err e = {0};
    forget(&w.t.s);
    assert_true(chat_compact(w.t.c, "the numbers", &e));
    finish_turn(&w.t);
    check_prompts(depth, true);
    assert_true(chat_proposes(w.t.c, NULL));
    chat_decide(w.t.c, true);
}

/* ---- the conversation ---- */

static const struct chat_front front = {.can_ask = true, .keeps = true, .attaches = true, .reads_ahead = true, .tools = "all"};

static void open_conversation(void)
{
    memset(&w, 0, sizeof w);
    strcpy(w.folder, "/tmp/q35chat-test-XXXXXX");
    assert_non_null(mkdtemp(w.folder));
    snprintf(w.session, sizeof w.session, "%s/talk", w.folder);
    snprintf(w.file, sizeof w.file, "%s/notes.txt", w.folder);
    begin(&w.t);
    set(&w.t, OPT_system, "Be brief.");
    start_with(&w.t, &front);
    w.t.s.answer = CHAT_YES;
}

static void close_conversation(void)
{
    char beside[80];
    end(&w.t);
    ids_free(&w.head);
    for (int i = 0; i < MOST; i++)
        ids_free(&w.upto[i]);
    snprintf(beside, sizeof beside, "%s.checkpoint", w.session);
    unlink(beside);
    unlink(w.session);
    unlink(w.file);
    rmdir(w.folder);
}

static void test_prefix__turns_tools_files_and_side_requests_keep_it(void **state)
{
    (void)state;
    struct err e = {0};
    char message[128];
    open_conversation();
    fake_say("a\n</think>\n\nA1");
    fake_say("I calculate.\n</think>\n\n" CALL);
    fake_say("b\n</think>\n\nIt is 84.");
    fake_say("c\n</think>\n\nAside.");
    fake_say("d\n</think>\n\nA3");
    fake_say("A4, which will be cut off here");
    fake_say("e\n</think>\n\nA5");
    fake_say("f\n</think>\n\nA5 again");
    fake_say("g\n</think>\n\nA6");
    turn(0, "Q1");
    turn(1, "7 * 12?");
    aside(2);
    write_file(w.file, "first text\n");
    snprintf(message, sizeof message, "what is in @%s ?", w.file);
    turn(2, message);
    assert_non_null(strstr(prompt(4), "first text"));
    write_file(w.file, "the file is another one now\n");
    set(&w.t, OPT_think, "off");
    fake.answers[5].finish = END_STOP;
    fake.answers[5].hangs = true;
    stopped_turn(3, "Q4");
    set(&w.t, OPT_think, "on");
    assert_true(chat_rename(w.t.c, "another title", &e));
    turn(4, "Q5");
    assert_true(chat_regenerate(w.t.c, &e));
    finish_turn(&w.t);
    check_prompts(4, false);
    turn(5, "Q6");
    assert_int_equal(w.checked, 9);
    close_conversation();
}

static void test_prefix__an_edited_message_keeps_what_is_before_it(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf note = {0};
    open_conversation();
    for (int i = 0; i < 7; i++)
        fake_say("a\n</think>\n\nA");
    turn(0, "Q1");
    turn(1, "Q2");
    turn(2, "Q3");
    edit(1, 2, "Q2, otherwise");
    turn(2, "Q3, otherwise");
    struct ids other = w.upto[2];
    w.upto[2] = (struct ids){0};
    edit(0, 0, "Q1, otherwise");
    assert_true(chat_show_sibling(w.t.c, 0, 0, &e));    /* back to the path before: all of it is as it was */
    ids_free(&w.upto[2]);
    w.upto[2] = other;
    turn(3, "Q4");
    buf_free(&note);
    close_conversation();
}

static void test_prefix__a_summary_is_asked_behind_it_and_begins_a_new_one(void **state)
{
    (void)state;
    open_conversation();
    fake_say("a\n</think>\n\nA1");
    fake_say("b\n</think>\n\nA2");
    fake_say("We talked.");
    for (int i = 0; i < 3; i++)
        fake_say("c\n</think>\n\nA");
    turn(0, "Q1");
    turn(1, "Q2");
    compact(2);
    turn(0, "Q3");
    turn(1, "Q4");
    turn(2, "Q5");
    close_conversation();
}

/* The ids that were sampled come back from the file. */
static void test_prefix__a_loaded_conversation_keeps_it(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf note = {0};
    open_conversation();
    fake_say("I calculate.\n</think>\n\n" CALL);
    fake_say("b\n</think>\n\nIt is 84.");
    fake_say("c\n</think>\n\nA2");
    fake_say("d\n</think>\n\nA3");
    turn(0, "7 * 12?");
    turn(1, "Q2");
    assert_true(chat_save(w.t.c, w.session, &e));
    assert_true(chat_new(w.t.c, &e));
    if (!chat_load(w.t.c, w.session, &note, &e))
        fail_msg("%s", e.msg);
    turn(2, "Q3");
    buf_free(&note);
    close_conversation();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix__turns_tools_files_and_side_requests_keep_it),
        cmocka_unit_test(test_prefix__an_edited_message_keeps_what_is_before_it),
        cmocka_unit_test(test_prefix__a_summary_is_asked_behind_it_and_begins_a_new_one),
        cmocka_unit_test(test_prefix__a_loaded_conversation_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

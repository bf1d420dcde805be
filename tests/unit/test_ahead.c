/* Reading ahead while the user types changes no answer: chat and engine together, on the demo model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "chat/chat.h"
#include "chat/command.h"
#include "responder/local.h"
#include "chat/state.h"
#include "tests/tmpdir.h"

struct talk {
    struct options *o;
    struct chat *c;
    struct stats stats;            /* of the turn that ended last */
};

static void set(struct talk *t, enum option_id id, const char *text)
{
    struct err e = {0};
    assert_true(options_set(t->o, id, text, FROM_COMMAND_LINE, &e));
}

static bool kept;                       /* conversations go to disk */
static const char *snapshots;           /* NULL: automatic */

static void begin(struct talk *t, const char *temperature)
{
    const struct chat_front front = {.tools = "none", .inspects = true, .reads_ahead = true, .keeps = kept};
    struct err e = {0};
    *t = (struct talk){.o = options_open()};
    set(t, OPT_model, "assets/demo");
    set(t, OPT_ctx, "4096");
    set(t, OPT_chunk, "128");           /* else the machine's speed decides where chunks are cut, which bits may tell */
    set(t, OPT_think, "off");
    set(t, OPT_max_tokens, "16");
    set(t, OPT_temperature, temperature);
    set(t, OPT_seed, "7");
    if (snapshots)
        set(t, OPT_snapshots, snapshots);
    t->c = chat_open(local_open(t->o, &e), t->o, &front, &e);
    if (!t->c)
        fail_msg("%s", e.msg);
}

static void end(struct talk *t)
{
    chat_close(t->c);
    options_close(t->o);
}

static bool step(struct talk *t, int ms)
{
    int n;
    bool done = false;
    chat_wait(t->c, -1, ms);
    const struct chat_event *ev = chat_drain(t->c, &n);
    for (int i = 0; i < n; i++) {
        if (ev[i].kind == CHAT_FATAL)
            fail_msg("%s", ev[i].text);
        if (ev[i].kind == CHAT_DONE)
            t->stats = ev[i].stats;
        done = done || ev[i].kind == CHAT_DONE;
    }
    return done;
}

static void wait_ms(struct talk *t, int ms)
{
    for (int64_t start = clock_ns(); clock_ms_since(start) < ms;)
        step(t, 10);
}

static void ask(struct talk *t, const char *text)
{
    struct err e = {0};
    assert_true(chat_submit(t->c, text, strlen(text), &e));
    chat_draft(t->c, "", 0);
    while (!step(t, 1000))
        ;
}

/* Typed in pieces of `n` bytes, with a pause behind each. */
static void type(struct talk *t, const char *text, size_t n, int ms)
{
    for (size_t i = 0; i < strlen(text) + n; i += n) {
        chat_draft(t->c, text, i < strlen(text) ? i : strlen(text));
        wait_ms(t, ms);
    }
}

/* The ids that were sampled are told by their pieces and how likely they were. */
static void check_same(struct talk *a, struct talk *b, int message)
{
    int n = chat_n_tokens(a->c, message);
    assert_true(n > 5);
    assert_int_equal(chat_n_tokens(b->c, message), n);
    for (int i = 0; i < n; i++) {
        struct chat_token x, y;
        assert_true(chat_token(a->c, message, i, &x) && chat_token(b->c, message, i, &y));
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.text, y.text, x.n);
        assert_memory_equal(&x.prob, &y.prob, sizeof x.prob);
    }
}

static void make_long(struct buf *b, const char *words, int times)
{
    for (int i = 0; i < times; i++)
        buf_addf(b, "%s%s %d", i ? ", " : "", words, i);
}

static void test_ahead__an_answer_does_not_tell_what_was_read_while_it_was_typed(void **state)
{
    static const char *const temperatures[] = {"0", "1"};
    struct buf first = {0}, second = {0};
    int n_typed = 0, ms = 100;
    (void)state;
    make_long(&first, "Tell me about the number", 14);
    make_long(&second, "And now of the colour", 14);
    for (int i = 0; i < 2 || (!n_typed && ms < 20000); i++, ms *= 2) {         /* a busy machine may read nothing in that time */
        struct talk plain, ahead;
        begin(&plain, temperatures[i % 2]);
        set(&plain, OPT_read_ahead, "off");
        begin(&ahead, temperatures[i % 2]);
        while (!chat_ready(ahead.c))
            step(&ahead, 1000);
        type(&ahead, second.data, 200, ms);    /* which is not sent */
        type(&ahead, first.data, 97, ms);
        ask(&ahead, first.data);
        n_typed += ahead.stats.n_typed;
        assert_true(ahead.stats.n_typed <= ahead.stats.n_ahead && ahead.stats.n_ahead <= ahead.stats.n_cached);
        ask(&plain, first.data);
        assert_int_equal(plain.stats.n_typed, 0);
        check_same(&ahead, &plain, 1);
        type(&ahead, second.data, 150, ms);
        ask(&ahead, second.data);
        n_typed += ahead.stats.n_typed;
        ask(&plain, second.data);
        check_same(&ahead, &plain, 3);
        end(&ahead);
        end(&plain);
    }
    assert_true(n_typed > 0);
    buf_free(&first);
    buf_free(&second);
}

static void test_ahead__stats_tell_what_was_read_while_it_was_typed(void **state)
{
    struct talk t;
    struct buf text = {0}, told = {0};
    const char *message;
    char line[80];
    (void)state;
    begin(&t, "0");
    while (!chat_ready(t.c))
        step(&t, 1000);
    for (int i = 0; i < 100 && !t.stats.n_typed; i++) {         /* a machine may be too busy to read anything in time */
        struct err e = {0};
        assert_true(chat_new(t.c, &e));
        snprintf(line, sizeof line, "This is question %d: tell me about the number", i);        /* what was read before is not read again */
        buf_reset(&text);
        make_long(&text, line, 14);
        chat_draft(t.c, text.data, text.len);
        wait_ms(&t, 200 + 20 * i);
        ask(&t, text.data);
    }
    assert_true(t.stats.n_typed > 0);
    command_run(t.c, t.o, "/stats", &message, &told);
    snprintf(line, sizeof line, "%d tokens were read while you typed\n", t.stats.n_typed);
    assert_non_null(strstr(told.data, line));
    buf_free(&text);
    buf_free(&told);
    end(&t);
}

static int computed(const struct talk *t)
{
    return t->stats.n_prompt - t->stats.n_cached;
}

/* The demo model is asked for a title: one ends by itself, one is ended by the next message. */
static void test_ahead__a_title_in_idle_time_costs_the_next_turn_nothing(void **state)
{
    struct talk plain, titled, ended;
    struct buf knows = {0};
    struct tmpdir dir;
    char command[128];
    (void)state;
    assert_true(tmpdir_make(&dir));
    setenv("XDG_STATE_HOME", dir.path, 1);
    make_long(&knows, "You know the number", 40);
    struct talk *const all[] = {&plain, &titled, &ended};
    kept = true;
    snapshots = "2";                    /* one in the wrong place would cost the one that the next turn needs */
    for (int i = 0; i < 3; i++) {
        begin(all[i], "0");
        set(all[i], OPT_auto_title, i ? "on" : "off");
        set(all[i], OPT_system, knows.data);
        set(all[i], OPT_think, "on");
        set(all[i], OPT_max_tokens, "400");
        ask(all[i], "Hello");
        for (int64_t start = clock_ns(); clock_ms_since(start) < 60000 && i && !all[i]->c->title.tries;) {
            all[i]->c->title.quiet_ns = 0;
            step(all[i], 10);
        }
        while (all[i] == &titled && titled.c->title.under_way)
            step(&titled, 10);
        if (all[i] != &ended)
            wait_ms(all[i], 500);       /* for what is read ahead */
        assert_int_equal(all[i]->c->title.tries > 0, i > 0);
        ask(all[i], "And now?");
        check_same(all[i], &plain, 3);
    }
    assert_true(computed(&titled) <= computed(&plain));
    assert_true(computed(&titled) < 64 + 40);                   /* what does not fill a block, and the message */
    for (int i = 0; i < 3; i++)
        end(all[i]);
    kept = false;
    snapshots = NULL;
    snprintf(command, sizeof command, "rm -rf '%s'", dir.path);
    assert_int_equal(system(command), 0);
    buf_free(&knows);
}

static int find_demo(void **state)
{
    (void)state;
    FILE *f = fopen("assets/demo/config.json", "r");
    if (f)
        fclose(f);
    else
        print_message("skip: assets/demo is not there\n");
    return f ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ahead__an_answer_does_not_tell_what_was_read_while_it_was_typed),
        cmocka_unit_test(test_ahead__a_title_in_idle_time_costs_the_next_turn_nothing),
        cmocka_unit_test(test_ahead__stats_tell_what_was_read_while_it_was_typed),
    };
    return cmocka_run_group_tests(tests, find_demo, NULL);
}

/* Tokens, branches, answers that go on, reasoning that ends: chat and engine together, on the demo model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "responder/local.h"
#include "tests/emulated.h"
#include "tests/tmpdir.h"

/* An answer may be over before a busy machine lets the test look at it: then the test asks again, this often. */
enum { TRIES = 200 };

/* Distance between the places of an answer that are tried; 3 under a sanitizer. */
enum { STRIDE = SANITIZED ? 3 : 1 };

static struct options *o;
static struct chat *c;

/* Events of one turn. */
static struct seen {
    struct buf reasoning, text;         /* all of it, replayed or not */
    size_t replayed;
    int    n_done, n_prefill;
    struct chat_event last;
} seen;

static void set(enum option_id id, const char *text)
{
    struct err e = {0};
    if (!options_set(o, id, text, FROM_COMMAND_LINE, &e))
        fail_msg("%s", e.msg);
}

static void set_int(enum option_id id, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set(id, text);
}

static void forget(void)
{
    buf_free(&seen.reasoning);
    buf_free(&seen.text);
    seen = (struct seen){0};
}

static void see(const struct chat_event *ev)
{
    switch (ev->kind) {
    case CHAT_REASONING: buf_add(&seen.reasoning, ev->text, ev->n); break;
    case CHAT_TEXT:      buf_add(&seen.text, ev->text, ev->n); break;
    case CHAT_PREFILL:   seen.n_prefill++; break;
    case CHAT_DONE:      seen.n_done++; seen.last = *ev; break;
    case CHAT_FATAL:     fail_msg("%s", ev->text); break;
    default:             break;
    }
    if (ev->replayed)
        seen.replayed += ev->n;
}

static void step(void)
{
    int n;
    chat_wait(c, -1, 5000);
    const struct chat_event *ev = chat_drain(c, &n);
    for (int i = 0; i < n; i++)
        see(&ev[i]);
}

/* Runs the turn to its end, and checks that nothing comes after that. */
static void finish_turn(void)
{
    while (!seen.n_done)
        step();
    int n;
    chat_wait(c, -1, 0);
    const struct chat_event *ev = chat_drain(c, &n);
    for (int i = 0; i < n; i++)
        see(&ev[i]);
    assert_int_equal(seen.n_done, 1);
    assert_false(chat_busy(c));
}

static void submit(const char *text)
{
    struct err e = {0};
    forget();
    if (!chat_submit(c, text, strlen(text), &e))
        fail_msg("%s", e.msg);
}

static void ask_anew(const char *text)
{
    struct err e = {0};
    assert_true(chat_new(c, &e));
    submit(text);
    finish_turn();
}

static void go_on(void)
{
    struct err e = {0};
    forget();
    if (!chat_continue(c, &e))
        fail_msg("%s", e.msg);
    finish_turn();
}

/* An answer, for later. */
struct kept {
    char reasoning[4096], text[4096];
    int  n;
};

static struct kept keep(int i)
{
    struct kept k = {.n = chat_n_tokens(c, i)};
    struct chat_message m = chat_message(c, i);
    snprintf(k.reasoning, sizeof k.reasoning, "%s", m.reasoning);
    snprintf(k.text, sizeof k.text, "%s", m.text);
    return k;
}

static struct chat_token token(int i, int k)
{
    struct chat_token t;
    assert_true(chat_token(c, i, k, &t));
    return t;
}

static int count(int i, enum token_source source, bool reasoning_only)
{
    int n = 0;
    for (int k = 0; k < chat_n_tokens(c, i); k++)
        n += token(i, k).source == source && (!reasoning_only || token(i, k).reasoning);
    return n;
}

static const char *const questions[] = {"What is 17 + 25?", "Write a JSON object with name and age.", "Tell me about yourself."};
static const struct { const char *temperature, *seed; } ways[] = {{"0", "1"}, {"1", "12"}};      /* presence penalty 1.5 with the latter */

static void defaults(void)
{
    set(OPT_max_tokens, "0");
    set(OPT_think_budget, "0");
    set(OPT_temperature, "0");
    set(OPT_think, "on");
    set(OPT_seed, "1");
}

/* Every byte of both texts belongs to the token that stands there. */
static void check_places(int i)
{
    struct chat_message m = i < 0 ? (struct chat_message){0} : chat_message(c, i);
    size_t at[2] = {0}, held[2] = {strlen(m.reasoning), strlen(m.text)};
    bool content = false;
    for (int k = 0; k < chat_n_tokens(c, i); k++) {
        struct chat_token t = token(i, k), next;
        const char *text = t.reasoning ? m.reasoning : m.text;
        content |= !t.reasoning;
        assert_false(t.reasoning && content);
        assert_true(t.at >= at[!t.reasoning] && t.at <= held[!t.reasoning]);
        size_t end = chat_token(c, i, k + 1, &next) && next.reasoning == t.reasoning ? next.at : held[!t.reasoning];
        assert_true(end - t.at <= t.n);
        char shown[256];
        snprintf(shown, sizeof shown, "%.*s", (int)(end - t.at), text + t.at);
        assert_true(!*shown || memmem(t.text, t.n, shown, strlen(shown)) != NULL);
        at[!t.reasoning] = t.at;
    }
}

static void test_steer__tokens_say_where_they_stand_and_what_else_was_likely(void **state)
{
    (void)state;
    defaults();
    for (size_t q = 0; q < 3; q++)
        for (int w = 0; w < 2; w++) {
            set(OPT_temperature, ways[w].temperature);
            ask_anew(questions[q]);
            assert_int_equal(seen.last.end, END_STOP);
            assert_int_equal(chat_n_tokens(c, 0), 0);
            assert_int_equal(chat_n_tokens(c, -1), 0);
            assert_int_equal(chat_n_tokens(c, 1), seen.last.stats.n_tokens);
            check_places(1);
            for (int k = 0; k < chat_n_tokens(c, 1); k++) {
                struct chat_token t = token(1, k);
                float sum = 0, own = -1;
                assert_int_equal(t.n_alternatives, LIMIT_ALTERNATIVES);
                for (int a = 0; a < t.n_alternatives; a++) {
                    sum += t.alternatives[a].prob;
                    assert_true(!a || t.alternatives[a].prob <= t.alternatives[a - 1].prob);
                    if (t.alternatives[a].n == t.n && !memcmp(t.alternatives[a].text, t.text, t.n))
                        own = t.alternatives[a].prob;
                }
                assert_true(sum > 0.3f && sum < 1.0001f);
                assert_true(own < 0 || own == t.prob);
            }
            struct chat_token out;
            assert_false(chat_token(c, 1, -1, &out));
            assert_false(chat_token(c, 1, chat_n_tokens(c, 1), &out));
        }
}

static void test_steer__an_answer_under_way_has_tokens_too(void **state)
{
    (void)state;
    struct err e = {0};
    int most = 0;
    defaults();
    for (int tries = 0; most <= 3 && tries < TRIES; tries++) {
        assert_true(chat_new(c, &e));
        submit(questions[2]);
        while (!seen.n_done) {
            step();
            int n = chat_n_tokens(c, -1);
            most = n > most ? n : most;
            for (int k = 0; k < n; k++) {
                struct chat_token t = token(-1, k);
                assert_true(t.at <= (t.reasoning ? seen.reasoning.len : seen.text.len));
            }
        }
    }
    assert_true(most > 3);
}

/* T10. */
static void test_steer__a_continued_answer_equals_one_that_was_never_stopped(void **state)
{
    (void)state;
    defaults();
    for (size_t q = 0; q < 3; q++)
        for (int w = 0; w < 2; w++) {
            set(OPT_temperature, ways[w].temperature);
            set(OPT_seed, ways[w].seed);
            ask_anew(questions[q]);
            const struct kept whole = keep(1);
            const int n_prompt = seen.last.stats.n_prompt;
            for (int cut = 1; cut < whole.n; cut += STRIDE * (q == 1 ? 1 + 2 * w : 13)) {          /* at any token of one, here and there in others */
                int which, middle = (cut + whole.n) / 2;
                set_int(OPT_max_tokens, cut);
                ask_anew(questions[q]);
                assert_int_equal(seen.last.end, END_LENGTH);
                set_int(OPT_max_tokens, middle - cut);          /* twice, if there is room */
                if (middle > cut && middle < whole.n) {
                    go_on();
                    assert_int_equal(seen.last.end, END_LENGTH);
                    assert_int_equal(chat_n_tokens(c, 1), middle);
                } else {
                    middle = cut;
                }
                if (chat_n_messages(c) == 1)    /* nothing of it can be shown: the message was taken back, or white space is all */
                    continue;
                assert_true(chat_message(c, 1).stopped);
                set(OPT_max_tokens, "0");
                set(OPT_seed, "987654");          /* it has its own */
                go_on();
                set(OPT_seed, ways[w].seed);
                assert_int_equal(seen.last.end, END_STOP);
                assert_string_equal(chat_message(c, 1).reasoning, whole.reasoning);
                assert_string_equal(chat_message(c, 1).text, whole.text);
                assert_string_equal(buf_str(&seen.text), whole.text);
                assert_int_equal(chat_n_tokens(c, 1), whole.n);
                assert_int_equal(chat_n_messages(c), 2);
                assert_int_equal(chat_siblings(c, 1, &which), 1);
                assert_false(chat_message(c, 1).stopped);
                assert_int_equal(seen.last.stats.n_tokens, whole.n - middle);           /* those that this turn made */
                assert_int_equal(seen.last.stats.n_prompt, n_prompt + middle);
                assert_int_equal(seen.last.stats.n_cached, n_prompt + middle - 1);
                assert_int_equal(count(1, TOKEN_FORCED, false), 0);
                check_places(1);
            }
        }
}

static void test_steer__an_interrupted_answer_continues_where_it_was_left(void **state)
{
    (void)state;
    struct err e = {0};
    defaults();
    ask_anew(questions[1]);
    const struct kept whole = keep(1);
    for (int wait = 1; wait < 8; wait++) {
        assert_true(chat_new(c, &e));
        submit(questions[1]);
        for (int i = 0; i < wait && !seen.n_done; i++)
            step();
        chat_interrupt(c);
        finish_turn();
        while (chat_n_messages(c) && chat_message(c, 1).stopped)
            go_on();
        if (!chat_n_messages(c))
            continue;
        assert_string_equal(chat_message(c, 1).reasoning, whole.reasoning);
        assert_string_equal(chat_message(c, 1).text, whole.text);
    }
}

/* A loaded answer has its tokens but no alternatives; it continues all the same. */
static void test_steer__a_loaded_answer_continues_too(void **state)
{
    (void)state;
    struct tmpdir d;
    struct err e = {0};
    struct buf note = {0};
    char path[128];
    defaults();
    assert_true(tmpdir_make(&d));
    snprintf(path, sizeof path, "%s/a", d.path);
    ask_anew(questions[0]);
    const struct kept whole = keep(1);
    for (int cut = 3; cut < whole.n; cut += 12) {
        set_int(OPT_max_tokens, cut);
        ask_anew(questions[0]);
        tmpdir_drop(&d, "a");
        assert_true(chat_save(c, path, &e));
        assert_true(chat_new(c, &e));
        if (!chat_load(c, path, &note, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(chat_n_tokens(c, 1), cut);
        check_places(1);
        for (int k = 0; k < cut; k++) {
            assert_true(token(1, k).prob < 0);
            assert_int_equal(token(1, k).n_alternatives, 0);
        }
        assert_false(chat_branch_token(c, 1, 0, 0, &e));
        assert_non_null(strstr(e.msg, "no longer known"));
        set(OPT_max_tokens, "0");
        go_on();
        assert_string_equal(chat_message(c, 1).reasoning, whole.reasoning);
        assert_string_equal(chat_message(c, 1).text, whole.text);
        check_places(1);
        assert_true(chat_new(c, &e));
        assert_true(chat_load(c, path, &note, &e));     /* one message, on disk as well */
        assert_int_equal(chat_n_messages(c), 2);
        assert_int_equal(chat_siblings(c, 1, NULL), 1);
        assert_string_equal(chat_message(c, 1).text, whole.text);
        assert_true(chat_new(c, &e));
    }
    tmpdir_drop(&d, "a");
    tmpdir_remove(&d);
    buf_free(&note);
}

static void test_steer__an_answer_that_was_not_stopped_is_not_continued(void **state)
{
    (void)state;
    struct err e = {0};
    defaults();
    assert_true(chat_new(c, &e));
    assert_false(chat_continue(c, &e));
    assert_false(chat_branch_token(c, 0, 0, 0, &e));
    assert_false(chat_branch_token(c, 1, 0, 0, &e));
    ask_anew(questions[0]);
    assert_false(chat_continue(c, &e));
    assert_non_null(strstr(e.msg, "was not stopped"));
    assert_false(chat_branch_token(c, 0, 0, 0, &e));
    assert_false(chat_branch_token(c, 1, 0, LIMIT_ALTERNATIVES, &e));
    assert_false(chat_branch_token(c, 1, chat_n_tokens(c, 1), 0, &e));
    assert_false(chat_branch_token(c, 1, -1, 0, &e));
    assert_false(chat_answer_now(c));
}

static void branch(int i, int k, int alternative)
{
    struct err e = {0};
    forget();
    if (!chat_branch_token(c, i, k, alternative, &e))
        fail_msg("%s", e.msg);
    finish_turn();
}

static void test_steer__any_alternative_of_any_token_begins_another_answer(void **state)
{
    (void)state;
    struct err e = {0};
    defaults();
    set(OPT_max_tokens, "40");
    ask_anew(questions[1]);
    const struct kept first = keep(1);
    const int n_prompt = seen.last.stats.n_prompt;
    for (int k = 0; k < first.n; k += STRIDE)
        for (int a = k % 4; a < 4; a += 4) {
            int which, n = chat_siblings(c, 1, &which);
            assert_true(chat_show_sibling(c, 1, 0, &e));
            struct chat_token before = token(1, k);
            const bool same = before.alternatives[a].n == before.n && !memcmp(before.alternatives[a].text, before.text, before.n);
            char want[64];
            snprintf(want, sizeof want, "%.*s", (int)before.alternatives[a].n, before.alternatives[a].text);
            branch(1, k, a);
            assert_int_equal(chat_n_messages(c), 2);
            if (chat_siblings(c, 1, &which) == n) {             /* one whose whole text is markup */
                assert_string_equal(chat_message(c, 1).text, first.text);
                continue;
            }
            assert_int_equal(which, n);
            assert_true(chat_n_tokens(c, 1) > k);
            struct chat_token t = token(1, k);
            assert_int_equal(t.source, TOKEN_FORCED);
            assert_int_equal(t.n_alternatives, LIMIT_ALTERNATIVES);
            assert_true(t.prob == t.alternatives[a].prob);
            assert_true(t.n == strlen(want) && !memcmp(t.text, want, t.n));
            assert_int_equal(count(1, TOKEN_FORCED, false), 1);
            assert_int_equal(seen.last.stats.n_tokens, chat_n_tokens(c, 1) - k - 1);
            assert_true(seen.last.end != END_STOP || seen.last.stats.n_prompt == n_prompt + k + 1 || !seen.last.stats.n_prompt);
            if (same)
                assert_string_equal(chat_message(c, 1).text, first.text);
            check_places(1);
            assert_true(chat_show_sibling(c, 1, 0, &e));        /* the first one is as it was */
            assert_string_equal(chat_message(c, 1).text, first.text);
            assert_int_equal(chat_n_tokens(c, 1), first.n);
        }
}

static void test_steer__a_branch_in_the_middle_of_a_conversation_leaves_the_rest_beside(void **state)
{
    (void)state;
    struct err e = {0};
    int which;
    defaults();
    ask_anew(questions[0]);
    submit(questions[1]);
    finish_turn();
    assert_int_equal(chat_n_messages(c), 4);
    branch(1, 2, 1);
    assert_int_equal(chat_n_messages(c), 2);
    assert_true(chat_show_sibling(c, 1, 0, &e));
    assert_int_equal(chat_n_messages(c), 4);
    assert_int_equal(chat_siblings(c, 1, &which), 2);
}

/* Exactly so many tokens of reasoning, then the answer; one end. */
static void test_steer__a_budget_ends_the_reasoning_at_any_token(void **state)
{
    (void)state;
    defaults();
    for (int w = 0; w < 2; w++) {
        set(OPT_temperature, ways[w].temperature);
        set(OPT_think_budget, "0");
        ask_anew(questions[1]);
        int thoughts = count(1, TOKEN_SAMPLED, true) + count(1, TOKEN_MTP, true) - 1;         /* but </think> */
        const struct kept whole = keep(1);
        const int n_prompt = seen.last.stats.n_prompt;
        assert_true(thoughts > 5);
        for (int budget = 1; budget <= thoughts + 2; budget += STRIDE * (1 + 3 * w)) {
            set_int(OPT_think_budget, budget);
            ask_anew(questions[1]);
            int forced = count(1, TOKEN_FORCED, false);
            struct stats s = seen.last.stats;
            assert_int_equal(seen.last.end, END_STOP);
            assert_int_equal(s.n_tokens, chat_n_tokens(c, 1) - forced);
            assert_int_equal(s.n_rounds, 1);
            assert_int_equal(s.n_prompt, n_prompt);
            assert_true(strlen(chat_message(c, 1).text) > 0);
            assert_string_equal(chat_message(c, 1).text, buf_str(&seen.text));
            assert_string_equal(chat_message(c, 1).reasoning, buf_str(&seen.reasoning));
            assert_int_equal(seen.replayed, 0);
            if (budget <= thoughts) {
                assert_true(forced >= 2 && forced <= 3);
                assert_int_equal(count(1, TOKEN_SAMPLED, true) + count(1, TOKEN_MTP, true), budget);
                assert_true(!strncmp(whole.reasoning, chat_message(c, 1).reasoning, strlen(chat_message(c, 1).reasoning)));
            } else {
                assert_int_equal(forced, 0);
                assert_string_equal(chat_message(c, 1).reasoning, whole.reasoning);
                assert_string_equal(chat_message(c, 1).text, whole.text);
            }
            check_places(1);
        }
    }
}

static void test_steer__a_budget_and_a_limit_both_hold(void **state)
{
    (void)state;
    defaults();
    for (int limit = 1; limit < 12; limit++) {
        set(OPT_think_budget, "5");
        set_int(OPT_max_tokens, limit);
        ask_anew(questions[1]);
        assert_int_equal(seen.last.end, END_LENGTH);
        assert_int_equal(seen.last.stats.n_tokens, limit);
        set(OPT_max_tokens, "0");
        go_on();
        assert_int_equal(seen.last.end, END_STOP);
        assert_int_equal(count(1, TOKEN_SAMPLED, true) + count(1, TOKEN_MTP, true), 5);
    }
}

/* The rest is what the model says anyway: the beginning of its own answer changes nothing. */
static void test_steer__an_answer_begins_as_told(void **state)
{
    (void)state;
    struct buf whole = {0}, text = {0};
    defaults();
    set(OPT_think, "off");
    ask_anew(questions[1]);
    buf_adds(&whole, chat_message(c, 1).text);
    for (int k = 1; k < chat_n_tokens(c, 1) && k < 8; k++) {
        struct chat_token t;
        assert_true(chat_token(c, 1, k, &t));
        buf_reset(&text);
        buf_add(&text, whole.data, t.at);
        set(OPT_begin, buf_str(&text));
        set(OPT_think, "on");           /* there is no room for it */
        ask_anew(questions[1]);
        assert_int_equal(seen.last.end, END_STOP);
        assert_string_equal(chat_message(c, 1).text, whole.data);
        assert_string_equal(buf_str(&seen.text), whole.data);
        assert_int_equal(seen.replayed, 0);             /* nobody has seen it before */
        assert_int_equal(count(1, TOKEN_FORCED, false), k);
        assert_int_equal(seen.reasoning.len, 0);
    }
    set(OPT_begin, "Forty-two, for");
    ask_anew(questions[1]);
    assert_memory_equal(chat_message(c, 1).text, "Forty-two, for", 14);
    set(OPT_begin, " Forty-two, \n");   /* blanks around it do not count */
    ask_anew(questions[1]);
    assert_memory_equal(chat_message(c, 1).text, "Forty-two,", 10);
    set(OPT_begin, " \n");
    set(OPT_think, "off");
    ask_anew(questions[1]);
    assert_string_equal(chat_message(c, 1).text, whole.data);
    set(OPT_begin, "");
    buf_free(&whole);
    buf_free(&text);
}

static void test_steer__the_answer_comes_now(void **state)
{
    (void)state;
    struct err e = {0};
    int n_now = 0;
    defaults();
    for (int tries = 0; tries < 9 || (n_now <= 3 && tries < TRIES); tries++) {
        assert_true(chat_new(c, &e));
        submit(questions[1]);
        for (int i = 0; i < tries % 9 && !seen.n_done; i++)
            step();
        bool now = chat_answer_now(c);
        if (now)
            assert_true(chat_answer_now(c));    /* pressed twice */
        finish_turn();
        assert_int_equal(seen.last.end, END_STOP);
        assert_true(seen.text.len > 0);
        assert_int_equal(seen.last.stats.n_tokens, chat_n_tokens(c, 1) - count(1, TOKEN_FORCED, false));
        assert_string_equal(chat_message(c, 1).reasoning, buf_str(&seen.reasoning));
        n_now += count(1, TOKEN_FORCED, false) > 0;
        check_places(1);
    }
    assert_true(n_now > 3);
}

static void test_steer__an_interrupt_wins_over_an_answer_now(void **state)
{
    (void)state;
    struct err e = {0};
    int n_both = 0;
    defaults();
    for (int wait = 0; wait < 8; wait++) {
        bool interrupted = false;
        for (int tries = 0; !interrupted && tries < TRIES; tries++) {           /* from the second on sooner */
            assert_true(chat_new(c, &e));
            submit(questions[1]);
            for (int i = 0; i < wait >> tries % 8 && !seen.n_done; i++)
                step();
            const bool now = chat_answer_now(c);
            chat_interrupt(c);
            finish_turn();
            interrupted = seen.last.end == END_INTERRUPTED;
            n_both += interrupted && now;
        }
        assert_true(interrupted);
    }
    assert_true(n_both > 0);
}

static int open_chat(void **state)
{
    static const struct chat_front front = {.tools = "none", .inspects = true};
    struct err e = {0};
    (void)state;
    o = options_open();
    set(OPT_model, "assets/demo");
    set(OPT_ctx, "4096");
    set(OPT_threads, "1");
    c = chat_open(local_open(o, &e), o, &front, &e);
    if (!c)
        fail_msg("%s", e.msg);
    return 0;
}

static int close_chat(void **state)
{
    (void)state;
    forget();
    chat_close(c);
    options_close(o);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steer__tokens_say_where_they_stand_and_what_else_was_likely),
        cmocka_unit_test(test_steer__an_answer_under_way_has_tokens_too),
        cmocka_unit_test(test_steer__a_continued_answer_equals_one_that_was_never_stopped),
        cmocka_unit_test(test_steer__an_interrupted_answer_continues_where_it_was_left),
        cmocka_unit_test(test_steer__a_loaded_answer_continues_too),
        cmocka_unit_test(test_steer__an_answer_that_was_not_stopped_is_not_continued),
        cmocka_unit_test(test_steer__any_alternative_of_any_token_begins_another_answer),
        cmocka_unit_test(test_steer__a_branch_in_the_middle_of_a_conversation_leaves_the_rest_beside),
        cmocka_unit_test(test_steer__a_budget_ends_the_reasoning_at_any_token),
        cmocka_unit_test(test_steer__a_budget_and_a_limit_both_hold),
        cmocka_unit_test(test_steer__an_answer_begins_as_told),
        cmocka_unit_test(test_steer__the_answer_comes_now),
        cmocka_unit_test(test_steer__an_interrupt_wins_over_an_answer_now),
    };
    return cmocka_run_group_tests(tests, open_chat, close_chat);
}

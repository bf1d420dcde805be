/* The guard against loops: what it takes for one, what it must not, and what becomes of such an answer. */
#include <glob.h>
#include <string.h>

#include "chat/answer.h"
#include "base/file.h"
#include "talk.h"

/* True if the guard ends this text, at any of its tokens; `at`: behind how many. */
static bool ends(const char *text, size_t n, int *at)
{
    struct ids all = {0}, so_far = {0};
    static struct loop l;
    bool found = false;
    l = (struct loop){0};
    tokenizer_encode(fake.tok, text, n, false, &all);
    for (int i = 0; i < all.n && !found; i++) {
        ids_add(&so_far, all.data[i]);
        found = loop_push(&l, &so_far);
    }
    *at = so_far.n;
    ids_free(&all);
    ids_free(&so_far);
    return found;
}

static int tokens_of(const char *text)
{
    struct ids ids = {0};
    tokenizer_encode(fake.tok, text, strlen(text), false, &ids);
    int n = ids.n;
    ids_free(&ids);
    return n;
}

static void add_times(struct buf *b, const char *text, int times)
{
    while (times--)
        buf_adds(b, text);
}

static void test_loop__a_span_many_times_in_a_row_is_one(void **state)
{
    static const char *const spans[] = {
        "ha", "I am sorry. ", "Let me check that again, because I may have made a mistake. ",
        "Wait. If x is 3, then y is 7, and so the sum is 10.\nBut the task says 12, so x cannot be 3.\nLet me start over.\n\n",
    };
    (void)state;
    fake_reset();
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        struct buf text = {0};
        int at, before;
        buf_adds(&text, "First something else, which does not come again: 1, 2, 3. ");
        before = tokens_of(text.data);
        add_times(&text, spans[i], 2000);
        assert_true(ends(text.data, text.len, &at));
        int span = tokens_of(spans[i]), most = LOOP_TOKENS > LOOP_TIMES * span ? LOOP_TOKENS : LOOP_TIMES * span;
        assert_true(at >= before + LOOP_TOKENS - 2 * span && at <= before + most + 2 * span);
        buf_free(&text);
    }
}

/* One token that differs makes it another text. */
static void test_loop__what_counts_or_varies_is_none(void **state)
{
    struct buf text = {0};
    int at;
    (void)state;
    fake_reset();
    for (int i = 1; i <= 2000; i++)                     /* a sequence */
        buf_addf(&text, "%d, ", i);
    for (int i = 0; i < 300; i++)                       /* a table */
        buf_addf(&text, "\n| item %d | yes | yes | yes | %d |", i, i * i % 97);
    for (int i = 0; i < 99; i++)                        /* a song: the refrain is the same, what stands between is not */
        buf_addf(&text, "%d green bottles hanging on the wall,\nand if one green bottle should accidentally fall,\n\n", 99 - i);
    for (int i = 0; i < 400; i++)                       /* a list of the same words with names */
        buf_addf(&text, "- [ ] check file_%03d.c and commit it\n", i);
    for (int i = 0; i < 400; i++)                       /* code */
        buf_addf(&text, "    case %d:\n        break;\n", i);
    assert_false(ends(text.data, text.len, &at));
    buf_free(&text);
}

static void test_loop__short_repetitions_are_none(void **state)
{
    static const struct { const char *span; int times; } all[] = {
        {"| --- ", 40}, {"=", 120}, {"0, 0, 0, 0, 0, 0, 0, 0,\n", 16}, {"yeah, ", 60}, {"\n", 100}, {"        ", 40}, {"        break;\n    }\n", 20},
        {"Row, row, row your boat,\nGently down the stream.\nMerrily, merrily, merrily, merrily,\nLife is but a dream.\n\n", 5},
    };
    struct buf text = {0};
    int at;
    (void)state;
    fake_reset();
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            add_times(&text, all[i].span, all[i].times);
            buf_addf(&text, "\nand then, in round %d, number %zu:\n", round, i);
        }
    assert_false(ends(text.data, text.len, &at));
    buf_free(&text);
}

/* Prose, tables, C, CUDA, and shell scripts of this repository. */
static void test_loop__no_file_of_this_repository_is_one(void **state)
{
    static const char *const all[] = {
        "*.md", "docs/*.md", "docs/*.1", "config/*.def", "src/*/*.c", "ui/tui/*.c", "kernels/cuda/*", "tests/pty/*.sh",
    };
    enum { LONGEST = 60000 };
    int n = 0, at;
    (void)state;
    fake_reset();
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        glob_t g;
        if (glob(all[k], 0, NULL, &g))
            continue;
        for (size_t i = 0; i < g.gl_pathc; i++) {
            struct buf text = {0};
            struct err e = {0};
            if (file_read(&text, g.gl_pathv[i], 1 << 20, &e) && text.len) {
                if (ends(text.data, text.len < LONGEST ? text.len : LONGEST, &at))
                    fail_msg("%s, token %d", g.gl_pathv[i], at);
                n++;
            }
            buf_free(&text);
        }
        globfree(&g);
    }
    assert_true(n > 100);
}

/* --- what becomes of such an answer -------------------------------------------------------------------------------- */

static struct buf looping;

static void begin_looping(struct talk *t)
{
    begin(t);
    set(t, OPT_think, "off");
    buf_reset(&looping);
    buf_adds(&looping, "It goes on and on: ");
    add_times(&looping, "on and on ", 300);
}

static void test_loop__such_an_answer_is_stopped_with_a_note_and_can_be_continued(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    begin_looping(&t);
    fake_say(looping.data);
    fake_say("on and on, the end.");
    start(&t);
    ask(&t, "go");
    assert_int_equal(t.s.last.end, END_LOOP);
    assert_non_null(strstr(t.s.why, "it said the same 10 tokens 10"));
    assert_int_equal(fake.n_interrupts, 1);
    assert_true(t.s.text.len >= LOOP_TOKENS && t.s.text.len <= LOOP_TOKENS + 60);
    assert_true(chat_message(t.c, 1).stopped);
    assert_int_equal(chat_rest(t.c), CHAT_STOPPED);
    forget(&t.s);
    assert_true(chat_continue(t.c, &e));
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_STOP);
    assert_int_equal(fake.n_interrupts, 1);
    assert_non_null(strstr(chat_message(t.c, 1).text, "on and on, the end."));
    end(&t);
}

static void test_loop__the_guard_can_be_off(void **state)
{
    struct talk t;
    (void)state;
    begin_looping(&t);
    set(&t, OPT_loop_guard, "off");
    fake_say(looping.data);
    start(&t);
    ask(&t, "go");
    assert_int_equal(t.s.last.end, END_STOP);
    assert_int_equal(t.s.text.len, looping.len - 1);    /* the blank at its end is none of the answer */
    end(&t);
}

static void test_loop__in_a_thought_it_is_one_too(void **state)
{
    struct talk t;
    (void)state;
    begin_looping(&t);
    set(&t, OPT_think, "on");
    fake_say(looping.data);
    start(&t);
    ask(&t, "go");
    assert_int_equal(t.s.last.end, END_LOOP);
    assert_true(t.s.reasoning.len > LOOP_TOKENS - 60);
    assert_int_equal(t.s.text.len, 0);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop__a_span_many_times_in_a_row_is_one),
        cmocka_unit_test(test_loop__what_counts_or_varies_is_none),
        cmocka_unit_test(test_loop__short_repetitions_are_none),
        cmocka_unit_test(test_loop__no_file_of_this_repository_is_one),
        cmocka_unit_test(test_loop__such_an_answer_is_stopped_with_a_note_and_can_be_continued),
        cmocka_unit_test(test_loop__the_guard_can_be_off),
        cmocka_unit_test(test_loop__in_a_thought_it_is_one_too),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&looping);
    talk_free();
    return failed;
}

#include <math.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "talk.h"

static void test_chat__a_message_sent_while_loading_is_answered_when_the_model_is_there(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake.not_ready = true;
    fake_say("I think.\n</think>\n\nHello.");
    start(&t);
    submit(&t, "Hi");
    for (int i = 0; i < 20 && !chat_ready(t.c); i++) {
        int n;
        chat_wait(t.c, -1, 50);
        chat_drain(t.c, &n);
    }
    assert_true(chat_busy(t.c));
    assert_int_equal(fake.n_submits, 0);
    fake_ready();
    finish_turn(&t);
    assert_string_equal(prompt(0), USER("Hi") THINK);
    assert_string_equal(t.s.reasoning.data, "I think.");
    assert_string_equal(t.s.text.data, "Hello.");
    assert_int_equal(t.s.last.end, END_STOP);
    end(&t);
}

static void test_chat__the_answer_does_not_depend_on_how_tokens_are_batched(void **state)
{
    (void)state;
    for (int batch = 1; batch <= 6; batch++) {
        struct talk t;
        begin(&t);
        fake.batch = batch;
        fake_say("a\xc3\xa9\n</think>\n\nDas w\xc3\xa4re \xf0\x9f\x99\x82 gut.  ");
        start(&t);
        ask(&t, "x");
        assert_string_equal(t.s.reasoning.data, "a\xc3\xa9");
        assert_string_equal(t.s.text.data, "Das w\xc3\xa4re \xf0\x9f\x99\x82 gut.");
        end(&t);
    }
}

static void test_chat__the_next_turn_drops_the_reasoning_and_keeps_the_answer(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_system, "Be brief.");
    fake_say("R1\n</think>\n\nA1");
    fake_say("R2\n</think>\n\nA2");
    start(&t);
    ask(&t, "Q1");
    ask(&t, "Q2");
    assert_string_equal(prompt(1), "<|im_start|>system\nBe brief.<|im_end|>\n" USER("Q1") "<|im_start|>assistant\nA1<|im_end|>\n" USER("Q2") THINK);
    /* the part that both prompts share is what the engine was told to keep */
    assert_int_equal(fake.snapshot_pos[0], fake.prompts[0].n - (int)strlen("\n") - 1);
    assert_memory_equal(fake.prompts[0].data, fake.prompts[1].data, (size_t)fake.snapshot_pos[0] * sizeof(int32_t));
    end(&t);
}

static void wait_until_ready(struct talk *t)
{
    while (!chat_ready(t->c))
        step(t);
}

/* Checks that what was read ahead begins the prompt that then came, and lacks only `rest` tokens of it. */
static void assert_begins(int k, int rest)
{
    assert_true(fake.ahead.n > 0 && fake.ahead.n <= fake.prompts[k].n);
    assert_memory_equal(fake.ahead.data, fake.prompts[k].data, (size_t)fake.ahead.n * sizeof(int32_t));
    assert_int_equal(fake.prompts[k].n - fake.ahead.n, rest);
}

static void test_chat__what_the_next_prompt_begins_with_is_read_ahead(void **state)
{
    static const struct chat_front front = {.tools = "all", .reads_ahead = true};
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    set(&t, OPT_system, "Be brief.");
    set(&t, OPT_max_tokens, "0");
    fake_say("R1\n</think>\n\nA1");
    fake_say("R2\n</think>\n\nA2");
    fake_say("R3\n</think>\n\nA3");
    fake_end("no end", END_STOP, true);
    start_with(&t, &front);
    wait_until_ready(&t);
    assert_int_equal(fake.n_aheads, 1);         /* system prompt and tools, once */
    submit(&t, "Q1");
    int rest = fake.prompts[0].n - fake.ahead.n;
    assert_begins(0, rest);
    assert_true(rest < 30);
    finish_turn(&t);
    assert_int_equal(fake.n_aheads, 2);         /* with the answer, without its reasoning */
    submit(&t, "Q2");
    assert_begins(1, rest);
    finish_turn(&t);
    assert_int_equal(fake.n_aheads, 3);
    step(&t);
    assert_int_equal(fake.n_aheads, 3);         /* nothing has changed */

    assert_true(chat_undo(t.c, &t.s.text, &e));
    step(&t);
    assert_int_equal(fake.n_aheads, 4);
    set(&t, OPT_system, "Be loud.");
    step(&t);
    assert_int_equal(fake.n_aheads, 5);
    submit(&t, "Q3");
    assert_begins(2, rest);
    finish_turn(&t);

    int before = fake.n_aheads;
    submit(&t, "Q4");
    step(&t);
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_int_equal(chat_rest(t.c), CHAT_STOPPED);
    assert_int_equal(fake.n_aheads, before);    /* it may go on: what the engine holds of it stays */
    end(&t);
}

static void type(struct talk *t, const char *draft)
{
    chat_draft(t->c, draft, strlen(draft));
}

static void type_and_wait(struct talk *t, const char *draft, int n_aheads)
{
    type(t, draft);
    while (fake.n_aheads < n_aheads)
        step(t);
    assert_int_equal(fake.n_aheads, n_aheads);
}

/* So long that what was typed would have been read if it were to be. */
static void let_time_pass(struct talk *t)
{
    int n;
    for (int64_t start = clock_ns(); clock_ms_since(start) < 300;) {
        chat_wait(t->c, -1, 20);
        chat_drain(t->c, &n);
    }
}

static bool was_read(const char *words)
{
    struct buf text = {0};
    for (int i = 0; i < fake.ahead.n; i++) {
        size_t n;
        const char *piece = tokenizer_bytes(fake.tok, fake.ahead.data[i], &n);
        buf_add(&text, piece, n);
    }
    bool ends = text.len >= strlen(words) && !strcmp(text.data + text.len - strlen(words), words);
    buf_free(&text);
    return ends;
}

static void test_chat__the_draft_is_read_ahead_while_it_is_typed(void **state)
{
    static const struct chat_front front = {.tools = "all", .reads_ahead = true};
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    fake_say("R1\n</think>\n\nA1");
    fake_say("R2\n</think>\n\nA2");
    start_with(&t, &front);
    type(&t, "  What is ");                             /* while it loads */
    while (fake.n_aheads < 2)
        step(&t);
    assert_true(was_read("user\nWhat is"));             /* as the template writes it */
    type_and_wait(&t, "  What is the an", 3);
    assert_true(was_read("user\nWhat is the"));
    type(&t, "  What is the answer");                   /* no word more is whole */
    type(&t, "  What is t");                            /* of which all was read */
    type(&t, "/help me with this");
    type(&t, "");
    let_time_pass(&t);
    assert_int_equal(fake.n_aheads, 3);
    type_and_wait(&t, "What was t", 4);                 /* another one */
    assert_true(was_read("user\nWhat was"));
    type_and_wait(&t, "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE8\xAF\xB7", 5);        /* a script without blanks */
    assert_true(was_read("user\n\xE4\xBD\xA0\xE5\xA5\xBD"));
    type_and_wait(&t, "What is the answer to the question", 6);
    submit(&t, "What is the answer to the questions");
    int rest = fake.prompts[0].n - fake.ahead.n;
    assert_begins(0, rest);
    assert_true(rest < 40);
    type(&t, "And what is the next one");               /* not while an answer is made, */
    finish_turn(&t);
    while (fake.n_aheads < 8)                           /* but then: the answer, the draft */
        step(&t);
    assert_true(was_read("user\nAnd what is the next"));
    submit(&t, "And what is the next one");
    type(&t, "");
    assert_begins(1, fake.prompts[1].n - fake.ahead.n);
    finish_turn(&t);
    assert_int_equal(fake.n_aheads, 9);

    buf_reset(&t.s.text);
    type(&t, "");
    assert_true(chat_edit(t.c, 0, &t.s.text, &e));      /* it will stand somewhere else */
    type(&t, "What is to be said instead");
    let_time_pass(&t);
    assert_int_equal(fake.n_aheads, 9);
    end(&t);
}

static void test_chat__of_a_very_long_draft_the_beginning_is_read_ahead(void **state)
{
    static const struct chat_front front = {.tools = "none", .reads_ahead = true};
    struct talk t;
    struct buf text = {0};
    (void)state;
    begin(&t);
    start_with(&t, &front);
    wait_until_ready(&t);
    while (text.len < 1 << 20)
        buf_adds(&text, "twenty ");
    type_and_wait(&t, text.data, 2);
    assert_true(was_read("twenty twenty"));
    size_t bytes = 0;
    for (int i = 0; i < fake.ahead.n; i++) {
        size_t n;
        tokenizer_bytes(fake.tok, fake.ahead.data[i], &n);
        bytes += n;
    }
    assert_true(bytes >= 256000 && bytes <= 262500);
    buf_adds(&text, "and more ");
    type(&t, text.data);
    let_time_pass(&t);
    assert_int_equal(fake.n_aheads, 2);
    buf_free(&text);
    end(&t);
}

static void test_chat__nothing_is_read_ahead_when_that_is_off_or_nobody_types(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct chat_front front = {.tools = "all", .reads_ahead = i == 0};
        struct talk t;
        begin(&t);
        set(&t, OPT_read_ahead, i ? "on" : "off");
        fake_say("R\n</think>\n\nA");
        start_with(&t, &front);
        wait_until_ready(&t);
        type(&t, "What is typed here");
        let_time_pass(&t);
        ask(&t, "Q");
        assert_int_equal(fake.n_aheads, 0);
        end(&t);
    }
}

static void test_chat__an_answer_begins_as_told(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_begin, "\n Yes, \n");
    fake_say(" it is.");
    fake_say(" and again.");
    start(&t);
    ask(&t, "Q");
    assert_string_equal(chat_message(t.c, 1).text, "Yes, it is.");
    assert_string_equal(t.s.text.data, "Yes, it is.");
    const char *sent = prompt(0);
    assert_string_equal(sent + strlen(sent) - strlen("Yes,"), "Yes,");
    ask(&t, "Q2");
    assert_string_equal(chat_message(t.c, 3).text, "Yes, and again.");
    end(&t);
}

static void test_chat__an_aside_leaves_no_trace(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    set(&t, OPT_tools, "clock");
    fake_say("before all");
    fake_say("A1");
    fake_say("said aside");
    fake_say("A2");
    fake_say("<tool_call>\n<function=clock>\n</function>\n</tool_call>");
    fake_say("It is late.");
    fake_say("<tool_call>\n<function=nothing>\n</function>\n</tool_call>");
    fake_end("cut", END_LENGTH, false);
    fake_say("A3");
    start(&t);
    wait_until_ready(&t);
    forget(&t.s);
    assert_true(chat_aside(t.c, "Who?", &e));           /* of an empty conversation */
    finish_turn(&t);
    assert_string_equal(t.s.text.data, "before all");
    ask(&t, "Q1");
    forget(&t.s);
    assert_true(chat_aside(t.c, "What?", &e));
    assert_string_equal(chat_asked_aside(t.c), "What?");
    finish_turn(&t);
    assert_null(chat_asked_aside(t.c));
    assert_int_equal(t.s.last.end, END_STOP);
    assert_string_equal(t.s.text.data, "said aside");
    assert_string_equal(t.s.notes.data, "aside: it is not part of the conversation");
    assert_non_null(strstr(prompt(2), USER("Q1")));
    assert_non_null(strstr(prompt(2), USER("What?")));
    ask(&t, "Q2");
    assert_null(strstr(prompt(3), "What?"));
    assert_null(strstr(prompt(3), "said aside"));
    assert_int_equal(chat_n_messages(t.c), 4);

    forget(&t.s);
    assert_true(chat_aside(t.c, "When?", &e));
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_STOP);
    assert_true(t.s.results.len > 0);
    assert_string_equal(t.s.text.data, "It is late.");
    assert_non_null(strstr(prompt(5), USER("When?")));
    t.s.results.data[t.s.results.len - 1] = 0;
    assert_non_null(strstr(prompt(5), t.s.results.data + strlen("clock=")));
    assert_int_equal(chat_n_messages(t.c), 4);
    forget(&t.s);
    assert_true(chat_aside(t.c, "How?", &e));           /* a tool that there is not, then an answer that is cut */
    finish_turn(&t);
    assert_null(strstr(prompt(6), "When?"));            /* nothing of an aside is in the next one */
    assert_int_equal(t.s.last.end, END_STOP);
    assert_non_null(strstr(t.s.notes.data, "max_tokens is reached"));
    assert_int_equal(chat_n_messages(t.c), 4);
    assert_int_equal(chat_rest(t.c), CHAT_WHOLE);       /* nothing that could go on */
    ask(&t, "Q3");
    assert_null(strstr(prompt(8), "clock\n"));
    assert_null(strstr(prompt(8), "It is late."));

    assert_false(chat_aside(t.c, "", &e));
    assert_false(chat_aside(t.c, "What is in @tests/data/chat/tokenizer.json?", &e));
    assert_non_null(strstr(e.msg, "no files"));
    end(&t);
}

static void test_chat__an_answer_given_again_is_compared(void **state)
{
    struct talk t;
    struct err e = {0};
    char same[64];
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    set(&t, OPT_seed, "7");
    fake_say("one two three");
    fake_say("one two three");
    fake_say("one two four");
    fake_say("one two");
    start(&t);
    assert_false(chat_replay(t.c, &e));
    assert_non_null(strstr(e.msg, "no answer"));
    ask(&t, "Q");
    uint64_t seed = fake.samplings[0].seed;
    int n = chat_n_tokens(t.c, 1);

    assert_true(chat_replay(t.c, &e));
    finish_turn(&t);
    assert_true(fake.samplings[1].seed == seed);
    snprintf(same, sizeof same, "the same %d tokens again, with seed %llu", n, (unsigned long long)seed);
    assert_string_equal(t.s.notes.data, same);

    buf_reset(&t.s.notes);
    assert_true(chat_replay(t.c, &e));
    finish_turn(&t);
    assert_non_null(strstr(t.s.notes.data, "tokens are the same; then came '"));
    assert_non_null(strstr(t.s.notes.data, ", now '"));

    buf_reset(&t.s.notes);
    assert_true(chat_replay(t.c, &e));
    finish_turn(&t);
    assert_non_null(strstr(t.s.notes.data, "; then came ' "));
    int which;
    assert_int_equal(chat_siblings(t.c, 1, &which), 4); /* all are kept */
    end(&t);
}

static void test_chat__a_turn_says_what_it_took_of_the_meter(void **state)
{
    struct talk t;
    struct machine_figures m;
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    fake.not_ready = true;              /* what loading takes is not the turn's */
    fake_say("A");
    fake_say("A");
    start(&t);
    submit(&t, "?");
    step(&t);
    fake.joules = 1000;
    fake_ready();
    finish_turn(&t);
    assert_true(t.s.last.stats.joules == 1.5);          /* the fake's meter moves when it is read */
    chat_machine(t.c, &m);
    assert_true(m.memory_used == 1 && m.memory_total == 2 && m.snapshots == 3 && m.snapshots_max == 8);
    ask(&t, "?");
    assert_true(t.s.last.stats.joules == 1.5);
    end(&t);
}

static void test_chat__without_thinking_the_block_is_closed_in_the_prompt(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    fake_say("A1");
    start(&t);
    ask(&t, "Q1");
    assert_string_equal(prompt(0), USER("Q1") PLAIN);
    assert_string_equal(buf_str(&t.s.reasoning), "");
    assert_string_equal(t.s.text.data, "A1");
    end(&t);
}

static void test_chat__control_tokens_in_a_message_are_plain_text(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_say("ok");
    start(&t);
    ask(&t, "<|im_end|>");
    int n = 0;
    for (int i = 0; i < fake.prompts[0].n; i++)
        n += fake.prompts[0].data[i] == 258;
    assert_int_equal(n, 1);             /* the template's own */
    end(&t);
}

static void test_chat__logit_bias_takes_texts_and_ids(void **state)
{
    struct talk t;
    struct ids ids = {0};
    (void)state;
    begin(&t);
    set(&t, OPT_logit_bias, "x=2.5");
    set(&t, OPT_logit_bias, "7=-inf");
    set(&t, OPT_logit_bias, "\"7\"=1");
    set(&t, OPT_logit_bias, "==-3");
    fake_say("z</think>ok");
    start(&t);
    ask(&t, "?");
    const struct sampling *s = &fake.samplings[0];
    tokenizer_encode(fake.tok, "x7=", 3, false, &ids);
    assert_int_equal(s->n_bias, 4);
    const int32_t expected[] = {ids.data[0], 7, ids.data[1], ids.data[2]};
    assert_memory_equal(s->bias_ids, expected, sizeof expected);
    const float values[] = {2.5f, -INFINITY, 1, -3};
    assert_memory_equal(s->bias, values, sizeof values);
    set(&t, OPT_logit_bias, "");
    set(&t, OPT_logit_bias, "more than a token=1");
    ask(&t, "?");
    assert_int_equal(t.s.last.end, END_FAILED);
    assert_int_equal(fake.n_submits, 1);
    ids_free(&ids);
    end(&t);
}

static void test_chat__a_stop_string_cuts_the_answer_and_stops_the_engine(void **state)
{
    (void)state;
    for (int batch = 1; batch <= 6; batch++) {
        struct talk t;
        begin(&t);
        fake.batch = batch;
        set(&t, OPT_think, "off");
        set(&t, OPT_stop, "END");
        set(&t, OPT_stop, "never");
        fake_say("one EN two\nEND three, and a long rest that nobody should see");
        start(&t);
        ask(&t, "x");
        assert_string_equal(t.s.text.data, "one EN two");
        assert_int_equal(t.s.last.end, END_STOP_TEXT);
        assert_int_equal(fake.n_interrupts, 1);
        assert_string_equal(chat_message(t.c, 1).text, "one EN two");
        assert_false(chat_message(t.c, 1).stopped);
        end(&t);
    }
}

static void test_chat__what_could_have_become_a_stop_string_is_shown_at_the_end(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    set(&t, OPT_stop, "END");
    fake_say("so it ends: EN");
    start(&t);
    ask(&t, "x");
    assert_string_equal(t.s.text.data, "so it ends: EN");
    assert_int_equal(t.s.last.end, END_STOP);
    end(&t);
}

static void test_chat__an_interrupted_answer_is_kept_and_marked(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    fake_end("Half an ans", END_STOP, true);
    fake.answers[0].finish = END_LENGTH;             /* no stop id at its end */
    fake_say("More.");
    start(&t);
    submit(&t, "Q1");
    while (t.s.text.len < 11)
        assert_false(step(&t));
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_INTERRUPTED);
    assert_null(t.s.last.taken_back);
    assert_true(chat_message(t.c, 1).stopped);
    ask(&t, "go on");
    assert_string_equal(prompt(1), USER("Q1") "<|im_start|>assistant\nHalf an ans<|im_end|>\n" USER("go on") PLAIN);
    end(&t);
}

static void test_chat__a_turn_without_a_word_is_taken_back(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_end("", END_LENGTH, true);
    start(&t);
    submit(&t, "Q1");
    while (fake.n_submits == 0)
        assert_false(step(&t));
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_INTERRUPTED);
    assert_string_equal(t.s.taken_back, "Q1");
    assert_int_equal(chat_n_messages(t.c), 0);
    end(&t);
}

static void test_chat__regenerate_asks_the_same_with_another_seed(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    set(&t, OPT_seed, "5");
    fake_say("x</think>one");
    fake_say("x</think>two");
    start(&t);
    assert_false(chat_regenerate(t.c, &e));
    ask(&t, "Q");
    forget(&t.s);
    assert_true(chat_regenerate(t.c, &e));
    finish_turn(&t);
    assert_string_equal(t.s.text.data, "two");
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_int_equal(fake.prompts[0].n, fake.prompts[1].n);
    assert_memory_equal(fake.prompts[0].data, fake.prompts[1].data, (size_t)fake.prompts[0].n * sizeof(int32_t));
    assert_int_equal(fake.samplings[0].seed, 5);
    assert_int_equal(fake.samplings[1].seed, 6);
    end(&t);
}

static void test_chat__undo_takes_back_message_and_answer(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf back = {0};
    (void)state;
    begin(&t);
    fake_say("x</think>one");
    fake_say("x</think>two");
    start(&t);
    ask(&t, "Q1");
    assert_true(chat_undo(t.c, &back, &e));
    assert_string_equal(back.data, "Q1");
    assert_false(chat_undo(t.c, &back, &e));
    ask(&t, "Q2");
    assert_string_equal(prompt(1), USER("Q2") THINK);
    buf_free(&back);
    end(&t);
}

#define CALL "<tool_call>\n<function=calculator>\n<parameter=expression>\n7 * 12\n</parameter>\n</function>\n</tool_call>"

static void test_chat__a_call_is_run_and_the_sampled_ids_stay_the_prefix_of_the_next_prompt(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "clock,calculator");
    fake_say("I calculate.\n</think>\n\n" CALL);
    fake_say("Now I know.\n</think>\n\nIt is 84.");
    start(&t);
    ask(&t, "7 * 12?");
    assert_string_equal(t.s.calls.data, "calculator{\"expression\": \"7 * 12\"};");
    assert_string_equal(t.s.results.data, "calculator=84;");
    assert_string_equal(t.s.text.data, "It is 84.");
    assert_int_equal(t.s.n_asked, 0);   /* a built-in tool */
    assert_int_equal(t.s.last.stats.n_rounds, 2);

    struct ids sampled = {0};
    tokenizer_encode(fake.tok, fake.answers[0].text, strlen(fake.answers[0].text), true, &sampled);
    ids_add(&sampled, 258);
    int n = fake.prompts[0].n;
    assert_true(fake.prompts[1].n > n + sampled.n);
    assert_memory_equal(fake.prompts[1].data, fake.prompts[0].data, (size_t)n * sizeof(int32_t));
    assert_memory_equal(fake.prompts[1].data + n, sampled.data, (size_t)sampled.n * sizeof(int32_t));
    assert_int_equal(fake.snapshot_pos[0], fake.snapshot_pos[1]);
    const char *rest = strstr(prompt(1), "</tool_call><|im_end|>");
    assert_non_null(rest);
    assert_string_equal(rest, "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n84\n</tool_response><|im_end|>\n" THINK);
    ids_free(&sampled);
    end(&t);
}

/* The tokens that were put there are part of what was sampled: the prompt behind the call begins with all of it. */
static void test_chat__a_call_after_reasoning_that_was_ended_keeps_the_prefix(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    fake_end("I calc", END_LENGTH, true);
    fake_say(CALL);
    fake_say("Now I know.\n</think>\n\nIt is 84.");
    start(&t);
    submit(&t, "7 * 12?");
    while (t.s.reasoning.len < 6)
        step(&t);
    assert_true(chat_answer_now(t.c));
    assert_true(chat_answer_now(t.c));
    finish_turn(&t);
    assert_int_equal(fake.n_interrupts, 1);
    assert_int_equal(fake.n_submits, 3);
    struct ids all = {0};
    assert_memory_equal(fake.prompts[1].data, fake.prompts[0].data, (size_t)fake.prompts[0].n * sizeof(int32_t));
    assert_string_equal(prompt(1) + strlen(prompt(1)) - strlen(THINK "I calc\n</think>\n\n"), THINK "I calc\n</think>\n\n");
    assert_int_equal(fake.samplings[1].n_answer_prefix, fake.prompts[1].n - fake.prompts[0].n);
    ids_append(&all, fake.prompts[1].data, fake.prompts[1].n);
    tokenizer_encode(fake.tok, CALL, strlen(CALL), true, &all);
    ids_add(&all, 258);
    assert_memory_equal(fake.prompts[2].data, all.data, (size_t)all.n * sizeof(int32_t));
    assert_int_equal(fake.samplings[2].n_answer_prefix, 0);
    assert_string_equal(t.s.reasoning.data, "I calcNow I know.");
    assert_string_equal(t.s.results.data, "calculator=84;");
    assert_int_equal(t.s.last.stats.n_rounds, 2);
    ids_free(&all);
    end(&t);
}

static void test_chat__a_branch_behind_a_call_keeps_the_call(void **state)
{
    static const struct chat_front front = {.tools = "calculator", .inspects = true};
    struct talk t;
    struct err e = {0};
    int which;
    (void)state;
    begin(&t);
    fake_say("I calculate.\n</think>\n\n" CALL);
    fake_say("a\n</think>\n\nIt is 84.");
    fake_say("t must be 84.");
    fake_end("", END_LENGTH, true);
    start_with(&t, &front);
    ask(&t, "7 * 12?");
    int n = chat_n_tokens(t.c, 3);
    assert_int_equal(n, (int)strlen("a\n+\n\nIt is 84.+"));
    int k = n - 10;
    for (int again = 0; again < 2; again++) {           /* once it comes, once the user has enough before a word of it */
        forget(&t.s);
        assert_true(chat_branch_token(t.c, 3, k, 1, &e));
        if (again)
            chat_interrupt(t.c);
        finish_turn(&t);
        assert_int_equal(chat_n_messages(t.c), 4);
        assert_string_equal(chat_message(t.c, 2).text, "84");
        assert_int_equal(chat_siblings(t.c, 3, &which), again ? 3 : 2);
        assert_string_equal(chat_message(t.c, 3).reasoning, "a");
        assert_string_equal(chat_message(t.c, 3).text, again ? "J" : "Jt must be 84.");
        assert_string_equal(t.s.taken_back, "");
    }
    end(&t);
}

/* A refused request leaves the conversation as it was. */
static void test_chat__what_cannot_be_branched_stays(void **state)
{
    static const struct chat_front front = {.tools = "none", .inspects = true};
    struct talk t;
    struct err e = {0};
    int which;
    (void)state;
    begin(&t);
    fake_say("a\n</think>\n\nYes.");
    fake_end("a\n</think>\n\nNo", END_LENGTH, false);
    fake_end("", END_FAILED, false);
    fake_end("", END_FAILED, false);
    start_with(&t, &front);
    ask(&t, "?");
    set(&t, OPT_logit_bias, "more than a token=1");
    assert_true(chat_branch_token(t.c, 1, 5, 1, &e));
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_FAILED);
    assert_string_equal(t.s.taken_back, "");
    assert_int_equal(chat_n_messages(t.c), 2);
    assert_int_equal(chat_siblings(t.c, 1, &which), 1);
    assert_string_equal(chat_message(t.c, 1).text, "Yes.");
    set(&t, OPT_logit_bias, "");
    ask(&t, "?");
    assert_int_equal(chat_n_messages(t.c), 4);
    set(&t, OPT_logit_bias, "more than a token=1");
    assert_true(chat_continue(t.c, &e));
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_FAILED);
    assert_string_equal(chat_message(t.c, 3).text, "No");
    assert_true(chat_message(t.c, 3).stopped);
    set(&t, OPT_logit_bias, "");
    for (int i = 0; i < 2; i++) {       /* the engine refuses: still the stopped answer, and still one */
        assert_true(chat_continue(t.c, &e));
        finish_turn(&t);
        assert_int_equal(t.s.last.end, END_FAILED);
        assert_int_equal(chat_n_messages(t.c), 4);
        assert_int_equal(chat_siblings(t.c, 3, &which), 1);
        assert_string_equal(chat_message(t.c, 3).text, "No");
        assert_true(chat_message(t.c, 3).stopped);
    }
    end(&t);
}

static void test_chat__a_call_written_oddly_is_rendered_by_the_template(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    fake_say("I calculate.</think>" CALL);      /* blanks are missing */
    fake_say("x</think>84");
    start(&t);
    ask(&t, "7 * 12?");
    assert_non_null(strstr(prompt(1), THINK "I calculate.\n</think>\n\n" CALL "<|im_end|>\n"));
    end(&t);
}

static void test_chat__the_tool_definitions_are_the_ones_the_demo_model_knows(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "all");
    fake_say("x");
    start(&t);
    ask(&t, "?");
    assert_non_null(strstr(prompt(0),
        "<tools>\n"
        "{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"description\": \"Tells the current date and time.\", \"parameters\": "
        "{\"type\": \"object\", \"properties\": {\"zone\": {\"type\": \"string\", \"description\": \"IANA time zone, for example Europe/Paris; "
        "local time if absent\"}}, \"required\": []}}}\n"
        "{\"type\": \"function\", \"function\": {\"name\": \"calculator\", \"description\": \"Evaluates an arithmetic expression.\", "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"expression\": {\"type\": \"string\", \"description\": \"for example "
        "(3 + 4) * 12\"}}, \"required\": [\"expression\"]}}}\n</tools>"));
    end(&t);
}

static void test_chat__an_unknown_tool_is_answered_with_an_error(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    fake_say("x</think><tool_call>\n<function=weather>\n</function>\n</tool_call>");
    fake_say("y</think>Sorry.");
    start(&t);
    ask(&t, "?");
    assert_string_equal(t.s.results.data, "weather=error: unknown tool weather; there are calculator;");
    assert_string_equal(t.s.text.data, "Sorry.");
    end(&t);
}

static const char shout_conf[] = "[tool shout]\ndescription = says it\ncommand = sh -c 'tr a-z A-Z'\n"
                                 "parameters = {\"type\": \"object\", \"properties\": {\"w\": {\"type\": \"string\"}}}\n";
#define SHOUT "x</think><tool_call>\n<function=shout>\n<parameter=w>\nhey\n</parameter>\n</function>\n</tool_call>"

static void configure(struct talk *t, const char *conf)
{
    char path[] = "/tmp/q35chat-test-XXXXXX";
    struct err e = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, conf, strlen(conf)) == (ssize_t)strlen(conf));
    close(fd);
    if (!options_read_file(t->o, path, &e))
        fail_msg("%s", e.msg);
    unlink(path);
}

static void test_chat__a_configured_tool_asks_and_always_means_never_again(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    configure(&t, shout_conf);
    set(&t, OPT_tools, "all");
    fake_say(SHOUT);
    fake_say(SHOUT);
    fake_say("z</think>done");
    start(&t);
    t.s.answer = CHAT_ALWAYS;
    ask(&t, "?");
    assert_int_equal(t.s.n_asked, 1);
    assert_string_equal(t.s.results.data, "shout={\"W\": \"HEY\"};shout={\"W\": \"HEY\"};");
    assert_string_equal(t.s.text.data, "done");
    end(&t);
}

static void test_chat__built_in_tools_ask_only_when_told_to(void **state)
{
    static const char *const policies[] = {"auto", "ask"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct talk t;
        begin(&t);
        set(&t, OPT_tools, "clock");
        set(&t, OPT_tools_approve, policies[i]);
        fake_say("x</think><tool_call>\n<function=clock>\n</function>\n</tool_call>");
        fake_say("x</think><tool_call>\n<function=clock>\n</function>\n</tool_call>");
        fake_say("z</think>late");
        start(&t);
        t.s.answer = CHAT_ALWAYS;
        ask(&t, "?");
        assert_int_equal(t.s.n_asked, i);
        assert_string_equal(t.s.text.data, "late");
        end(&t);
    }
}

static void test_chat__an_approval_that_names_no_tool_is_refused(void **state)
{
    static const struct chat_front front = {.tools = "all"};
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    set(&t, OPT_tools_approve, "alwys");
    assert_null(chat_open(local_open(t.o, &e), t.o, &front, &e));
    assert_non_null(strstr(e.msg, "unknown tool alwys"));
    end(&t);
}

static void test_chat__a_refused_call_is_reported_to_the_model(void **state)
{
    (void)state;
    for (int can_ask = 0; can_ask < 2; can_ask++) {
        struct chat_front front = {.can_ask = can_ask, .tools = "all"};
        struct talk t;
        begin(&t);
        configure(&t, shout_conf);
        fake_say(SHOUT);
        fake_say("z</think>then not");
        start_with(&t, &front);
        ask(&t, "?");
        assert_int_equal(t.s.n_asked, can_ask);
        assert_non_null(strstr(t.s.results.data, "shout=error: "));
        assert_non_null(strstr(t.s.results.data, "allow"));
        assert_string_equal(t.s.text.data, "then not");
        end(&t);
    }
}

static void test_chat__scripts_can_allow_tools_by_name(void **state)
{
    static const struct chat_front front = {.tools = "all"};
    struct talk t;
    (void)state;
    begin(&t);
    configure(&t, shout_conf);
    set(&t, OPT_tools_approve, "clock, shout");
    fake_say(SHOUT);
    fake_say("z</think>ok");
    start_with(&t, &front);
    ask(&t, "?");
    assert_string_equal(t.s.results.data, "shout={\"W\": \"HEY\"};");
    end(&t);
}

static void test_chat__an_interrupt_ends_a_running_tool(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    configure(&t, "[tool slow]\ncommand = sleep 600\n");
    set(&t, OPT_tools, "slow");
    set(&t, OPT_tools_approve, "always");
    fake_say("x</think><tool_call>\n<function=slow>\n</function>\n</tool_call>");
    start(&t);
    submit(&t, "?");
    while (!t.s.calls.len)
        assert_false(step(&t));
    for (int i = 0; i < 3; i++)
        assert_false(step(&t));         /* it runs */
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_INTERRUPTED);
    assert_string_equal(t.s.results.data, "slow=error: the user interrupted;");
    assert_int_equal(fake.n_submits, 1);
    end(&t);
}

static void test_chat__a_tool_that_does_not_listen_is_killed_by_the_second_interrupt(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    configure(&t, "[tool deaf]\ncommand = sh -c \"trap '' INT; echo deaf; while :; do sleep 1; done\"\n");
    set(&t, OPT_tools, "deaf");
    set(&t, OPT_tools_approve, "always");
    fake_say("x</think><tool_call>\n<function=deaf>\n</function>\n</tool_call>");
    start(&t);
    submit(&t, "?");
    while (!t.s.calls.len)
        assert_false(step(&t));
    for (int i = 0; i < 20; i++)
        assert_false(step(&t));         /* it runs, and has set its trap */
    chat_interrupt(t.c);
    for (int i = 0; i < 5; i++)
        assert_false(step(&t));
    chat_interrupt(t.c);
    finish_turn(&t);
    assert_int_equal(t.s.last.end, END_INTERRUPTED);
    assert_string_equal(t.s.results.data, "deaf=error: the user interrupted;");
    end(&t);
}

static void test_chat__a_tool_is_heard_while_it_runs(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    configure(&t, "[tool slow]\ncommand = sh -c 'printf \"one\\n\\n\303\"; read x; printf \"\251two\\n\"'\n"
                  "[tool early]\ncommand = sh -c 'echo first; sleep 600'\n");
    set(&t, OPT_tools, "all");
    set(&t, OPT_tools_approve, "always");
    fake_say("x</think><tool_call>\n<function=slow>\n</function>\n</tool_call>");
    fake_say("x</think><tool_call>\n<function=early>\n</function>\n</tool_call>");
    start(&t);
    submit(&t, "?");
    while (!t.s.results.len)
        assert_false(step(&t));
    assert_string_equal(t.s.results.data, "slow=one\n\n\303\251two;");
    assert_int_equal(strncmp("one\n\n\303\251two", buf_str(&t.s.output), t.s.output.len), 0);  /* as much as came in time */
    while (!t.s.output.len || !strstr(t.s.output.data, "first"))
        assert_false(step(&t));
    assert_null(strchr(strstr(t.s.output.data, "first"), '\n'));      /* the white space of the end is not known to be one */
    chat_interrupt(t.c);
    finish_turn(&t);
    end(&t);
}

static void test_chat__an_answer_of_calls_without_end_is_ended(void **state)
{
    static const struct chat_front front = {.tools = "all"};
    struct talk t;
    struct buf calls = {0};
    (void)state;
    for (int n = 256; n <= 300; n += 44) {      /* so many are run; more are not */
        buf_reset(&calls);
        buf_adds(&calls, "x</think>");
        for (int i = 0; i < n; i++)
            buf_adds(&calls, "<tool_call>\n<function=clock>\n</function>\n</tool_call>\n");
        begin(&t);
        set(&t, OPT_loop_guard, "off");
        fake_say(calls.data);
        fake_say("z</think>late");
        start_with(&t, &front);
        ask(&t, "?");
        assert_int_equal(fake.n_interrupts, n > 256);
        if (n > 256) {
            assert_int_equal(t.s.last.end, END_FAILED);
            assert_string_equal(t.s.why, "the model made more than 256 tool calls in one answer; none of them was run");
            assert_int_equal(t.s.results.len, 0);
            assert_int_equal(chat_message(t.c, 1).n_calls, 0);
        } else {
            assert_int_equal(t.s.last.end, END_STOP);
            assert_int_equal(chat_message(t.c, 1).n_calls, 256);
        }
        end(&t);
    }
    buf_free(&calls);
}

static void test_chat__rounds_of_calls_end(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    set(&t, OPT_tool_rounds, "2");
    for (int i = 0; i < 3; i++)
        fake_say("x</think>" CALL);
    start(&t);
    ask(&t, "?");
    assert_int_equal(t.s.last.end, END_TOOL_ROUNDS);
    assert_int_equal(fake.n_submits, 3);
    end(&t);
}

static void test_chat__a_call_that_was_cut_off_is_never_run(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_tools, "calculator");
    fake_end("x</think><tool_call>\n<function=calculator>\n<parameter=expression>\n7 *", END_LENGTH, false);
    start(&t);
    ask(&t, "?");
    assert_int_equal(t.s.last.end, END_LENGTH);
    assert_non_null(strstr(t.s.calls.data, "calculator"));
    assert_non_null(strstr(t.s.calls.data, "..."));
    assert_int_equal(t.s.results.len, 0);
    end(&t);
}

static void test_chat__a_bias_that_the_model_cannot_have_ends_the_chat_at_its_start(void **state)
{
    static const struct chat_front chats = {.can_ask = true, .tools = "none", .reads_ahead = true}, once = {.tools = "none"};
    struct talk t;
    struct err e = {{0}};
    (void)state;
    begin(&t);
    set(&t, OPT_logit_bias, "two words=-inf");
    start_with(&t, &chats);
    while (!step(&t))
        ;
    assert_int_equal(t.s.last.kind, CHAT_FATAL);
    assert_string_equal(t.s.why, "logit_bias for 'two words': that is 9 tokens, expected one");
    end(&t);

    begin(&t);                          /* a pipe asks at once */
    set(&t, OPT_logit_bias, "two words=-inf");
    start_with(&t, &once);
    ask(&t, "?");
    assert_int_equal(t.s.last.end, END_FAILED);
    assert_string_equal(t.s.why, "logit_bias for 'two words': that is 9 tokens, expected one");
    end(&t);

    begin(&t);
    start_with(&t, &chats);
    while (!chat_info(t.c))
        step(&t);
    assert_false(chat_check_bias(t.c, "two words=-inf", &e));
    assert_string_equal(e.msg, "logit_bias for 'two words': that is 9 tokens, expected one");
    assert_false(chat_check_bias(t.c, "100000=1", &e));
    assert_true(chat_check_bias(t.c, "a=1", &e));
    end(&t);
}

static void test_chat__a_prompt_longer_than_the_context_is_refused_with_both_numbers(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake.n_ctx = 40;
    start(&t);
    ask(&t, "a message of more than forty tokens, that is bytes");
    assert_int_equal(t.s.last.end, END_TOO_LONG);
    assert_string_equal(t.s.why, "This model's maximum context length is 40 tokens; the prompt has 71; a larger --ctx holds more");
    assert_int_equal(chat_n_messages(t.c), 0);
    end(&t);
}

static void test_chat__an_error_of_the_engine_ends_the_turn_only(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_end("", END_FAILED, false);
    fake_say("x</think>fine");
    start(&t);
    ask(&t, "Q1");
    assert_int_equal(t.s.last.end, END_FAILED);
    assert_string_equal(t.s.why, "scripted error");
    ask(&t, "Q2");
    assert_string_equal(t.s.text.data, "fine");
    end(&t);
}

static void test_chat__a_dead_engine_leaves_the_conversation(void **state)
{
    struct talk t;
    struct err e = {0};
    (void)state;
    begin(&t);
    set(&t, OPT_think, "off");
    fake_end("Half", END_LENGTH, true);
    start(&t);
    submit(&t, "Q1");
    while (t.s.text.len < 4)
        assert_false(step(&t));
    fake_dies("device fault");
    finish_turn(&t);
    assert_int_equal(t.s.last.kind, CHAT_FATAL);
    assert_string_equal(t.s.why, "device fault");
    assert_string_equal(chat_message(t.c, 1).text, "Half");
    assert_false(chat_submit(t.c, "x", 1, &e));
    end(&t);
}

static void test_chat__a_missing_tokenizer_is_fatal_with_its_name(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    set(&t, OPT_model, "tests/data/golden");
    start(&t);
    submit(&t, "Q1");
    while (!step(&t))
        ;
    assert_int_equal(t.s.last.kind, CHAT_FATAL);
    assert_non_null(strstr(t.s.why, "tokenizer.json"));
    end(&t);
}

static void test_chat__figures_count_tokens_after_the_first(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_say("12345</think>12345");     /* 11 ids and the stop id */
    start(&t);
    ask(&t, "?");
    assert_float_equal(stats_tok_s(&t.s.last.stats), 110, 1e-9);        /* 11 after the first in 100 ms */
    assert_float_equal(stats_acceptance(&t.s.last.stats), 9.0 / 15, 1e-9);
    assert_int_equal(stats_drafts(&t.s.last.stats, DRAFT_MTP).drafted, 15);
    assert_int_equal(stats_drafts(&t.s.last.stats, DRAFT_MTP).accepted, 9);
    assert_int_equal(stats_drafts(&t.s.last.stats, DRAFT_LOOKUP).drafted, 0);
    assert_int_equal(t.s.last.stats.ctx_used, chat_context_used(t.c).tokens);
    assert_int_equal(t.s.last.stats.ctx_total, 100000);
    end(&t);
}

static void test_chat__sampling_is_the_users_then_the_checkpoints_then_the_cards(void **state)
{
    (void)state;
    for (int has = 0; has < 2; has++) {
        struct talk t;
        begin(&t);
        fake.gen_temperature = has ? 0.3f : -1;
        set(&t, OPT_top_k, "7");
        for (int i = 0; i < 2; i++)
            fake_say("x");
        start(&t);
        ask(&t, "?");
        set(&t, OPT_preset, "coding");
        ask(&t, "?");
        assert_float_equal(fake.samplings[0].temperature, has ? 0.3 : 1.0, 1e-6);
        assert_float_equal(fake.samplings[0].top_p, has ? 0.9 : 0.95, 1e-6);
        assert_float_equal(fake.samplings[0].presence_penalty, has ? 0 : 1.5, 1e-6);
        assert_int_equal(fake.samplings[0].top_k, 7);
        assert_float_equal(fake.samplings[1].temperature, 0.6, 1e-6);
        assert_int_equal(fake.samplings[1].n_stop, 2);          /* <|im_end|> too, though the checkpoint names only <|endoftext|> */
        assert_int_equal(fake.samplings[1].stop[0], 258);
        end(&t);
    }
}

static void test_chat__a_loaded_conversation_continues_with_the_same_prompt(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf note = {0};
    char path[] = "/tmp/q35chat-test-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(path));
    char file[64];
    snprintf(file, sizeof file, "%s/talk", path);
    begin(&t);
    set(&t, OPT_system, "Be brief.");
    set(&t, OPT_tools, "calculator");
    fake_say("a\n</think>\n\n" CALL);
    fake_say("b\n</think>\n\nA1");
    fake_say("c\n</think>\n\nA2");
    fake_say("c\n</think>\n\nA2");
    start(&t);
    ask(&t, "Q1");
    assert_true(chat_save(t.c, file, &e));
    ask(&t, "Q2");
    assert_true(chat_undo(t.c, &note, &e));
    assert_true(chat_new(t.c, &e));
    assert_true(options_set(t.o, OPT_system, "", FROM_SET, &e));
    if (!chat_load(t.c, file, &note, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(chat_n_messages(t.c), 4);
    ask(&t, "Q2");
    assert_int_equal(fake.prompts[2].n, fake.prompts[3].n);
    assert_memory_equal(fake.prompts[2].data, fake.prompts[3].data, (size_t)fake.prompts[2].n * sizeof(int32_t));
    assert_true(fake.sequence[1] == 0);                 /* before there was a file the conversation had no name */
    assert_true(fake.sequence[2] != 0 && fake.sequence[2] == fake.sequence[3]);
    unlink(file);
    rmdir(path);
    buf_free(&note);
    end(&t);
}

/* After the turn, beside its file; and before anything is asked when it is loaded. */
static void step_until_noted(struct talk *t, const char *note)
{
    while (!strstr(buf_str(&t->s.notes), note))
        step(t);
}

static void test_chat__a_conversation_has_a_checkpoint(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf note = {0};
    struct chat_checkpoint kept;
    char path[] = "/tmp/q35chat-test-XXXXXX", file[64], beside[80];
    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/talk", path);
    snprintf(beside, sizeof beside, "%s.checkpoint", file);
    begin(&t);
    fake_say("a\n</think>\n\nA1");
    fake_say("b\n</think>\n\nA2");
    fake_say("c\n</think>\n\nA3");
    fake_say("d\n</think>\n\nA4");
    start(&t);
    ask(&t, "Q1");
    assert_int_equal(fake.n_saves, 0);                  /* there is no file to stand beside */
    assert_int_equal(fake.n_keeps, 0);
    assert_true(chat_save(t.c, file, &e));
    fake.trouble = "cannot write x: No space left on device";
    ask(&t, "Q2");
    assert_string_equal(fake.home, beside);             /* the engine knew it before it had the prompt */
    assert_true(fake.home_sequence == fake.sequence[1]);
    step_until_noted(&t, "is not kept");                /* when the disk has what was said */
    assert_int_equal(fake.n_saves, 1);
    assert_string_equal(fake.saved, beside);
    assert_true(fake.saved_sequence == fake.sequence[1]);
    assert_non_null(strstr(buf_str(&t.s.notes), "is not kept: cannot write x: No space left on device; a resume will compute it again"));
    ask(&t, "Q3");
    for (kept.written = 0; kept.written < 2000; chat_checkpoint(t.c, &kept))
        step(&t);
    assert_true(kept.on && kept.bytes == 2000 && kept.written == 2000);
    assert_int_equal(fake.n_keeps, 1);                  /* told once */
    assert_true(chat_new(t.c, &e));
    fake.trouble = "x is damaged: it is deleted";
    assert_true(chat_load(t.c, file, &note, &e));
    assert_int_equal(fake.n_restores, 1);
    assert_string_equal(fake.restored, beside);
    assert_int_equal(fake.n_keeps, 2);
    forget(&t.s);
    step_until_noted(&t, "x is damaged: it is deleted; the conversation is computed again");
    int before = fake.n_saves;
    set(&t, OPT_checkpoint, "off");
    ask(&t, "Q4");
    assert_true(chat_keep(t.c, &e));                    /* the disk has it */
    step(&t);
    assert_int_equal(fake.n_saves, before);
    assert_string_equal(fake.home, "");
    assert_int_equal(fake.n_keeps, 3);
    unlink(file);
    rmdir(path);
    buf_free(&note);
    end(&t);
}

/* The program ends in the middle of an answer: what there is of it is saved, too. */
static void test_chat__an_end_in_the_middle_is_saved(void **state)
{
    struct talk t;
    struct err e = {0};
    char path[] = "/tmp/q35chat-test-XXXXXX", file[64];
    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/talk", path);
    begin(&t);
    fake_say("a\n</think>\n\nA1");
    fake_say("b\n</think>\n\nA2");
    start(&t);
    ask(&t, "Q1");
    assert_true(chat_save(t.c, file, &e));
    submit(&t, "Q2");
    assert_int_equal(fake.n_saves, 0);
    end(&t);
    assert_int_equal(fake.n_saves, 1);
    unlink(file);
    rmdir(path);
}

static void test_chat__each_conversation_is_named_to_the_engine(void **state)
{
    struct talk t;
    struct err e = {0};
    struct buf note = {0};
    char path[] = "/tmp/q35chat-test-XXXXXX", file[2][64];
    static const struct chat_front front = {.can_ask = true, .tools = "none", .reads_ahead = true};
    (void)state;
    assert_non_null(mkdtemp(path));
    begin(&t);
    for (int i = 0; i < 5; i++)
        fake_say("A");
    set(&t, OPT_system, "Be brief.");
    set(&t, OPT_think, "off");
    start_with(&t, &front);
    for (int i = 0; i < 2; i++) {
        snprintf(file[i], sizeof file[i], "%s/talk%d", path, i);
        if (i)
            assert_true(chat_new(t.c, &e));
        ask(&t, "Q1");
        assert_true(chat_save(t.c, file[i], &e));
    }
    ask(&t, "Q2");
    uint64_t second = fake.sequence[2];
    assert_true(chat_load(t.c, file[0], &note, &e));
    step(&t);
    if (!by_text)                                       /* what is read ahead belongs to it, too */
        assert_true(fake.ahead_sequence != 0 && fake.ahead_sequence != second);
    ask(&t, "Q2");
    uint64_t first = fake.sequence[3];
    assert_true(first != 0 && first != second && (by_text || fake.ahead_sequence == first));
    assert_true(chat_load(t.c, file[1], &note, &e));
    assert_true(chat_undo(t.c, &note, &e));
    ask(&t, "Q2");
    assert_true(fake.sequence[4] == second);
    for (int i = 0; i < 2; i++)
        unlink(file[i]);
    rmdir(path);
    buf_free(&note);
    end(&t);
}

static void test_chat__bytes_that_are_not_text_become_replacement_characters(void **state)
{
    struct talk t;
    (void)state;
    begin(&t);
    fake_say("x");
    start(&t);
    ask(&t, "a\xff" "b");
    assert_string_equal(chat_message(t.c, 0).text, "a\xef\xbf\xbd" "b");
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat__a_message_sent_while_loading_is_answered_when_the_model_is_there),
        cmocka_unit_test(test_chat__the_answer_does_not_depend_on_how_tokens_are_batched),
        cmocka_unit_test(test_chat__the_next_turn_drops_the_reasoning_and_keeps_the_answer),
        cmocka_unit_test(test_chat__an_answer_begins_as_told),
        cmocka_unit_test(test_chat__an_aside_leaves_no_trace),
        cmocka_unit_test(test_chat__an_answer_given_again_is_compared),
        cmocka_unit_test(test_chat__a_turn_says_what_it_took_of_the_meter),
        cmocka_unit_test(test_chat__without_thinking_the_block_is_closed_in_the_prompt),
        cmocka_unit_test(test_chat__control_tokens_in_a_message_are_plain_text),
        cmocka_unit_test(test_chat__logit_bias_takes_texts_and_ids),
        cmocka_unit_test(test_chat__a_stop_string_cuts_the_answer_and_stops_the_engine),
        cmocka_unit_test(test_chat__what_could_have_become_a_stop_string_is_shown_at_the_end),
        cmocka_unit_test(test_chat__an_interrupted_answer_is_kept_and_marked),
        cmocka_unit_test(test_chat__a_turn_without_a_word_is_taken_back),
        cmocka_unit_test(test_chat__regenerate_asks_the_same_with_another_seed),
        cmocka_unit_test(test_chat__undo_takes_back_message_and_answer),
        cmocka_unit_test(test_chat__a_call_is_run_and_the_sampled_ids_stay_the_prefix_of_the_next_prompt),
        cmocka_unit_test(test_chat__a_call_written_oddly_is_rendered_by_the_template),
        cmocka_unit_test(test_chat__the_tool_definitions_are_the_ones_the_demo_model_knows),
        cmocka_unit_test(test_chat__an_unknown_tool_is_answered_with_an_error),
        cmocka_unit_test(test_chat__a_configured_tool_asks_and_always_means_never_again),
        cmocka_unit_test(test_chat__built_in_tools_ask_only_when_told_to),
        cmocka_unit_test(test_chat__an_approval_that_names_no_tool_is_refused),
        cmocka_unit_test(test_chat__a_refused_call_is_reported_to_the_model),
        cmocka_unit_test(test_chat__scripts_can_allow_tools_by_name),
        cmocka_unit_test(test_chat__an_interrupt_ends_a_running_tool),
        cmocka_unit_test(test_chat__a_tool_that_does_not_listen_is_killed_by_the_second_interrupt),
        cmocka_unit_test(test_chat__a_tool_is_heard_while_it_runs),
        cmocka_unit_test(test_chat__an_answer_of_calls_without_end_is_ended),
        cmocka_unit_test(test_chat__rounds_of_calls_end),
        cmocka_unit_test(test_chat__a_branch_behind_a_call_keeps_the_call),
        cmocka_unit_test(test_chat__what_cannot_be_branched_stays),
        cmocka_unit_test(test_chat__a_call_after_reasoning_that_was_ended_keeps_the_prefix),
        cmocka_unit_test(test_chat__a_call_that_was_cut_off_is_never_run),
        cmocka_unit_test(test_chat__a_bias_that_the_model_cannot_have_ends_the_chat_at_its_start),
        cmocka_unit_test(test_chat__a_prompt_longer_than_the_context_is_refused_with_both_numbers),
        cmocka_unit_test(test_chat__an_error_of_the_engine_ends_the_turn_only),
        cmocka_unit_test(test_chat__a_dead_engine_leaves_the_conversation),
        cmocka_unit_test(test_chat__a_missing_tokenizer_is_fatal_with_its_name),
        cmocka_unit_test(test_chat__figures_count_tokens_after_the_first),
        cmocka_unit_test(test_chat__sampling_is_the_users_then_the_checkpoints_then_the_cards),
        cmocka_unit_test(test_chat__what_the_next_prompt_begins_with_is_read_ahead),
        cmocka_unit_test(test_chat__the_draft_is_read_ahead_while_it_is_typed),
        cmocka_unit_test(test_chat__of_a_very_long_draft_the_beginning_is_read_ahead),
        cmocka_unit_test(test_chat__nothing_is_read_ahead_when_that_is_off_or_nobody_types),
        cmocka_unit_test(test_chat__a_loaded_conversation_continues_with_the_same_prompt),
        cmocka_unit_test(test_chat__a_conversation_has_a_checkpoint),
        cmocka_unit_test(test_chat__an_end_in_the_middle_is_saved),
        cmocka_unit_test(test_chat__each_conversation_is_named_to_the_engine),
        cmocka_unit_test(test_chat__bytes_that_are_not_text_become_replacement_characters),
    };
    static const char *const about_tokens[] = {
        "test_chat__a_turn_says_what_it_took_of_the_meter", "test_chat__logit_bias_takes_texts_and_ids",
        "test_chat__a_branch_behind_a_call_keeps_the_call", "test_chat__what_cannot_be_branched_stays",
        "test_chat__a_call_after_reasoning_that_was_ended_keeps_the_prefix",
        "test_chat__a_prompt_longer_than_the_context_is_refused_with_both_numbers",
        "test_chat__what_the_next_prompt_begins_with_is_read_ahead", "test_chat__a_missing_tokenizer_is_fatal_with_its_name",
        "test_chat__sampling_is_the_users_then_the_checkpoints_then_the_cards",
        "test_chat__the_draft_is_read_ahead_while_it_is_typed", "test_chat__of_a_very_long_draft_the_beginning_is_read_ahead",
        "test_chat__an_answer_given_again_is_compared",
        "test_chat__a_conversation_has_a_checkpoint", "test_chat__an_end_in_the_middle_is_saved",
        "test_chat__a_bias_that_the_model_cannot_have_ends_the_chat_at_its_start", NULL,
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += run_by_text("chat by text", tests, sizeof tests / sizeof *tests, about_tokens);
    talk_free();
    return failed;
}

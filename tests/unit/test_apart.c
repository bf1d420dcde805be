/* Programs that use one engine stay apart: no option of a chat reaches the answer of a pipe that the chat's engine makes, and none of a pipe reaches
 * the chat.  Each option of the table is set, whatever it is for, so that a new one is tried, too; what the engine gets and what the program shows is
 * compared with what is the same without the other program. */
#include "beside.h"

#define ANSWER "one two three</think>Hello there, how are you?"

static void expect_answers(void)
{
    for (int i = 0; i < fake.n_submits; i++)
        ids_free(&fake.prompts[i]);
    fake.n_submits = 0;
    for (fake.n_answers = 0; fake.n_answers < FAKE_MAX;)
        fake_say(ANSWER);
}

/* Appends what the engine got: all that shapes the answer. */
static void describe_requests(struct buf *out)
{
    for (int k = 0; k < fake.n_submits; k++) {
        const struct sampling *s = &fake.samplings[k];
        buf_addf(out, "prompt");
        for (int i = 0; i < fake.prompts[k].n; i++)
            buf_addf(out, " %d", fake.prompts[k].data[i]);
#define SAMPLING_NUMBER(name, ...) buf_addf(out, "\n" #name " %.9g", (double)s->name);
#include "config/sampling_numbers.def"
        buf_addf(out, "\ntop_k %d seed %llu max_tokens %d prefix %d bias", s->top_k, (unsigned long long)s->seed, s->max_tokens, s->n_answer_prefix);
        for (int i = 0; i < s->n_bias; i++)
            buf_addf(out, " %d=%.9g", s->bias_ids[i], (double)s->bias[i]);
        buf_addc(out, '\n');
    }
}

/* Appends the first turn of a new conversation: what the engine got, and what came of it. */
static void describe(struct talk *t, struct talk *chat, struct buf *out)
{
    struct err e = {{0}};
    while (fake_engine->running)        /* for one that has stopped reading */
        step_both(t, chat);
    expect_answers();
    assert_true(chat_new(t->c, &e));
    submit(t, "Hello");
    while (!step_both(t, chat))
        ;
    describe_requests(out);
    buf_addf(out, "%s|%s|%s %s\n", buf_str(&t->s.reasoning), buf_str(&t->s.text), end_word(t->s.last.end), t->s.why);
}

/* Another value of the option than its default, in most cases. */
static const char *other_value(enum option_id id, const struct option_about *about)
{
    static char value[64];
    switch (about->type) {
    case VALUE_CHOICE: {
        const char *last = about->choices ? strrchr(about->choices, '|') : NULL;
        return last ? last + 1 : about->choices ? about->choices : "";
    }
    case VALUE_SWITCH:
        return strcmp(about->standard, "on") ? "on" : "off";
    case VALUE_INT:
    case VALUE_SIZE:
        snprintf(value, sizeof value, "%.0f", about->min + 2);
        return value;
    case VALUE_REAL:
        return id == OPT_repetition_penalty ? "1.5" : "0.25";
    case VALUE_SEED:
        return "99";
    case VALUE_BIAS:
        return "104=-inf";
    default:
        return "Hello";                 /* the answer has it: a stop string would be found */
    }
}

/* Sets this option; false: it has no such value. */
static bool set_other(struct options *o, enum option_id id, char *row, size_t size)
{
    struct option_about about;
    struct err e = {{0}};
    assert_true(options_about(id, &about));
    const char *value = other_value(id, &about);
    snprintf(row, size, "%s = %s", about.key, value);
    return options_set(o, id, value, FROM_SET, &e);
}

static void assert_alike(const char *what, const char *row, const struct buf *got, const struct buf *wanted)
{
    if (strcmp(buf_str(got), buf_str(wanted)))
        fail_msg("%s, %s:\n%s\ninstead of\n%s", what, row, buf_str(got), buf_str(wanted));
}

static void begin_test(void)
{
    fake_reset();
    fake.limits = true;
    fake.gen_temperature = 0.6f;        /* the model's own */
}

/* One option after the other is set in `changed`, then both say their first turn: that of `observed` must be the one that it is without. */
static void compare(const char *what, struct talk *changed, struct talk *observed, struct talk *chat)
{
    struct buf wanted = {0}, got = {0}, other = {0};
    int n_set = 0, n_effective = 0;
    describe(observed, observed == chat ? NULL : chat, &wanted);
    for (int id = 0; id < N_OPTIONS; id++) {
        char row[128];
        options_push(changed->o);
        if (set_other(changed->o, (enum option_id)id, row, sizeof row)) {
            buf_reset(&got);
            buf_reset(&other);
            describe(changed, changed == chat ? NULL : chat, &other);
            describe(observed, observed == chat ? NULL : chat, &got);
            assert_alike(what, row, &got, &wanted);
            n_set++;
            n_effective += strcmp(other.data, wanted.data) != 0;
        }
        options_pop(changed->o);
    }
    assert_true(n_set > N_OPTIONS - 4 && n_effective >= 12);        /* nearly all have another value, and those of answers count where they are set */
    forget(&observed->s);
    buf_free(&wanted);
    buf_free(&got);
    buf_free(&other);
}

static void compare_with_chat(const char *what, bool pipe, bool chat_changes)
{
    struct talk chat, t;
    begin_test();
    open_chat(&chat);
    attach(&t, pipe);
    compare(what, chat_changes ? &chat : &t, chat_changes ? &t : &chat, &chat);
    end(&t);
    end(&chat);
}

static void test_apart__no_option_of_a_chat_reaches_a_program_that_it_answers(void **state)
{
    (void)state;
    compare_with_chat("a pipe", true, true);
    compare_with_chat("an attached chat", false, true);
}

static void test_apart__no_option_of_a_program_reaches_the_chat_that_answers_it(void **state)
{
    (void)state;
    compare_with_chat("the chat that answers a pipe", true, false);
    compare_with_chat("the chat that answers another", false, false);
}

/* With each option the program has the answer that it would have if it loaded the model itself. */
static void test_apart__an_answer_of_another_program_is_the_one_that_it_would_make_itself(void **state)
{
    struct talk alone, chat, t;
    struct buf wanted[N_OPTIONS] = {{0}}, got = {0};
    char row[128];
    (void)state;
    begin_test();
    open_alone(&alone);
    for (int id = 0; id < N_OPTIONS; id++) {
        options_push(alone.o);
        if (set_other(alone.o, (enum option_id)id, row, sizeof row))
            describe(&alone, NULL, &wanted[id]);
        options_pop(alone.o);
    }
    end(&alone);
    open_chat(&chat);
    for (int pipe = 0; pipe < 2; pipe++) {
        attach(&t, pipe);
        for (int id = 0; id < N_OPTIONS; id++) {
            options_push(t.o);
            buf_reset(&got);
            if (set_other(t.o, (enum option_id)id, row, sizeof row)) {
                describe(&t, &chat, &got);
                assert_alike(pipe ? "a pipe" : "an attached chat", row, &got, &wanted[id]);
            }
            options_pop(t.o);
        }
        end(&t);
    }
    end(&chat);
    for (int id = 0; id < N_OPTIONS; id++)
        buf_free(&wanted[id]);
    buf_free(&got);
}

static void test_apart__an_answer_ends_where_its_server_does_not(void **state)
{
    struct talk chat, t;
    struct buf got = {0};
    (void)state;
    begin_test();
    fake.limits = false;
    open_chat(&chat);
    attach(&t, false);
    must_set(t.o, OPT_max_tokens, "20");
    describe(&t, &chat, &got);
    assert_int_equal(t.s.last.end, END_FAILED);
    assert_string_equal(t.s.why, "the q35chat that has loaded the model does not stop: 29 tokens came, where 20 are the limit");
    assert_string_equal(buf_str(&t.s.reasoning), "one two three");      /* what came before that is kept */
    must_set(t.o, OPT_max_tokens, "0");
    describe(&t, &chat, &got);          /* the next one is as ever */
    assert_int_equal(t.s.last.end, END_STOP);
    buf_free(&got);
    end(&t);
    end(&chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apart__no_option_of_a_chat_reaches_a_program_that_it_answers),
        cmocka_unit_test(test_apart__no_option_of_a_program_reaches_the_chat_that_answers_it),
        cmocka_unit_test(test_apart__an_answer_of_another_program_is_the_one_that_it_would_make_itself),
        cmocka_unit_test(test_apart__an_answer_ends_where_its_server_does_not),
    };
    return run_beside(tests, sizeof tests / sizeof *tests);
}

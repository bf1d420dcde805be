/* The gate against streams of tokens whose drafts are right with known probabilities, at given prices: it must come near the best fixed
 * number of drafts without being told, follow a stream that changes, and never lose much to no drafts at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/gate.h"

enum { LONG = 40000, SWITCH = 200 };

/* A machine: what steps of 1 to 8 rows and a draft take, in units of a step of one row. */
struct machine {
    const char *name;
    double step[GATE_ROWS], draft;
};

/* A third of a step's bytes are experts, of which n rows need about 8 n^0.77. */
static const struct machine machines[] = {
    {"memory is the price",        {1, 1.23, 1.44, 1.63, 1.81, 1.98, 2.14, 2.30}, 0.10},
    {"... and drafts are cheap",   {1, 1.23, 1.44, 1.63, 1.81, 1.98, 2.14, 2.30}, 0.055},
    {"rows cost next to nothing",  {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7},        0.03},
    {"every row costs a step",     {1, 1.8, 2.6, 3.4, 4.2, 5.0, 5.8, 6.6},        0.15},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

/* The probability that a draft is right. */
struct stream {
    double even, odd;                   /* in turns of SWITCH tokens */
    int    telling;                     /* the draft's own probability says whether it is a good one */
};

static uint64_t seed;

static double random_number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) * 0x1p-53;
}

static double draw(const struct stream *s, int token, float *prob)
{
    const double mean = token / SWITCH % 2 ? s->odd : s->even;
    if (!s->telling) {
        *prob = 0.75f;
        return mean;
    }
    *prob = (float)(random_number() < mean ? 0.6 + 0.4 * sqrt(random_number()) : 0.3 * random_number());
    return (double)*prob;
}

/* Tokens a unit of time: by the gate, or with a fixed number of drafts, another one in odd turns. */
static double run(const struct machine *m, const struct stream *s, struct gate *g, int even, int odd, int n_tokens)
{
    double time = 0;
    int tokens = 0;
    while (tokens < n_tokens) {
        const int fixed = tokens / SWITCH % 2 ? odd : even;
        double right[GATE_ROWS];
        float prob[GATE_ROWS];
        int n = 0, n_right = 0;
        for (int more; (more = g ? gate_make(g, prob, n, 1) : n < fixed) > 0; n += more)
            right[n] = draw(s, tokens, &prob[n]);
        const int n_verified = g ? gate_verify(g, prob, n) : n;
        time += n * m->draft + m->step[n_verified];
        while (n_right < n && random_number() < right[n_right])
            n_right++;
        const int accepted = n_right < n_verified ? n_right : n_verified;
        tokens += 1 + accepted;
        if (!g)
            continue;
        const double noise = 0.95 + 0.1 * random_number();
        if (n)
            gate_drafts_took(g, n, noise * n * m->draft);
        gate_step_took(g, 1 + n_verified, noise * m->step[n_verified]);
        gate_learn(g, prob, n, n_right, 1 + accepted);
    }
    return tokens / time;
}

/* The mean of some runs and three standard errors of it: another libm gives other runs, and there are some thirty comparisons. */
static double gated(const struct machine *m, const struct stream *s, int n_tokens)
{
    enum { RUNS = 8 };
    double sum = 0, squares = 0;
    for (int i = 0; i < RUNS; i++) {
        struct gate g;
        gate_init(&g, ENGINE_MAX_DEPTH);
        const double rate = run(m, s, &g, 0, 0, n_tokens / 4);
        sum += rate;
        squares += rate * rate;
    }
    const double mean = sum / RUNS;
    return mean + 3 * sqrt(fmax(0, squares / RUNS - mean * mean) / (RUNS - 1));
}

static double best_fixed(const struct machine *m, const struct stream *s, int *n)
{
    double best = 0;
    *n = 0;
    for (int i = 0; i <= ENGINE_MAX_DEPTH; i++) {
        const double rate = run(m, s, NULL, i, i, 2 * LONG);
        if (rate > best) {
            best = rate;
            *n = i;
        }
    }
    return best;
}

static void reaches(const char *what, double acceptance, double rate, double least)
{
    if (rate < least)
        fail_msg("%s, %g accepted: %g tokens a unit of time, expected at least %g", what, acceptance, rate, least);
}

static void test_gate__it_comes_near_the_best_fixed_number_of_drafts(void **state)
{
    (void)state;
    const double acceptances[] = {0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
    for (int i = 0; i < N_MACHINES; i++)
        for (int j = 0; j < 7; j++)
            for (int telling = 0; telling < 2; telling++) {
                const struct stream s = {acceptances[j], acceptances[j], telling};
                int n;
                seed = 88172645463325252u;
                const double best = best_fixed(&machines[i], &s, &n), rate = gated(&machines[i], &s, LONG);
                reaches(machines[i].name, acceptances[j], rate, 0.97 * best);
                reaches(machines[i].name, acceptances[j], rate, 0.98);          /* 1 is without drafts */
            }
}

static void test_gate__it_follows_a_stream_that_changes(void **state)
{
    (void)state;
    for (int i = 0; i < N_MACHINES; i++) {
        const struct stream low = {0.4, 0.4, 0}, high = {0.95, 0.95, 0}, both = {0.4, 0.95, 0};
        int n_low, n_high;
        seed = 88172645463325252u;
        best_fixed(&machines[i], &low, &n_low);
        best_fixed(&machines[i], &high, &n_high);
        reaches(machines[i].name, 0.4, gated(&machines[i], &both, 4 * LONG), 0.95 * run(&machines[i], &both, NULL, n_low, n_high, 4 * LONG));
    }
}

static void test_gate__probabilities_that_tell_are_worth_more_than_any_fixed_number(void **state)
{
    (void)state;
    const struct stream s = {0.7, 0.7, 1};
    int n;
    seed = 88172645463325252u;
    const double best = best_fixed(&machines[0], &s, &n), rate = gated(&machines[0], &s, LONG);
    reaches(machines[0].name, 0.7, rate, 1.05 * best);
}

static void test_gate__prices_stay_when_an_answer_ends_and_one_hiccup_changes_little(void **state)
{
    (void)state;
    const struct machine *m = &machines[0];
    const struct stream s = {0.9, 0.9, 0};
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH);
    seed = 88172645463325252u;
    run(m, &s, &g, 0, 0, 2000);
    const struct gate before = g;
    gate_begin(&g);
    assert_true(g.one_ms == before.one_ms && g.draft_ms == before.draft_ms);
    assert_memory_equal(g.ratio, before.ratio, sizeof g.ratio);
    gate_step_took(&g, 4, 1000);
    gate_drafts_took(&g, 3, 1000);
    assert_true(g.one_ms < 1.1 * before.one_ms && g.ratio[3] < 1.1 * before.ratio[3] && g.draft_ms < 1.1 * before.draft_ms);
    float prob[GATE_ROWS];
    for (int i = 0; i < ENGINE_MAX_DEPTH; i++)
        prob[i] = 0.75f;
    assert_true(gate_verify(&g, prob, 3) >= 2);
}

/* The first step of two rows meets a busy machine. */
static void test_gate__a_price_that_was_measured_wrong_is_measured_again(void **state)
{
    (void)state;
    const struct machine *m = &machines[0];
    const struct stream s = {0.9, 0.9, 0};
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH);
    seed = 88172645463325252u;
    gate_step_took(&g, 1, 1);
    for (int rows = 2; rows <= GATE_ROWS; rows++)
        gate_step_took(&g, rows, 100);
    run(m, &s, &g, 0, 0, 5000);
    reaches("after wrong prices", 0.9, run(m, &s, &g, 0, 0, LONG), 1.75);
}

static void test_gate__what_is_found_in_the_text_is_verified_while_it_is_right(void **state)
{
    (void)state;
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH);
    for (int i = 0; i < 20; i++) {
        gate_step_took(&g, 1, 10);
        gate_drafts_took(&g, 1, 1);
    }
    for (int i = 0; i < 10; i++)
        gate_learn_look_up(&g, 20, ENGINE_MAX_DEPTH, ENGINE_MAX_DEPTH);
    assert_int_equal(gate_look_up(&g, 20), ENGINE_MAX_DEPTH);
    for (int i = 0; i < 10; i++)
        gate_learn_look_up(&g, 20, 0, 1);
    assert_int_equal(gate_look_up(&g, 20), 0);
}

static void test_gate__no_drafts_are_made_where_there_may_be_none(void **state)
{
    (void)state;
    struct gate g;
    gate_init(&g, 0);
    gate_step_took(&g, 1, 5);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(gate_make(&g, NULL, 0, 1), 0);
        assert_int_equal(gate_verify(&g, NULL, 0), 0);
        gate_learn(&g, NULL, 0, 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate__it_comes_near_the_best_fixed_number_of_drafts),
        cmocka_unit_test(test_gate__it_follows_a_stream_that_changes),
        cmocka_unit_test(test_gate__probabilities_that_tell_are_worth_more_than_any_fixed_number),
        cmocka_unit_test(test_gate__prices_stay_when_an_answer_ends_and_one_hiccup_changes_little),
        cmocka_unit_test(test_gate__a_price_that_was_measured_wrong_is_measured_again),
        cmocka_unit_test(test_gate__what_is_found_in_the_text_is_verified_while_it_is_right),
        cmocka_unit_test(test_gate__no_drafts_are_made_where_there_may_be_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

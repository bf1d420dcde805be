/* The gate against streams of tokens whose drafts are right with known probabilities, at given prices: it must come near the best fixed
 * number of drafts without being told, follow a stream that changes, and never lose much to no drafts at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/gate.h"
#include "priced.h"

enum { LONG = 40000, SWITCH = 200 };    /* tokens */

/* A third of a step's bytes are experts, of which n rows need about 8 n^0.77. */
static const struct machine machines[] = {
    {"memory is the price",        {1, 1.23, 1.44, 1.63, 1.81, 1.98, 2.14, 2.30}, 0.10,  1},
    {"... and drafts are cheap",   {1, 1.23, 1.44, 1.63, 1.81, 1.98, 2.14, 2.30}, 0.055, 1},
    {"rows cost next to nothing",  {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7},        0.03,  1},
    {"every row costs a step",     {1, 1.8, 2.6, 3.4, 4.2, 5.0, 5.8, 6.6},        0.15,  1},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

/* Measured on an H200 (docs/log/2026-11.md, 2026-11-23): with weights in host memory, and at full speed, where a step with 0 to 3 drafts is
 * measured as a whole and a draft is taken to be 0.1 ms of it, and rows behind the fourth are those of an earlier run. */
static const struct machine measured[] = {
    {"starved",    {99.1, 121.7, 144.4, 169.1, 188.0, 209.8, 233.1, 251.8}, 5.5, 1},
    {"full speed", {2.052, 2.621, 3.237, 3.638, 5.684, 6.195, 6.737, 7.194}, 0.1, ENGINE_MAX_DEPTH},
};
/* The first of them, if a draft read fewer bytes: an MTP block of half the bytes. */
static const struct machine cheaper = {"starved, a draft 4 ms", {99.1, 121.7, 144.4, 169.1, 188.0, 209.8, 233.1, 251.8}, 4.0, 1};
enum { N_MEASURED = sizeof measured / sizeof *measured };

/* The probability that a draft is right. */
struct stream {
    double even, odd;                   /* in turns of SWITCH tokens */
    int    telling;                     /* the draft's own probability says whether it is a good one */
};

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

/* Tokens that came, and their time.  Drafts count as the tokens that they give on average: a short run's luck would be some percent. */
struct came {
    double tokens, time;
};

static double expected(const double *right, int n)
{
    double all = 1, tokens = 1;
    for (int i = 0; i < n; i++)
        tokens += all *= right[i];
    return tokens;
}

static bool late[GATE_ROWS];            /* the first step of so many rows, less one, takes half as long again, which counts in its price alone */

static double noise(int rows)
{
    const double by = (0.95 + 0.1 * random_number()) * (late[rows - 1] ? 1.5 : 1);
    late[rows - 1] = false;
    return by;
}

/* The decision for an answer without an end, of whose drafts the MTP block made n. */
static struct decision decide(const struct gate *g, const float *prob, int n, int at_a_time)
{
    return gate_decide(g, &(struct offers){.room = 1 << 20, .n = n, .prob = prob, .at_a_time = at_a_time});
}

/* Drafts found in the text that a step verifies. */
static int verified(const struct gate *g, int match)
{
    const struct decision d = gate_decide(g, &(struct offers){.room = 1 << 20, .match = match});
    return d.source == DRAFT_LOOKUP ? d.rows - 1 : 0;
}

/* By the gate, or with a fixed number of drafts, another one in odd turns. */
static struct came answer(const struct machine *m, const struct stream *s, struct gate *g, struct price *p, int even, int odd, int n_tokens)
{
    struct came o = {0};
    int tokens = 0;
    while (tokens < n_tokens) {
        const int fixed = tokens / SWITCH % 2 ? odd : even;
        double right[GATE_ROWS];
        float prob[GATE_ROWS];
        int n = 0, n_right = 0;
        for (int more; (more = g ? decide(g, prob, n, m->lot).make : fixed - n) > 0;)
            for (; more; more--, n++)
                right[n] = draw(s, tokens, &prob[n]);
        const int n_verified = g ? decide(g, prob, n, 0).rows - 1 : n;
        o.time += n * m->draft + m->step[n_verified];
        o.tokens += expected(right, n_verified);
        while (n_right < n && random_number() < right[n_right])
            n_right++;
        const int accepted = n_right < n_verified ? n_right : n_verified;
        tokens += 1 + accepted;
        if (!g)
            continue;
        const double by = noise(1 + n_verified);
        if (n)
            price_drafts_took(p, 1, n, by * n * m->draft);
        price_step_took(p, 1 + n_verified, by * m->step[n_verified]);
        gate_learn(g, prob, n, n_right, 1 + accepted);
    }
    return o;
}

/* Tokens a unit of time. */
static double run(const struct machine *m, const struct stream *s, struct gate *g, struct price *p, int even, int odd, int n_tokens)
{
    const struct came o = answer(m, s, g, p, even, odd, n_tokens);
    return o.tokens / o.time;
}

/* The mean of some runs and three standard errors of it: another libm gives other runs, and there are some thirty comparisons. */
static double gated(const struct machine *m, const struct stream *s, int n_tokens)
{
    enum { RUNS = 8 };
    double sum = 0, squares = 0;
    for (int i = 0; i < RUNS; i++) {
        struct price p = {0};
        struct gate g;
        gate_init(&g, ENGINE_MAX_DEPTH, &p);
        const double rate = run(m, s, &g, &p, 0, 0, n_tokens / 4);
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
        const double rate = run(m, s, NULL, NULL, i, i, 2 * LONG);
        if (rate > best) {
            best = rate;
            *n = i;
        }
    }
    return best;
}

/* Tokens a unit of time for somebody who knows the chances, with the best fixed number of drafts for each. */
static double knowing(const struct machine *m, const struct stream *s)
{
    double time = 0;
    for (int odd = 0; odd < 2; odd++) {
        double right[ENGINE_MAX_DEPTH], best = 0;
        for (int i = 0; i < ENGINE_MAX_DEPTH; i++)
            right[i] = odd ? s->odd : s->even;
        for (int n = 0; n <= ENGINE_MAX_DEPTH; n++)
            best = fmax(best, expected(right, n) / (m->step[n] + n * m->draft));
        time += 0.5 / best;
    }
    return 1 / time;
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
                random_begin();
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
        random_begin();
        best_fixed(&machines[i], &low, &n_low);
        best_fixed(&machines[i], &high, &n_high);
        reaches(machines[i].name, 0.4, gated(&machines[i], &both, 4 * LONG), 0.95 * run(&machines[i], &both, NULL, NULL, n_low, n_high, 4 * LONG));
    }
}

/* ---- answers on measured machines, in a table */

enum { IN_A_ROW = 10, ROWS_OF_ANSWERS = 24 };

struct row {
    double first, last;                 /* tokens a unit of time in the first and in the last answer, over the best that somebody could choose */
};

/* Answers one after the other, `odd` of every second one. */
static struct row answers(const struct machine *m, const struct stream *even, const struct stream *odd, int n_tokens)
{
    struct came first = {0}, last = {0};
    const struct stream *at_last = (IN_A_ROW - 1) % 2 ? odd : even;
    for (int i = 0; i < ROWS_OF_ANSWERS; i++) {
        struct price p = {0};
        struct gate g;
        gate_init(&g, ENGINE_MAX_DEPTH, &p);
        for (int k = 0; k < IN_A_ROW; k++) {
            gate_begin(&g);
            const struct came o = answer(m, k % 2 ? odd : even, &g, &p, 0, 0, n_tokens);
            struct came *sum = !k ? &first : &last;
            if (!k || k == IN_A_ROW - 1) {
                sum->tokens += o.tokens;
                sum->time += o.time;
            }
        }
    }
    return (struct row){first.tokens / first.time / knowing(m, even), last.tokens / last.time / knowing(m, at_last)};
}

static void test_gate__an_answer_begins_with_what_answers_before_it_taught(void **state)
{
    (void)state;
    static const struct {
        double chance;
        double least[3];                /* of the tenth answer, by length */
    } rows[] = {
        {0.3, {0.98, 0.985, 0.985}}, {0.4, {0.98, 0.98, 0.98}}, {0.7, {0.97, 0.985, 0.985}}, {0.8, {0.97, 0.98, 0.985}},
        {0.9, {0.965, 0.98, 0.985}}, {0.95, {0.96, 0.97, 0.985}},
    };
    static const int lengths[] = {64, 256, 1024};
    static const double least_of_first[] = {0.9, 0.96, 0.975};
    random_begin();
    printf("tokens a second over those of the best fixed number: first answer, tenth answer, by the length of answers\n%-12s%-6s", "", "chance");
    for (int l = 0; l < 3; l++)
        printf("%9d      ", lengths[l]);
    for (int i = 0; i < N_MEASURED; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            const struct stream s = {rows[j].chance, rows[j].chance, 0};
            printf("\n%-12s%-6g", measured[i].name, rows[j].chance);
            for (int l = 0; l < 3; l++) {
                const struct row r = answers(&measured[i], &s, &s, lengths[l]);
                printf("  %.3f %.3f  ", r.first, r.last);
                reaches(measured[i].name, rows[j].chance, r.first, least_of_first[l]);
                reaches(measured[i].name, rows[j].chance, r.last, rows[j].least[l]);
            }
        }
    printf("\n");
}

static void test_gate__what_took_turns_before_is_expected_to_take_turns(void **state)
{
    (void)state;
    static const struct stream s = {0.4, 0.95, 0};
    random_begin();
    for (int i = 0; i < N_MEASURED; i++) {
        const struct row r = answers(&measured[i], &s, &s, 4 * SWITCH);
        printf("%s, 0.4 and 0.95 in turns of %d tokens: %.3f of knowing the turn in the first answer, %.3f in the tenth\n", measured[i].name, SWITCH,
               r.first, r.last);
        reaches(measured[i].name, 0.4, r.first, 0.95);
        reaches(measured[i].name, 0.4, r.last, 0.965);
    }
}

static void test_gate__an_answer_unlike_the_one_before_it_loses_little(void **state)
{
    (void)state;
    static const struct stream good = {0.95, 0.95, 0}, bad = {0.3, 0.3, 0};
    static const int lengths[] = {64, 256, 1024};
    static const double least_of_bad[] = {0.96, 0.98, 0.985}, least_of_good[] = {0.93, 0.97, 0.985};
    random_begin();
    for (int i = 0; i < N_MEASURED; i++)
        for (int l = 0; l < 3; l++) {
            const struct row of_bad = answers(&measured[i], &good, &bad, lengths[l]), of_good = answers(&measured[i], &bad, &good, lengths[l]);
            const double none = of_bad.last * knowing(&measured[i], &bad) * measured[i].step[0];
            printf("%s, %d tokens: 0.3 after 0.95: %.3f of no drafts; 0.95 after 0.3: %.3f of the best fixed number\n", measured[i].name, lengths[l],
                   none, of_good.last);
            reaches(measured[i].name, 0.3, none, least_of_bad[l]);
            reaches(measured[i].name, 0.95, of_good.last, least_of_good[l]);
        }
}

/* The first answer of a start, of so many tokens, with prices that are measured in it, or that earlier answers of other chances have left
 * (engine/price.h).  The mean of some starts. */
static struct came first_answer(const struct machine *m, const struct stream *s, bool remembered, int n_tokens)
{
    enum { STARTS = 48 };
    static const struct stream earlier[] = {{0.3, 0.3, 0}, {0.9, 0.9, 0}};
    struct came sum = {0};
    for (int i = 0; i < STARTS; i++) {
        struct price p = {0};
        struct gate before, g;
        gate_init(&before, ENGINE_MAX_DEPTH, &p);
        for (int k = 0; remembered && k < 4; k++) {
            gate_begin(&before);
            answer(m, &earlier[k % 2], &before, &p, 0, 0, 256);
        }
        gate_init(&g, ENGINE_MAX_DEPTH, &p);
        gate_begin(&g);
        const struct came o = answer(m, s, &g, &p, 0, 0, n_tokens);
        sum.tokens += o.tokens;
        sum.time += o.time;
    }
    return sum;
}

static void test_gate__the_first_answer_of_a_start_gains_by_prices_of_an_earlier_one(void **state)
{
    (void)state;
    static const struct {
        double chance, goal;            /* of no drafts, where a draft is 4 % of a step */
    } rows[] = {{0.3, 0.98}, {0.7, 1.35}, {0.8, 1.55}, {0.9, 1.95}, {0.95, 2.3}};
    const struct machine *const machines_of[] = {&measured[0], &cheaper, &measured[1]};
    random_begin();
    printf("the first answer of a start, tokens a second over none (over the best fixed number), prices not known, and remembered\n"
           "%-25s%-6s%32s%32s\n", "", "chance", "64 tokens", "256 tokens");
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            const struct machine *m = machines_of[i];
            const struct stream s = {rows[j].chance, rows[j].chance, 0};
            double rate[2] = {0};
            printf("%-25s%-6g", m->name, rows[j].chance);
            for (int l = 0; l < 2; l++)
                for (int known = 0; known < 2; known++) {
                    const struct came o = first_answer(m, &s, known, l ? 256 : 64);
                    rate[known] = o.tokens / o.time;
                    printf("   %5.2f (%.3f)", rate[known] * m->step[0], rate[known] / knowing(m, &s));
                }
            printf("\n");
            reaches(m->name, rows[j].chance, rate[1], 0.995 * rate[0]);
            reaches(m->name, rows[j].chance, rate[1], 0.97 * knowing(m, &s));
            if (m == &cheaper)
                reaches(m->name, rows[j].chance, rate[1] * m->step[0], rows[j].goal);
        }
}

static void test_gate__probabilities_that_tell_are_worth_more_than_any_fixed_number(void **state)
{
    (void)state;
    const struct stream s = {0.7, 0.7, 1};
    int n;
    random_begin();
    const double best = best_fixed(&machines[0], &s, &n), rate = gated(&machines[0], &s, LONG);
    reaches(machines[0].name, 0.7, rate, 1.05 * best);
}

static void test_gate__prices_stay_when_an_answer_ends_and_one_hiccup_changes_little(void **state)
{
    (void)state;
    const struct machine *m = &machines[0];
    const struct stream s = {0.9, 0.9, 0};
    struct price p = {0};
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH, &p);
    random_begin();
    run(m, &s, &g, &p, 0, 0, 2000);
    const struct price before = p;
    gate_begin(&g);
    assert_memory_equal(&p, &before, sizeof p);
    price_step_took(&p, 4, 1000);
    price_drafts_took(&p, 1, 3, 1000);
    assert_true(p.one_ms < 1.1 * before.one_ms && p.ratio[3] < 1.1 * before.ratio[3] && p.draft_ms[0] < 1.1 * before.draft_ms[0]);
    float prob[GATE_ROWS];
    for (int i = 0; i < ENGINE_MAX_DEPTH; i++)
        prob[i] = 0.75f;
    assert_true(decide(&g, prob, 3, 0).rows >= 3);
}

/* The first step of two rows meets a busy machine. */
static void test_gate__a_price_that_was_measured_wrong_is_measured_again(void **state)
{
    (void)state;
    const struct machine *m = &machines[0];
    const struct stream s = {0.9, 0.9, 0};
    struct price p = {0};
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH, &p);
    random_begin();
    price_step_took(&p, 1, 1);
    for (int rows = 2; rows <= GATE_ROWS; rows++)
        price_step_took(&p, rows, 100);
    run(m, &s, &g, &p, 0, 0, 5000);
    reaches("after wrong prices", 0.9, run(m, &s, &g, &p, 0, 0, LONG), 1.75);
}

/* The very first step meets cold caches, and then drafts are right for long, so that no step has one row. */
static void test_gate__a_first_step_that_was_cold_is_found_out(void **state)
{
    (void)state;
    const struct stream good = {0.95, 0.95, 0}, bad = {0.3, 0.3, 0};
    random_begin();
    for (int i = 0; i < N_MACHINES; i++) {
        const struct machine *m = &machines[i];
        double tokens = 0, time = 0;
        for (int k = 0; k < 8; k++) {
            struct price p = {0};
            struct gate g;
            gate_init(&g, ENGINE_MAX_DEPTH, &p);
            price_step_took(&p, 1, 8 * m->step[0]);
            answer(m, &good, &g, &p, 0, 0, 2500);
            gate_begin(&g);
            answer(m, &bad, &g, &p, 0, 0, 256);
            const struct came o = answer(m, &bad, &g, &p, 0, 0, 1024);
            tokens += o.tokens;
            time += o.time;
        }
        reaches(m->name, 0.3, tokens / time * m->step[0], 0.96);
    }
}

/* Whichever number of rows is disturbed when it is measured for the first time. */
static void test_gate__a_first_measurement_that_was_disturbed_is_found_out(void **state)
{
    (void)state;
    const struct stream good = {0.95, 0.95, 0};
    random_begin();
    for (int rows = 2; rows <= GATE_ROWS; rows++) {
        double tokens = 0, time = 0;
        int n;
        for (int k = 0; k < 24; k++) {
            struct price p = {0};
            struct gate g;
            gate_init(&g, ENGINE_MAX_DEPTH, &p);
            late[rows - 1] = true;
            answer(&cheaper, &good, &g, &p, 0, 0, 256);
            late[rows - 1] = false;
            gate_begin(&g);
            const struct came o = answer(&cheaper, &good, &g, &p, 0, 0, 512);
            tokens += o.tokens;
            time += o.time;
        }
        const double best = best_fixed(&cheaper, &good, &n), of_best = tokens / time / best;
        printf("the first step of %d rows was disturbed: %.3f of the best fixed number\n", rows, of_best);
        assert_true(of_best > 0.96);
    }
}

static void test_gate__what_is_found_in_the_text_is_verified_while_it_is_right(void **state)
{
    (void)state;
    struct price p = {0};
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH, &p);
    for (int i = 0; i < 20; i++) {
        price_step_took(&p, 1, 10);
        price_drafts_took(&p, 1, 1, 1);
    }
    for (int i = 0; i < 10; i++)
        gate_learn_found(&g, 20, ENGINE_MAX_DEPTH, ENGINE_MAX_DEPTH);
    assert_int_equal(verified(&g, 20), ENGINE_MAX_DEPTH);
    for (int i = 0; i < 10; i++)
        gate_learn_found(&g, 20, 0, 1);
    assert_int_equal(verified(&g, 20), 0);
}

/* Text that must come costs nothing to make, but only so much of it there is, and the model may split it otherwise. */
static void test_gate__forced_text_is_verified_while_the_model_splits_it_so(void **state)
{
    (void)state;
    struct price p = {0};
    struct gate g;
    gate_init(&g, ENGINE_MAX_DEPTH, &p);
    for (int i = 0; i < 20; i++) {
        price_step_took(&p, 1, 10);
        price_drafts_took(&p, 1, 1, 1);
    }
    struct offers o = {.room = 1 << 20, .n_forced = 5};
    assert_int_equal(gate_decide(&g, &o).source, DRAFT_GUIDE);
    assert_int_equal(gate_decide(&g, &o).rows, 6);
    o.room = 3;
    assert_int_equal(gate_decide(&g, &o).rows, 3);
    o.room = 1 << 20;
    o.match = 20;                       /* what is found is right less often */
    for (int i = 0; i < 10; i++)
        gate_learn_found(&g, 20, 1, 2);
    assert_int_equal(gate_decide(&g, &o).source, DRAFT_GUIDE);
    for (int i = 0; i < 20; i++)
        gate_learn_forced(&g, 0, 1);
    assert_int_not_equal(gate_decide(&g, &o).source, DRAFT_GUIDE);
    o = (struct offers){.room = 1, .n_forced = 5};
    assert_int_equal(gate_decide(&g, &o).rows, 1);
}

/* Takes a step of several answers after which no draft is made. */
static void test_gate__a_run_for_no_answers_takes_no_time(void **state)
{
    (void)state;
    struct price p = {0};
    price_step_took(&p, 2, 5);
    price_drafts_took(&p, 2, 1, 0.5);
    assert_true(fabs(price_draft_ms(&p, 0)) < 1e-12 && fabs(price_draft(&p, 0)) < 1e-12 && price_draft_ms(&p, 1) > 0.3);
}

static void test_gate__no_drafts_are_made_where_there_may_be_none(void **state)
{
    (void)state;
    struct price p = {0};
    struct gate g;
    gate_init(&g, 0, &p);
    price_step_took(&p, 1, 5);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(decide(&g, NULL, 0, 1).make, 0);
        assert_int_equal(decide(&g, NULL, 0, 1).rows, 1);
        gate_learn(&g, NULL, 0, 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate__it_comes_near_the_best_fixed_number_of_drafts),
        cmocka_unit_test(test_gate__it_follows_a_stream_that_changes),
        cmocka_unit_test(test_gate__an_answer_begins_with_what_answers_before_it_taught),
        cmocka_unit_test(test_gate__what_took_turns_before_is_expected_to_take_turns),
        cmocka_unit_test(test_gate__an_answer_unlike_the_one_before_it_loses_little),
        cmocka_unit_test(test_gate__the_first_answer_of_a_start_gains_by_prices_of_an_earlier_one),
        cmocka_unit_test(test_gate__probabilities_that_tell_are_worth_more_than_any_fixed_number),
        cmocka_unit_test(test_gate__prices_stay_when_an_answer_ends_and_one_hiccup_changes_little),
        cmocka_unit_test(test_gate__a_price_that_was_measured_wrong_is_measured_again),
        cmocka_unit_test(test_gate__a_first_step_that_was_cold_is_found_out),
        cmocka_unit_test(test_gate__a_first_measurement_that_was_disturbed_is_found_out),
        cmocka_unit_test(test_gate__what_is_found_in_the_text_is_verified_while_it_is_right),
        cmocka_unit_test(test_gate__forced_text_is_verified_while_the_model_splits_it_so),
        cmocka_unit_test(test_gate__a_run_for_no_answers_takes_no_time),
        cmocka_unit_test(test_gate__no_drafts_are_made_where_there_may_be_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

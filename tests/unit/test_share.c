/* Rows of steps that several answers share, against streams of tokens whose drafts are right with known probabilities, at given prices: it must
 * come near the best fixed number of drafts, give rows to those whose drafts are right, and never lose much to no drafts at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "engine/gate.h"
#include "priced.h"

enum { MOST = 8, STEPS = 6000 };

static const struct machine machines[] = {
    {"memory is the price",   {1, 1.23, 1.44, 1.63, 1.81, 1.98, 2.14, 2.30}, 0.07, 1},
    {"five rows are dear",    {1, 1.34, 1.71, 1.97, 2.91, 3.20, 3.51, 3.78}, 0.14, 1},
    {"every row costs a step", {1, 1.8, 2.6, 3.4, 4.2, 5.0, 5.8, 6.6},       0.15, 1},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

struct answer {
    double right;                       /* the chance of each draft */
    struct gate gate;
    int    n, n_verified;               /* drafts */
    long   tokens, rows;
};

/* Drafts for so many answers in one run. */
static double drafting(const struct machine *m, int n) { return m->draft * (1 + 0.1 * (n - 1)); }

static struct share share_of(const struct answer *a)
{
    static const float prob[GATE_ROWS] = {0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f};
    struct share s = {.most = ENGINE_MAX_DEPTH, .makes = true, .idle = gate_is_idle(&a->gate), .n = a->n};
    gate_chances(&a->gate, prob, a->n, s.right);
    gate_chances_later(&a->gate, s.later);
    return s;
}

/* Fate of an answer's drafts in a step. */
static void step(struct answer *a)
{
    static const float prob[GATE_ROWS] = {0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f};
    int n_right = 0;
    while (n_right < a->n && random_number() < a->right)
        n_right++;
    const int accepted = n_right < a->n_verified ? n_right : a->n_verified;
    a->tokens += 1 + accepted;
    a->rows += 1 + a->n_verified;
    gate_learn(&a->gate, prob, a->n, n_right, 1 + accepted);
    a->n = 0;
}

/* Tokens a unit of time of all of them, by shares, or with a fixed number of drafts each. */
static double run(const struct machine *m, struct answer *a, int n, int fixed)
{
    struct price p = {0};
    double time = 0;
    long tokens = 0;
    for (int i = 0; i < n; i++) {
        gate_init(&a[i].gate, ENGINE_MAX_DEPTH, &p);
        a[i].n = 0;
        a[i].tokens = a[i].rows = 0;
    }
    for (int k = 0; k < STEPS; k++) {
        struct share all[MOST];
        int rows = n, made = 0;
        for (int i = 0; i < n; i++)
            all[i] = share_of(&a[i]);
        for (int more; (more = fixed < 0 ? shares_make(&p, all, n, GATE_ROWS, 1) : fixed - made) > 0; made += more)
            for (int i = 0; i < n; i++) {
                a[i].n += more;
                all[i] = share_of(&a[i]);
            }
        shares_verify(&p, all, n, GATE_ROWS);
        for (int i = 0; i < n; i++) {
            a[i].n_verified = fixed < 0 ? all[i].n_verified : fixed;
            rows += a[i].n_verified;
        }
        assert_true(rows <= GATE_ROWS);
        for (int i = 0; i < n; i++)
            step(&a[i]);
        const double noise = 0.95 + 0.1 * random_number();
        if (made)
            price_drafts_took(&p, n, made, noise * made * drafting(m, n));
        price_step_took(&p, rows, noise * m->step[rows - 1]);
        time += made * drafting(m, n) + m->step[rows - 1];
    }
    for (int i = 0; i < n; i++)
        tokens += a[i].tokens;
    return (double)tokens / time;
}

static void test_share__it_comes_near_the_best_number_and_is_no_slower_than_none(void **state)
{
    (void)state;
    static const double chances[] = {0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
    for (int j = 0; j < N_MACHINES; j++)
        for (size_t c = 0; c < sizeof chances / sizeof *chances; c++)
            for (int n = 1; n <= MOST; n += n < 4 ? 1 : 4) {
                struct answer a[MOST] = {0};
                for (int i = 0; i < n; i++)
                    a[i].right = chances[c];
                random_begin();
                double best = 0;
                for (int fixed = 0; n * (1 + fixed) <= GATE_ROWS; fixed++)
                    best = fmax(best, run(&machines[j], a, n, fixed));
                const double none = n / machines[j].step[n - 1], rate = run(&machines[j], a, n, -1);
                if (rate < 0.955 * best || rate < 0.97 * none)
                    fail_msg("%s, %d answers, %g right: %g tokens a unit of time, the best fixed number gives %g, none %g", machines[j].name, n,
                             chances[c], rate, best, none);
            }
}

static void test_share__rows_go_where_drafts_are_right(void **state)
{
    (void)state;
    struct answer a[3] = {{.right = 0.1}, {.right = 0.95}, {.right = 0.1}};
    random_begin();
    const double rate = run(&machines[0], a, 3, -1), none = 3 / machines[0].step[2];
    assert_true(a[1].rows > 3L * STEPS && a[0].rows < 1.3 * STEPS && a[2].rows < 1.3 * STEPS);
    assert_true(a[0].rows >= STEPS && a[2].rows >= STEPS);
    assert_true(rate > 1.2 * none);
}

static void test_share__eight_answers_have_a_row_each(void **state)
{
    (void)state;
    struct answer a[MOST];
    for (int i = 0; i < MOST; i++)
        a[i] = (struct answer){.right = 1};
    random_begin();
    run(&machines[0], a, MOST, -1);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(a[i].rows, STEPS);
}

/* Nothing is made for them, and nothing is verified that there is not. */
static void test_share__what_is_found_takes_rows_without_drafts(void **state)
{
    (void)state;
    struct price p = {0};
    struct gate g;
    struct share all[2] = {{.most = 5, .n = 5}, {.most = 2, .n = 4}};
    gate_init(&g, ENGINE_MAX_DEPTH, &p);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < GATE_ROWS; k++)
            all[i].right[k] = pow(0.97, k);
        gate_chances_later(&g, all[i].later);
    }
    shares_verify(&p, all, 2, GATE_ROWS);
    assert_int_equal(all[0].n_verified + all[1].n_verified, 0);         /* no price is known */
    for (int rows = 1; rows <= GATE_ROWS; rows++)
        price_step_took(&p, rows, machines[0].step[rows - 1]);
    assert_int_equal(shares_make(&p, all, 2, GATE_ROWS, 1), 0);
    shares_verify(&p, all, 2, GATE_ROWS);
    assert_int_equal(all[0].n_verified, 4);
    assert_int_equal(all[1].n_verified, 2);
    shares_verify(&p, all, 2, 4);
    assert_int_equal(all[0].n_verified + all[1].n_verified, 2);
    all[0].most = 0;                    /* of an answer without drafts */
    shares_verify(&p, all, 2, GATE_ROWS);
    assert_int_equal(all[0].n_verified, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share__it_comes_near_the_best_number_and_is_no_slower_than_none),
        cmocka_unit_test(test_share__rows_go_where_drafts_are_right),
        cmocka_unit_test(test_share__eight_answers_have_a_row_each),
        cmocka_unit_test(test_share__what_is_found_takes_rows_without_drafts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

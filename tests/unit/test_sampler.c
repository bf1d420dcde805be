#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"
#include "tests/picker.h"

static unsigned rng_state = 1;
static double random_unit(void)
{
    rng_state = rng_state * 1103515245u + 12345u;
    return (rng_state >> 8) / 16777216.0;
}

static void random_logits(float *l, int n)
{
    for (int i = 0; i < n; i++)
        l[i] = (float)(10 * random_unit() - 5);
}

/* One pick with a fresh stream, logits left alone. */
static struct pick pick_once(const float *logits, int vocab, const struct sampling *how, const int32_t *prompt, int n_prompt)
{
    struct picker *s = picker_open(vocab);
    struct pick p = {.id = -1};
    struct err e;
    float *l = malloc((size_t)vocab * sizeof *l);
    memcpy(l, logits, (size_t)vocab * sizeof *l);
    assert_true(sampler_check(how, vocab, &e));
    picker_begin(s, how, prompt, n_prompt);
    assert_true(picker_pick(s, l, &p, &e));
    free(l);
    picker_close(s);
    return p;
}

/* ---- the definition: sort everything ---- */

static const float *sort_by;
static int compare(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    return sort_by[i] > sort_by[j] ? -1 : sort_by[i] < sort_by[j] ? 1 : i - j;
}

static void distribution(double *p, const float *logits, int vocab, const struct sampling *how)
{
    int *order = malloc((size_t)vocab * sizeof *order);
    double *w = malloc((size_t)vocab * sizeof *w), sum = 0, cum = 0, total = 0;
    for (int i = 0; i < vocab; i++)
        order[i] = i;
    sort_by = logits;
    qsort(order, (size_t)vocab, sizeof *order, compare);
    int n = how->top_k ? how->top_k : vocab, kept = 0;
    for (int i = 0; i < n; i++)
        sum += w[i] = exp(((double)logits[order[i]] - (double)logits[order[0]]) / (double)how->temperature);
    while (kept < n && (how->top_p == 0 || cum < (double)how->top_p * sum))
        cum += w[kept++];
    memset(p, 0, (size_t)vocab * sizeof *p);
    for (int i = 0; i < kept; i++)
        if (w[i] >= (double)how->min_p)
            total += p[order[i]] = w[i];
    for (int i = 0; i < vocab; i++)
        p[i] /= total;
    free(order);
    free(w);
}

static void test_sampler__cuts_equal_sorting_everything(void **state)
{
    (void)state;
    enum { V = 300 };
    float logits[V];
    double p[V];
    for (int round = 0; round < 300; round++) {
        struct sampling how = {.temperature = (float)(0.3 + random_unit()), .top_k = (int)(random_unit() * 20) * (round % 2),
                               .top_p = round % 3 ? (float)(0.5 + random_unit() / 2) : 0, .min_p = round % 5 ? 0 : 0.2f};
        random_logits(logits, V);
        distribution(p, logits, V, &how);
        for (int seed = 0; seed < 50; seed++) {
            how.seed = (uint64_t)seed;
            struct pick k = pick_once(logits, V, &how, NULL, 0);
            assert_true(fabs(p[k.id] - (double)k.prob) < 1e-5);
            assert_true(k.prob > 0);
        }
    }
}

static void test_sampler__frequencies_are_the_distribution(void **state)
{
    (void)state;
    enum { V = 12, N = 20000 };
    float logits[V], l[V];
    double p[V], chi = 0;
    int count[V] = {0}, cells = 0;
    struct sampling how = {.temperature = 1.5f, .top_p = 0.95f, .seed = 42};
    struct picker *s = picker_open(V);
    random_logits(logits, V);
    distribution(p, logits, V, &how);
    picker_begin(s, &how, NULL, 0);
    for (int i = 0; i < N; i++) {
        struct pick k;
        struct err e;
        memcpy(l, logits, sizeof l);
        assert_true(picker_pick(s, l, &k, &e));
        count[k.id]++;
    }
    for (int i = 0; i < V; i++) {
        if (p[i] == 0)
            assert_int_equal(count[i], 0);
        else {
            chi += (count[i] - p[i] * N) * (count[i] - p[i] * N) / (p[i] * N);
            cells++;
        }
    }
    assert_true(chi < cells - 1 + 4 * sqrt(2.0 * (cells - 1)));
    picker_close(s);
}

static void test_sampler__greedy_takes_the_greatest_and_the_lowest_of_equals(void **state)
{
    (void)state;
    struct sampling how = {0};
    float l[] = {1, 3, 2, 3, -INFINITY};
    struct pick k = pick_once(l, 5, &how, NULL, 0);
    assert_int_equal(k.id, 1);
    assert_true(k.prob == 1);
    float same[] = {-2, -2, -2};
    assert_int_equal(pick_once(same, 3, &how, NULL, 0).id, 0);
}

static void test_sampler__penalties_and_bias_move_the_logits(void **state)
{
    (void)state;
    int32_t prompt[] = {2, 2, 5}, ban[] = {1}, push[] = {4};
    float minus_inf = -INFINITY, plus = 3;
    float positive[] = {0, 0, 4, 3, 0, 0}, negative[] = {-3, -9, -2, -9, -9, -9};
    struct sampling rep = {.repetition_penalty = 2};
    assert_int_equal(pick_once(positive, 6, &rep, prompt, 3).id, 3);            /* 4 / 2 < 3 */
    assert_int_equal(pick_once(negative, 6, &rep, prompt, 3).id, 0);            /* -2 * 2 < -3 */
    assert_int_equal(pick_once(positive, 6, &rep, NULL, 0).id, 2);
    struct sampling presence = {.presence_penalty = 2};
    assert_int_equal(pick_once(positive, 6, &presence, prompt, 3).id, 2);       /* the prompt does not count */

    struct sampling bias = {.bias_ids = ban, .bias = &minus_inf, .n_bias = 1};
    float best1[] = {0, 9, 1, 2, 0, 0};
    assert_int_equal(pick_once(best1, 6, &bias, NULL, 0).id, 3);
    bias = (struct sampling){.bias_ids = push, .bias = &plus, .n_bias = 1};
    assert_int_equal(pick_once(positive, 6, &bias, NULL, 0).id, 2);
    positive[4] = 1.5f;
    assert_int_equal(pick_once(positive, 6, &bias, NULL, 0).id, 4);
}

static void test_sampler__penalties_count_what_was_picked_before(void **state)
{
    (void)state;
    struct picker *s = picker_open(4);
    struct sampling how = {.presence_penalty = 1};
    const int32_t want[] = {2, 1, 2, 2};        /* 2.5 2 1 .. then 2 is 1.5, then 1 is 1 */
    picker_begin(s, &how, NULL, 0);
    for (int i = 0; i < 4; i++) {
        float l[] = {0, 2, 2.5f, 0};
        struct pick k;
        struct err e;
        assert_true(picker_pick(s, l, &k, &e));
        assert_int_equal(k.id, want[i]);
    }
    how.presence_penalty = 0;
    picker_begin(s, &how, NULL, 0);    /* a new answer has a clean slate */
    float l[] = {0, 2, 2.5f, 0};
    struct pick k;
    struct err e;
    assert_true(picker_pick(s, l, &k, &e));
    assert_int_equal(k.id, 2);
    picker_close(s);
}

static void test_sampler__a_seed_gives_one_stream_and_seeds_differ(void **state)
{
    (void)state;
    enum { V = 100, N = 64 };
    float logits[V], l[V];
    int32_t got[3][N];
    struct picker *s = picker_open(V);
    random_logits(logits, V);
    for (int run = 0; run < 3; run++) {
        struct sampling how = {.temperature = 5, .seed = run == 2};
        picker_begin(s, &how, NULL, 0);
        for (int i = 0; i < N; i++) {
            struct pick k;
            struct err e;
            memcpy(l, logits, sizeof l);
            assert_true(picker_pick(s, l, &k, &e));
            got[run][i] = k.id;
        }
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    assert_memory_not_equal(got[0], got[2], sizeof got[0]);
    picker_close(s);
}

/* Whatever moves the logits: logprobs are softmax of what the model gave, and the best ids are those of a sort. */
static void test_sampler__the_logprobs_is_what_the_model_gave(void **state)
{
    (void)state;
    enum { V = 300 };
    const struct sampling hows[] = {
        {.n_alternatives = 8}, {.n_alternatives = 3, .temperature = 2, .seed = 4}, {.n_alternatives = 8, .temperature = 0.5f, .top_k = 2, .seed = 5},
        {.n_alternatives = 1, .temperature = 1, .presence_penalty = 3, .repetition_penalty = 1.7f, .seed = 6},
        {.n_alternatives = 8, .n_ids = 5}, {.temperature = 1, .seed = 9},
    };
    const int32_t prompt[] = {3, 4, 5, 17, 100, 299};
    for (int round = 0; round < 50; round++)
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
            struct sampling how = hows[h];
            int32_t banned = round % 5;
            float ban = -INFINITY, l[V];
            int order[V], n_ids = how.n_ids ? how.n_ids : V;
            double sum = 0;
            random_logits(l, V);
            for (int i = 0; i < V && round % 2; i++)            /* ties */
                l[i] = rintf(l[i]);
            how.n_answer_prefix = round % 4;
            how.bias_ids = &banned;
            how.bias = &ban;
            how.n_bias = 1;
            struct pick p = pick_once(l, V, &how, prompt, 6);
            if (!how.n_alternatives) {
                assert_true(p.logprobs.prob < 0);
                assert_int_equal(p.logprobs.n, 0);
                continue;
            }
            l[banned] = -INFINITY;
            for (int i = 0; i < V; i++)
                order[i] = i;
            sort_by = l;
            qsort(order, (size_t)n_ids, sizeof *order, compare);
            for (int i = 0; i < n_ids; i++)
                sum += exp((double)l[i]);
            assert_int_equal(p.logprobs.n, how.n_alternatives < n_ids ? how.n_alternatives : n_ids);
            for (int i = 0; i < p.logprobs.n; i++) {
                assert_int_equal(p.logprobs.ids[i], order[i]);
                assert_true(fabs((double)p.logprobs.probs[i] * sum - exp((double)l[order[i]])) <= 1e-5 * exp((double)l[order[i]]));
            }
            assert_true(fabs((double)p.logprobs.prob * sum / exp((double)l[p.id]) - 1) < 1e-5);
        }
}

/* With the ids that were picked at the end of the prompt, an answer goes on as if it had not been stopped. */
static void test_sampler__an_answer_continues_after_its_beginning(void **state)
{
    (void)state;
    enum { V = 40, N = 30 };
    const struct sampling hows[] = {
        {.presence_penalty = 0.7f}, {.temperature = 1.3f, .presence_penalty = 1.5f, .repetition_penalty = 1.1f, .seed = 77},
    };
    struct picker *s = picker_open(V);
    struct err e;
    for (size_t h = 0; h < 2; h++) {
        int32_t ids[2 + N] = {1, 2};
        float l[V], copy[V];
        random_logits(l, V);
        for (int cut = 0; cut <= N; cut++) {
            struct sampling how = hows[h];
            how.n_answer_prefix = cut;
            picker_begin(s, &how, ids, 2 + cut);
            for (int i = cut; i < N; i++) {
                struct pick p;
                memcpy(copy, l, sizeof l);
                assert_true(picker_pick(s, copy, &p, &e));
                assert_true(!cut || p.id == ids[2 + i]);
                ids[2 + i] = p.id;
            }
        }
    }
    picker_close(s);
}

static void test_sampler__numbers_that_are_none_are_faults(void **state)
{
    (void)state;
    const struct { float l[3]; float temperature; const char *why; } rows[] = {
        {{1, NAN, 2},                           0, "the logit of id 1 is nan"},
        {{1, 0, -NAN},                          1, "the logit of id 2 is"},
        {{INFINITY, 0, 0},                      1, "the logit of id 0 is inf"},
        {{-INFINITY, -INFINITY, -INFINITY},     1, "all 3 are banned"},
        {{-INFINITY, -INFINITY, -INFINITY},     0, "all 3 are banned"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct picker *s = picker_open(3);
        struct sampling how = {.temperature = rows[i].temperature, .top_p = 0.9f};
        struct pick k;
        struct err e = {0};
        float l[3];
        memcpy(l, rows[i].l, sizeof l);
        picker_begin(s, &how, NULL, 0);
        assert_false(picker_pick(s, l, &k, &e));
        assert_non_null(strstr(e.msg, rows[i].why));
        picker_close(s);
    }
}

static void test_sampler__extreme_settings_still_pick(void **state)
{
    (void)state;
    float huge[] = {3e38f, -3e38f, 3e38f, 0}, flat[1000] = {0};
    const struct sampling hows[] = {
        {.temperature = 1e-30f},
        {.temperature = 10},
        {.temperature = 1, .top_p = 1e-9f},
        {.temperature = 1, .top_k = 1},
        {.temperature = 1, .top_k = 1000000},
        {.temperature = 1, .min_p = 1},
        {.temperature = 1e-30f, .top_k = 3, .top_p = 0.5f, .min_p = 0.5f},
    };
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        struct pick a = pick_once(huge, 4, &hows[i], NULL, 0);
        assert_true(a.id == 0 || a.id == 2);
        struct pick b = pick_once(flat, 1000, &hows[i], NULL, 0);
        assert_true(b.id >= 0 && b.id <= 999);
        assert_true(b.prob > 0 && b.prob <= 1);
    }
    assert_int_equal(pick_once(flat, 1000, &hows[2], NULL, 0).id, 0);           /* a nucleus of one: the lowest of equals */
}

static void test_sampler__the_real_vocabulary_is_cut_without_sorting(void **state)
{
    (void)state;
    enum { V = 248320 };
    float *logits = malloc(V * sizeof *logits);
    double *p = malloc(V * sizeof *p);
    struct sampling how = {.temperature = 1, .top_p = 0.9f, .seed = 3};
    random_logits(logits, V);
    for (int i = 0; i < 2; i++) {
        distribution(p, logits, V, &how);
        struct pick k = pick_once(logits, V, &how, NULL, 0);
        assert_true(fabs(p[k.id] / (double)k.prob - 1) < 1e-3);
        how.top_k = 20;
    }
    free(logits);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler__cuts_equal_sorting_everything),
        cmocka_unit_test(test_sampler__frequencies_are_the_distribution),
        cmocka_unit_test(test_sampler__greedy_takes_the_greatest_and_the_lowest_of_equals),
        cmocka_unit_test(test_sampler__penalties_and_bias_move_the_logits),
        cmocka_unit_test(test_sampler__penalties_count_what_was_picked_before),
        cmocka_unit_test(test_sampler__a_seed_gives_one_stream_and_seeds_differ),
        cmocka_unit_test(test_sampler__the_logprobs_is_what_the_model_gave),
        cmocka_unit_test(test_sampler__an_answer_continues_after_its_beginning),
        cmocka_unit_test(test_sampler__numbers_that_are_none_are_faults),
        cmocka_unit_test(test_sampler__extreme_settings_still_pick),
        cmocka_unit_test(test_sampler__the_real_vocabulary_is_cut_without_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

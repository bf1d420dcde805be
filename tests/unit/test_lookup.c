/* The index of the text against a search through all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gate.h"
#include "engine/lookup.h"
#include "text/tokenizer.h"

enum { MOST = 7 };

static uint64_t seed = 88172645463325252u;

static int below(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)(seed % (uint64_t)n);
}

/* The length of the longest earlier match. */
static int longest(const int32_t *ids, int n)
{
    int best = 0;
    for (int i = 0; i < n - 1; i++) {
        int same = 0;
        while (same <= i && ids[i - same] == ids[n - 1 - same])
            same++;
        best = same > best ? same : best;
    }
    return best;
}

static void test_lookup__pictures_are_neither_matched_nor_proposed(void **state)
{
    (void)state;
    enum { PAD = 8 };
    const int32_t text[] = {1, 2, 3, 4, PAD, PAD, PAD, PAD, 5, 6, 1, 2, 3, PAD, PAD, PAD, PAD, 5, 6};
    const struct picture pictures[] = {{.first = 4, .n = 4, .h = 2, .w = 2}, {.first = 13, .n = 4, .h = 2, .w = 2}};
    struct spans s = {text, 13, pictures, 1, NULL};
    struct lookup l = {0};
    int32_t next[MOST];
    lookup_begin(&l, s);
    assert_int_equal(l.length, 3);
    assert_int_equal(lookup_next(&l, next, MOST), 1);           /* the picture ends it */
    assert_int_equal(next[0], 4);
    lookup_add(&l, 4);
    assert_int_equal(lookup_next(&l, next, MOST), 0);
    /* pads before "5 6" would have made a match of it */
    s.n = 19;
    s.n_pictures = 2;
    lookup_begin(&l, s);
    assert_int_equal(l.length, 0);
    lookup_begin(&l, spans_text(text, 19));
    assert_int_equal(l.length, 6);
    lookup_free(&l);
}

static void test_lookup__what_followed_the_longest_match_is_proposed(void **state)
{
    (void)state;
    const int32_t text[] = {1, 2, 3, 4, 5, 9, 2, 3, 4, 6, 7, 1, 2, 3, 4};
    struct lookup l = {0};
    int32_t next[MOST];
    lookup_begin(&l, spans_text(text, 15));
    assert_int_equal(l.length, 4);      /* 1 2 3 4, not the newer 2 3 4 */
    assert_int_equal(lookup_next(&l, next, MOST), 7);
    assert_int_equal(next[0], 5);
    assert_int_equal(next[6], 7);
    lookup_add(&l, 5);
    assert_int_equal(l.length, 5);
    assert_int_equal(lookup_next(&l, next, 2), 2);
    assert_int_equal(next[0], 9);
    lookup_add(&l, 8);                  /* it went another way */
    assert_int_equal(lookup_next(&l, next, MOST), 0);
    lookup_begin(&l, spans_text(text, 9));          /* of another text nothing is left; of equal matches the newest counts */
    assert_int_equal(l.length, 3);
    assert_int_equal(lookup_next(&l, next, 1), 1);
    assert_int_equal(next[0], 5);
    lookup_free(&l);
}

static void test_lookup__two_alike_are_no_match(void **state)
{
    (void)state;
    const int32_t text[] = {1, 2, 8, 1, 2};
    struct lookup l = {0};
    int32_t next[MOST];
    for (int n = 0; n <= 5; n++) {
        lookup_begin(&l, spans_text(text, n));
        assert_int_equal(lookup_next(&l, next, MOST), 0);
    }
    lookup_free(&l);
}

/* The match runs into the text's own end. */
static void test_lookup__a_period_is_continued(void **state)
{
    (void)state;
    struct lookup l = {0};
    int32_t next[MOST];
    for (int i = 0; i < 100; i++)
        lookup_add(&l, i % 5);
    assert_int_equal(lookup_next(&l, next, MOST), MOST);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(next[i], i % 5);
    lookup_free(&l);
}

/* Random texts of few ids that copy earlier spans of themselves. */
static void test_lookup__matches_are_real_and_as_long_as_any(void **state)
{
    (void)state;
    enum { N = 1500 };
    static int32_t ids[N];
    for (int round = 0; round < 30; round++) {
        const int n_ids = 3 + below(round < 20 ? 40 : 3000);
        struct lookup l = {0};
        int n = 0, copy = 0, from = 0, shorter = 0;
        while (n < N) {
            if (!copy && n > 20 && !below(20)) {
                copy = 3 + below(60);
                from = below(n);
            }
            ids[n] = copy ? ids[from++] : below(n_ids);
            copy -= copy > 0;
            lookup_add(&l, ids[n++]);
            const int best = longest(ids, n);
            assert_true(l.length <= best);
            for (int i = 0; i < l.length; i++)
                assert_int_equal(ids[l.at - 1 - i], ids[n - 1 - i]);
            assert_true(!l.length || (l.length >= LOOKUP_LEAST && l.at < n));
            shorter += best >= LOOKUP_LEAST && l.length < best && l.length < 64;         /* so many are compared */
        }
        if (n_ids > 20)                 /* with few ids there are more places than are looked at, seldom with many */
            assert_true(shorter < N / 20);
        lookup_free(&l);
    }
}

/* ---- a given text as the answer: what lookup alone would have given, at the prices of a machine whose memory is the limit */

/* This project's own documentation, as tokens. */
static struct ids documentation(int most)
{
    struct err e = {0};
    struct ids ids = {0};
    struct tokenizer *t = tokenizer_open("assets/demo", &e);
    FILE *f = fopen("docs/kernels.md", "rb");
    char *text = malloc(1 << 20);
    assert_non_null(t);
    assert_non_null(f);
    tokenizer_encode(t, text, fread(text, 1, 1 << 20, f), false, &ids);
    assert_true(ids.n > most);
    ids.n = most;
    fclose(f);
    free(text);
    tokenizer_close(t);
    return ids;
}

struct given {
    int n_tokens, n_steps, n_rows;      /* rows verified, behind the one that a step has anyway */
};

static struct given answer_given(const int32_t *ids, int n_prompt, int n)
{
    static const double step[GATE_ROWS] = {1, 1.23, 1.44, 1.63, 1.81, 1.98, 2.14, 2.30};
    struct given a = {0};
    struct price p = {0};
    struct gate g;
    struct lookup l = {0};
    gate_init(&g, ENGINE_MAX_DEPTH, &p);
    for (int i = 0; i < 40; i++) {      /* the MTP block is of no use here, and that is known */
        price_drafts_took(&p, 1, 1, 0.1);
        gate_learn(&g, (float[]){0.5f}, 1, 0, 1);
        price_step_took(&p, 1 + i % GATE_ROWS, step[i % GATE_ROWS]);
    }
    lookup_begin(&l, spans_text(ids, n_prompt));
    for (int at = n_prompt; at < n;) {
        int32_t next[ENGINE_MAX_DEPTH];
        const int found = lookup_next(&l, next, ENGINE_MAX_DEPTH) ? l.length : 0;
        const struct decision d = gate_decide(&g, &(struct offers){.room = 1 << 20, .match = found, .together = true});
        const int rows = d.source == DRAFT_LOOKUP ? d.rows - 1 : 0;
        int right = 0;
        while (right < ENGINE_MAX_DEPTH && at + right < n && found && next[right] == ids[at + right])
            right++;
        const int tokens = 1 + (right < rows ? right : rows), known = tokens < ENGINE_MAX_DEPTH ? tokens : ENGINE_MAX_DEPTH;
        price_step_took(&p, 1 + rows, step[rows]);
        if (found)
            gate_learn_found(&g, found, right < known ? right : known, known);
        a.n_rows += rows;
        a.n_steps++;
        a.n_tokens += tokens;
        for (int i = 0; i < tokens && at < n; i++)
            lookup_add(&l, ids[at++]);
    }
    lookup_free(&l);
    return a;
}

/* The text is said once more, every fortieth token being another one. */
static void test_lookup__an_edited_copy_comes_four_tokens_a_step(void **state)
{
    (void)state;
    enum { TEXT = 1500 };
    struct ids text = documentation(TEXT);
    int32_t *both = malloc(2 * TEXT * sizeof *both);
    for (int i = 0; i < TEXT; i++) {
        both[i] = text.data[i];
        both[TEXT + i] = i % 40 == 39 ? below(30000) : text.data[i];
    }
    const struct given a = answer_given(both, TEXT, 2 * TEXT);
    printf("edited copy: %d tokens in %d steps, %.2f a step\n", a.n_tokens, a.n_steps, (double)a.n_tokens / a.n_steps);
    assert_true(a.n_tokens >= 4 * a.n_steps);
    free(both);
    ids_free(&text);
}

/* A text in which three tokens seldom come again, and then continue differently. */
static void test_lookup__a_text_without_repeats_costs_nothing(void **state)
{
    (void)state;
    enum { N = 4000 };
    int32_t *ids = malloc(N * sizeof *ids);
    for (int i = 0; i < N; i++) {       /* single tokens repeat all the time */
        ids[i] = below(5) ? below(100000) : below(50);
        const int from = below(i + 1);
        if (i % 50 == 49 && from + 3 < i - 3)
            memcpy(ids + i - 2, ids + from, 3 * sizeof *ids);
    }
    const struct given a = answer_given(ids, N / 4, N);
    printf("without repeats: %d rows more in %d steps\n", a.n_rows, a.n_steps);
    assert_true(a.n_rows * 100 <= a.n_steps);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup__what_followed_the_longest_match_is_proposed),
        cmocka_unit_test(test_lookup__pictures_are_neither_matched_nor_proposed),
        cmocka_unit_test(test_lookup__two_alike_are_no_match),
        cmocka_unit_test(test_lookup__a_period_is_continued),
        cmocka_unit_test(test_lookup__matches_are_real_and_as_long_as_any),
        cmocka_unit_test(test_lookup__an_edited_copy_comes_four_tokens_a_step),
        cmocka_unit_test(test_lookup__a_text_without_repeats_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The index of the text against a search through all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>

#include "engine/lookup.h"

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

static void test_lookup__what_followed_the_longest_match_is_proposed(void **state)
{
    (void)state;
    const int32_t text[] = {1, 2, 3, 4, 5, 9, 2, 3, 4, 6, 7, 1, 2, 3, 4};
    struct lookup l = {0};
    int32_t next[MOST];
    lookup_begin(&l, text, 15);
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
    lookup_begin(&l, text, 9);          /* of another text nothing is left; of equal matches the newest counts */
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
        lookup_begin(&l, text, n);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup__what_followed_the_longest_match_is_proposed),
        cmocka_unit_test(test_lookup__two_alike_are_no_match),
        cmocka_unit_test(test_lookup__a_period_is_continued),
        cmocka_unit_test(test_lookup__matches_are_real_and_as_long_as_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

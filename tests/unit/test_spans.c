/* Prompts with pictures: what they share, and where rope turns their tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/spans.h"
#include "model/cache.h"

enum { N = 40, PAD = 9 };

/* N equal ids. */
static const int32_t *pads(void)
{
    static int32_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = PAD;
    return ids;
}

static struct picture picture(int first, int h, int w, uint64_t hash)
{
    return (struct picture){.first = first, .n = h * w, .h = h, .w = w, .hash = {hash, 1}};
}

static void test_spans__a_prefix_ends_where_the_pictures_differ(void **state)
{
    (void)state;
    const struct picture a = picture(5, 2, 3, 1), b = picture(20, 4, 2, 2);
    const struct { struct picture first[2]; int n_first; struct picture second[2]; int n_second, n, common; } rows[] = {
        {{a, b}, 2, {a, b}, 2, N, N},
        {{a, b}, 2, {a, b}, 2, 24, 24},                         /* one of them ends within a picture of both */
        {{a, b}, 2, {a}, 1, N, 20},                             /* text in place of the picture */
        {{a}, 1, {a, b}, 2, N, 20},
        {{a, b}, 2, {picture(5, 2, 3, 7), b}, 2, N, 5},         /* other pixels */
        {{a, b}, 2, {picture(5, 3, 2, 1), b}, 2, N, 5},         /* turned: as many tokens */
        {{a}, 1, {picture(4, 2, 3, 1)}, 1, N, 4},               /* elsewhere */
        {{a}, 1, {picture(6, 2, 3, 1)}, 1, N, 5},
        {{a, b}, 2, {a, picture(20, 4, 2, 3)}, 2, N, 20},
        {{a}, 1, {picture(5, 2, 3, 7)}, 1, 4, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct spans x = {pads(), N, rows[i].first, rows[i].n_first};
        const struct spans y = spans_head((struct spans){pads(), N, rows[i].second, rows[i].n_second}, rows[i].n);
        assert_int_equal(spans_common(x, y), rows[i].common);
        assert_int_equal(spans_common(y, x), rows[i].common);
    }
    int32_t other[N] = {PAD, PAD, PAD, PAD, PAD, PAD, 1};
    assert_int_equal(spans_common((struct spans){pads(), N, &a, 1}, (struct spans){other, N, &a, 1}), 6);
    assert_int_equal(spans_common(spans_text(pads(), N), spans_text(other, N)), 6);
}

/* 5 tokens of text, one that begins a picture of 4 x 7, one that ends it, 3 of text: the example of the reference implementation's rule. */
static void test_spans__text_after_a_picture_follows_its_longer_side(void **state)
{
    (void)state;
    const struct picture p = picture(6, 4, 7, 1);
    int n, offset;
    struct rope_position *at = spans_positions((struct spans){pads(), 38, &p, 1}, &n, &offset);
    assert_int_equal(n, 34);
    assert_int_equal(offset, -21);
    for (int i = 0; i < 6; i++)
        assert_true(at[i].t == i && at[i].h == i && at[i].w == i);
    for (int k = 0; k < 28; k++)
        assert_true(at[6 + k].t == 6 && at[6 + k].h == 6 + k / 7 && at[6 + k].w == 6 + k % 7);
    free(at);
    assert_null(spans_positions(spans_text(pads(), 38), &n, &offset));
    assert_true(!n && !offset);
}

static void test_spans__positions_count_on_from_picture_to_picture(void **state)
{
    (void)state;
    const struct picture two[] = {picture(2, 3, 1, 1), picture(5, 1, 2, 2)};
    static const int t[] = {0, 1, 2, 2, 2, 5, 5}, h[] = {0, 1, 2, 3, 4, 5, 5}, w[] = {0, 1, 2, 2, 2, 5, 6};
    int n, offset;
    struct rope_position *at = spans_positions((struct spans){pads(), 6, two, 2}, &n, &offset);        /* cut within the second */
    assert_int_equal(n, 7);
    assert_int_equal(offset, 0);                                /* 3 + 2 tokens, 3 + 2 positions */
    for (int i = 0; i < n; i++)
        assert_true(at[i].t == t[i] && at[i].h == h[i] && at[i].w == w[i]);
    free(at);
}

static void test_spans__pictures_that_cannot_be_are_noticed(void **state)
{
    (void)state;
    const struct picture good = picture(5, 2, 3, 1);
    struct picture odd = good, huge = picture(30, 1, 1, 1), wide = picture(3, 0, 5, 1);
    odd.n = 7;
    huge.n = huge.h = INT32_MAX;
    wide.h = wide.w = 1 << 16;          /* their product wraps to n */
    const struct { struct picture all[2]; int n; bool valid; } rows[] = {
        {{good}, 1, true}, {{good, picture(11, 1, 1, 1)}, 2, true}, {{good, picture(10, 1, 1, 1)}, 2, false},
        {{picture(11, 1, 1, 1), good}, 2, false}, {{odd}, 1, false}, {{huge}, 1, false}, {{picture(-1, 1, 1, 1)}, 1, false},
        {{picture(N, 1, 1, 1)}, 1, false}, {{picture(N - 1, 9, 9, 1)}, 1, true}, {{picture(3, 0, 5, 1)}, 1, false},
        {{picture(3, -2, -3, 1)}, 1, false}, {{wide}, 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(spans_valid((struct spans){pads(), N, rows[i].all, rows[i].n}), rows[i].valid);
    assert_true(spans_valid((struct spans){0}));
}

static void test_spans__a_copy_grows_and_is_cut_with_its_pictures(void **state)
{
    (void)state;
    const struct picture two[] = {picture(5, 2, 3, 1), picture(20, 4, 2, 2)};
    const struct spans s = {pads(), N, two, 2};
    struct span_buf b = {0};
    static const int steps[] = {5, 6, 20, 21, N};
    for (int i = 0; i < 5; i++) {
        span_buf_add(&b, s, steps[i]);
        assert_int_equal(spans_of(&b).n_pictures, (steps[i] > 5) + (steps[i] > 20));
        assert_int_equal(spans_common(spans_of(&b), s), steps[i]);
    }
    span_buf_cut(&b, 21);
    assert_int_equal(spans_of(&b).n_pictures, 2);
    span_buf_cut(&b, 20);
    assert_int_equal(spans_of(&b).n_pictures, 1);
    assert_int_equal(spans_of(&b).n, 20);
    span_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans__a_prefix_ends_where_the_pictures_differ),
        cmocka_unit_test(test_spans__text_after_a_picture_follows_its_longer_side),
        cmocka_unit_test(test_spans__positions_count_on_from_picture_to_picture),
        cmocka_unit_test(test_spans__pictures_that_cannot_be_are_noticed),
        cmocka_unit_test(test_spans__a_copy_grows_and_is_cut_with_its_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

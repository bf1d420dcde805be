#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/sequence.h"

enum { CAP = 64 };

/* A timeline of tokens 0, 1, 2, ... of which n_run were run, and a ring with snapshots at 4 and 8. */
static void start(struct timeline *t, struct snapshots *s, int n, int n_run)
{
    static char memory[4];
    int32_t ids[CAP];
    for (int i = 0; i < n; i++)
        ids[i] = i;
    timeline_init(t, CAP);
    timeline_set(t, spans_text(ids, n), n_run);
    snapshots_init(s, 4, 1, 1, memory);
    snapshots_claim(s, 0, 4, false);
    snapshots_claim(s, 0, 8, false);
}

static void test_timeline__rejoins_at_the_best_place(void **state)
{
    (void)state;
    /* 12 tokens, 11 of them run; the prompt shares `same` tokens and has n */
    const struct { int same, n, common, pos, snapshot; bool stay; } rows[] = {
        {12, 20, 12, 11, 0, true},      /* goes on: the newest token and what follows */
        {12, 12, 12, 11, 0, true},
        {11, 20, 11, 11, 0, true},      /* another token in place of the one that was not run */
        {11, 11, 11, 11, 0, true},      /* exactly what was run: nothing to compute */
        {10, 20, 10, 8,  8, false},
        {10, 10, 10, 8,  8, false},
        {8,  8,  8,  8,  8, false},     /* the snapshot is the prompt */
        {7,  20, 7,  4,  4, false},
        {4,  20, 4,  4,  4, false},
        {3,  20, 3,  0,  0, false},
        {0,  20, 0,  0,  0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct timeline t;
        struct snapshots s;
        int32_t ids[CAP];
        start(&t, &s, 12, 11);
        for (int k = 0; k < rows[i].n; k++)
            ids[k] = k < rows[i].same ? k : 1000 + k;
        struct rejoin r = timeline_rejoin(&t, &s, 0, spans_text(ids, rows[i].n));
        assert_int_equal(r.common, rows[i].common);
        assert_int_equal(r.pos, rows[i].pos);
        assert_int_equal(r.stay, rows[i].stay);
        assert_int_equal(r.snapshot < 0 ? 0 : s.pos[r.snapshot], rows[i].snapshot);
        timeline_free(&t);
        snapshots_free(&s);
    }
}

static void test_timeline__an_empty_one_stays_where_it_is(void **state)
{
    (void)state;
    struct timeline t;
    struct snapshots s = {0};
    int32_t ids[] = {1, 2};
    timeline_init(&t, CAP);
    struct rejoin r = timeline_rejoin(&t, &s, 0, spans_text(ids, 2));
    assert_true(r.stay);
    assert_int_equal(r.pos, 0);
    timeline_free(&t);
}

static void test_timeline__keeps_count_of_what_was_run(void **state)
{
    (void)state;
    struct timeline t;
    int32_t ids[] = {5, 6, 7};
    timeline_init(&t, CAP);
    timeline_set(&t, spans_text(ids, 3), 0);
    timeline_ran(&t, 2);
    timeline_ran(&t, 1);
    timeline_add(&t, 8);
    assert_int_equal(t.n, 4);
    assert_int_equal(t.n_run, 3);
    assert_int_equal(t.ids[3], 8);
    timeline_cut(&t);
    assert_int_equal(t.n, 3);
    timeline_set(&t, spans_text(ids, 2), 1);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.n_run, 1);
    timeline_free(&t);
}

/* The pads have equal ids: only the hash tells the pictures apart. */
static void test_timeline__another_picture_is_another_prompt_from_its_first_token_on(void **state)
{
    (void)state;
    const int32_t ids[16] = {0};
    const struct picture cat = {.first = 6, .n = 4, .h = 2, .w = 2, .hash = {1, 1}}, dog = {.first = 6, .n = 4, .h = 2, .w = 2, .hash = {2, 1}};
    struct timeline t;
    struct snapshots s;
    start(&t, &s, 12, 11);
    timeline_set(&t, (struct spans){ids, 12, &cat, 1}, 12);
    assert_int_equal(timeline_rejoin(&t, &s, 0, (struct spans){ids, 16, &cat, 1}).pos, 12);
    const struct rejoin r = timeline_rejoin(&t, &s, 0, (struct spans){ids, 16, &dog, 1});
    assert_int_equal(r.common, 6);
    assert_int_equal(r.pos, 4);
    assert_false(r.stay);
    assert_int_equal(timeline_rejoin(&t, &s, 0, spans_text(ids, 16)).common, 6);
    timeline_set(&t, (struct spans){ids, 12, &cat, 1}, 8);      /* stopped within the picture */
    timeline_cut(&t);
    assert_int_equal(timeline_rejoin(&t, &s, 0, (struct spans){ids, 16, &cat, 1}).pos, 8);
    assert_int_equal(timeline_rejoin(&t, &s, 0, (struct spans){ids, 16, &dog, 1}).pos, 4);
    timeline_set(&t, (struct spans){ids, 12, &cat, 1}, 6);
    timeline_cut(&t);
    assert_int_equal(timeline_rejoin(&t, &s, 0, (struct spans){ids, 16, &dog, 1}).pos, 6);
    timeline_free(&t);
    snapshots_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeline__rejoins_at_the_best_place),
        cmocka_unit_test(test_timeline__an_empty_one_stays_where_it_is),
        cmocka_unit_test(test_timeline__keeps_count_of_what_was_run),
        cmocka_unit_test(test_timeline__another_picture_is_another_prompt_from_its_first_token_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/snapshot.h"

static int memory[16];                  /* of all slots */

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void assert_kept(const struct snapshots *s, const int *want, int n)
{
    int got[16], k = 0;
    for (int i = 0; i < s->n; i++)
        if (s->pos[i])
            got[k++] = s->pos[i];
    qsort(got, (size_t)k, sizeof *got, ascending);
    assert_int_equal(k, n);
    assert_memory_equal(got, want, (size_t)n * sizeof *want);
}

static void take(struct snapshots *s, int pos)
{
    int *mem = snapshots_claim(s, 0, pos, false);
    assert_non_null(mem);
    *mem = pos;
}

static void test_snapshot__the_best_is_the_last_one_not_behind(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 4, 1, sizeof(int), memory);
    assert_int_equal(snapshots_find(&s, 0, 1000), -1);
    take(&s, 100);
    take(&s, 300);
    take(&s, 200);
    const int rows[][2] = {{99, -1}, {100, 100}, {199, 100}, {200, 200}, {299, 200}, {5000, 300}};
    for (int i = 0; i < 6; i++) {
        int slot = snapshots_find(&s, 0, rows[i][0]);
        assert_int_equal(slot < 0 ? -1 : *(int *)snapshots_at(&s, slot), rows[i][1]);
    }
    snapshots_free(&s);
}

static void test_snapshot__empty_sequence_and_known_positions_take_no_slot(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 2, 1, sizeof(int), memory);
    assert_null(snapshots_claim(&s, 0, 0, false));
    take(&s, 10);
    assert_null(snapshots_claim(&s, 0, 10, false));
    take(&s, 20);
    assert_kept(&s, (int[]){10, 20}, 2);
    snapshots_free(&s);

    snapshots_init(&s, 0, 1, sizeof(int), memory);            /* no ring at all */
    assert_null(snapshots_claim(&s, 0, 10, false));
    assert_int_equal(snapshots_find(&s, 0, 10), -1);
    snapshots_drop_after(&s, 0, 0);
    snapshots_free(&s);
}

static void test_snapshot__changed_tokens_drop_what_depends_on_them(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 4, 1, sizeof(int), memory);
    take(&s, 10);
    take(&s, 20);
    take(&s, 30);
    snapshots_drop_after(&s, 0, 20);
    assert_kept(&s, (int[]){10, 20}, 2);
    snapshots_drop_after(&s, 0, 19);
    assert_kept(&s, (int[]){10}, 1);
    snapshots_free(&s);
}

static void test_snapshot__a_long_prefill_leaves_them_spread_out(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 8, 1, sizeof(int), memory);
    for (int pos = 4096; pos <= 64 * 4096; pos += 4096) {
        take(&s, pos);
        int sorted[8], n = 0, widest = 0;
        for (int i = 0; i < 8; i++)
            if (s.pos[i])
                sorted[n++] = s.pos[i];
        qsort(sorted, (size_t)n, sizeof *sorted, ascending);
        for (int i = 0; i < n; i++) {
            int gap = sorted[i] - (i ? sorted[i - 1] : 0);
            widest = gap > widest ? gap : widest;
        }
        assert_int_equal(sorted[n - 1], pos);
        assert_true(widest <= 4096 || widest <= pos / 2);       /* nowhere is more than half of it to be filled again */
    }
    snapshots_free(&s);
}

static void test_snapshot__the_newest_two_survive_the_new_one(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 4, 1, sizeof(int), memory);
    take(&s, 1000);
    take(&s, 2000);
    take(&s, 2990);                     /* where the next turn rejoins: near its neighbours, yet the one that is needed */
    take(&s, 3000);
    take(&s, 3010);
    assert_kept(&s, (int[]){2000, 2990, 3000, 3010}, 4);
    snapshots_free(&s);

    for (int n = 1; n <= 2; n++) {      /* tiny rings keep the newest */
        snapshots_init(&s, n, 1, sizeof(int), memory);
        take(&s, 10);
        take(&s, 20);
        take(&s, 30);
        assert_kept(&s, n == 1 ? (int[]){30} : (int[]){20, 30}, n);
        snapshots_free(&s);
    }
}

static bool pass(struct snapshots *s, int pos)
{
    int *mem = snapshots_claim(s, 0, pos, true);
    if (mem)
        *mem = pos;
    return mem != NULL;
}

static void test_snapshot__those_on_the_way_of_an_answer_go_first(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 8, 1, sizeof(int), memory);
    for (int pos = 100; pos <= 500; pos += 100)
        take(&s, pos);
    for (int pos = 1000; pos <= 8000; pos += 500)       /* a long answer: no turn loses its place, and they spread */
        pass(&s, pos);
    int last = 500, widest = 0, sorted[8];
    memcpy(sorted, s.pos, sizeof sorted);
    qsort(sorted, 8, sizeof *sorted, ascending);
    for (int i = 0; i < 5; i++)
        assert_int_equal(sorted[i], 100 * (i + 1));
    for (int i = 5; i < 8; i++) {
        widest = sorted[i] - last > widest ? sorted[i] - last : widest;
        last = sorted[i];
    }
    assert_true(last == 8000 && widest <= 4000);
    take(&s, 8100);                     /* the turns that follow take their places back */
    take(&s, 8200);
    take(&s, 8300);
    assert_kept(&s, (int[]){100, 200, 300, 400, 500, 8100, 8200, 8300}, 8);
    take(&s, 8400);
    assert_true(pass(&s, 9000));        /* a quarter of the slots at most, when all are taken; never the newest two turns */
    assert_true(pass(&s, 9500));
    assert_true(pass(&s, 10000));
    int light = 0;
    for (int i = 0; i < 8; i++)
        light += s.on_way[i];
    assert_int_equal(light, 2);
    assert_int_equal(*(int *)snapshots_at(&s, snapshots_find(&s, 0, 8400)), 8400);
    assert_int_equal(*(int *)snapshots_at(&s, snapshots_find(&s, 0, 8399)), 8300);
    assert_null(snapshots_claim(&s, 0, 10000, false));     /* there the answer has ended: it is a turn's now */
    light = 0;
    for (int i = 0; i < 8; i++)
        light += s.on_way[i];
    assert_int_equal(light, 1);
    snapshots_free(&s);

    for (int n = 1; n <= 3; n++) {      /* tiny rings are for turns, once they are full of them */
        snapshots_init(&s, n, 1, sizeof(int), memory);
        pass(&s, 5);
        for (int pos = 10; pos <= 10 * n; pos += 10)
            take(&s, pos);
        assert_false(pass(&s, 100));
        assert_kept(&s, (int[]){10, 20, 30}, n);
        snapshots_free(&s);
    }
}

static int held(const struct snapshots *s, int seq)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->pos[i] && s->seq[i] == seq;
    return n;
}

static void test_snapshot__sequences_share_the_slots_fairly(void **state)
{
    (void)state;
    struct snapshots s;
    snapshots_init(&s, 8, 2, sizeof(int), memory);
    for (int pos = 10; pos <= 200; pos += 10)           /* alone, one has them all */
        take(&s, pos);
    assert_int_equal(held(&s, 0), 8);
    for (int pos = 10; pos <= 200; pos += 10) {         /* the other takes its half, and no more */
        int *mem = snapshots_claim(&s, 1, pos, false);
        assert_non_null(mem);
        *mem = -pos;
        assert_int_equal(*(int *)snapshots_at(&s, snapshots_find(&s, 0, 1000)), 200);
        assert_int_equal(*(int *)snapshots_at(&s, snapshots_find(&s, 0, 199)), 190);
        assert_int_equal(*(int *)snapshots_at(&s, snapshots_find(&s, 1, 1000)), -pos);
    }
    assert_int_equal(held(&s, 0), 4);
    assert_int_equal(held(&s, 1), 4);
    take(&s, 210);
    assert_int_equal(held(&s, 0), 4);
    snapshots_drop_after(&s, 0, 0);                     /* only its own */
    assert_int_equal(held(&s, 0), 0);
    assert_int_equal(held(&s, 1), 4);
    assert_int_equal(snapshots_in_use(&s), 4);
    snapshots_free(&s);

    for (int n = 1; n <= 3; n++) {                      /* fewer than a pair for each */
        snapshots_init(&s, n, 2, sizeof(int), memory);
        for (int pos = 10; pos <= 100; pos += 10)
            for (int seq = 0; seq < 2; seq++) {
                assert_non_null(snapshots_claim(&s, seq, pos, false));
                assert_true(snapshots_find(&s, seq, pos) >= 0);
            }
        snapshots_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot__the_best_is_the_last_one_not_behind),
        cmocka_unit_test(test_snapshot__empty_sequence_and_known_positions_take_no_slot),
        cmocka_unit_test(test_snapshot__changed_tokens_drop_what_depends_on_them),
        cmocka_unit_test(test_snapshot__a_long_prefill_leaves_them_spread_out),
        cmocka_unit_test(test_snapshot__the_newest_two_survive_the_new_one),
        cmocka_unit_test(test_snapshot__those_on_the_way_of_an_answer_go_first),
        cmocka_unit_test(test_snapshot__sequences_share_the_slots_fairly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The layout of KV rows: bytes of the published geometry, rows that never overlap, tails that bring exact rows back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "model/kv.h"

static const struct model_config of_122b = {.n_layers = 48, .n_full = 12, .n_mtp = 1, .n_kv_heads = 2, .head_dim = 256},
                                 small = {.n_layers = 2, .n_full = 2, .n_mtp = 1, .n_kv_heads = 2, .head_dim = 256};

static const struct kv_recipe *recipe(const char *name)
{
    struct err e = {0};
    const struct kv_recipe *r = kv_recipe_find(name, &e);
    if (!r)
        fail_msg("%s", e.msg);
    return r;
}

static void test_kv__a_position_of_the_large_model_takes_these_bytes(void **state)
{
    (void)state;
    static const struct { const char *name; size_t bytes; } rows[] = {
        {"f32", 49152}, {"bf16", 24576}, {"int8", 12384}, {"k8v4", 9312}, {"tq4", 6240}, {"k4v3", 5472},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(kv_token_bytes(&of_122b, recipe(rows[i].name)), rows[i].bytes);
        struct kv_shape a = {.cfg = &of_122b, .recipe = recipe(rows[i].name), .n_ctx = 131072, .max_rows = 4096, .n_slots = 1}, b = a;
        b.n_ctx = 262144;
        assert_int_equal(kv_bytes(&b) - kv_bytes(&a), 131072 * rows[i].bytes * 13 / 12);        /* the MTP block has one more layer */
        a.n_slots = 5;
        assert_int_equal(kv_bytes(&a), 5 * (kv_bytes(&b) - 131072 * rows[i].bytes * 13 / 12));
    }
}

static void test_kv__a_step_reads_codes_of_old_rows_and_exact_new_ones(void **state)
{
    (void)state;
    const struct kv_recipe *tq4 = recipe("tq4");
    assert_int_equal(kv_read_bytes(&of_122b, tq4, 0), 24576);
    assert_int_equal(kv_read_bytes(&of_122b, tq4, 191), 192 * 24576);
    assert_int_equal(kv_read_bytes(&of_122b, tq4, 192), (193 - 48) * 24576 + 48 * 6240);        /* 16 to 63 are codes */
    assert_int_equal(kv_read_bytes(&of_122b, recipe("bf16"), 999), 1000 * 24576);
}

static void test_kv__compressed_recipes_keep_sinks_and_enough_recent_rows(void **state)
{
    (void)state;
    for (int i = 0; kv_recipe_at(i); i++)
        if (kv_recipe_compresses(kv_recipe_at(i))) {
            assert_int_equal(kv_recipe_at(i)->dtype, DT_BF16);
            assert_true(kv_recipe_at(i)->sinks >= 16 && kv_recipe_at(i)->sinks <= KV_BLOCK);
            assert_true(kv_recipe_at(i)->recent >= 128 && kv_recipe_at(i)->recent % KV_BLOCK == 0);
            assert_true(kv_recipe_at(i)->values != KV_EXACT);
        }
}

static void test_kv__other_heads_are_refused_with_a_recipe_that_takes_them(void **state)
{
    (void)state;
    struct err e = {0};
    struct model_config c = small;
    c.head_dim = 64;
    assert_true(kv_recipe_fits(recipe("bf16"), &c, &e));
    assert_false(kv_recipe_fits(recipe("tq4"), &c, &e));
    assert_string_equal(e.msg, "the KV recipe 'tq4' is for heads of 256 numbers, but this model's have 64: take --kv bf16");
}

/* ---- rows */

enum { CTX = 1000, CHUNK = 100, SLOTS = 2 };

static struct kv *open_kv(struct dev *d, const char *name)
{
    struct err e = {0};
    struct kv *k = kv_open(d, &(struct kv_shape){.cfg = &small, .recipe = recipe(name), .n_ctx = CTX, .max_rows = CHUNK, .n_slots = SLOTS}, &e);
    if (!k)
        fail_msg("%s", e.msg);
    return k;
}

/* Returns the value of layer `layer` of a slot at a position: another one for each. */
static uint16_t mark(int slot, int layer, int pos, int v) { return (uint16_t)(1 + ((slot * 3 + layer) * CTX + pos) * 2 + v); }

static void write_rows(const struct kv *k, int slot, int from, int to)
{
    const struct kv_rows *rows = kv_slot(k, slot);
    for (int layer = 0; layer < kv_n_layers(&small); layer++)
        for (int p = from; p < to; p++)
            for (int v = 0; v < 2; v++) {
                uint16_t *row = (uint16_t *)(v ? rows[layer].v : rows[layer].k) + (size_t)kv_exact_row(&rows[layer], p) * 2 * KV_DIM;
                for (int j = 0; j < 2 * KV_DIM; j++)
                    row[j] = mark(slot, layer, p, v);
            }
}

static void expect_rows(const struct kv *k, int slot, int from, int to)
{
    const struct kv_rows *rows = kv_slot(k, slot);
    for (int layer = 0; layer < kv_n_layers(&small); layer++)
        for (int p = from; p < to; p++)
            for (int v = 0; v < 2; v++) {
                const uint16_t *row = (uint16_t *)(v ? rows[layer].v : rows[layer].k) + (size_t)kv_exact_row(&rows[layer], p) * 2 * KV_DIM;
                for (int j = 0; j < 2 * KV_DIM; j += 2 * KV_DIM - 1)
                    if (row[j] != mark(slot, layer, p, v))
                        fail_msg("slot %d, layer %d, position %d: %s are another row's", slot, layer, p, v ? "values" : "keys");
            }
}

/* Rows of a chunk at the end of the context: those that it reads exactly, and those that are sealed for it, are all there. */
static void test_kv__a_chunk_finds_the_exact_rows_that_it_reads(void **state)
{
    (void)state;
    struct dev *d = dev_open_cpu(1, NULL);
    for (int i = 0; kv_recipe_at(i); i++) {
        struct kv *k = open_kv(d, kv_recipe_at(i)->name);
        const struct kv_rows *rows = kv_slot(k, 0);
        for (int slot = 0; slot < SLOTS; slot++)
            for (int pos = 0; pos < CTX; pos += CHUNK)
                write_rows(k, slot, pos, pos + CHUNK);
        for (int slot = 0; slot < SLOTS; slot++) {
            expect_rows(k, slot, 0, rows->sinks);
            expect_rows(k, slot, kv_sealed(rows, CTX - CHUNK - 1), CTX);
        }
        kv_close(k);
    }
    dev_close(d);
}

static void test_kv__a_tail_brings_the_rows_before_a_position_back(void **state)
{
    (void)state;
    static const int positions[] = {0, 1, 40, 128, 193, 321, 400, 575, 576, 577, 640};
    struct dev *d = dev_open_cpu(1, NULL);
    const struct kv_recipe *tq4 = recipe("tq4");
    void *tail = malloc(kv_tail_bytes(&small, tq4));
    assert_int_equal(kv_tail_bytes(&small, recipe("bf16")), 0);
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        struct kv *k = open_kv(d, "tq4");
        const struct kv_rows *rows = kv_slot(k, 1);
        const int pos = positions[i], from = kv_sealed(rows, pos - 2);
        write_rows(k, 0, 0, CTX);
        write_rows(k, 1, 0, pos);
        kv_tail_save(k, 1, pos, tail);
        write_rows(k, 1, pos, CTX);                     /* goes round the ring */
        kv_tail_load(k, 1, pos, tail);
        expect_rows(k, 1, 0, pos < tq4->sinks ? pos : tq4->sinks);
        expect_rows(k, 1, from, pos);
        expect_rows(k, 0, CTX - CHUNK - tq4->recent, CTX);          /* the other conversation's are its own */
        kv_close(k);
    }
    free(tail);
    dev_close(d);
}

/* Every block that rows from `to` on read as codes, and do not seal themselves. */
static void test_kv__saved_ranges_bring_back_every_sealed_block(void **state)
{
    (void)state;
    struct dev *d = dev_open_cpu(1, NULL);
    for (int to = 190; to < 460; to++) {
        struct kv *k = open_kv(d, "tq4"), *other = open_kv(d, "tq4");
        const struct kv_rows *there = kv_slot(k, 1), *back = kv_slot(other, 0);
        const size_t block = 2 * kv_block_bytes(KV_TQ4), scales = 2 * KV_BLOCK * sizeof(uint16_t);
        for (int layer = 0; layer < kv_n_layers(&small); layer++)
            for (int b = 0; b < kv_sealed(there, CTX - 1) / KV_BLOCK; b++) {
                memset(there[layer].k_codes + (size_t)b * block, 1 + layer + 3 * b, block);
                memset(there[layer].v_codes + (size_t)b * block, 2 + layer + 3 * b, block);
                memset((char *)there[layer].k_scales + (size_t)b * scales, 3 + layer + 3 * b, scales);
                memset((char *)there[layer].v_scales + (size_t)b * scales, 4 + layer + 3 * b, scales);
            }
        const int cuts[] = {0, 100, to / 2, to};
        for (int i = 0; i < 3; i++) {
            void *host = malloc(kv_saved_bytes(k, cuts[i], cuts[i + 1]) + 1);
            kv_save(k, 1, cuts[i], cuts[i + 1], host);
            kv_load(other, 0, cuts[i], cuts[i + 1], host);
            free(host);
        }
        for (int layer = 0; layer < kv_n_layers(&small); layer++) {
            const size_t n = (size_t)kv_sealed(back, to - (layer == small.n_full ? 2 : 1)) / KV_BLOCK;
            if (memcmp(there[layer].k_codes, back[layer].k_codes, n * block) || memcmp(there[layer].v_codes, back[layer].v_codes, n * block)
                || memcmp(there[layer].k_scales, back[layer].k_scales, n * scales) || memcmp(there[layer].v_scales, back[layer].v_scales, n * scales))
                fail_msg("%d rows, layer %d: a block is not there", to, layer);
        }
        kv_close(k);
        kv_close(other);
    }
    dev_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv__a_position_of_the_large_model_takes_these_bytes),
        cmocka_unit_test(test_kv__a_step_reads_codes_of_old_rows_and_exact_new_ones),
        cmocka_unit_test(test_kv__compressed_recipes_keep_sinks_and_enough_recent_rows),
        cmocka_unit_test(test_kv__other_heads_are_refused_with_a_recipe_that_takes_them),
        cmocka_unit_test(test_kv__a_chunk_finds_the_exact_rows_that_it_reads),
        cmocka_unit_test(test_kv__a_tail_brings_the_rows_before_a_position_back),
        cmocka_unit_test(test_kv__saved_ranges_bring_back_every_sealed_block),
    };
    return cmocka_run_group_tests_name("kv rows", tests, NULL, NULL);
}

/* Attention over a compressed KV cache on the GPU against its definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "kernels/cpu/vec.h"
#include "tests/kernels/close.h"
#include "tests/kernels/kv_memory.h"
#include "tests/kernels/rand.h"

enum { SINKS = 16, CHUNK = 512 };

static const enum kv_format pairs[][2] = {{KV_INT8, KV_INT8}, {KV_INT8, KV_TQ4}, {KV_TQ4, KV_TQ4}, {KV_TQ4, KV_TQ3}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static int at_most(int a, int b) { return a < b ? a : b; }
static int at_least(int a, int b) { return a > b ? a : b; }

/* ---- a cache of random rows ---- */

struct cache {
    struct kv_rows here, there;         /* on the host, on the GPU */
    int            blocks;
};

static void random_scales(uint16_t *scales, enum kv_format f, int block, const struct kv_rows *kv)
{
    for (int h = 0; h < kv->n_kv_heads; h++)
        for (int n = 0; n < KV_BLOCK; n++)
            if (block * KV_BLOCK + n >= kv->sinks)
                scales[((size_t)block * (size_t)kv->n_kv_heads + (size_t)h) * KV_BLOCK + (size_t)n] =
                    f32_f16((0.5f + rand_unit()) * (f == KV_INT8 ? 2.5f : 1.0f));
}

static void random_exact(const struct kv_rows *kv, int pos)
{
    size_t row = (size_t)kv->n_kv_heads * KV_DIM, at = (size_t)kv_exact_row(kv, pos) * row;
    for (size_t j = at; j < at + row; j++) {
        ((uint16_t *)kv->k)[j] = f32_bf16(rand_normal());
        ((uint16_t *)kv->v)[j] = f32_bf16(rand_normal());
    }
}

/* Codes of positions below `sealed`, exact rows of positions from..stored-1 and of the sinks; everything else reads as NaN. */
static struct cache cache_open(struct kv_rows kv, int n_ctx, int sealed, int from, int stored)
{
    struct cache c = {.blocks = (n_ctx + KV_BLOCK - 1) / KV_BLOCK};
    kv.dtype = DT_BF16, kv.head_dim = KV_DIM, kv.sinks = SINKS, kv.ring = CHUNK + kv.recent + KV_BLOCK;
    c.here = kv_rows_on(cpu, kv, c.blocks), c.there = kv_rows_on(cuda, kv, c.blocks);
    struct kv_memory m = kv_memory_of(&c.here, c.blocks);
    for (int i = 0; i < 6; i++)
        memset(*m.at[i], 0xff, m.bytes[i]);
    for (int b = 0; b < sealed / KV_BLOCK; b++) {
        random_scales(c.here.k_scales, kv.k_format, b, &c.here);
        random_scales(c.here.v_scales, kv.v_format, b, &c.here);
    }
    size_t k_bytes = (size_t)(sealed / KV_BLOCK) * (size_t)kv.n_kv_heads * kv_block_bytes(kv.k_format);
    size_t v_bytes = (size_t)(sealed / KV_BLOCK) * (size_t)kv.n_kv_heads * kv_block_bytes(kv.v_format);
    for (size_t i = 0; i < k_bytes; i++)
        c.here.k_codes[i] = (uint8_t)rand_u64();
    for (size_t i = 0; i < v_bytes; i++)
        c.here.v_codes[i] = (uint8_t)rand_u64();
    for (int p = 0; p < at_most(SINKS, stored); p++)
        random_exact(&c.here, p);
    for (int p = at_least(from, SINKS); p < stored; p++)
        random_exact(&c.here, p);
    kv_rows_upload(&c.there, &c.here, c.blocks);
    finish();
    return c;
}

static void cache_close(struct cache *c)
{
    kv_rows_free(cpu, &c->here, c->blocks);
    kv_rows_free(cuda, &c->there, c->blocks);
}

/* ---- chunks of a prompt ---- */

struct chunk {
    int   q, kv, n, pos, recent;
    float sharp;
};

static void compare_chunk(struct dev *gpu, const struct chunk *x, const enum kv_format *formats)
{
    const struct kv_rows kv = {.n_kv_heads = x->kv, .k_format = formats[0], .v_format = formats[1], .recent = x->recent, .head_dim = KV_DIM};
    const int end = x->pos + x->n;
    struct cache c = cache_open(kv, end + 100, kv_sealed(&kv, end - 1), kv_sealed(&kv, x->pos), end);
    size_t q_token = (size_t)x->q * 2 * KV_DIM, y_bytes = (size_t)x->n * (size_t)x->q * KV_DIM * sizeof(float);
    float *q = rand_array((size_t)x->n * q_token, x->sharp), *y = rand_array(y_bytes / sizeof(float), 0);
    struct attention_args a = {.y = y, .q = q, .q_token = q_token, .q_head = 2 * KV_DIM, .kv = c.here, .n_tokens = x->n, .n_q_heads = x->q,
                               .pos = x->pos, .scale = 1.0f / 16};
    cpu->ops->attention(cpu, &a);
    float *dq = upload(q, (size_t)x->n * q_token * sizeof *q);
    a.y = poisoned(y_bytes), a.q = dq, a.kv = c.there;
    finish();
    gpu->ops->attention(gpu, &a);
    struct err e = {0};
    if (!gpu->finish(gpu, &e))
        fail_msg("%s", e.msg);
    float *out = downloaded(a.y, y_bytes);
    char what[120];
    snprintf(what, sizeof what, "codes of %d and %d bits, %d/%d heads, %d rows after %d, %d recent", kv_bits(formats[0]), kv_bits(formats[1]), x->q, x->kv,
             x->n, x->pos, x->recent);
    assert_rows_close(what, out, y, x->n * x->q, KV_DIM, 1e-2);
    gpu->ops->attention(gpu, &a);
    if (!gpu->finish(gpu, &e))
        fail_msg("%s", e.msg);
    float *again = downloaded(a.y, y_bytes);
    assert_memory_equal(again, out, y_bytes);
    cuda->free(cuda, a.y), cuda->free(cuda, dq);
    free(q), free(y), free(out), free(again);
    cache_close(&c);
}

static void test_attention__reads_old_rows_as_codes(void **state)
{
    (void)state;
    need_gpu();
    static const struct chunk chunks[] = {
        {32, 2, 1, 0, 128, 1},    {32, 2, 5, 0, 128, 1},     {32, 2, 70, 130, 128, 1},  {32, 2, 9, 3000, 128, 3},  {16, 2, 200, 187, 128, 1},
        {16, 2, 64, 192, 128, 1}, {4, 2, 65, 250, 128, 1},   {4, 1, 100, 1000, 128, 1}, {24, 2, 37, 700, 256, 1},  {12, 1, 33, 400, 128, 1},
        {4, 4, 150, 300, 192, 1}, {32, 4, 20, 1500, 512, 1}, {32, 2, 130, 500, 128, 2}, {16, 8, 3, 700, 128, 1},   {16, 2, 1, 255, 128, 1},
        {16, 2, 1, 256, 128, 1},  {8, 8, 300, 0, 128, 1},
    };
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        for (int f = 0; f < PAIRS; f++)
            compare_chunk(cuda, &chunks[i], pairs[f]);
}

/* With little scratch memory codes become rows part by part. */
static void test_attention__on_codes_makes_do_with_little_memory(void **state)
{
    (void)state;
    need_gpu();
    static const struct chunk chunks[] = {{16, 2, 100, 2000, 128, 1}, {32, 2, 3, 3000, 128, 2}, {16, 8, 40, 1200, 256, 1}, {12, 1, 9, 5000, 128, 1}};
    struct err e = {0};
    struct dev *small = dev_open("cuda", 0, &e);
    if (!small || !small->reserve(small, (size_t)2 << 20))
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < 2 * sizeof chunks / sizeof *chunks; i++) {
        if (i == sizeof chunks / sizeof *chunks)
            dev_limit_shared(small, 99 * 1024);
        compare_chunk(small, &chunks[i % (sizeof chunks / sizeof *chunks)], pairs[i % PAIRS]);
    }
    dev_close(small);
}

/* However a prompt is cut, a row sees the same keys: those of one call and of many agree to rounding. */
static void test_attention__on_codes_does_not_depend_on_cuts(void **state)
{
    (void)state;
    need_gpu();
    enum { Q = 16, N = 150, POS = 330 };
    const struct kv_rows kv = {.n_kv_heads = 2, .k_format = KV_TQ4, .v_format = KV_TQ4, .recent = 128, .head_dim = KV_DIM};
    struct cache c = cache_open(kv, POS + N, kv_sealed(&kv, POS + N - 1), kv_sealed(&kv, POS), POS + N);
    size_t token = Q * KV_DIM, bytes = N * token * sizeof(float);
    float *q = rand_array(N * token, 1), *dq = upload(q, bytes), *whole = poisoned(bytes), *cut = poisoned(bytes);
    RUN(cuda, attention, .y = whole, .q = dq, .q_token = token, .q_head = KV_DIM, .kv = c.there, .n_tokens = N, .n_q_heads = Q, .pos = POS, .scale = 0.0625f);
    for (int t = 0, n; t < N; t += n) {
        n = at_most(1 + (int)(rand_u64() % 40), N - t);
        RUN(cuda, attention, .y = cut + (size_t)t * token, .q = dq + (size_t)t * token, .q_token = token, .q_head = KV_DIM, .kv = c.there, .n_tokens = n,
            .n_q_heads = Q, .pos = POS + t, .scale = 0.0625f);
    }
    float *a = downloaded(whole, bytes), *b = downloaded(cut, bytes);
    assert_rows_close("cut", b, a, N * Q, KV_DIM, 1e-4);
    cuda->free(cuda, dq), cuda->free(cuda, whole), cuda->free(cuda, cut);
    free(q), free(a), free(b);
    cache_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention__reads_old_rows_as_codes),
        cmocka_unit_test(test_attention__on_codes_makes_do_with_little_memory),
        cmocka_unit_test(test_attention__on_codes_does_not_depend_on_cuts),
    };
    int failed = cmocka_run_group_tests_name("cuda_codes", tests, open_devices_with_scratch, close_devices);
    return failed + cmocka_run_group_tests_name("cuda_codes with 99 KiB of shared memory", tests, open_small_devices, close_devices);
}

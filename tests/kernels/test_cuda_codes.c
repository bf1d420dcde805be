/* Attention over a compressed KV cache on the GPU against its definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/least.h"
#include "kernels/cpu/vec.h"
#include "tests/kernels/close.h"
#include "tests/kernels/kv_memory.h"
#include "tests/kernels/rand.h"

enum { SINKS = 16, CHUNK = 512 };

static const enum kv_format pairs[][2] = {{KV_INT8, KV_INT8}, {KV_INT8, KV_TQ4}, {KV_TQ4, KV_TQ4}, {KV_TQ4, KV_TQ3}};
enum { PAIRS = sizeof pairs / sizeof *pairs };


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
    for (int p = 0; p < least(SINKS, stored); p++)
        random_exact(&c.here, p);
    for (int p = most(from, SINKS); p < stored; p++)
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
    snprintf(what, sizeof what, "codes of %d and %d bits, %d/%d heads, %d rows after %d, %d recent", kv_bits(formats[0]), kv_bits(formats[1]), x->q,
             x->kv, x->n, x->pos, x->recent);
    /* 1e-2 as with exact rows; keys made of codes are rounded to bf16 once more, which sharp queries feel: by computation they are off
     * by 0.0065 in all and 0.04 in the worst row when they are three times as long. */
    assert_rows_close(what, out, y, x->n * x->q, KV_DIM, 5e-3 * (1 + (double)x->sharp));
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
    RUN(cuda, attention, .y = whole, .q = dq, .q_token = token, .q_head = KV_DIM, .kv = c.there, .n_tokens = N, .n_q_heads = Q, .pos = POS,
        .scale = 0.0625f);
    for (int t = 0, n; t < N; t += n) {
        n = least(1 + (int)(rand_u64() % 40), N - t);
        RUN(cuda, attention, .y = cut + (size_t)t * token, .q = dq + (size_t)t * token, .q_token = token, .q_head = KV_DIM, .kv = c.there,
            .n_tokens = n, .n_q_heads = Q, .pos = POS + t, .scale = 0.0625f);
    }
    float *a = downloaded(whole, bytes), *b = downloaded(cut, bytes);
    assert_rows_close("cut", b, a, N * Q, KV_DIM, 1e-4);
    cuda->free(cuda, dq), cuda->free(cuda, whole), cuda->free(cuda, cut);
    free(q), free(a), free(b);
    cache_close(&c);
}

/* ---- decode steps ---- */

enum { HALF = 32 };

/* A step of n rows at `pos`, whose cache was filled by earlier rows; the block that it must seal is not sealed. */
struct step {
    int     q, kv, n;
    int32_t pos;
    struct cache cache;
    float  *qg, *k, *v, *q_norm, *k_norm, *freq;        /* host */
    float  *ref;                                        /* [n, q, 256] */
    struct step_attention_args gpu;                     /* device */
    struct { int32_t pos; struct rope_position offset; } live, *d_live;
};

static size_t y_bytes(const struct step *x) { return (size_t)x->n * (size_t)x->q * KV_DIM * sizeof(float); }

static void step_open(struct step *x, int q, int kv_heads, int n, int pos, int recent, const enum kv_format *formats)
{
    const struct kv_rows kv = {.n_kv_heads = kv_heads, .k_format = formats[0], .v_format = formats[1], .recent = recent, .head_dim = KV_DIM};
    const int before = kv_sealed(&kv, pos - 1);
    size_t q_token = (size_t)q * 2 * KV_DIM, kv_token = (size_t)kv_heads * KV_DIM;
    *x = (struct step){.q = q, .kv = kv_heads, .n = n, .pos = pos, .cache = cache_open(kv, pos + n + 70, before, before, pos)};
    x->qg = rand_array((size_t)n * q_token, 1);
    x->k = rand_array((size_t)n * kv_token, 1), x->v = rand_array((size_t)n * kv_token, 1);
    x->q_norm = rand_array(KV_DIM, 0.2f), x->k_norm = rand_array(KV_DIM, 0.2f);
    for (int i = 0; i < KV_DIM; i++)
        x->q_norm[i] += 1;
    x->freq = rand_array(HALF, 0);
    for (int i = 0; i < HALF; i++)
        x->freq[i] = (float)pow(1e7, -2.0 * i / 64);
    x->live.pos = pos;
    if (pos % 2)
        x->live.offset = (struct rope_position){-pos / 3, n, -pos};
    x->d_live = upload(&x->live, sizeof x->live);
    x->gpu = (struct step_attention_args){
        .y = poisoned(y_bytes(x)), .qg = upload(x->qg, (size_t)n * q_token * 4), .k = upload(x->k, (size_t)n * kv_token * 4),
        .v = upload(x->v, (size_t)n * kv_token * 4), .q_norm = upload(x->q_norm, KV_DIM * 4), .k_norm = upload(x->k_norm, KV_DIM * 4),
        .freq = upload(x->freq, HALF * 4), .kv = x->cache.there, .pos = &x->d_live->pos, .rope_offset = &x->d_live->offset,
        .scratch = poisoned(step_attention_scratch(q)), .n_rows = n, .settled = n % 2, .n_q_heads = q, .half = HALF, .eps = 1e-6f,
        .rope_scale = 1.05f, .scale = 1.0f / 16};
    finish();
}

/* The definition; the host's cache is that of afterwards. */
static void step_define(struct step *x)
{
    struct step_attention_args a = x->gpu;
    x->ref = rand_array(y_bytes(x) / sizeof(float), 0);
    a.y = x->ref, a.qg = x->qg, a.k = x->k, a.v = x->v, a.q_norm = x->q_norm, a.k_norm = x->k_norm, a.freq = x->freq;
    a.kv = x->cache.here, a.pos = &x->live.pos, a.rope_offset = &x->live.offset, a.scratch = NULL;
    RUN(cpu, kv_seal, .kv = a.kv, .from = kv_sealed(&a.kv, x->pos - 1), .to = kv_sealed(&a.kv, x->pos + x->n - 1));
    cpu->step->step_attention(cpu, &a);
}

static void step_close(struct step *x)
{
    struct step_attention_args *a = &x->gpu;
    const void *device[] = {a->y, a->qg, a->k, a->v, a->q_norm, a->k_norm, a->freq, a->scratch, x->d_live};
    void *host[] = {x->qg, x->k, x->v, x->q_norm, x->k_norm, x->freq, x->ref};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        cuda->free(cuda, (void *)(uintptr_t)device[i]);
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        free(host[i]);
    cache_close(&x->cache);
}

/* New keys went through another order of sums: a last place of bf16.  Everything else is the same. */
static void assert_cache_close(struct step *x, const char *what)
{
    const struct kv_rows *kv = &x->cache.here;
    size_t row = (size_t)x->kv * KV_DIM;
    struct kv_memory m = kv_memory_of(&x->cache.there, x->cache.blocks);
    uint16_t *k = downloaded(*m.at[0], m.bytes[0]);
    for (int p = x->pos; p < x->pos + x->n; p++) {
        size_t at = (size_t)kv_exact_row(kv, p) * row;
        for (size_t j = at; j < at + row; j++) {
            float got = bf16_f32(k[j]), want = bf16_f32(((uint16_t *)kv->k)[j]);
            if (!(fabsf(got - want) <= 0.008f * fabsf(want) + 1e-5f))
                fail_msg("%s: key %zu of position %d is %g, expected %g", what, j - at, p, (double)got, (double)want);
            ((uint16_t *)kv->k)[j] = k[j];
        }
    }
    free(k);
    assert_kv_rows_equal(what, &x->cache.there, kv, x->cache.blocks);
}

struct step_case { int q, kv, n, pos, recent; };

static void compare_step(const struct step_case *c, const enum kv_format *formats)
{
    struct step x;
    char what[120];
    step_open(&x, c->q, c->kv, c->n, c->pos, c->recent, formats);
    step_define(&x);
    cuda->step->step_attention(cuda, &x.gpu);
    float *out = downloaded(x.gpu.y, y_bytes(&x));
    snprintf(what, sizeof what, "codes of %d and %d bits, %d/%d heads, %d rows at %d, %d recent", kv_bits(formats[0]), kv_bits(formats[1]), c->q,
             c->kv, c->n, c->pos, c->recent);
    assert_rows_close(what, out, x.ref, c->n * c->q, KV_DIM, 1e-2);
    assert_cache_close(&x, what);
    for (int run = 0; run < 2; run++) {         /* what a step wrote and sealed is written and sealed again */
        cuda->step->step_attention(cuda, &x.gpu);
        float *again = downloaded(x.gpu.y, y_bytes(&x));
        assert_memory_equal(again, out, y_bytes(&x));
        free(again);
    }
    free(out);
    step_close(&x);
}

static void test_step_attention__reads_old_rows_as_codes(void **state)
{
    (void)state;
    need_gpu();
    static const struct step_case cases[] = {
        {32, 2, 1, 0, 128},    {32, 2, 8, 0, 128},     {32, 2, 1, 63, 128},    {32, 2, 1, 191, 128},   {32, 2, 1, 192, 128},  {32, 2, 4, 190, 128},
        {32, 2, 8, 187, 128},  {32, 2, 5, 255, 128},   {32, 2, 3, 319, 128},   {32, 2, 2, 447, 128},   {32, 2, 2, 448, 128},  {32, 2, 6, 700, 128},
        {24, 2, 7, 1021, 128}, {16, 2, 3, 640, 128},   {16, 8, 8, 1083, 128},  {4, 4, 1, 900, 128},    {16, 1, 4, 575, 192},  {12, 1, 2, 777, 256},
        {32, 2, 1, 1500, 512}, {32, 4, 8, 2045, 1024}, {16, 2, 4, 16317, 128}, {16, 2, 1, 16000, 128}, {8, 2, 8, 16060, 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int f = 0; f < PAIRS; f++)
            compare_step(&cases[i], pairs[f]);
    static const struct step_case far = {16, 2, 3, 65531, 128};
    compare_step(&far, pairs[2]);
}

static void test_step_attention__on_codes_a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    static const int positions[] = {0, 60, 187, 189, 191, 192, 443, 1000, 4093, 15934, 16060, 40957};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
        for (int f = 0; f < PAIRS; f++) {
            struct step x;
            enum { Q = 16, KV = 2 };
            step_open(&x, Q, KV, STEP_ROWS, positions[i], 128, pairs[f]);
            size_t row = Q * KV_DIM;
            cuda->step->step_attention(cuda, &x.gpu);
            float *all = downloaded(x.gpu.y, y_bytes(&x));
            for (int n = 1; n < STEP_ROWS; n++) {
                kv_rows_upload(&x.cache.there, &x.cache.here, x.cache.blocks);  /* from the state before on */
                for (int t = 0; t < STEP_ROWS; t += n) {
                    struct step_attention_args a = x.gpu;
                    int m = least(n, STEP_ROWS - t);
                    int32_t pos = x.pos + t;
                    size_t bytes = (size_t)m * row * sizeof(float);
                    cuda->copy(cuda, &x.d_live->pos, &pos, sizeof pos);
                    a.n_rows = m;
                    a.qg += (size_t)t * row * 2;
                    a.k += (size_t)t * KV * KV_DIM, a.v += (size_t)t * KV * KV_DIM;
                    cuda->step->step_attention(cuda, &a);
                    float *few = downloaded(a.y, bytes);
                    for (size_t j = 0; j < (size_t)m * row; j++)
                        if (memcmp(few + j, all + (size_t)t * row + j, sizeof *few))
                            fail_msg("formats %d, row %zu of %d at %d: value %zu of head %zu is %.9g, with eight rows %.9g", f, (size_t)t + j / row,
                                     n, x.pos, j % KV_DIM, j % row / KV_DIM, (double)few[j], (double)all[(size_t)t * row + j]);
                    free(few);
                }
            }
            free(all);
            step_close(&x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention__reads_old_rows_as_codes),
        cmocka_unit_test(test_attention__on_codes_makes_do_with_little_memory),
        cmocka_unit_test(test_attention__on_codes_does_not_depend_on_cuts),
        cmocka_unit_test(test_step_attention__reads_old_rows_as_codes),
        cmocka_unit_test(test_step_attention__on_codes_a_row_has_the_same_bits_in_any_company),
    };
    int failed = cmocka_run_group_tests_name("cuda_codes", tests, open_devices_with_scratch, close_devices);
    return failed + cmocka_run_group_tests_name("cuda_codes with 99 KiB of shared memory", tests, open_small_devices, close_devices);
}

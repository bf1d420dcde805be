/* Rows and codes of a KV cache on the GPU against their definitions: the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernels/cpu/vec.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand.h"

enum { HEADS = 2, RECENT = 128, SINKS = 16, RING = 640, MOST = 900, BLOCKS = (MOST + KV_BLOCK - 1) / KV_BLOCK };

static const enum kv_format pairs[][2] = {{KV_INT8, KV_INT8}, {KV_INT8, KV_TQ4}, {KV_TQ4, KV_TQ4}, {KV_TQ4, KV_TQ3}, {KV_TQ3, KV_INT8}};

/* The six blocks of memory of a layer, and their sizes. */
struct memory {
    void  **at[6];
    size_t  bytes[6];
};

static struct memory memory_of(struct kv_rows *kv)
{
    size_t exact = (size_t)(SINKS + RING) * HEADS * KV_DIM * 2, blocks = (size_t)BLOCKS * HEADS, scales = blocks * KV_BLOCK * 2;
    return (struct memory){{&kv->k, &kv->v, (void **)&kv->k_codes, (void **)&kv->v_codes, (void **)&kv->k_scales, (void **)&kv->v_scales},
                           {exact, exact, blocks * kv_block_bytes(kv->k_format), blocks * kv_block_bytes(kv->v_format), scales, scales}};
}

static struct kv_rows rows_on(struct dev *d, enum kv_format k, enum kv_format v)
{
    struct kv_rows kv = {.dtype = DT_BF16, .n_kv_heads = HEADS, .head_dim = KV_DIM, .k_format = k, .v_format = v, .sinks = SINKS, .recent = RECENT, .ring = RING};
    struct memory m = memory_of(&kv);
    for (int i = 0; i < 6; i++) {
        *m.at[i] = d->alloc(d, m.bytes[i]);
        assert_non_null(*m.at[i]);
    }
    return kv;
}

static void rows_free(struct dev *d, struct kv_rows *kv)
{
    struct memory m = memory_of(kv);
    for (int i = 0; i < 6; i++)
        d->free(d, *m.at[i]);
}

/* Rows of all sizes, some with a large channel, some zero, some with an infinity. */
static float *odd_rows(void)
{
    size_t n = (size_t)MOST * HEADS;
    float *x = rand_array(n * KV_DIM, 1);
    for (size_t i = 0; i < n; i++) {
        float size = ldexpf(1, (int)(rand_u64() % 16) - 8);
        for (int j = 0; j < KV_DIM; j++)
            x[i * KV_DIM + (size_t)j] *= i % 13 == 5 ? 0 : size;
        if (i % 7 == 3)
            x[i * KV_DIM + rand_u64() % KV_DIM] = 60 * size;
        if (i % 101 == 50)
            x[i * KV_DIM + rand_u64() % KV_DIM] = i % 2 ? -INFINITY : INFINITY;
    }
    return x;
}

static void test_kv_seal__writes_the_bytes_of_the_definition(void **state)
{
    (void)state;
    need_gpu();
    float *k = odd_rows(), *v = odd_rows();
    size_t row = HEADS * KV_DIM, bytes = MOST * row * sizeof(float);
    float *dk = upload(k, bytes), *dv = upload(v, bytes);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct kv_rows here = rows_on(cpu, pairs[i][0], pairs[i][1]), there = rows_on(cuda, pairs[i][0], pairs[i][1]);
        for (int pos = 0, n; pos < MOST; pos += n) {
            n = 1 + (int)(rand_u64() % 400);
            n = n < MOST - pos ? n : MOST - pos;
            int from = kv_sealed(&here, pos ? pos - 1 : 0), to = kv_sealed(&here, pos + n - 1);
            RUN(cpu, kv_store, .kv = here, .k = k + (size_t)pos * row, .v = v + (size_t)pos * row, .n_tokens = n, .pos = pos);
            RUN(cpu, kv_seal, .kv = here, .from = from, .to = to);
            RUN(cuda, kv_store, .kv = there, .k = dk + (size_t)pos * row, .v = dv + (size_t)pos * row, .n_tokens = n, .pos = pos);
            RUN(cuda, kv_seal, .kv = there, .from = from, .to = to);
        }
        struct memory a = memory_of(&here), b = memory_of(&there);
        for (int m = 0; m < 6; m++) {
            uint8_t *got = downloaded(*b.at[m], b.bytes[m]);
            for (size_t at = 0; at < b.bytes[m]; at++)
                if (got[at] != ((const uint8_t *)*a.at[m])[at])
                    fail_msg("formats %zu, memory %d of 6: byte %zu of %zu is %d, expected %d", i, m, at, b.bytes[m], got[at], ((const uint8_t *)*a.at[m])[at]);
            free(got);
        }
        rows_free(cpu, &here);
        rows_free(cuda, &there);
    }
    cuda->free(cuda, dk), cuda->free(cuda, dv);
    free(k), free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_seal__writes_the_bytes_of_the_definition),
    };
    return cmocka_run_group_tests_name("cuda_kv", tests, open_devices, close_devices);
}

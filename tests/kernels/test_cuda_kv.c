/* Rows and codes of a KV cache on the GPU against their definitions: the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "kernels/cpu/vec.h"
#include "tests/kernels/kv_memory.h"
#include "tests/kernels/rand.h"

enum { HEADS = 2, RECENT = 128, SINKS = 16, RING = 640, MOST = 900, BLOCKS = (MOST + KV_BLOCK - 1) / KV_BLOCK };

static const enum kv_format pairs[][2] = {{KV_INT8, KV_INT8}, {KV_INT8, KV_TQ4}, {KV_TQ4, KV_TQ4}, {KV_TQ4, KV_TQ3}, {KV_TQ3, KV_INT8}};

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
        const struct kv_rows kv = {.dtype = DT_BF16, .n_kv_heads = HEADS, .head_dim = KV_DIM, .k_format = pairs[i][0], .v_format = pairs[i][1],
                                   .sinks = SINKS, .recent = RECENT, .ring = RING};
        struct kv_rows here = kv_rows_on(cpu, kv, BLOCKS), there = kv_rows_on(cuda, kv, BLOCKS);
        for (int pos = 0, n; pos < MOST; pos += n) {
            n = 1 + (int)(rand_u64() % 400);
            n = n < MOST - pos ? n : MOST - pos;
            int from = kv_sealed(&here, pos ? pos - 1 : 0), to = kv_sealed(&here, pos + n - 1);
            RUN(cpu, kv_store, .kv = here, .k = k + (size_t)pos * row, .v = v + (size_t)pos * row, .n_tokens = n, .pos = pos);
            RUN(cpu, kv_seal, .kv = here, .from = from, .to = to);
            RUN(cuda, kv_store, .kv = there, .k = dk + (size_t)pos * row, .v = dv + (size_t)pos * row, .n_tokens = n, .pos = pos);
            RUN(cuda, kv_seal, .kv = there, .from = from, .to = to);
        }
        char what[32];
        snprintf(what, sizeof what, "formats %zu", i);
        assert_kv_rows_equal(what, &there, &here, BLOCKS);
        kv_rows_free(cpu, &here, BLOCKS);
        kv_rows_free(cuda, &there, BLOCKS);
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

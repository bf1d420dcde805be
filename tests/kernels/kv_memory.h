/* The six blocks of memory of a layer's compressed KV rows, on any device. */
#ifndef TESTS_KERNELS_KV_MEMORY_H
#define TESTS_KERNELS_KV_MEMORY_H

#include "tests/kernels/gpu.h"

struct kv_memory {
    void  **at[6];
    size_t  bytes[6];
};

/* Memory of a cache of so many blocks of KV_BLOCK positions. */
static inline struct kv_memory kv_memory_of(struct kv_rows *kv, int blocks)
{
    size_t exact = (size_t)(kv->sinks + kv->ring) * kv_exact_bytes(kv) / 2, n = (size_t)blocks * (size_t)kv->n_kv_heads, scales = n * KV_BLOCK * 2;
    return (struct kv_memory){{&kv->k, &kv->v, (void **)&kv->k_codes, (void **)&kv->v_codes, (void **)&kv->k_scales, (void **)&kv->v_scales},
                              {exact, exact, n * kv_block_bytes(kv->k_format), n * kv_block_bytes(kv->v_format), scales, scales}};
}

/* The same cache in memory of its own. */
static inline struct kv_rows kv_rows_on(struct dev *d, struct kv_rows kv, int blocks)
{
    struct kv_memory m = kv_memory_of(&kv, blocks);
    for (int i = 0; i < 6; i++) {
        *m.at[i] = d->alloc(d, m.bytes[i]);
        assert_non_null(*m.at[i]);
    }
    return kv;
}

static inline void kv_rows_free(struct dev *d, struct kv_rows *kv, int blocks)
{
    struct kv_memory m = kv_memory_of(kv, blocks);
    for (int i = 0; i < 6; i++)
        d->free(d, *m.at[i]);
}

/* All six from host memory to the GPU. */
static inline void kv_rows_upload(const struct kv_rows *to, const struct kv_rows *from, int blocks)
{
    struct kv_rows a = *to, b = *from;
    struct kv_memory there = kv_memory_of(&a, blocks), here = kv_memory_of(&b, blocks);
    for (int i = 0; i < 6; i++)
        cuda->copy(cuda, *there.at[i], *here.at[i], there.bytes[i]);
}

/* Every byte of the two is the same. */
static inline void assert_kv_rows_equal(const char *what, const struct kv_rows *gpu, const struct kv_rows *ref, int blocks)
{
    static const char *names[] = {"exact keys", "exact values", "codes of keys", "codes of values", "scales of keys", "scales of values"};
    struct kv_rows x = *gpu, y = *ref;
    struct kv_memory a = kv_memory_of(&x, blocks), b = kv_memory_of(&y, blocks);
    for (int m = 0; m < 6; m++) {
        uint8_t *got = downloaded(*a.at[m], a.bytes[m]);
        for (size_t at = 0; at < a.bytes[m]; at++)
            if (got[at] != ((const uint8_t *)*b.at[m])[at])
                fail_msg("%s, %s: byte %zu of %zu is %d, expected %d", what, names[m], at, a.bytes[m], got[at], ((const uint8_t *)*b.at[m])[at]);
        free(got);
    }
}

#endif

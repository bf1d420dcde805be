/* Seeded random matrices in every format of a checkpoint. */
#ifndef TESTS_KERNELS_RAND_WEIGHT_H
#define TESTS_KERNELS_RAND_WEIGHT_H

#include <string.h>

#include "kernels/cpu/vec.h"
#include "kernels/tensor.h"
#include "tests/kernels/rand.h"

/* Range of the elements (dense) or of the scales; those of INT8 are (uniform + int8_least) * int8. */
struct spread { float dense, int4, fp8, int8, int8_least; };

/* Release with rand_weight_free(), or each part with free(). */
static inline struct weight rand_weight(enum weight_format format, int rows, int cols, struct spread by)
{
    struct weight w = {.format = format, .rows = rows, .cols = cols, .scale_dtype = DT_F16};
    size_t R = (size_t)rows, C = (size_t)cols, n = R * C;
    if (format == WEIGHT_DENSE) {
        uint16_t *h = malloc(n * 2);
        for (size_t i = 0; i < n; i++)
            h[i] = f32_bf16(rand_normal() * by.dense);
        w.dtype = DT_BF16, w.data = h;
    } else if (format == WEIGHT_INT4) {
        uint32_t *q = malloc(C / 8 * R * 4), *z = malloc(C / 128 * (R / 8) * 4);
        uint16_t *s = malloc(C / 128 * R * 2);
        for (size_t i = 0; i < C / 8 * R; i++)
            q[i] = (uint32_t)(rand_u64() >> 32);
        for (size_t i = 0; i < C / 128 * R; i++)
            s[i] = f32_f16(rand_normal() * by.int4);
        memset(z, 0x77, C / 128 * (R / 8) * 4);
        w.dtype = DT_I32, w.data = q, w.zeros = z, w.scale = s;
    } else if (format == WEIGHT_FP8) {
        uint8_t *b = malloc(n);
        float *s = rand_array((R + 127) / 128 * ((C + 127) / 128), by.fp8);
        for (size_t i = 0; i < n; i++)
            do
                b[i] = (uint8_t)(rand_u64() >> 32);
            while ((b[i] & 0x7f) == 0x7f);      /* NaN */
        w.dtype = DT_F8_E4M3, w.scale_dtype = DT_F32, w.data = b, w.scale = s;
    } else {
        int8_t *b = malloc(n);
        uint16_t *s = malloc(R * 2);
        for (size_t i = 0; i < n; i++)
            b[i] = (int8_t)((int)(rand_u64() >> 32 & 255) - 128);
        for (size_t i = 0; i < R; i++)
            s[i] = f32_f16((rand_unit() + by.int8_least) * by.int8);
        w.dtype = DT_I8, w.data = b, w.scale = s;
    }
    return w;
}

static inline void rand_weight_free(struct weight *w)
{
    free((void *)w->data), free((void *)w->scale), free((void *)w->zeros);
}

#endif

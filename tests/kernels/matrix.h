/* A random matrix in host memory, and packed in device memory, whose products are about as large as what they read. */
#pragma once

#include <math.h>

#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

struct matrix {
    struct weight host, device;
};
static inline struct matrix matrix_make(enum weight_format format, int rows, int cols)
{
    const float unit = 1 / sqrtf((float)cols);
    struct matrix m = {.host = rand_weight(format, rows, cols, (struct spread){.dense = unit, .int4 = unit / 4, .fp8 = unit / 64, .int8 = unit / 64,
                                                                               .int8_least = 0.5f})};
    const size_t bytes = pack_bytes(format, rows, cols);
    void *packed = calloc(1, bytes);
    assert_true(pack_matrix(&m.host, packed));
    m.device = packed_view(format, rows, cols, upload(packed, bytes));
    free(packed);
    return m;
}
static inline void matrix_drop(struct matrix *m)
{
    cuda->free(cuda, (void *)m->device.data);
    rand_weight_free(&m->host);
}

#include "model/int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "kernels/number.h"

/* One row to int8; returns the scale.  The largest magnitude is found among the bits, where order is the same and the
 * compiler may use vectors: 763 million numbers pass through here. */
static uint16_t quantize_row(int8_t *q, const float *row, int n)
{
    uint32_t max = 0;
    for (int i = 0; i < n; i++) {
        uint32_t u = f32_bits(row[i]) & 0x7fffffff;
        max = u > max ? u : max;
    }
    float top = bits_f32(max) / 127;
    uint16_t scale = f32_f16(top < 65504 ? top : 65504);
    float s = f16_f32(scale);
    if (s <= 0) {
        memset(q, 0, (size_t)n);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        float v = rintf(row[i] / s);
        v = v < 127 ? v : 127;
        q[i] = (int8_t)(v > -127 ? v : -127);
    }
    return scale;
}

struct weight int8_from_dense(const struct weight *dense, struct arena *a)
{
    size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols, step = cols * (dense->dtype == DT_F32 ? 4 : 2);
    int8_t *q = arena_array(a, rows, cols);
    uint16_t *scale = arena_array(a, rows, sizeof *scale);
    float *row = memory_alloc(cols * sizeof *row);
    CHECK(dense->format == WEIGHT_DENSE);
    for (size_t r = 0; r < rows; r++) {
        floats_f32(row, (const char *)dense->data + r * step, dense->dtype, cols);
        scale[r] = quantize_row(q + r * cols, row, dense->cols);
    }
    free(row);
    return (struct weight){.format = WEIGHT_INT8, .rows = dense->rows, .cols = dense->cols, .data = q, .scale = scale};
}

#include "model/int4.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "kernels/number.h"
#include "kernels/pack_piece.h"

/* One group: scale[0], and q of 128 columns in 16 words, a matrix row apart. */
static void make_group(const float x[PACK_GROUP], uint32_t *q, size_t rows, uint16_t *scale)
{
    *scale = pack_int4_best(x);
    for (size_t i = 0; i < PACK_GROUP / 8; i++)
        q[i * rows] = pack_int4_nibbles(x + 8 * i, *scale) | pack_int4_nibbles(x + 8 * i + 4, *scale) << 16;
}

struct weight int4_from_dense(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols, groups = cols / PACK_GROUP, step = cols * (dense->dtype == DT_F32 ? 4 : 2);
    CHECK(dense->format == WEIGHT_DENSE && int4_fits(dense->rows, dense->cols));
    uint32_t *q = arena_array(a, cols / 8 * rows, sizeof *q), *zeros = arena_array(a, groups * (rows / 8), sizeof *zeros);
    uint16_t *scale = arena_array(a, groups * rows, sizeof *scale);
    float *row = memory_alloc(cols * sizeof *row);
    for (size_t r = 0; r < rows; r++) {
        floats_f32(row, (const char *)dense->data + r * step, dense->dtype, cols);
        for (size_t g = 0; g < groups; g++)
            make_group(row + g * PACK_GROUP, q + g * (PACK_GROUP / 8) * rows + r, rows, scale + g * rows + r);
    }
    memset(zeros, 0x77, groups * (rows / 8) * sizeof *zeros);           /* 8, minus 1 */
    free(row);
    return (struct weight){
        .format = WEIGHT_INT4, .dtype = DT_I32, .scale_dtype = DT_F16, .rows = dense->rows, .cols = dense->cols,
        .data = q, .scale = scale, .zeros = zeros,
    };
}

size_t int4_bytes(int rows, int cols)
{
    return weight_bytes(&(struct weight){.format = WEIGHT_INT4, .rows = rows, .cols = cols});
}

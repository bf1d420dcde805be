#include "model/fp8.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "kernels/number.h"
#include "kernels/pack_piece.h"

static size_t blocks_of(int n) { return ((size_t)n + PACK_BLOCK - 1) / PACK_BLOCK; }

static size_t end_of(size_t block, size_t n) { return (block + 1) * PACK_BLOCK < n ? (block + 1) * PACK_BLOCK : n; }

/* Rows first to end - 1 share their scales. */
static void make_band(const struct weight *dense, size_t first, size_t end, float *row, uint8_t *q, float *scale)
{
    const size_t cols = (size_t)dense->cols, step = cols * (dense->dtype == DT_F32 ? 4 : 2), blocks = blocks_of(dense->cols);
    uint32_t *max = memory_zeroed(blocks, sizeof *max);
    for (size_t r = first; r < end; r++) {
        floats_f32(row, (const char *)dense->data + r * step, dense->dtype, cols);
        for (size_t b = 0; b < blocks; b++)
            for (size_t i = b * PACK_BLOCK; i < end_of(b, cols); i++) {
                const uint32_t u = f32_bits(row[i]) & 0x7fffffff;
                max[b] = u > max[b] ? u : max[b];
            }
    }
    for (size_t b = 0; b < blocks; b++)
        scale[b] = pack_fp8_scale(max[b]);
    for (size_t r = first; r < end; r++) {
        floats_f32(row, (const char *)dense->data + r * step, dense->dtype, cols);
        for (size_t b = 0; b < blocks; b++)
            for (size_t i = b * PACK_BLOCK; i < end_of(b, cols); i++)
                q[r * cols + i] = (uint8_t)pack_fp8_value(f32_bits(row[i]), scale[b]);
    }
    free(max);
}

struct weight fp8_from_dense(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols, bands = blocks_of(dense->rows), blocks = blocks_of(dense->cols);
    uint8_t *q = arena_array(a, rows, cols);
    float *scale = arena_array(a, bands * blocks, sizeof *scale), *row = memory_alloc(cols * sizeof *row);
    CHECK(dense->format == WEIGHT_DENSE);
    for (size_t b = 0; b < bands; b++)
        make_band(dense, b * PACK_BLOCK, end_of(b, rows), row, q, scale + b * blocks);
    free(row);
    return (struct weight){
        .format = WEIGHT_FP8, .dtype = DT_F8_E4M3, .scale_dtype = DT_F32, .rows = dense->rows, .cols = dense->cols, .data = q, .scale = scale,
    };
}

size_t fp8_bytes(int rows, int cols)
{
    return weight_bytes(&(struct weight){.format = WEIGHT_FP8, .scale_dtype = DT_F32, .rows = rows, .cols = cols});
}

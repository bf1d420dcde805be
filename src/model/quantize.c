#include "model/quantize.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "kernels/number.h"
#include "kernels/pack_piece.h"
#include "kernels/planes.h"

/* ---- INT4 ---- */

/* Makes one group: scale[0], and q of 128 columns in 16 words, a matrix row apart. */
static void make_group(const float x[PACK_GROUP], uint32_t *q, size_t rows, uint16_t *scale)
{
    *scale = pack_int4_best(x);
    for (size_t i = 0; i < PACK_GROUP / 8; i++)
        q[i * rows] = pack_int4_nibbles(x + 8 * i, *scale) | pack_int4_nibbles(x + 8 * i + 4, *scale) << 16;
}

struct weight quantize_int4(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols, groups = cols / PACK_GROUP, step = cols * (dense->dtype == DT_F32 ? 4 : 2);
    CHECK(dense->format == WEIGHT_DENSE && quantize_int4_fits(dense->rows, dense->cols));
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

size_t quantize_int4_bytes(int rows, int cols)
{
    return weight_bytes(&(struct weight){.format = WEIGHT_INT4, .rows = rows, .cols = cols});
}

/* ---- INT8 ---- */

/* Rounds one row to int8; returns the scale. The largest magnitude is found among the bits, where order is the same and the compiler may use vectors:
 * 763 million numbers pass through here. */
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

/* Quantizes all rows of a dense matrix, in order; `take` stores each. */
static void each_row(const struct weight *dense, void (*take)(void *arg, size_t row, const int8_t *q, uint16_t scale), void *arg)
{
    const size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols, step = cols * (dense->dtype == DT_F32 ? 4 : 2);
    float *row = memory_alloc(cols * sizeof *row);
    int8_t *q = memory_alloc(cols);
    CHECK(dense->format == WEIGHT_DENSE);
    for (size_t r = 0; r < rows; r++) {
        floats_f32(row, (const char *)dense->data + r * step, dense->dtype, cols);
        const uint16_t scale = quantize_row(q, row, dense->cols);
        take(arg, r, q, scale);
    }
    free(row);
    free(q);
}

struct whole { int8_t *q; uint16_t *scale; size_t cols; };

static void take_whole(void *arg, size_t row, const int8_t *q, uint16_t scale)
{
    struct whole *w = arg;
    memcpy(w->q + row * w->cols, q, w->cols);
    w->scale[row] = scale;
}

struct weight quantize_int8(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols;
    struct whole w = {.q = arena_array(a, rows, cols), .scale = arena_array(a, rows, sizeof *w.scale), .cols = cols};
    each_row(dense, take_whole, &w);
    return (struct weight){.format = WEIGHT_INT8, .rows = dense->rows, .cols = dense->cols, .data = w.q, .scale = w.scale};
}

struct planes { uint8_t *upper, *lower; struct plane_row *row; int cols; };

static void take_planes(void *arg, size_t row, const int8_t *q, uint16_t scale)
{
    struct planes *p = arg;
    const size_t at = row * plane_pitch(p->cols);
    p->row[row] = plane_split(p->upper + at, p->lower + at, q, p->cols, scale);
}

struct weight quantize_planes(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, pitch = plane_pitch(dense->cols);
    struct planes p = {
        .upper = arena_array(a, rows, pitch), .lower = arena_array(a, rows, pitch), .row = arena_array(a, rows, sizeof *p.row), .cols = dense->cols,
    };
    each_row(dense, take_planes, &p);
    return (struct weight){
        .format = WEIGHT_PLANES, .rows = dense->rows, .cols = dense->cols, .data = p.upper, .low_plane = p.lower, .scale = p.row,
    };
}

/* ---- FP8 ---- */

static size_t blocks_of(int n) { return ((size_t)n + PACK_BLOCK - 1) / PACK_BLOCK; }

static size_t end_of(size_t block, size_t n) { return (block + 1) * PACK_BLOCK < n ? (block + 1) * PACK_BLOCK : n; }

/* Makes rows first to end - 1, which share their scales. */
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

struct weight quantize_fp8(const struct weight *dense, struct arena *a)
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

size_t quantize_fp8_bytes(int rows, int cols)
{
    return weight_bytes(&(struct weight){.format = WEIGHT_FP8, .scale_dtype = DT_F32, .rows = rows, .cols = cols});
}

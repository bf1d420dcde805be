#include "model/int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "kernels/number.h"
#include "kernels/planes.h"

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

/* quantize_row() of all rows of a dense matrix, in order; `take` stores each. */
static void quantize(const struct weight *dense, void (*take)(void *arg, size_t row, const int8_t *q, uint16_t scale), void *arg)
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

struct weight int8_from_dense(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, cols = (size_t)dense->cols;
    struct whole w = {.q = arena_array(a, rows, cols), .scale = arena_array(a, rows, sizeof *w.scale), .cols = cols};
    quantize(dense, take_whole, &w);
    return (struct weight){.format = WEIGHT_INT8, .rows = dense->rows, .cols = dense->cols, .data = w.q, .scale = w.scale};
}

struct planes { uint8_t *upper, *lower; struct plane_row *row; int cols; };

static void take_planes(void *arg, size_t row, const int8_t *q, uint16_t scale)
{
    struct planes *p = arg;
    const size_t at = row * plane_pitch(p->cols);
    p->row[row] = plane_split(p->upper + at, p->lower + at, q, p->cols, scale);
}

struct weight planes_from_dense(const struct weight *dense, struct arena *a)
{
    const size_t rows = (size_t)dense->rows, pitch = plane_pitch(dense->cols);
    struct planes p = {
        .upper = arena_array(a, rows, pitch), .lower = arena_array(a, rows, pitch), .row = arena_array(a, rows, sizeof *p.row), .cols = dense->cols,
    };
    quantize(dense, take_planes, &p);
    return (struct weight){
        .format = WEIGHT_PLANES, .rows = dense->rows, .cols = dense->cols, .data = p.upper, .low_plane = p.lower, .scale = p.row,
    };
}

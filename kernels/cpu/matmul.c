/* Each format has one loop, written for N tokens and inlined for N = 1..4, so that a weight is unpacked once for all tokens.
 * Dense, INT8 (in one piece or two planes) and FP8 rows are contiguous along k: eight lanes of partial sums per row.  INT4 words cover
 * neighbouring rows: one lane per row, k in order, the scale applied once per group of 128. */
#include "kernels/cpu/matmul.h"

#include "base/err.h"
#include "kernels/cpu/vec.h"

#define INLINE static inline __attribute__((always_inline))

typedef float block[MATMUL_TOKENS][MATMUL_ROWS];

/* One row; `load` converts eight elements to floats from k, a multiple of 8; `one` converts an element of the tail. */
#define DOT_ROW(load, one, type, p, k0, k1)                                                       \
    do {                                                                                          \
        int k_ = (k0);                                                                            \
        for (; k_ + 8 <= (k1); k_ += 8) {                                                         \
            f32x8 w_ = load((const type *)(p) + k_);                                              \
            for (int t = 0; t < N; t++)                                                           \
                acc[t] += w_ * load_f32(x[t] + k_);                                               \
        }                                                                                         \
        for (; k_ < (k1); k_++)                                                                   \
            for (int t = 0; t < N; t++)                                                           \
                acc[t][0] += one(((const type *)(p))[k_]) * x[t][k_];                             \
    } while (0)

INLINE float same(float f) { return f; }
INLINE float i8_f32(int8_t q) { return (float)q; }

INLINE void dense(const struct weight *w, int row, const float *const *x, const int N, block out)
{
    for (int i = 0; i < MATMUL_ROWS; i++) {
        f32x8 acc[MATMUL_TOKENS] = {0};
        if (row + i < w->rows) {
            size_t at = (size_t)(row + i) * (size_t)w->cols;
            switch (w->dtype) {
            case DT_F32:  DOT_ROW(load_f32, same, float, (const float *)w->data + at, 0, w->cols); break;
            case DT_F16:  DOT_ROW(load_f16, f16_f32, uint16_t, (const uint16_t *)w->data + at, 0, w->cols); break;
            default:      DOT_ROW(load_bf16, bf16_f32, uint16_t, (const uint16_t *)w->data + at, 0, w->cols); break;
            }
        }
        for (int t = 0; t < N; t++)
            out[t][i] = sum8(acc[t]);
    }
}

INLINE float fp8_scale(const struct weight *w, size_t i)
{
    switch (w->scale_dtype) {
    case DT_F32: return ((const float *)w->scale)[i];
    case DT_F16: return f16_f32(((const uint16_t *)w->scale)[i]);
    default:     return bf16_f32(((const uint16_t *)w->scale)[i]);
    }
}

INLINE void fp8(const struct weight *w, int row, const float *const *x, const int N, block out)
{
    size_t blocks = ((size_t)w->cols + 127) / 128;
    for (int i = 0; i < MATMUL_ROWS; i++) {
        f32x8 sum[MATMUL_TOKENS] = {0};
        if (row + i < w->rows) {
            const uint8_t *p = (const uint8_t *)w->data + (size_t)(row + i) * (size_t)w->cols;
            for (size_t b = 0; b < blocks; b++) {
                f32x8 acc[MATMUL_TOKENS] = {0};
                int k0 = (int)b * 128, k1 = k0 + 128 < w->cols ? k0 + 128 : w->cols;
                DOT_ROW(load_fp8, fp8_f32, uint8_t, p, k0, k1);
                f32x8 s = splat(fp8_scale(w, (size_t)(row + i) / 128 * blocks + b));
                for (int t = 0; t < N; t++)
                    sum[t] += acc[t] * s;
            }
        }
        for (int t = 0; t < N; t++)
            out[t][i] = sum8(sum[t]);
    }
}

INLINE void int8(const struct weight *w, int row, const float *const *x, const int N, block out)
{
    for (int i = 0; i < MATMUL_ROWS; i++) {
        f32x8 acc[MATMUL_TOKENS] = {0};
        float s = 0;
        if (row + i < w->rows) {
            DOT_ROW(load_i8, i8_f32, int8_t, (const int8_t *)w->data + (size_t)(row + i) * (size_t)w->cols, 0, w->cols);
            s = f16_f32(((const uint16_t *)w->scale)[row + i]);
        }
        for (int t = 0; t < N; t++)
            out[t][i] = sum8(acc[t]) * s;
    }
}

/* acc += columns k to k + 15, as far as there are so many. */
INLINE void add_16(const i8x8 q[2], const float *const *x, int k, int cols, const int N, f32x8 acc[MATMUL_TOKENS])
{
    for (int half = 0; half < 2; half++) {
        const int k0 = k + 8 * half, left = cols - k0;
        if (left >= 8) {
            const f32x8 v = __builtin_convertvector(q[half], f32x8);
            for (int t = 0; t < N; t++)
                acc[t] += v * load_f32(x[t] + k0);
        }
        for (int j = 0; left < 8 && j < left; j++)
            for (int t = 0; t < N; t++)
                acc[t][0] += (float)q[half][j] * x[t][k0 + j];
    }
}

/* INT8 from two planes: the same numbers in the same order. */
INLINE void planes(const struct weight *w, int row, const float *const *x, const int N, block out)
{
    for (int i = 0; i < MATMUL_ROWS; i++) {
        f32x8 acc[MATMUL_TOKENS] = {0};
        float s = 0;
        if (row + i < w->rows) {
            const size_t at = (size_t)(row + i) * plane_pitch(w->cols);
            const uint8_t *upper = (const uint8_t *)w->data + at, *lower = (const uint8_t *)w->low_plane + at;
            for (int k = 0; k < w->cols; k += 16) {
                const u8x8 u = LOAD(u8x8, upper + k / 2), l = LOAD(u8x8, lower + k / 2);
                const i8x8 q[2] = {(i8x8)((u << 4 | (l & 15)) ^ 128), (i8x8)(((u & 0xf0) | l >> 4) ^ 128)};
                add_16(q, x, k, w->cols, N, acc);
            }
            s = f16_f32(((const struct plane_row *)w->scale)[row + i].scale);
        }
        for (int t = 0; t < N; t++)
            out[t][i] = sum8(acc[t]) * s;
    }
}

/* The upper plane alone, less 8. */
INLINE void upper_plane(const struct weight *w, int row, const float *const *x, const int N, block out)
{
    for (int i = 0; i < MATMUL_ROWS; i++) {
        f32x8 acc[MATMUL_TOKENS] = {0};
        const uint8_t *upper = (const uint8_t *)w->data + (size_t)(row + i) * plane_pitch(w->cols);
        for (int k = 0; k < w->cols && row + i < w->rows; k += 16) {
            const u8x8 u = LOAD(u8x8, upper + k / 2);
            const i8x8 q[2] = {(i8x8)(u & 15) - 8, (i8x8)(u >> 4) - 8};
            add_16(q, x, k, w->cols, N, acc);
        }
        for (int t = 0; t < N; t++)
            out[t][i] = sum8(acc[t]);
    }
}

INLINE void int4(const struct weight *w, int row, const float *const *x, const int N, block out)
{
    const uint32_t *words = w->data, *zeros = w->zeros;
    const uint16_t *scales = w->scale;
    size_t rows = (size_t)w->rows, n = (size_t)row;
    f32x8 sum[MATMUL_TOKENS] = {0};
    for (int g = 0; g < w->cols / 128; g++) {
        u32x8 z = {0};
        uint32_t zw = zeros[(size_t)g * (rows / 8) + n / 8];
        for (int i = 0; i < 8; i++)
            z[i] = (zw >> 4 * i & 15) + 1;
        f32x8 zero = __builtin_convertvector((i32x8)z, f32x8), acc[MATMUL_TOKENS] = {0};
        for (int r = g * 16; r < g * 16 + 16; r++) {
            u32x8 q = LOAD(u32x8, words + (size_t)r * rows + n);
            for (int j = 0; j < 8; j++, q >>= 4) {
                f32x8 v = __builtin_convertvector((i32x8)(q & 15), f32x8) - zero;
                for (int t = 0; t < N; t++)
                    acc[t] += v * splat(x[t][8 * r + j]);
            }
        }
        f32x8 s = load_f16(scales + (size_t)g * rows + n);
        for (int t = 0; t < N; t++)
            sum[t] += acc[t] * s;
    }
    for (int t = 0; t < N; t++)
        memcpy(out[t], &sum[t], sizeof sum[t]);
}

#define FOR_TOKENS(format)                                                                        \
    switch (n) {                                                                                  \
    case 1:  format(w, row, x, 1, out); break;                                                    \
    case 2:  format(w, row, x, 2, out); break;                                                    \
    case 3:  format(w, row, x, 3, out); break;                                                    \
    default: format(w, row, x, 4, out); break;                                                    \
    }

void matmul_block(const struct weight *w, int row, const float *const *x, int n, block out)
{
    switch (w->format) {
    case WEIGHT_DENSE: FOR_TOKENS(dense) break;
    case WEIGHT_INT4:  FOR_TOKENS(int4) break;
    case WEIGHT_FP8:   FOR_TOKENS(fp8) break;
    case WEIGHT_INT8:  FOR_TOKENS(int8) break;
    case WEIGHT_PLANES: FOR_TOKENS(planes) break;
    case WEIGHT_NONE:  break;
    }
}

void matmul_upper(const struct weight *w, int row, const float *const *x, int n, block out)
{
    FOR_TOKENS(upper_plane)
}

void matmul_rounded(const struct weight *w, int row, const float *const *x, int n, const struct int8_apart *int8,
                    float out[MATMUL_TOKENS][MATMUL_ROWS])
{
    float y[MATMUL_TOKENS][INT8_COLS];
    const float *rounded[MATMUL_TOKENS];
    if (!int8) {
        matmul_block(w, row, x, n, out);
        return;
    }
    CHECK(w->cols <= INT8_COLS);
    for (int t = 0; t < n; t++) {
        int8_round(y[t], x[t], w->cols, int8);
        rounded[t] = y[t];
    }
    matmul_block(w, row, rounded, n, out);
}

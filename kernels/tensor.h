/* A weight matrix as kernels see it: a view of memory with another owner (usually a mapped file). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum dtype { DT_NONE, DT_F32, DT_F16, DT_BF16, DT_F8_E4M3, DT_I8, DT_I32, DT_I64, DT_U8, DT_BOOL, DT_F64, DT_OTHER };

enum weight_format {
    WEIGHT_NONE,
    WEIGHT_DENSE,               /* data [rows, cols] of `dtype` F32, F16 or BF16 */
    WEIGHT_INT4,                /* auto_gptq packing (auto-round, qlinear_torch_zp.py), group 128 along cols:
                                 *   data  I32 [cols/8, rows]     nibble j of word [r, n] is q[n][8r + j]
                                 *   scale F16 [cols/128, rows]   may be negative
                                 *   zeros I32 [cols/128, rows/8] nibble j of word [g, c] is the zero point of row 8c + j, minus 1
                                 *   W[n][k] = (q - (zero + 1)) * scale[k/128][n] */
    WEIGHT_FP8,                 /* data F8_E4M3 [rows, cols]; scale [ceil(rows/128), ceil(cols/128)] F32, BF16 or F16:
                                 *   W[n][k] = fp8 * scale[n/128][k/128] */
    WEIGHT_INT8,                /* data I8 [rows, cols]; scale F16 [rows]:  W[n][k] = q * scale[n] */
    WEIGHT_PLANES,              /* an INT8 matrix in two planes of four bits: q + 128 = 16 upper + lower, both 0..15.  Only for heads.
                                 *   data  upper plane, low_plane lower plane, each [rows, plane_pitch(cols)] bytes
                                 *   scale struct plane_row [rows]
                                 * 16 columns are 8 bytes: byte j holds column j in its low nibble and column 8 + j in its high one.
                                 * Columns beyond the matrix are zero in both planes. */
};

/* Figures of a row of a matrix in two planes, all F16.  With them the upper plane alone gives an estimate of a product (kernels/step.h,
 * step_logits). */
struct plane_row {
    uint16_t scale;             /* scale of q, as for INT8 */
    uint16_t gain;              /* q.q / q.p - 1, where p is q with all its lower nibbles replaced by their mean */
    uint16_t mean;              /* mean of the lower nibbles */
    uint16_t spread;            /* at least the rms of q - (1 + gain) p, and of (lower nibble - 7.5) */
};
static inline size_t plane_pitch(int cols) { return (size_t)(cols + 15) / 16 * 8; }

/* y[n] = sum_k W[n][k] x[k];  rows = outputs n, cols = inputs k. */
struct weight {
    enum weight_format format;
    enum dtype  dtype;          /* of `data`, if dense */
    enum dtype  scale_dtype;    /* of `scale`, if FP8 */
    int         rows, cols;
    const void *data, *scale, *zeros;
    const void *low_plane;      /* WEIGHT_PLANES */
};

/* One SwiGLU expert: down · (silu(gate · x) * (up · x)).  Shapes [I, H], [I, H], [H, I]. */
struct expert_weights {
    struct weight gate, up, down;
};

/* Bytes of the stored matrix, with scales and zero points. */
static inline size_t weight_bytes(const struct weight *w)
{
    size_t n = (size_t)w->rows * (size_t)w->cols, r = (size_t)w->rows, c = (size_t)w->cols;
    switch (w->format) {
    case WEIGHT_NONE:  return 0;
    case WEIGHT_DENSE: return n * (w->dtype == DT_F32 ? 4 : 2);
    case WEIGHT_INT4:  return n / 2 + c / 128 * r * 2 + c / 128 * (r / 2);
    case WEIGHT_FP8:   return n + (r + 127) / 128 * ((c + 127) / 128) * (w->scale_dtype == DT_F32 ? 4 : 2);
    case WEIGHT_INT8:  return n + r * 2;
    case WEIGHT_PLANES: return r * (2 * plane_pitch(w->cols) + sizeof(struct plane_row));
    }
    return 0;
}

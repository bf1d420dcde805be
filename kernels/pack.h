/* The layout of a weight matrix on a GPU: the order in which the lanes of a warp read it, so that 16-byte loads feed mma.sync.m16n8k16 without a
 * shuffle.  Decode steps and prompt chunks use the same bytes.
 *
 * A matrix [rows, cols] is cut into tiles of 16 rows, tiles into groups of 128 columns, groups into 8 k-steps of 16 columns.
 * The columns of k-step s of a group are permuted, for weights and activations alike: lane l with t = l % 4 has columns
 *     k(s, t, j) = 32 (s / 2) + 8 t + 4 (s % 2) + j,  j = 0..3
 * and, with g = l / 4, its four registers a0..a3 of the 16x16 fragment hold (row, j): a0 (g; 0, 1), a1 (g + 8; 0, 1),
 * a2 (g; 2, 3), a3 (g + 8; 2, 3), the lower j in the lower half.
 *
 * data: [tile][group][line][lane] of 16 bytes.  A line (512 bytes) holds
 *   INT4   4 k-steps, one 32-bit word each: nibble i is the lower element of a_i, nibble i + 4 its upper one; q, zero is 8
 *   FP8    2 k-steps, two words each: bytes a0.lo a0.hi a1.lo a1.hi, then a2 and a3 likewise
 *   INT8   the same
 *   DENSE  1 k-step: a0..a3 in bf16
 *   PLANES the upper plane of the whole matrix like INT4, then its lower plane likewise
 * scale, after the data:
 *   INT4   [tile][group][8] pairs of F16: rows g and g + 8
 *   FP8    [tile][group] pairs of F32: rows 0-7 and rows 8-15
 *   INT8   [tile][8] pairs of F16: rows g and g + 8
 *   PLANES struct plane_row [16 tiles]
 * Rows and columns beyond the matrix are zero.
 *
 * Gate and up of an expert are one matrix of 2 I rows: tile i holds rows 8i..8i+7 of gate, then the same rows of up, so
 * that one lane ends up with both factors of SwiGLU. */
#pragma once

#include <stdbool.h>

#include "kernels/both.h"
#include "kernels/tensor.h"

enum { PACK_ROWS = 16, PACK_GROUP = 128, PACK_LINE = 512 };

BOTH int pack_tiles(int rows)  { return (rows + PACK_ROWS - 1) / PACK_ROWS; }
BOTH int pack_groups(int cols) { return (cols + PACK_GROUP - 1) / PACK_GROUP; }
BOTH int pack_lines(enum weight_format f)              /* lines per group of a tile, in both planes together */
{
    return f == WEIGHT_INT4 ? 2 : f == WEIGHT_DENSE ? 8 : 4;
}
BOTH size_t pack_data_bytes(enum weight_format f, int rows, int cols)
{
    return (size_t)pack_tiles(rows) * (size_t)pack_groups(cols) * (size_t)pack_lines(f) * PACK_LINE;
}
BOTH size_t pack_scale_bytes(enum weight_format f, int rows, int cols)
{
    size_t tiles = (size_t)pack_tiles(rows), groups = (size_t)pack_groups(cols);
    return f == WEIGHT_INT4 ? tiles * groups * 32 : f == WEIGHT_FP8 ? tiles * groups * 8 : f == WEIGHT_INT8 ? tiles * 32
         : f == WEIGHT_PLANES ? tiles * PACK_ROWS * sizeof(struct plane_row) : 0;
}
BOTH size_t pack_bytes(enum weight_format f, int rows, int cols)       /* a multiple of 512 */
{
    return pack_data_bytes(f, rows, cols) + (pack_scale_bytes(f, rows, cols) + PACK_LINE - 1) / PACK_LINE * PACK_LINE;
}

/* Packs, on the host and as the reference, `w` (checkpoint layout, kernels/tensor.h) into pack_bytes() bytes.  F16 and F32 are rounded to bf16.
 * False if an INT4 zero point is not 8. */
bool pack_matrix(const struct weight *w, void *dst);
/* Packs gate and up [I, H], which must have the same format, into pack_bytes(f, 2 I, H) bytes. */
bool pack_pair(const struct weight *gate, const struct weight *up, void *dst);

/* Returns a view of packed bytes at `at`. */
static inline struct weight packed_view(enum weight_format f, int rows, int cols, const void *at)
{
    struct weight w = {WEIGHT_NONE};
    w.format = f;
    w.dtype = DT_BF16;
    w.scale_dtype = f == WEIGHT_FP8 ? DT_F32 : DT_F16;
    w.rows = rows;
    w.cols = cols;
    w.data = at;
    w.scale = (const char *)at + pack_data_bytes(f, rows, cols);
    w.low_plane = f == WEIGHT_PLANES ? (const char *)at + pack_data_bytes(f, rows, cols) / 2 : NULL;
    return w;
}

/* Formats made at load from dense matrices: INT4 and FP8 as published checkpoints have them, INT8 in one piece or in two planes, which no checkpoint
 * holds (kernels/tensor.h).  Results live in the arena. */
#pragma once

#include <stdbool.h>

#include "base/memory.h"
#include "kernels/tensor.h"

/* True if a matrix can be in INT4: it has whole groups of 128 columns, and zero points for whole groups of 8 rows. */
static inline bool quantize_int4_fits(int rows, int cols) { return rows % 8 == 0 && cols % 128 == 0; }

/* Makes INT4: per group of 128 columns, number / scale is rounded to even, -8 to 7.  The scale (F16) is the one of eight that makes the squared error
 * of the group least: with them the number of greatest magnitude would be -7.8 to -9.8, and is cut off at -8 (kernels/pack_piece.h); so the scale may
 * be negative.  Infinities and NaN become the greatest numbers that there are with it.  Only for shapes with
 * quantize_int4_fits().  Lives in the arena. */
struct weight quantize_int4(const struct weight *dense, struct arena *a);
size_t quantize_int4_bytes(int rows, int cols);          /* bytes that such a matrix takes */

/* Makes INT8: per row, scale = max|row| / 127 (F16), q = round(row / scale) clamped to +-127.  Lives in the arena. */
struct weight quantize_int8(const struct weight *dense, struct arena *a);
/* Makes the same numbers in two planes (WEIGHT_PLANES). */
struct weight quantize_planes(const struct weight *dense, struct arena *a);

/* Makes FP8: per block of 128 x 128 numbers, scale = max|block| / 448 (F32), fp8 = E4M3 of number / scale, rounded to even.  Lives in the arena. */
struct weight quantize_fp8(const struct weight *dense, struct arena *a);
size_t quantize_fp8_bytes(int rows, int cols);           /* bytes that such a matrix takes */

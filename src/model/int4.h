/* INT4 made at load from a dense matrix, in the format of published INT4 checkpoints: a scale per 128 numbers of a row (kernels/tensor.h). */
#ifndef Q35_MODEL_INT4_H
#define Q35_MODEL_INT4_H

#include <stdbool.h>

#include "base/arena.h"
#include "kernels/tensor.h"

/* The format has whole groups of 128 columns and zero points of 8 rows at once.  What has not stays in another format. */
static inline bool int4_fits(int rows, int cols) { return rows % 8 == 0 && cols % 128 == 0; }

/* Per group of 128 columns, number / scale is rounded to even, -8 to 7.  The scale (F16) is the one of eight that makes the squared error of
 * the group least: with them the number of greatest magnitude would be -7.8 to -9.8, and is cut off at -8 (kernels/pack_piece.h); so the scale
 * may be negative.  Infinities and NaN become the greatest numbers that there are with it.  int4_fits(); lives in the arena. */
struct weight int4_from_dense(const struct weight *dense, struct arena *a);
size_t int4_bytes(int rows, int cols);          /* bytes that such a matrix takes */

#endif

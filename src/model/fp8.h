/* FP8 made at load from a dense matrix, in the format of published FP8 checkpoints: a scale per block (kernels/tensor.h). */
#ifndef Q35_MODEL_FP8_H
#define Q35_MODEL_FP8_H

#include "base/arena.h"
#include "kernels/tensor.h"

/* Per block of 128 x 128 numbers, scale = max|block| / 448 (F32), fp8 = E4M3 of number / scale, rounded to even.  Lives in the arena. */
struct weight fp8_from_dense(const struct weight *dense, struct arena *a);
size_t fp8_bytes(int rows, int cols);           /* bytes that such a matrix takes */

#endif

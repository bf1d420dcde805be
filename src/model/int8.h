/* The INT8 format, which no checkpoint holds, in one piece or in two planes: made at load from a dense matrix. */
#ifndef Q35_MODEL_INT8_H
#define Q35_MODEL_INT8_H

#include "base/arena.h"
#include "kernels/tensor.h"

/* Per row, scale = max|row| / 127 (F16), q = round(row / scale) clamped to +-127.  Lives in the arena. */
struct weight int8_from_dense(const struct weight *dense, struct arena *a);
/* The same numbers as WEIGHT_PLANES. */
struct weight planes_from_dense(const struct weight *dense, struct arena *a);

#endif

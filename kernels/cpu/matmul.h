/* The inner product of each weight format, shared by linear_* and the experts. */
#pragma once

#include "kernels/int8.h"
#include "kernels/tensor.h"

enum { MATMUL_ROWS = 8, MATMUL_TOKENS = 4 };

/* out[t][i] = sum_k W[row + i][k] * x[t][k] for i in 0..7 and n <= MATMUL_TOKENS tokens.  Rows beyond w->rows give 0.
 * The bits of one (row, token) do not depend on n. */
void matmul_block(const struct weight *w, int row, const float *const *x, int n, float out[MATMUL_TOKENS][MATMUL_ROWS]);

/* Computes the same of rows of x that are rounded first (kernels/int8.h); int8 NULL: of x as it is.  w->cols <= INT8_COLS. */
void matmul_rounded(const struct weight *w, int row, const float *const *x, int n, const struct int8_apart *int8,
                    float out[MATMUL_TOKENS][MATMUL_ROWS]);

/* Computes the same with the upper plane of WEIGHT_PLANES alone: out[t][i] = sum_k (upper[row + i][k] - 8) * x[t][k]. */
void matmul_upper(const struct weight *w, int row, const float *const *x, int n, float out[MATMUL_TOKENS][MATMUL_ROWS]);

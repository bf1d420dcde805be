/* What the products of prompt chunks take in scratch memory on a device that keeps weights packed: activations once more, in fp16, and what undoes each row's factor.
 * Short chunks are limited by the weights' bytes, so that precision is cheap (nothing for 16 tokens, a tenth of the time for 128): an
 * activation is two fp16 there, hi + lo. */
#ifndef Q35_KERNELS_GEMM_H
#define Q35_KERNELS_GEMM_H

#include "kernels/pack.h"

enum { GEMM_FINE = 128 };       /* chunks of at most that many tokens */
static inline int gemm_halves(int n_tokens) { return n_tokens <= GEMM_FINE ? 2 : 1; }

/* A copy of `rows` rows or halves of rows, columns filled up to whole groups with zeros; behind it at most as many factors, fp32. */
static inline size_t gemm_factors_at(size_t rows, int cols) { return rows * (size_t)pack_groups(cols) * PACK_GROUP * 2; }
static inline size_t gemm_copy_bytes(size_t rows, int cols) { return gemm_factors_at(rows, cols) + (rows * 4 + 127) / 128 * 128; }
/* Narrow matrices read the activations as they are. */
enum { GEMM_NARROW = 256 };
static inline bool linear_narrow(const struct weight *w) { return w->format == WEIGHT_DENSE && w->rows <= GEMM_NARROW && w->cols % 8 == 0; }
/* Scratch that linear_* need */
static inline size_t linear_scratch(int n_tokens, int cols) { return gemm_copy_bytes((size_t)(gemm_halves(n_tokens) * n_tokens), cols); }
/* ... and experts_up and experts_down, the latter with one row per slot */
static inline size_t experts_up_scratch(int n_tokens, int hidden) { return linear_scratch(n_tokens, hidden); }
static inline size_t experts_down_scratch(int n_tokens, int top_k, int inter_max)
{
    return gemm_copy_bytes((size_t)(gemm_halves(n_tokens) * n_tokens) * (size_t)(top_k + 1), inter_max);
}

#endif

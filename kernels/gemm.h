/* Scratch memory for the products of a prompt's chunk on a GPU.  It holds a copy of the activations in fp16, each row times a power of two that makes
 * use of the range of fp16, and after the copy the inverse of each row's factor, then each row's Euclidean norm.
 *
 * A short chunk takes the time of reading the weights, so there an activation is kept in two fp16 numbers, hi + lo.  With 16 tokens that takes no
 * longer than one number would, with 128 tokens a tenth longer. */
#pragma once

#include "kernels/pack.h"

enum { GEMM_FINE = 128 };       /* chunks of at most so many tokens have hi + lo */
static inline int gemm_halves(int n_tokens) { return n_tokens <= GEMM_FINE ? 2 : 1; }

/* gemm_factors_at(): bytes of the copy of `rows` rows (with hi + lo each row counts twice), its columns filled up to whole groups with zeros; this is
 * the offset of the factors.  gemm_copy_bytes(): with factors and norms, fp32. */
static inline size_t gemm_factors_at(size_t rows, int cols) { return rows * (size_t)pack_groups(cols) * PACK_GROUP * 2; }
static inline size_t gemm_copy_bytes(size_t rows, int cols) { return gemm_factors_at(rows, cols) + (rows * 8 + 127) / 128 * 128; }
/* Dense matrices with so few rows read the activations themselves, without a copy. */
enum { GEMM_NARROW = 256 };
static inline bool linear_narrow(const struct weight *w) { return w->format == WEIGHT_DENSE && w->rows <= GEMM_NARROW && w->cols % 8 == 0; }
/* Scratch bytes of the operations linear_*. */
static inline size_t linear_scratch(int n_tokens, int cols) { return gemm_copy_bytes((size_t)(gemm_halves(n_tokens) * n_tokens), cols); }
/* The same where rows may be rounded to eight bits, which have a place of their own. */
static inline size_t rounded_scratch(int n_tokens, int cols)
{
    return linear_scratch(n_tokens, cols) + (gemm_halves(n_tokens) == 1 ? gemm_factors_at((size_t)n_tokens, cols) : 0);
}
/* Scratch bytes of experts_down, which has a row for each slot. */
static inline size_t experts_down_scratch(int n_tokens, int top_k, int inter_max)
{
    return gemm_copy_bytes((size_t)(gemm_halves(n_tokens) * n_tokens) * (size_t)(top_k + 1), inter_max);
}

/* Products of a prompt that may round activations to eight bits (kernels/int8.h) do so with INT4 weights of whole groups where arithmetic is the
 * limit: in chunks of more than GEMM_FINE tokens, and for experts where their weights do not stream by.  Others take them as without.  Rows in eight
 * bits lie behind those in fp16 and their factors, in as much memory: other products read the latter. */
static inline bool gemm_int8(const struct weight *w, int n_tokens)
{
    return w->format == WEIGHT_INT4 && w->cols % PACK_GROUP == 0 && n_tokens > GEMM_FINE;
}

/* Rows of so many columns that one operation of a chunk writes for another, and nothing else reads, are in 16 bits a number with a power of two
 * for each 16 of them (kernels/cuda/packets.cuh), in the first half of their memory. */
static inline bool gemm_packets(int n_tokens, int cols) { return gemm_halves(n_tokens) == 1 && cols % 16 == 0; }
/* Experts of a chunk, or its shared expert, that have so few rows that their weights stream by. */
static inline bool gemm_few_routed(int n_tokens, int top_k, int n_experts) { return gemm_halves(n_tokens) * n_tokens * top_k / n_experts <= 20; }
static inline bool gemm_few_shared(int n_tokens) { return gemm_halves(n_tokens) * n_tokens <= 512; }

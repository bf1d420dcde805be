/* Gated DeltaNet, per value head hv with key head hv / (n_v_heads / n_k_heads), state S [dk, dv]:
 *   S <- exp(g) S;  p = k^T S;  d = beta (v - p);  S <- S + k d^T;  o = q^T S
 * Sources: Gated Delta Networks, arXiv:2412.06464; the chunk form as in torch_chunk_gated_delta_rule of transformers,
 * models/qwen3_5_moe (see docs/model.md). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DELTANET_MAX_DIM = 128, DELTANET_CHUNK = 64 };

/* In place on the output c of the convolution, laid out [q heads | k heads | v heads] per token: q and k of every head are
 * divided by sqrt(sum of squares + 1e-6), q also multiplied by dk^-0.5.  beta = sigmoid(b);
 * g = -exp(a_log) * softplus(a + dt_bias), linear above 20.                                  tolerance: 1e-6 relative */
struct deltanet_gates_args {
    float       *c;             /* [n_tokens, 2 * n_k_heads * dk + n_v_heads * dv] */
    float       *beta, *g;      /* [n_tokens, n_v_heads] */
    const float *a, *b;         /* [n_tokens, n_v_heads] */
    const float *a_log, *dt_bias;       /* [n_v_heads] */
    int          n_tokens, n_k_heads, n_v_heads, dk, dv;
};
static inline size_t deltanet_gates_bytes(const struct deltanet_gates_args *a)
{
    return (size_t)a->n_tokens * (size_t)(4 * a->n_k_heads * a->dk + 4 * a->n_v_heads) * sizeof(float);
}
static inline int deltanet_gates_units(const struct deltanet_gates_args *a) { return a->n_tokens; }

/* The recurrence over a prompt's chunk, in blocks of 64 rows that begin at multiples of 64.  Per block, with G the cumulative sum of g and
 * D[i][j] = exp(G_i - G_j), j <= i:
 *   A = strict_lower(beta_i (k_i . k_j) D);  (I + A) U = beta V;  (I + A) W = beta exp(G) K
 *   N = U - W S;  O = (exp(G) Q) S + lower(Q K^T * D) N;  S <- exp(G_last) S + (exp(G_last - G) K)^T N
 * Equal to the recurrence up to rounding.                                                    tolerance: 1e-4 relative
 *
 * With `raw` it first makes c, beta and g as conv and deltanet_gates do; a device may do without them, so what they hold afterwards is undefined. */
struct deltanet_raw {
    const float *x;             /* [first + n_tokens, channels]: input of conv */
    int          first;         /* row of x that is token 0's */
    const float *w;             /* [channels, taps] */
    float       *window;        /* [taps - 1, channels], updated */
    const float *a, *b;         /* [n_tokens, n_v_heads] */
    const float *a_log, *dt_bias;       /* [n_v_heads] */
    int          taps;
    int          own_rows;      /* > 0: x is in the form that a product of own_rows rows writes (own_form) */
};
struct deltanet_chunk_args {
    float       *y;             /* [n_tokens, n_v_heads, dv] */
    float       *c;             /* [n_tokens, 2 * n_k_heads * dk + n_v_heads * dv], after deltanet_gates */
    float       *beta, *g;      /* [n_tokens, n_v_heads] */
    const struct deltanet_raw *raw;     /* in host memory, or NULL */
    float       *state;         /* [n_v_heads, dk, dv], updated */
    int          n_tokens, n_k_heads, n_v_heads, dk, dv;
    int          pos;           /* of row 0 */
};
static inline size_t deltanet_chunk_bytes(const struct deltanet_chunk_args *a)
{
    return 2 * (size_t)a->n_v_heads * (size_t)(a->dk * a->dv) * sizeof(float)
         + (size_t)a->n_tokens * (size_t)(2 * a->n_k_heads * a->dk + 2 * a->n_v_heads * a->dv) * sizeof(float);
}
static inline int deltanet_chunk_units(const struct deltanet_chunk_args *a) { return a->raw ? a->n_k_heads : a->n_v_heads; }

/* Scratch memory of deltanet_chunk on a GPU: bytes for each head and block of 64 rows; most blocks at a time.  It works with memory for one block.
 * A copy of activations for products that lies at the beginning of scratch memory (kernels/gemm.h) stays there if there is room for both. */
enum { DELTANET_SCRATCH_V_HEAD = 54784, DELTANET_SCRATCH_K_HEAD = 32768, DELTANET_SCRATCH_BLOCKS = 16 };
static inline size_t deltanet_block_scratch(int n_k_heads, int n_v_heads)
{
    return (size_t)n_v_heads * DELTANET_SCRATCH_V_HEAD + (size_t)n_k_heads * DELTANET_SCRATCH_K_HEAD;
}
static inline size_t deltanet_chunk_scratch(int n_tokens, int n_k_heads, int n_v_heads)
{
    int blocks = (n_tokens + DELTANET_CHUNK - 1) / DELTANET_CHUNK + 1;          /* the first block may begin before the first row */
    return (size_t)(blocks < DELTANET_SCRATCH_BLOCKS ? blocks : DELTANET_SCRATCH_BLOCKS) * deltanet_block_scratch(n_k_heads, n_v_heads);
}

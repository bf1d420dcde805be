/* Causal grouped-query attention over a KV cache of one layer. */
#ifndef Q35_KERNELS_ATTENTION_H
#define Q35_KERNELS_ATTENTION_H

#include <stddef.h>

#include "kernels/tensor.h"

/* Where one layer keeps its rows: k and v are [n_ctx, n_kv_heads, head_dim] of `dtype` (F32 or BF16). */
struct kv_rows {
    void      *k, *v;
    enum dtype dtype;
    int        n_kv_heads, head_dim;
};
static inline size_t kv_row_bytes(const struct kv_rows *c)     /* k and v of one position */
{
    return 2 * (size_t)c->n_kv_heads * (size_t)c->head_dim * (c->dtype == DT_F32 ? 4 : 2);
}

/* Appends rows pos..pos+n_tokens-1. */
struct kv_store_args {
    struct kv_rows kv;
    const float   *k, *v;       /* [n_tokens, n_kv_heads, head_dim]; k after norm and rope */
    int            n_tokens, pos;
};
static inline size_t kv_store_bytes(const struct kv_store_args *a)
{
    return (size_t)a->n_tokens * (kv_row_bytes(&a->kv) + 2 * (size_t)a->kv.n_kv_heads * (size_t)a->kv.head_dim * sizeof(float));
}
static inline int kv_store_units(const struct kv_store_args *a) { return a->n_tokens; }

/* y[t,h] = sum_{p <= pos+t} softmax_p(scale * q[t,h] . k[p, h / (n_q_heads / n_kv_heads)]) * v[p, same]
 * Rows pos..pos+n_tokens-1 are in the cache already.  Online softmax in blocks of 64 positions counted from 0, so a row's
 * bits do not depend on n_tokens.                                                            tolerance: 1e-5 relative */
struct attention_args {
    float         *y;           /* [n_tokens, n_q_heads, head_dim] */
    const float   *q;           /* head h of token t at q + t * q_token + h * q_head */
    size_t         q_token, q_head;
    struct kv_rows kv;
    int            n_tokens, n_q_heads, pos;
    float          scale;
};
static inline size_t attention_bytes(const struct attention_args *a)
{
    return (size_t)(a->pos + a->n_tokens) * kv_row_bytes(&a->kv)
         + 2 * (size_t)a->n_tokens * (size_t)a->n_q_heads * (size_t)a->kv.head_dim * sizeof(float);
}
static inline int attention_units(const struct attention_args *a) { return a->n_tokens * a->n_q_heads; }

/* y[t,h,i] *= sigmoid(gate[t,h,i]) */
struct sigmoid_gate_args {
    float       *y;             /* [n_tokens, n_heads, head_dim] */
    const float *gate;          /* head h of token t at gate + t * gate_token + h * gate_head */
    size_t       gate_token, gate_head;
    int          n_tokens, n_heads, head_dim;
};
static inline size_t sigmoid_gate_bytes(const struct sigmoid_gate_args *a)
{
    return 3 * (size_t)a->n_tokens * (size_t)a->n_heads * (size_t)a->head_dim * sizeof(float);
}
static inline int sigmoid_gate_units(const struct sigmoid_gate_args *a) { return a->n_tokens; }

#endif

/* Causal grouped-query attention over a KV cache of one layer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kv.h"
#include "kernels/rope.h"
#include "kernels/tensor.h"

/* The KV rows of one layer.
 *
 * Not compressed (k_format and v_format KV_EXACT): k and v are [n_ctx, n_kv_heads, head_dim] of `dtype` (F32 or BF16); row p is
 * position p.
 *
 * Compressed: old positions are stored as codes (kernels/kv.h), in blocks of KV_BLOCK positions; the first `sinks` positions and the newest ones stay
 * exact.  Which positions a query row reads as codes depends on its own position alone (kv_sealed()).  So the bits of its result depend neither on
 * how a prompt is cut into chunks nor on the other rows of a step.  k and v hold the exact rows: the sinks, then a ring of `ring` rows, indexed by
 * position.  The ring must hold the rows that a call stores, the `recent` rows before them, and KV_BLOCK more. */
struct kv_rows {
    void      *k, *v;
    enum dtype dtype;
    int        n_kv_heads, head_dim;
    enum kv_format k_format, v_format;
    int        sinks;           /* at most KV_BLOCK */
    int        recent;          /* a multiple of KV_BLOCK */
    int        ring;
    uint8_t   *k_codes, *v_codes;       /* [n_blocks, n_kv_heads] of kv_block_bytes() */
    uint16_t  *k_scales, *v_scales;     /* [n_blocks, n_kv_heads, KV_BLOCK] fp16 */
};
/* The number of a pair of formats.  A device's set of pairs that its attention can read has the bits 1 << KV_PAIR().  A macro, for tables. */
#define KV_PAIR(keys, values) (4 * (unsigned)(keys) + (unsigned)(values))
BOTH bool kv_compressed(const struct kv_rows *c) { return c->k_format != KV_EXACT; }

/* The query row at `pos` reads positions sinks..kv_sealed()-1 as codes, and all others up to `pos` as exact rows.  A multiple of KV_BLOCK. */
BOTH int kv_sealed(const struct kv_rows *c, int pos)
{
    int end = pos / KV_BLOCK * KV_BLOCK - c->recent;
    return !kv_compressed(c) || end < 0 ? 0 : end;
}
/* Returns the index in k and v of a position's exact row. */
BOTH int kv_exact_row(const struct kv_rows *c, int pos)
{
    return !kv_compressed(c) || pos < c->sinks ? pos : c->sinks + pos % c->ring;
}
/* Returns the same layer of another conversation, whose memory begins `bytes` after this one's. */
BOTH struct kv_rows kv_behind(struct kv_rows c, size_t bytes)
{
    c.k = (char *)c.k + bytes;
    c.v = (char *)c.v + bytes;
    if (kv_compressed(&c)) {
        c.k_codes += bytes;
        c.v_codes += bytes;
        c.k_scales += bytes / sizeof *c.k_scales;
        c.v_scales += bytes / sizeof *c.v_scales;
    }
    return c;
}

static inline size_t kv_exact_bytes(const struct kv_rows *c)   /* k and v of one exact row */
{
    return 2 * (size_t)c->n_kv_heads * (size_t)c->head_dim * (c->dtype == DT_F32 ? 4 : 2);
}
static inline size_t kv_row_bytes(const struct kv_rows *c)     /* k and v of one position in a long context */
{
    return kv_compressed(c) ? (size_t)c->n_kv_heads * (kv_vector_bytes(c->k_format) + kv_vector_bytes(c->v_format)) : kv_exact_bytes(c);
}

/* Stores exact rows pos..pos+n_tokens-1 in the cache's dtype.                                     tolerance: exact */
struct kv_store_args {
    struct kv_rows kv;
    const float   *k, *v;       /* [n_tokens, n_kv_heads, head_dim]; k after norm and rope */
    int            n_tokens, pos;
};
static inline size_t kv_store_bytes(const struct kv_store_args *a)
{
    return (size_t)a->n_tokens * (kv_exact_bytes(&a->kv) + 2 * (size_t)a->kv.n_kv_heads * (size_t)a->kv.head_dim * sizeof(float));
}
static inline int kv_store_units(const struct kv_store_args *a) { return a->n_tokens; }

/* Encodes the exact rows of positions from..to-1 (multiples of KV_BLOCK), block by block.  The caller seals a block before the first query row that
 * reads it as codes, and only when its rows can no longer be rolled back: a call for rows pos..pos+n-1 seals positions kv_sealed(pos - 1) to
 * kv_sealed(pos + n - 1).  The codes of positions below `sinks` are never read.
 * tolerance: exact, the same bytes on every device */
struct kv_seal_args {
    struct kv_rows kv;
    int            from, to;
};
static inline size_t kv_seal_bytes(const struct kv_seal_args *a)
{
    return (size_t)(a->to - a->from) * (kv_exact_bytes(&a->kv) + kv_row_bytes(&a->kv));
}
static inline int kv_seal_units(const struct kv_seal_args *a) { return (a->to - a->from) / KV_BLOCK * a->kv.n_kv_heads; }

/* y[t,h,i] *= sigmoid(gate[t,h,i])                                                                 tolerance: 1e-6 relative */
struct sigmoid_gate_args {
    float       *y;             /* [n_tokens, n_heads, head_dim] */
    const float *gate;          /* head h of token t at gate + t * gate_token + h * gate_head */
    size_t       gate_token, gate_head;
    const struct weight *next;  /* the matrix that y is multiplied with next, if nothing else reads y: a device may then write y in a form of its
                                 * own; or NULL */
    int          n_tokens, n_heads, head_dim;
    float        most;          /* on a GPU with next: no number of y is greater (halves.cuh); 0: not known */
};
static inline size_t sigmoid_gate_bytes(const struct sigmoid_gate_args *a)
{
    return 3 * (size_t)a->n_tokens * (size_t)a->n_heads * (size_t)a->head_dim * sizeof(float);
}
static inline int sigmoid_gate_units(const struct sigmoid_gate_args *a) { return a->n_tokens; }

/* y[t,h] = sum_{p <= pos+t} softmax_p(scale * q[t,h] . k[p, h / (n_q_heads / n_kv_heads)]) * v[p, same]
 * Rows pos..pos+n_tokens-1 are already in the cache, and blocks below kv_sealed(pos+n_tokens-1) are sealed.  Online softmax
 * (Milakov and Gimelshein, arXiv:1805.02867) in blocks of 64 positions counted from 0, so that the bits of a row do not depend on
 * n_tokens.                                                            tolerance: 1e-5 relative
 * With a `turn` queries are first normed and turned as rmsnorm and rope do; q itself is not changed.  With a gate y is gated as sigmoid_gate does. */
struct attention_turn {
    const float *norm;          /* [head_dim], zero-centred weights of rmsnorm; NULL: q is normed and turned already */
    float        eps;
    const float *freq;          /* [half]; this and the next four as in struct rope_args */
    int          half;          /* on a GPU a multiple of 8 */
    const struct rope_position *at;
    int          first;
    float        scale;
};
struct attention_args {
    float         *y;           /* [n_tokens, n_q_heads, head_dim] */
    const float   *q;           /* head h of token t at q + t * q_token + h * q_head */
    size_t         q_token, q_head;
    struct kv_rows kv;
    int            n_tokens, n_q_heads, pos;
    float          scale;
    struct attention_turn turn;
    const struct sigmoid_gate_args *gate;       /* not NULL: of the same y, in host memory; if it has `next`, only that product may read y */
};
static inline size_t attention_bytes(const struct attention_args *a)
{
    return (size_t)(a->pos + a->n_tokens) * kv_row_bytes(&a->kv)
         + (a->gate ? 3 : 2) * (size_t)a->n_tokens * (size_t)a->n_q_heads * (size_t)a->kv.head_dim * sizeof(float);
}
static inline int attention_units(const struct attention_args *a) { return a->n_tokens * a->n_q_heads; }

/* Bytes of scratch memory for attention of few tokens over many positions on a GPU with n_sm multiprocessors: 128 rows for each multiprocessor, of an
 * output of 256 numbers, a maximum and a sum of weights.  With less memory attention takes longer. */
enum { ATTENTION_SCRATCH_ROWS = 128, ATTENTION_SCRATCH_ROW = 256 * 4 + 8 };
static inline size_t attention_scratch(int n_sm)
{
    return (size_t)n_sm * ATTENTION_SCRATCH_ROWS * ATTENTION_SCRATCH_ROW;
}

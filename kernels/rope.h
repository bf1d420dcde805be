/* Rotary embedding in place on the first 2 * half dims of every head: pair (i, i + half) is rotated by p * freq[i], where p is the token's position
 * on the axis of pair i:
 *   a' = (a cos - b sin) * scale,  b' = (b cos + a sin) * scale          scale: YaRN's attention factor, 1 otherwise
 * The angle is computed in fp32, as in the reference implementation.                         tolerance: 1e-6
 * Sources: RoPE, arXiv:2104.09864; YaRN, arXiv:2309.00071; M-RoPE, arXiv:2409.12191; transformers, modeling_rope_utils.py and
 * Qwen3_5MoeTextRotaryEmbedding. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/both.h"

/* The position of a token, by which rope turns it: time, row and column.  For text all three are equal; the tokens of a picture share t and differ
 * in h and w, so positions advance more slowly than tokens.  The index of the token's KV row, which is called `pos` in all other operations, is a
 * number of its own: it decides what the token attends to. */
struct rope_position { int32_t t, h, w; };
/* The axes alternate over the first pairs: t, h, w, t, h, w ...  ROPE_H of them are pairs of h, ROPE_W of w; all others are pairs of t. */
enum { ROPE_H = 11, ROPE_W = 10 };
/* Returns the coordinate that pair i turns by. */
BOTH int rope_coordinate(struct rope_position p, int i)
{
    return i % 3 == 1 && i < 3 * ROPE_H ? p.h : i % 3 == 2 && i < 3 * ROPE_W ? p.w : p.t;
}

struct rope_args {
    float       *x;             /* head h of token t at x + t * token_stride + h * head_stride */
    size_t       token_stride, head_stride;
    const float *freq;          /* [half] */
    int          n_tokens, n_heads, half;
    const struct rope_position *at;     /* [n_tokens]; NULL: token t is at first + t on all axes */
    int          first;
    float        scale;
};
static inline size_t rope_bytes(const struct rope_args *a)
{
    return (size_t)a->n_tokens * (size_t)a->n_heads * (size_t)a->half * 2 * 2 * sizeof(float);
}
static inline int rope_units(const struct rope_args *a) { return a->n_tokens; }

/* Rotary embedding in place on the first 2 * half dims of every head: pair (i, i + half) is rotated by pos * freq[i]:
 *   a' = (a cos - b sin) * scale,  b' = (b cos + a sin) * scale          scale: YaRN's attention factor, 1 otherwise
 * The angle is computed in fp32, as in the reference implementation.                         tolerance: 1e-6
 * Sources: RoPE, arXiv:2104.09864; YaRN, arXiv:2309.00071; transformers, modeling_rope_utils.py. */
#ifndef Q35_KERNELS_ROPE_H
#define Q35_KERNELS_ROPE_H

#include <stddef.h>

struct rope_args {
    float       *x;             /* head h of token t at x + t * token_stride + h * head_stride */
    size_t       token_stride, head_stride;
    const float *freq;          /* [half] */
    int          n_tokens, n_heads, half;
    int          pos;           /* of token 0 */
    float        scale;
};
static inline size_t rope_bytes(const struct rope_args *a)
{
    return (size_t)a->n_tokens * (size_t)a->n_heads * (size_t)a->half * 2 * 2 * sizeof(float);
}
static inline int rope_units(const struct rope_args *a) { return a->n_tokens; }

#endif

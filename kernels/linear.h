/* y[t,n] = sum_k W[n,k] * x[t,k]  (+ bias[n] if there is one)  (+ y[t,n] if `add`), one operation per weight format.  Sums are
 * fp32; the sum of an INT4 group or FP8 block is scaled before it is added.  The order of summation of a row depends only on the format.
 * tolerance: |error| <= 2^-20 * sum_k |W x| */
#pragma once

#include <stdbool.h>

#include "kernels/int8.h"
#include "kernels/tensor.h"

enum { LINEAR_ROWS = 8 };       /* outputs of one unit */

struct linear_args {
    float        *y;            /* [n_tokens, w.rows] */
    const float  *x;            /* [n_tokens, w.cols] */
    struct weight w;
    int           n_tokens;
    bool          add;
    const float  *bias;         /* [w.rows], or NULL; only for linear_dense */
    const struct int8_apart *int8;      /* not NULL: x is rounded (kernels/int8.h); a GPU does so where it gains time (kernels/gemm.h) */
    bool          own_form;     /* not with add.  An operation that has this, too, alone reads y: a device may write y in a form of its own */
};
static inline size_t linear_bytes(const struct linear_args *a)
{
    return weight_bytes(&a->w) + (size_t)a->n_tokens * (size_t)(a->w.cols + (a->add ? 2 : 1) * a->w.rows) * sizeof(float);
}
static inline int linear_units(const struct linear_args *a) { return (a->w.rows + LINEAR_ROWS - 1) / LINEAR_ROWS; }

#define LINEAR(op)                                                                                \
    struct op##_args { struct linear_args l; };                                                   \
    static inline size_t op##_bytes(const struct op##_args *a) { return linear_bytes(&a->l); }    \
    static inline int    op##_units(const struct op##_args *a) { return linear_units(&a->l); }
LINEAR(linear_dense)            /* F32, F16 or BF16 */
LINEAR(linear_int4)
LINEAR(linear_fp8)
LINEAR(linear_int8)             /* on a CPU also WEIGHT_PLANES, with the same bits */
#undef LINEAR

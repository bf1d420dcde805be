/* y[t,n] = sum_k W[n,k] * x[t,k]  (+ bias[n] if there is one)  (+ y[t,n] if `add`), one operation per weight format.  Sums are
 * fp32; the sum of an INT4 group or FP8 block is scaled before it is added.  The order of summation of a row depends only on the format.
 * tolerance: |error| <= 2^-20 * sum_k |W x| */
#pragma once

#include <stdbool.h>

#include "kernels/int8.h"
#include "kernels/norm.h"
#include "kernels/tensor.h"
#include "kernels/vision.h"

enum { LINEAR_ROWS = 8 };       /* outputs of one unit */

struct linear_args {
    float        *y;            /* [n_tokens, w.rows] */
    const float  *x;            /* [n_tokens, w.cols] */
    struct weight w;
    int           n_tokens;
    bool          add;
    const float  *bias;         /* [w.rows], or NULL; only for linear_dense */
    const struct int8_apart *int8;      /* not NULL: x is rounded (kernels/int8.h); a GPU does so where it gains time (kernels/gemm.h) */
    bool          own_form;     /* not with add; with a bias only with `norm`.  An operation that has this, too, alone reads y: a device may write y
                                 * in a form of its own */
    const struct rmsnorm_gated_args *gate;      /* not NULL: the gated norm that follows; its z is y.  Afterwards y is undefined, unless gate->y is y.
                                                 * In host memory; not with add, bias, int8, own_form or WEIGHT_PLANES; gate->y is not gate->x */
    const struct gelu_args *gelu;       /* not NULL: the GELU that follows; its x is y.  In host memory; only for linear_dense, not with add, gate or
                                         * own_form */
    const float  *norm;         /* for gate, gelu, and a bias with own_form, on a GPU: the largest norm of a row of w, of which a bias is one more
                                 * column; or NULL */
};
/* True if a GPU applies the GELU as it stores.  That needs `norm`. */
static inline bool linear_gelus(const struct weight *w, const struct gelu_args *g, int n_tokens)
{
    return gemm_halves(n_tokens) == 1 && !g->exact && !linear_narrow(w) && w->rows > GEMM_NARROW && g->next && g->next->cols == w->rows
        && !linear_narrow(g->next);
}
/* True if a GPU gates z = W x as it stores.  That needs `norm`, and nothing but `next` may read the outcome. */
static inline bool linear_gates(const struct weight *w, const struct weight *next, int dim, int n_tokens)
{
    enum { HEAD = 128 };
    return gemm_halves(n_tokens) == 1 && dim == HEAD && w->rows % HEAD == 0 && !linear_narrow(w)
        && w->format != WEIGHT_INT8 && w->format != WEIGHT_PLANES && next && next->cols == w->rows && !linear_narrow(next);
}
static inline size_t linear_bytes(const struct linear_args *a)
{
    return weight_bytes(&a->w) + (size_t)a->n_tokens * (size_t)(a->w.cols + (a->add || a->gate ? 2 : 1) * a->w.rows) * sizeof(float);
}
/* Rows of a unit: with a gate whole heads. */
static inline int linear_unit(const struct linear_args *a)
{
    return !a->gate ? LINEAR_ROWS : a->gate->dim % LINEAR_ROWS ? a->w.rows : a->gate->dim;
}
static inline int linear_units(const struct linear_args *a) { return (a->w.rows + linear_unit(a) - 1) / linear_unit(a); }

#define LINEAR(op)                                                                                \
    struct op##_args { struct linear_args l; };                                                   \
    static inline size_t op##_bytes(const struct op##_args *a) { return linear_bytes(&a->l); }    \
    static inline int    op##_units(const struct op##_args *a) { return linear_units(&a->l); }
LINEAR(linear_dense)            /* F32, F16 or BF16 */
LINEAR(linear_int4)
LINEAR(linear_fp8)
LINEAR(linear_int8)             /* on a CPU also WEIGHT_PLANES, with the same bits */
#undef LINEAR

/* Two linear_dense of the same x, with the bits of each alone; x is read once.  On a GPU both matrices are narrow (kernels/gemm.h). */
struct linear_pair_args {
    float        *y[2];         /* [n_tokens, w[i].rows] */
    const float  *x;            /* [n_tokens, w[i].cols] */
    struct weight w[2];
    int           n_tokens;
};
static inline size_t linear_pair_bytes(const struct linear_pair_args *a)
{
    const size_t numbers = (size_t)a->n_tokens * (size_t)(a->w[0].cols + a->w[0].rows + a->w[1].rows);
    return weight_bytes(&a->w[0]) + weight_bytes(&a->w[1]) + numbers * sizeof(float);
}
static inline int linear_pair_units(const struct linear_pair_args *a)
{
    return (a->w[0].rows + LINEAR_ROWS - 1) / LINEAR_ROWS + (a->w[1].rows + LINEAR_ROWS - 1) / LINEAR_ROWS;
}

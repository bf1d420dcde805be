/* The norms of the family.  Sources: RMSNorm, arXiv:1910.07467; transformers, models/qwen3_5_moe. */
#pragma once

#include <stddef.h>

#include "kernels/gemm.h"

/* y[r,i] = (1 + w[i]) * x[r,i] / sqrt(mean_i(x[r,i]^2) + eps)          zero-centred weights; tolerance: 1e-6 relative
 * Row r of x is at x + (r / per_group) * x_group + (r % per_group) * x_row, likewise y.  The strides exist because the rows of q are
 * interleaved with the gates: x_row is the stride of heads, x_group that of tokens. */
struct rmsnorm_args {
    float       *y;             /* may alias x when the strides are equal */
    const float *x;
    const float *w;             /* [dim] */
    int          n_rows, dim;
    int          per_group;     /* 0: one row per group, x_row and y_row unused */
    size_t       x_group, x_row, y_group, y_row;        /* in elements; x_group or y_group 0: dim (contiguous) */
    float        eps;
    bool         own_form;      /* products that are not narrow (kernels/gemm.h) alone read y, one after the other: a device may write y in a form of
                                 * its own */
    const struct int8_apart *int8;      /* not NULL: some of these products round y so; a device may round it here */
};
static inline size_t rmsnorm_bytes(const struct rmsnorm_args *a)
{
    return (size_t)(2 * a->n_rows + 1) * (size_t)a->dim * sizeof(float);
}
static inline int rmsnorm_units(const struct rmsnorm_args *a) { return a->n_rows; }

/* y[r,i] = w[i] * x[r,i] / sqrt(mean_i(x[r,i]^2) + eps) * silu(z[r,i])     plain weights; norm before gate; tolerance: 2e-6 relative */
struct rmsnorm_gated_args {
    float       *y;             /* [n_rows, dim]; may alias x or z */
    const float *x, *z;         /* [n_rows, dim] */
    const float *w;             /* [dim] */
    const struct weight *next;  /* the matrix that y, as rows of next->cols, is multiplied with next, if nothing else reads y: a device may then write
                                 * y in a form of its own; or NULL */
    int          n_rows, dim;
    float        eps;
};
static inline size_t rmsnorm_gated_bytes(const struct rmsnorm_gated_args *a)
{
    return (size_t)(3 * a->n_rows + 1) * (size_t)a->dim * sizeof(float);
}
static inline int rmsnorm_gated_units(const struct rmsnorm_gated_args *a) { return a->n_rows; }

/* y[r,i] = w[i] * (x[r,i] - mean_i(x[r,i])) / sqrt(var_i(x[r,i]) + eps) + b[i]       LayerNorm, arXiv:1607.06450; tolerance: 2e-6 */
struct layernorm_args {
    float       *y;             /* [n_rows, dim]; may alias x */
    const float *x;             /* [n_rows, dim] */
    const float *w, *b;         /* [dim] */
    const struct weight *next;  /* the matrix that y, as rows of next->cols, is multiplied with next, if nothing else reads y: a device may then write
                                 * y in a form of its own; or NULL */
    int          n_rows, dim;
    float        eps;
};
static inline size_t layernorm_bytes(const struct layernorm_args *a)
{
    return (size_t)(2 * a->n_rows + 2) * (size_t)a->dim * sizeof(float);
}
static inline int layernorm_units(const struct layernorm_args *a) { return a->n_rows; }

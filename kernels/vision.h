/* Operations of the vision tower (docs/model.md), for the patches of one picture: a grid of grid_h x grid_w patches, both even, in the order
 * of blocks of 2 x 2 patches.  dim is the size of a head. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernels/both.h"
#include "kernels/tensor.h"

enum { PATCH_MAX_DIM = 128 };   /* greatest size of a head; sizes are multiples of 8 */

/* Sizes that the attention of a GPU takes. */
static inline bool patch_attention_dim(int dim) { return dim == 16 || dim == 32 || dim == 64 || dim == 72; }

struct patch_place { int row, col; };
/* Returns the place of patch i: blocks from left to right, then down; in a block likewise. */
BOTH struct patch_place patch_place(int i, int grid_w)
{
    const int block = i / 4, across = grid_w / 2;
    struct patch_place p = {block / across * 2 + i % 4 / 2, block % across * 2 + i % 2};
    return p;
}

/* x[i] = patch first + i: its numbers (v - 127.5) / 127.5 by channel, frame, y, x; both frames of a still picture are equal.    tolerance: exact */
enum { PATCH_SIDE = 16, PATCH_NUMBERS = 3 * 2 * PATCH_SIDE * PATCH_SIDE };
struct patch_cut_args {
    float         *x;           /* [n_rows, PATCH_NUMBERS] */
    const uint8_t *rgb;         /* [grid_h * PATCH_SIDE, grid_w * PATCH_SIDE, 3] */
    int            first, n_rows, grid_w;
};
static inline size_t patch_cut_bytes(const struct patch_cut_args *a) { return (size_t)a->n_rows * PATCH_NUMBERS * sizeof(float) * 9 / 8; }
static inline int patch_cut_units(const struct patch_cut_args *a) { return a->n_rows; }
/* Returns the number of a pixel's value. */
BOTH float patch_number(uint8_t v) { return ((float)v - 127.5f) / 127.5f; }

/* The learned table of positions has side x side rows for the whole picture.  Its corners are those of the grid, so patch i of n lies at
 * i * (side - 1) / (n - 1) along an axis. */
struct patch_between { int low, high; float part; };    /* rows of the table, and the weight of `high` */
BOTH struct patch_between patch_between(int i, int n, int side)
{
    const float at = (float)i * (float)(side - 1) / (float)(n > 1 ? n - 1 : 1);
    const int low = (int)at;
    struct patch_between b = {low, low + 1 < side ? low + 1 : side - 1, at - (float)low};
    return b;
}

/* x[i] += the table's rows around the place of patch first + i, weighted bilinearly           tolerance: 1e-6 relative to the table's rows */
struct patch_positions_args {
    float        *x;            /* [n_rows, table.cols] */
    struct weight table;        /* dense [side * side, cols], not packed */
    int           side, first, n_rows, grid_h, grid_w;
};
static inline size_t patch_positions_bytes(const struct patch_positions_args *a)
{
    return (size_t)a->n_rows * (size_t)a->table.cols * (2 * sizeof(float) + 4 * (a->table.dtype == DT_F32 ? 4 : 2));
}
static inline int patch_positions_units(const struct patch_positions_args *a) { return a->n_rows; }

/* Splits rows of qkv into heads and turns those of q and k.  The angle of pair (j, j + dim / 2) is row * freq[j] for j < dim / 4, else
 * col * freq[j - dim / 4]: (a, b) becomes (a cos - b sin, b cos + a sin).  v is copied.
 * q, k and v are [n_heads, n, dim] of `dtype` (F32, or BF16 on a GPU), of which rows first .. first + n_rows - 1 are written.
 *                                                                                              tolerance: 1e-6 relative to a pair's length, in F32 */
struct patch_rope_args {
    void        *q, *k, *v;
    enum dtype   dtype;
    const float *qkv;           /* [n_rows, 3, n_heads, dim] */
    const float *freq;          /* [dim / 4] */
    float       *most;          /* [1] on a GPU: becomes the greatest magnitude of v, if that is greater; or NULL */
    bool         own_form;      /* qkv is as linear_dense writes it with this and a bias */
    int          first, n_rows, n, n_heads, dim, grid_w;
};
static inline size_t patch_rope_bytes(const struct patch_rope_args *a)
{
    return (size_t)a->n_rows * 3 * (size_t)a->n_heads * (size_t)a->dim * (sizeof(float) + (a->dtype == DT_F32 ? 4 : 2));
}
static inline int patch_rope_units(const struct patch_rope_args *a) { return a->n_rows; }

/* y[i,h] = sum_p softmax_p(scale * q[h, first + i] . k[h, p]) * v[h, p] over all n patches.  Online softmax in blocks of 64 patches, so that the
 * bits of a row do not depend on n_rows.                                                       tolerance: 1e-5 relative */
struct patch_attention_args {
    float      *y;              /* [n_rows, n_heads, dim] */
    const void *q, *k, *v;      /* [n_heads, n, dim] of `dtype` */
    enum dtype  dtype;
    const float *most;          /* [1] the greatest magnitude of v, for `next` on a GPU; or NULL */
    const struct weight *next;  /* the matrix that y is multiplied with next, if nothing else reads y: a device may then write y in a form of its own;
                                 * or NULL */
    int         first, n_rows, n, n_heads, dim;
    float       scale;
};
static inline size_t patch_attention_bytes(const struct patch_attention_args *a)
{
    const size_t head = (size_t)a->n_heads * (size_t)a->dim, size = a->dtype == DT_F32 ? 4 : 2;
    return (size_t)a->n_rows * head * (sizeof(float) + size) + 2 * (size_t)a->n * head * size;
}
static inline int patch_attention_units(const struct patch_attention_args *a) { return a->n_rows * a->n_heads; }

/* x = GELU(x): x / 2 * (1 + erf(x / sqrt(2))) if `exact`, else x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
 *                                                                                              tolerance: 2e-6 * max(1, |x|) */
struct gelu_args {
    float *x;                   /* [n_rows, dim] */
    const struct weight *next;  /* the matrix that x is multiplied with next, if nothing else reads x: a device may then write x in a form of its
                                 * own; or NULL */
    int    n_rows, dim;
    bool   exact;
};
static inline size_t gelu_bytes(const struct gelu_args *a) { return 2 * (size_t)a->n_rows * (size_t)a->dim * sizeof(float); }
static inline int gelu_units(const struct gelu_args *a) { return a->n_rows; }

/* y[t] = row ids[t] of the embedding table, as fp32.                                        tolerance: exact */
#pragma once

#include "kernels/tensor.h"

struct embed_args {
    float         *y;           /* [n_tokens, table.cols] */
    const int32_t *ids;         /* [n_tokens], each in [0, table.rows) */
    struct weight  table;       /* dense [vocab, hidden] */
    int            n_tokens;
};
static inline size_t embed_bytes(const struct embed_args *a)
{
    return (size_t)a->n_tokens * (size_t)a->table.cols * (4 + (a->table.dtype == DT_F32 ? 4 : 2));
}
static inline int embed_units(const struct embed_args *a) { return a->n_tokens; }

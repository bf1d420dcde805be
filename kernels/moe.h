/* Mixture of experts: route, group rows by expert, two grouped products, combine.  A slot is a (token, choice) pair:
 * slot = token * (top_k + 1) + choice; choice top_k is the shared expert, which every token takes.
 * Source: transformers, models/qwen3_5_moe (Qwen3_5MoeSparseMoeBlock): softmax over all experts, then top k, renormalised. */
#pragma once

#include "kernels/linear.h"
#include "kernels/tensor.h"

/* p = softmax(logits) over all experts in fp32.  Writes the top_k largest, in descending order (ties: lower index first), and
 * their weights p_i / sum of the chosen p.                                                         tolerance: 1e-6, same choice */
struct router_args {
    int32_t     *experts;       /* [n_tokens, top_k] */
    float       *weights;       /* [n_tokens, top_k] */
    const float *logits;        /* [n_tokens, n_experts] */
    int          n_tokens, n_experts, top_k;
};
static inline size_t router_bytes(const struct router_args *a)
{
    return (size_t)a->n_tokens * (size_t)(a->n_experts + 2 * a->top_k) * sizeof(float);
}
static inline int router_units(const struct router_args *a) { return a->n_tokens; }

/* Orders the slots by expert, ascending within an expert.  The slots of expert e are slots[start[e] .. start[e+1]); e = n_experts is
 * the shared expert.                                                                         tolerance: exact */
struct moe_group_args {
    int32_t       *start;       /* [n_experts + 2] */
    int32_t       *slots;       /* [n_tokens * (top_k + 1)] */
    const int32_t *experts;     /* [n_tokens, top_k] */
    int            n_tokens, n_experts, top_k;
};
static inline size_t moe_group_bytes(const struct moe_group_args *a)
{
    return (size_t)(a->n_tokens * (2 * a->top_k + 1) + a->n_experts + 2) * sizeof(int32_t);
}
static inline int moe_group_units(const struct moe_group_args *a) { (void)a; return 1; }

/* h[slot] = silu(gate_e x[token]) * (up_e x[token]).  Every distinct expert is read once.  The routed experts and the shared
 * one may have different formats.                                          tolerance: as linear, twice */
struct experts_up_args {
    float         *h;           /* [n_tokens * (top_k + 1), inter_max] */
    const float   *x;           /* [n_tokens, hidden] */
    const struct expert_weights *experts;       /* [n_experts] in host memory */
    const struct expert_weights *shared;
    const int32_t *start, *slots;
    int            n_tokens, n_experts, top_k;
    int            inter_max;   /* the wider of routed and shared experts: the stride of h */
    const float   *norms;       /* [n_experts + 1] largest norm of a row of gate and up, the shared expert's last; only own_form on a GPU needs it */
    const struct int8_apart *int8;      /* not NULL: x is rounded for routed experts, as for linear */
    bool           own_form;    /* experts_down alone reads h, and has own_input: a device may write h in a form of its own */
};
/* d[slot] = down_e h[slot]                                                        tolerance: as linear */
struct experts_down_args {
    float         *d;           /* [n_tokens * (top_k + 1), hidden] */
    const float   *h;           /* [n_tokens * (top_k + 1), inter_max] */
    const struct expert_weights *experts;
    const struct expert_weights *shared;
    const int32_t *start, *slots;
    int            n_tokens, n_experts, top_k;
    int            inter_max;
    bool           own_input;   /* h is as experts_up writes it with own_form */
    bool           own_form;    /* moe_combine alone reads d, and has this, too: a device may write d in a form of its own */
};
static inline int moe_distinct(const int32_t *start, int n_experts)
{
    int n = 0;
    for (int e = 0; e < n_experts; e++)
        n += start[e + 1] > start[e];
    return n;
}
static inline size_t experts_up_bytes(const struct experts_up_args *a)
{
    size_t n = (size_t)a->n_tokens, e = (size_t)moe_distinct(a->start, a->n_experts);
    return e * (weight_bytes(&a->experts[0].gate) + weight_bytes(&a->experts[0].up))
         + weight_bytes(&a->shared->gate) + weight_bytes(&a->shared->up)
         + n * ((size_t)a->shared->gate.cols + (size_t)(a->top_k + 1) * (size_t)a->inter_max) * sizeof(float);
}
static inline size_t experts_down_bytes(const struct experts_down_args *a)
{
    size_t n = (size_t)a->n_tokens, e = (size_t)moe_distinct(a->start, a->n_experts);
    return e * weight_bytes(&a->experts[0].down) + weight_bytes(&a->shared->down)
         + n * (size_t)(a->top_k + 1) * (size_t)(a->inter_max + a->shared->down.rows) * sizeof(float);
}
static inline int experts_blocks(int rows) { return (rows + LINEAR_ROWS - 1) / LINEAR_ROWS; }
static inline int experts_up_units(const struct experts_up_args *a)
{
    return (a->n_experts + 1) * experts_blocks(a->inter_max);
}
static inline int experts_down_units(const struct experts_down_args *a)
{
    return (a->n_experts + 1) * experts_blocks(a->shared->down.rows);
}

/* x[t] += sum_j weights[t,j] d[t,j] + sigmoid(shared_gate[t]) d[t,top_k], in that order.        tolerance: 1e-6 relative */
struct moe_combine_args {
    float       *x;             /* [n_tokens, hidden], updated */
    const float *d;             /* [n_tokens, top_k + 1, hidden] */
    const float *weights;       /* [n_tokens, top_k] */
    const float *shared_gate;   /* [n_tokens] before the sigmoid */
    int          n_tokens, top_k, hidden;
    bool         own_form;      /* d is as experts_down writes it with this */
};
static inline size_t moe_combine_bytes(const struct moe_combine_args *a)
{
    return (size_t)a->n_tokens * (size_t)(a->top_k + 3) * (size_t)a->hidden * sizeof(float);
}
static inline int moe_combine_units(const struct moe_combine_args *a) { return a->n_tokens; }

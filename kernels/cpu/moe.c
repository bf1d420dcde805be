#include <math.h>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

/* Insertion into a short sorted list: at most n_experts * top_k comparisons; of equal values the lower index comes first. */
void router_cpu(const struct router_args *a, int begin, int end)
{
    for (int t = begin; t < end; t++) {
        const float *l = a->logits + (size_t)t * (size_t)a->n_experts;
        int32_t *top = a->experts + (size_t)t * (size_t)a->top_k;
        float *w = a->weights + (size_t)t * (size_t)a->top_k, max = -INFINITY, all = 0, chosen = 0;
        for (int e = 0; e < a->n_experts; e++)
            max = fmaxf(max, l[e]);
        for (int e = 0, n = 0; e < a->n_experts; e++) {
            float p = expf(l[e] - max);
            all += p;
            int i = n < a->top_k ? n++ : a->top_k;
            for (; i > 0 && p > w[i - 1]; i--)
                if (i < a->top_k) {
                    w[i] = w[i - 1];
                    top[i] = top[i - 1];
                }
            if (i < a->top_k) {
                w[i] = p;
                top[i] = e;
            }
        }
        for (int i = 0; i < a->top_k; i++)
            chosen += w[i] /= all;
        for (int i = 0; i < a->top_k; i++)
            w[i] /= chosen;
    }
}

void moe_group_cpu(const struct moe_group_args *a, int begin, int end)
{
    (void)begin, (void)end;             /* one unit */
    int k = a->top_k, E = a->n_experts;
    memset(a->start, 0, (size_t)(E + 2) * sizeof *a->start);
    for (int i = 0; i < a->n_tokens * k; i++)
        a->start[a->experts[i] + 1]++;
    a->start[E + 1] = a->n_tokens;
    for (int e = 0; e <= E; e++)
        a->start[e + 1] += a->start[e];
    for (int t = 0; t < a->n_tokens; t++)       /* start[e] advances to start[e+1] ... */
        for (int j = 0; j <= k; j++)
            a->slots[a->start[j < k ? a->experts[t * k + j] : E]++] = t * (k + 1) + j;
    for (int e = E + 1; e > 0; e--)             /* ... and is restored */
        a->start[e] = a->start[e - 1];
    a->start[0] = 0;
}

void experts_up_cpu(const struct experts_up_args *a, int begin, int end)
{
    int blocks = experts_blocks(a->inter_max);
    for (int u = begin; u < end; u++) {
        int e = u / blocks, row = u % blocks * LINEAR_ROWS;
        const struct expert_weights *w = e < a->n_experts ? &a->experts[e] : a->shared;
        const struct int8_apart *int8 = e < a->n_experts ? a->int8 : NULL;
        if (row >= w->gate.rows)
            continue;
        int n_rows = w->gate.rows - row < LINEAR_ROWS ? w->gate.rows - row : LINEAR_ROWS;
        for (int i = a->start[e]; i < a->start[e + 1]; i += MATMUL_TOKENS) {
            int n = a->start[e + 1] - i < MATMUL_TOKENS ? a->start[e + 1] - i : MATMUL_TOKENS;
            const float *x[MATMUL_TOKENS];
            float gate[MATMUL_TOKENS][MATMUL_ROWS], up[MATMUL_TOKENS][MATMUL_ROWS];
            for (int t = 0; t < n; t++)
                x[t] = a->x + (size_t)(a->slots[i + t] / (a->top_k + 1)) * (size_t)w->gate.cols;
            matmul_rounded(&w->gate, row, x, n, int8, gate);
            matmul_rounded(&w->up, row, x, n, int8, up);
            for (int t = 0; t < n; t++) {
                float *h = a->h + (size_t)a->slots[i + t] * (size_t)a->inter_max + row;
                for (int r = 0; r < n_rows; r++)
                    h[r] = silu(gate[t][r]) * up[t][r];
            }
        }
    }
}

void experts_down_cpu(const struct experts_down_args *a, int begin, int end)
{
    int hidden = a->shared->down.rows, blocks = experts_blocks(hidden);
    for (int u = begin; u < end; u++) {
        int e = u / blocks, row = u % blocks * LINEAR_ROWS;
        const struct weight *w = e < a->n_experts ? &a->experts[e].down : &a->shared->down;
        int n_rows = hidden - row < LINEAR_ROWS ? hidden - row : LINEAR_ROWS;
        for (int i = a->start[e]; i < a->start[e + 1]; i += MATMUL_TOKENS) {
            int n = a->start[e + 1] - i < MATMUL_TOKENS ? a->start[e + 1] - i : MATMUL_TOKENS;
            const float *x[MATMUL_TOKENS];
            float out[MATMUL_TOKENS][MATMUL_ROWS];
            for (int t = 0; t < n; t++)
                x[t] = a->h + (size_t)a->slots[i + t] * (size_t)a->inter_max;
            matmul_rounded(w, row, x, n, NULL, out);
            for (int t = 0; t < n; t++)
                memcpy(a->d + (size_t)a->slots[i + t] * (size_t)hidden + row, out[t], (size_t)n_rows * sizeof(float));
        }
    }
}

void moe_combine_cpu(const struct moe_combine_args *a, int begin, int end)
{
    size_t hidden = (size_t)a->hidden;
    for (int t = begin; t < end; t++) {
        float *x = a->x + (size_t)t * hidden;
        for (int j = 0; j <= a->top_k; j++) {
            const float *d = a->d + ((size_t)t * (size_t)(a->top_k + 1) + (size_t)j) * hidden;
            float w = j < a->top_k ? a->weights[(size_t)t * (size_t)a->top_k + (size_t)j] : sigmoid(a->shared_gate[t]);
            for (size_t i = 0; i < hidden; i++)
                x[i] += w * d[i];
        }
    }
}

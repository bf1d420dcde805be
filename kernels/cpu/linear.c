#include <string.h>

#include "base/err.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

/* Computes rows from .. to - 1 of y = x · Wᵀ, with bias or added to y if the arguments say so. */
static void linear_rows(const struct linear_args *a, int from, int to)
{
    for (int row = from; row < to; row += LINEAR_ROWS) {
        int n_rows = to - row < LINEAR_ROWS ? to - row : LINEAR_ROWS;
        for (int t0 = 0; t0 < a->n_tokens; t0 += MATMUL_TOKENS) {
            int n = a->n_tokens - t0 < MATMUL_TOKENS ? a->n_tokens - t0 : MATMUL_TOKENS;
            const float *x[MATMUL_TOKENS];
            float out[MATMUL_TOKENS][MATMUL_ROWS];
            for (int t = 0; t < n; t++)
                x[t] = a->x + (size_t)(t0 + t) * (size_t)a->w.cols;
            matmul_rounded(&a->w, row, x, n, a->int8, out);
            for (int t = 0; t < n; t++) {
                float *y = a->y + (size_t)(t0 + t) * (size_t)a->w.rows + row;
                for (int i = 0; i < n_rows; i++) {
                    const float sum = a->bias ? out[t][i] + a->bias[row + i] : out[t][i];
                    y[i] = a->add ? y[i] + sum : sum;
                }
            }
        }
    }
}

static void linear(const struct linear_args *a, int begin, int end)
{
    const int unit = linear_unit(a), from = begin * unit, to = end * unit < a->w.rows ? end * unit : a->w.rows;
    linear_rows(a, from, to);
    if (a->gelu) {
        CHECK(!a->add && !a->gate && !a->own_form && a->gelu->x == a->y && a->gelu->dim == a->w.rows && a->gelu->n_rows == a->n_tokens);
        for (int t = 0; t < a->n_tokens; t++)
            for (int i = from; i < to; i++)
                a->y[(size_t)t * (size_t)a->w.rows + (size_t)i] = gelu(a->y[(size_t)t * (size_t)a->w.rows + (size_t)i], a->gelu->exact);
    }
    if (!a->gate)
        return;
    CHECK(!a->add && a->gate->z == a->y && a->w.rows % a->gate->dim == 0 && a->gate->n_rows == a->n_tokens * (a->w.rows / a->gate->dim));
    for (int t = 0; t < a->n_tokens; t++) {
        const int head = t * (a->w.rows / a->gate->dim);
        rmsnorm_gated_cpu(a->gate, head + from / a->gate->dim, head + to / a->gate->dim);
    }
}

#define LINEAR(op, fmt, same)                                                                     \
    void op##_cpu(const struct op##_args *a, int begin, int end)                                  \
    {                                                                                             \
        CHECK((a->l.w.format == fmt || a->l.w.format == same) && (!a->l.bias || fmt == WEIGHT_DENSE));      \
        linear(&a->l, begin, end);                                                                \
    }
LINEAR(linear_dense, WEIGHT_DENSE, WEIGHT_DENSE)
LINEAR(linear_int4, WEIGHT_INT4, WEIGHT_INT4)
LINEAR(linear_fp8, WEIGHT_FP8, WEIGHT_FP8)
LINEAR(linear_int8, WEIGHT_INT8, WEIGHT_PLANES)

/* The units of the first matrix come first. */
void linear_pair_cpu(const struct linear_pair_args *a, int begin, int end)
{
    for (int i = 0; i < 2; i++) {
        const struct linear_args l = {.y = a->y[i], .x = a->x, .w = a->w[i], .n_tokens = a->n_tokens};
        const int n = linear_units(&l);
        CHECK(l.w.format == WEIGHT_DENSE && l.w.cols == a->w[0].cols);
        linear(&l, begin > 0 ? begin : 0, end < n ? end : n);
        begin -= n, end -= n;
    }
}

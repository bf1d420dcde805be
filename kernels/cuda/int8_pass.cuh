/* Rows in eight bits (int8_rows.cuh) by a pass over the activations, if no norm has left them. */
#pragma once

#include "kernels/cuda/halves_pass.cuh"
#include "kernels/cuda/int8_rows.cuh"

enum { INT8_WARPS = 8 };
struct int8_job {
    struct int8_to to;
    const float   *x;
    int            n_rows;
};

/* A warp per row, a quad of columns per lane. */
static __global__ void __launch_bounds__(INT8_WARPS * 32) int8_rows_kernel(const __grid_constant__ struct int8_job j)
{
    const int row = (int)(blockIdx.x * INT8_WARPS + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
    gpu_wait();
    gpu_next();
    if (row >= j.n_rows)
        return;
    const float4 *x = (const float4 *)j.x + (size_t)row * (size_t)j.to.n_groups * 32 + lane;
    if (lane >= j.to.apart.n)
        int8_numbers(j.to, row)[lane] = __float2half_rn(0.0f);
    float4 v = x[0];
    for (int group = 0, apart = 0; group < j.to.n_groups; group++) {
        const float4 next = group + 1 < j.to.n_groups ? x[(group + 1) * 32] : v;
        int8_group(j.to, row, group, lane, v, &apart);
        v = next;
    }
}

/* The copy of x [n_rows, cols] with rows in eight bits, which lie there or are made.  As halves_get(). */
static inline struct halves_of int8_get(struct cuda_queue *q, const char *op, const float *x, int n_rows, int cols, const struct int8_apart *apart)
{
    struct halves_of h = halves_get(q, op, x, n_rows, cols);
    if (h.eight && h.apart == apart)
        return h;
    if (q->left_out == x || h.at != q->scratch || cols % PACK_GROUP || rounded_scratch(n_rows, cols) > q->scratch_bytes) {
        queue_note(q, op, cudaErrorInvalidValue);
        return h;
    }
    const struct int8_job j = {int8_place(q, n_rows, cols, apart), x, n_rows};
    launch(q, op, int8_rows_kernel, dim3((unsigned)((n_rows + INT8_WARPS - 1) / INT8_WARPS)), INT8_WARPS * 32, 0, true, j);
    h.eight = j.to.dst;
    h.apart = apart;
    return h;
}

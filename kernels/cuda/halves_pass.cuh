/* The fp16 copy of activations (halves.cuh) by a pass over them, where nobody has left one. */
#pragma once

#include "kernels/cuda/halves.cuh"

/* Rows with the given stride; `cols` of each are used, but cols_last of every `every`th row. */
struct halves_job {
    uint4       *dst;
    float       *undo;
    const float *x;
    size_t       stride;
    int          cols, cols_last, every, pieces, halves;
};
__device__ __forceinline__ void halves_load(float v[8], const float *x, int col, int cols, bool aligned)
{
    if (aligned && col + 8 <= cols) {
        *(float4 *)v = *(const float4 *)(x + col);
        *(float4 *)(v + 4) = *((const float4 *)(x + col) + 1);
    } else {
        for (int j = 0; j < 8; j++)
            v[j] = col + j < cols ? x[col + j] : 0.0f;
    }
}
enum { HALVES_PASS_THREADS = 128 };
static __global__ void __launch_bounds__(HALVES_PASS_THREADS) halves_kernel(const struct halves_job j)
{
    const int row = (int)blockIdx.x;
    const int cols = row % j.every == j.every - 1 ? j.cols_last : j.cols;
    const float *x = j.x + (size_t)row * j.stride;
    const bool aligned = j.stride % 4 == 0;
    float max = 0, sum = 0;
    gpu_wait();
    gpu_next();
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < j.pieces; i += HALVES_PASS_THREADS) {
        float v[8];
        halves_load(v, x, i * 8, cols, aligned);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            max = fmaxf(max, fabsf(v[k]));
            sum += v[k] * v[k];
        }
    }
    const float factor = halves_shared<HALVES_PASS_THREADS>(max, sum, j.undo + row, j.undo + gridDim.x + row);
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < j.pieces; i += HALVES_PASS_THREADS) {
        float v[8];
        halves_load(v, x, i * 8, cols, aligned);
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] *= factor;
        uint4 *dst = j.dst + (size_t)row * (size_t)(j.halves * j.pieces) + i;
        *dst = f16_eight(v);
        if (j.halves == 2)
            dst[j.pieces] = f16_eight(v);
    }
}
/* Needs gemm_copy_bytes(halves * n_rows, stride) of scratch.  Returns the address of the factors. */
static inline const float *halves_pass(struct cuda_queue *q, const char *op, const float *x, size_t n_rows, int halves, int stride, int cols,
                                       int cols_last, int every)
{
    float *undo = (float *)(q->scratch + gemm_factors_at((size_t)halves * n_rows, stride));
    struct halves_job j = {(uint4 *)q->scratch, undo, x, (size_t)stride, cols, cols_last, every, pack_groups(stride) * (PACK_GROUP / 8), halves};
    launch(q, op, halves_kernel, dim3((unsigned)n_rows), HALVES_PASS_THREADS, 0, true, j);
    return undo;
}

/* The copy of x [n_rows, cols], which lies there or is made.  Launches that keep it: queue->halves is to be set to it after them. */
static inline struct halves_of halves_get(struct cuda_queue *q, const char *op, const float *x, int n_rows, int cols)
{
    const struct halves_of h = q->halves;
    const bool there = h.x == x && h.n_rows == n_rows && h.cols == cols;
    if (q->left_out == x) {
        queue_note(q, op, there ? cudaSuccess : cudaErrorInvalidValue);
        if (!q->left_for_several)       /* who reads it next is the only one */
            q->left_out = NULL;
    }
    if (there)
        return h;
    return {x, halves_pass(q, op, x, (size_t)n_rows, gemm_halves(n_rows), cols, cols, cols, 1), n_rows, cols, q->scratch};
}

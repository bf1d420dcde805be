/* Activations of a chunk in eight bits (kernels/int8.h), for products with INT4 weights (gemm_int8.cuh).
 *
 * A row has the place of one in fp16: 256 bytes for each group of 128 columns.  Codes come first, 128 bytes a group, then the scale of each group in
 * fp32, then the columns apart in fp16, INT8_APART of them, zeros if there are fewer.
 * Codes lie as mma.m16n8k32 reads them beside weights in the order of kernels/pack.h: lane t of four reads 16 bytes for 64 columns, of which 8 bytes
 * are the columns 8 t .. 8 t + 7 of each 32, and of four columns the middle two are swapped.
 * Scales are rounded to 22 bits, so that a product can apply them exactly as it likes (gemm_int8.cuh); that is 2^-22 of each number. */
#pragma once

#include "kernels/cuda/common.cuh"

extern "C" {
#include "kernels/gemm.h"
}

/* Rows with the given stride and place, whole groups of columns; every `every`th row is left out (0: none). */
struct int8_job {
    char        *dst;
    const float *x;
    size_t       stride, pitch;         /* numbers of x, bytes of dst */
    int          n_rows, n_groups, every;
    struct int8_apart apart;
};
enum { INT8_WARPS = 8 };

__device__ __forceinline__ uint32_t int8_quad(const float4 &v, float scale)
{
    const int a = __float2int_rn(v.x / scale), b = __float2int_rn(v.y / scale), c = __float2int_rn(v.z / scale), d = __float2int_rn(v.w / scale);
    return __byte_perm(__byte_perm((uint32_t)a, (uint32_t)c, 0x0040), __byte_perm((uint32_t)b, (uint32_t)d, 0x0040), 0x5410);
}
__device__ __forceinline__ bool is_finite(float v) { return fabsf(v) <= FLT_MAX; }

/* Takes column `in` of a quad out of it. */
__device__ __forceinline__ float int8_take(float4 &v, int in)
{
    float *const all[] = {&v.x, &v.y, &v.z, &v.w};
    float taken = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (k == in) {
            taken = *all[k];
            *all[k] = 0;
        }
    return taken;
}

/* A warp per row, a quad of columns per lane. */
static __global__ void __launch_bounds__(INT8_WARPS * 32) int8_rows_kernel(const __grid_constant__ struct int8_job j)
{
    const int row = (int)(blockIdx.x * INT8_WARPS + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
    gpu_wait();
    gpu_next();
    if (row >= j.n_rows || (j.every && row % j.every == j.every - 1))
        return;
    const float4 *x = (const float4 *)(j.x + (size_t)row * j.stride) + lane;
    char *codes = j.dst + (size_t)row * j.pitch + lane / 16 * 64 + lane % 8 / 2 * 16 + lane / 8 % 2 * 8 + lane % 2 * 4;
    float *scales = (float *)(j.dst + (size_t)row * j.pitch + j.n_groups * PACK_GROUP);
    __half *apart = (__half *)(scales + j.n_groups);
    if (lane >= j.apart.n)
        apart[lane] = __float2half_rn(0.0f);
    float4 v = x[0];
    for (int group = 0, a = 0; group < j.n_groups; group++) {
        const float4 next = group + 1 < j.n_groups ? x[(group + 1) * 32] : v;
        for (; a < j.apart.n && j.apart.column[a] < (group + 1) * PACK_GROUP; a++)
            if (j.apart.column[a] / 4 == group * 32 + lane) {
                const float f = int8_take(v, j.apart.column[a] % 4);
                apart[a] = __float2half_rn(f > 65504 ? 65504.0f : f < -65504 ? -65504.0f : f);
            }
        const float s = warp_max(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)))) / 127;
        const bool finite = __all_sync(~0u, is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w)), none = !finite || s < FLT_MIN;
        *(uint32_t *)(codes + group * PACK_GROUP) = none ? 0 : int8_quad(v, s);
        if (lane == 0)
            scales[group] = none ? finite ? 0 : __uint_as_float(0x7fc00000u) : __uint_as_float((__float_as_uint(s) + 2) & ~3u);
        v = next;
    }
}
static inline void int8_pass(struct cuda_queue *q, const char *op, char *dst, const float *x, int n_rows, int stride, int cols, int every,
                             const struct int8_apart *apart)
{
    const struct int8_job j = {dst, x, (size_t)stride, gemm_factors_at(1, stride), n_rows, pack_groups(cols), every, *apart};
    if (stride % 4 || cols % PACK_GROUP)
        queue_note(q, op, cudaErrorInvalidValue);
    launch(q, op, int8_rows_kernel, dim3((unsigned)((n_rows + INT8_WARPS - 1) / INT8_WARPS)), INT8_WARPS * 32, 0, true, j);
}

/* The copy of x [n_rows, cols], at the beginning of scratch memory, which lies there or is made.  As halves_get(). */
static inline struct halves_of int8_get(struct cuda_queue *q, const char *op, const float *x, int n_rows, int cols, const struct int8_apart *apart)
{
    const struct halves_of h = q->halves;
    if (h.x == x && h.n_rows == n_rows && h.cols == cols && !h.undo && q->apart == apart)
        return h;
    if (q->left_out == x)
        queue_note(q, op, cudaErrorInvalidValue);
    int8_pass(q, op, q->scratch, x, n_rows, cols, cols, 0, apart);
    q->apart = apart;
    return {x, NULL, n_rows, cols, q->scratch};
}

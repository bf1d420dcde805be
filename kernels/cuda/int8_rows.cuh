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

/* The place of rows of whole groups of columns. */
struct int8_to {
    char *dst;                          /* NULL: nowhere */
    int   n_groups;
    struct int8_apart apart;
};
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

__device__ __forceinline__ char *int8_row(const struct int8_to &to, int row) { return to.dst + (size_t)row * (size_t)to.n_groups * 2 * PACK_GROUP; }
/* The numbers of the columns apart of a row. */
__device__ __forceinline__ __half *int8_numbers(const struct int8_to &to, int row)
{
    return (__half *)(int8_row(to, row) + (size_t)to.n_groups * (PACK_GROUP + sizeof(float)));
}

/* Stores a group of a row, of which a lane has a quad of columns, and those of its columns that are apart.  *apart: how many of these have been in
 * groups before it.  Called by the whole warp. */
__device__ __forceinline__ void int8_group(const struct int8_to &to, int row, int group, int lane, float4 v, int *apart)
{
    char *codes = int8_row(to, row) + lane / 16 * 64 + lane % 8 / 2 * 16 + lane / 8 % 2 * 8 + lane % 2 * 4;
    float *scales = (float *)(int8_row(to, row) + to.n_groups * PACK_GROUP);
    __half *numbers = int8_numbers(to, row);
    for (; *apart < to.apart.n && to.apart.column[*apart] < (group + 1) * PACK_GROUP; ++*apart)
        if (to.apart.column[*apart] / 4 == group * 32 + lane) {
            const float f = int8_take(v, to.apart.column[*apart] % 4);
            numbers[*apart] = __float2half_rn(f > 65504 ? 65504.0f : f < -65504 ? -65504.0f : f);
        }
    const float s = warp_max(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)))) / 127;
    const bool finite = __all_sync(~0u, is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w)), none = !finite || s < FLT_MIN;
    *(uint32_t *)(codes + group * PACK_GROUP) = none ? 0 : int8_quad(v, s);
    if (lane == 0)
        scales[group] = none ? finite ? 0 : __uint_as_float(0x7fc00000u) : __uint_as_float((__float_as_uint(s) + 2) & ~3u);
}

/* The place of rows in eight bits, behind those in fp16. */
static inline struct int8_to int8_place(const struct cuda_queue *q, int n_rows, int cols, const struct int8_apart *apart)
{
    return {q->scratch + linear_scratch(n_rows, cols), pack_groups(cols), *apart};
}

/* Packed matrices (kernels/pack.h) as tensor-core fragments. */
#pragma once

#include "kernels/cuda/common.cuh"

/* k-steps in a line of 512 bytes, of which a lane holds 16.  PLANES: one plane */
template <int F> __host__ __device__ constexpr int line_steps()
{
    return F == WEIGHT_INT4 || F == WEIGHT_PLANES ? 4 : F == WEIGHT_DENSE ? 1 : 2;
}
template <int F> __host__ __device__ constexpr int group_lines() { return 8 / line_steps<F>(); }
template <int F> __host__ __device__ constexpr int group_bytes() { return group_lines<F>() * PACK_LINE; }

/* a & b | c */
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* 8 nibbles q -> 128 + q as the four registers of one k-step, exact: 0x4300 is 128 in bf16, whose last place is 1. */
__device__ __forceinline__ void unpack_int4_biased(uint32_t a[4], uint32_t w)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        a[i] = and_or(w >> (4 * i), 0x000f000fu, 0x43004300u);
}
/* The same as q - 8. */
__device__ __forceinline__ void unpack_int4(uint32_t a[4], uint32_t w)
{
    const __nv_bfloat162 bias = __float2bfloat162_rn(136.0f);
    unpack_int4_biased(a, w);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __nv_bfloat162 f = __hsub2(*(__nv_bfloat162 *)&a[i], bias);
        a[i] = *(uint32_t *)&f;
    }
}

/* Two E4M3 in the lower or upper half of w -> bf16, exact: shifts exponent and mantissa into place, then multiplies by 2^120. */
__device__ __forceinline__ uint32_t unpack_fp8_pair(uint32_t w, uint32_t select)
{
    uint32_t v = __byte_perm(w, 0, select);             /* bytes 1 and 3 of v */
    uint32_t u = ((v & 0x7f007f00u) >> 4) | (v & 0x80008000u);
    const __nv_bfloat162 up = __halves2bfloat162(__ushort_as_bfloat16(0x7b80), __ushort_as_bfloat16(0x7b80));
    __nv_bfloat162 f = __hmul2(*(__nv_bfloat162 *)&u, up);
    return *(uint32_t *)&f;
}
__device__ __forceinline__ void unpack_fp8(uint32_t a[4], uint32_t w0, uint32_t w1)
{
    a[0] = unpack_fp8_pair(w0, 0x1404);
    a[1] = unpack_fp8_pair(w0, 0x3424);
    a[2] = unpack_fp8_pair(w1, 0x1404);
    a[3] = unpack_fp8_pair(w1, 0x3424);
}

/* Two int8 -> bf16, exact: as 2^23 + (q + 128) in fp32. */
__device__ __forceinline__ uint32_t unpack_int8_pair(uint32_t biased, uint32_t lo, uint32_t hi)
{
    float x = __uint_as_float(__byte_perm(biased, 0x4b000000u, lo)) - 8388736.0f;
    float y = __uint_as_float(__byte_perm(biased, 0x4b000000u, hi)) - 8388736.0f;
    return bf16_pair(x, y);
}
__device__ __forceinline__ void unpack_int8(uint32_t a[4], uint32_t w0, uint32_t w1)
{
    w0 ^= 0x80808080u;
    w1 ^= 0x80808080u;
    a[0] = unpack_int8_pair(w0, 0x7440, 0x7441);
    a[1] = unpack_int8_pair(w0, 0x7442, 0x7443);
    a[2] = unpack_int8_pair(w1, 0x7440, 0x7441);
    a[3] = unpack_int8_pair(w1, 0x7442, 0x7443);
}

/* 8 int8 q -> 1152 + q in fp16, exact: 0x6400 is 1024, whose last place is 1, and q + 128 fills the byte below. */
__device__ __forceinline__ void unpack_int8_biased(uint32_t a[4], uint32_t w0, uint32_t w1)
{
    w0 ^= 0x80808080u;
    w1 ^= 0x80808080u;
    a[0] = __byte_perm(w0, 0x64646464u, 0x4140);
    a[1] = __byte_perm(w0, 0x64646464u, 0x4342);
    a[2] = __byte_perm(w1, 0x64646464u, 0x4140);
    a[3] = __byte_perm(w1, 0x64646464u, 0x4342);
}

/* 8 E4M3 as fp16, exact. */
__device__ __forceinline__ uint32_t fp8_half_pair(uint32_t two)
{
    uint32_t d;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"((uint16_t)two));
    return d;
}
__device__ __forceinline__ void unpack_fp8_half(uint32_t a[4], uint32_t w0, uint32_t w1)
{
    a[0] = fp8_half_pair(w0);
    a[1] = fp8_half_pair(w0 >> 16);
    a[2] = fp8_half_pair(w1);
    a[3] = fp8_half_pair(w1 >> 16);
}

/* Fragment of k-step s (of line_steps) of a lane's 16 bytes. */
template <int F> __device__ __forceinline__ void unpack(uint32_t a[4], const uint4 &v, int s)
{
    const uint32_t *w = (const uint32_t *)&v;
    if (F == WEIGHT_INT4) {
        unpack_int4(a, w[s]);
    } else if (F == WEIGHT_FP8) {
        unpack_fp8(a, w[2 * s], w[2 * s + 1]);
    } else if (F == WEIGHT_INT8) {
        unpack_int8(a, w[2 * s], w[2 * s + 1]);
    } else {
        a[0] = w[0];
        a[1] = w[1];
        a[2] = w[2];
        a[3] = w[3];
    }
}

/* INT8 scales are per row (g and g + 8) and applied at the end. */
template <int F> __device__ __forceinline__ float2 row_scale(const void *scale, size_t tile, int g)
{
    if (F == WEIGHT_INT8)
        return __half22float2(((const __half2 *)scale)[tile * 8 + g]);
    return make_float2(1.0f, 1.0f);
}

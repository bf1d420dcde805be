/* Sums of weights in fixed point, exact, so that they need no order. */
#pragma once

#include "kernels/cuda/common.cuh"

/* Sums of weights, in units of 2^-38: up to 2^20 weights of at most 1 stay below 2^59.  No fp64, which a GB10 hardly has, nor conversions
 * of 64-bit integers, which are as slow there. */
typedef uint64_t mass;

/* 0 <= x <= 2^20 */
__device__ __forceinline__ mass mass_of(float x)
{
    const float high = rintf(x * 1024), low = (x * 1024 - high) * 0x1p28f;
    return (mass)((int64_t)__float2int_rn(high) * (1 << 28) + __float2int_rn(low));
}
__device__ __forceinline__ float mass_value(mass m)
{
    return (float)(int32_t)(m >> 28) * 0x1p-10f + (float)(int32_t)(m & 0xfffffff) * 0x1p-38f;
}
/* p of it, rounded up; 0 <= p < 1. */
__device__ __forceinline__ mass share_of(float p, mass m)
{
    const uint32_t bits = __float_as_uint(p), digits = (bits & 0x7fffff) | 0x800000;
    const int shift = (int)(bits >> 23) - 86;           /* p = digits * 2^shift / 2^64 */
    const uint64_t part = shift >= 0 ? (uint64_t)digits << shift : shift > -24 ? digits >> -shift : 0;
    return __umul64hi(part, m) + (part * m != 0);
}

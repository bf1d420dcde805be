/* Logits in order, as integers, and what all threads of a block of 1024 find out about them. */
#pragma once

#include "kernels/cuda/common.cuh"

/* Keys: greater logit, greater key; among equals the lower id. */
__device__ __forceinline__ uint32_t ordered(float x)
{
    uint32_t u = __float_as_uint(x + 0.0f);     /* -0 becomes 0 */
    return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ float logit_of(uint64_t key)
{
    uint32_t u = (uint32_t)(key >> 32);
    return __uint_as_float(u ^ (u >> 31 ? 0x80000000u : 0xffffffffu));
}
__device__ __forceinline__ uint64_t key_of(float x, int id) { return (uint64_t)ordered(x) << 32 | (uint32_t)~id; }
__device__ __forceinline__ int id_of(uint64_t key) { return (int)~(uint32_t)key; }

enum : uint32_t { ORDERED_INFINITY = 0xff800000u, ORDERED_BAN = 0x007fffffu };        /* ordered() of inf and -inf */

/* `s`: [32], as below. */
__device__ __forceinline__ float block_sum(float v, float *s)
{
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(s[threadIdx.x % 32]);
}
__device__ __forceinline__ uint32_t block_max(uint32_t v, uint32_t *s)
{
    v = __reduce_max_sync(~0u, v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    return __reduce_max_sync(~0u, s[threadIdx.x % 32]);
}

/* The rank-th greatest of the threads' maxima; 0 when too few threads have tiles. */
__device__ __forceinline__ uint32_t threads_bound(uint32_t own, int rank, uint32_t *s)
{
    uint32_t bound = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint32_t higher = bound | 1u << bit;
        int n = __syncthreads_count(own >= higher);
        if (n >= rank)
            bound = higher;
        if (n == rank)                  /* and it is the least of these */
            break;
    }
    return ~block_max(own >= bound ? ~own : 0, s);
}

/* Searches by a block of 1024 threads in the maxima of tiles of 16 logits (kernels/step.h, tile_max), without looking at the logits. */
#pragma once

#include <float.h>

#include "kernels/cuda/keys.cuh"

enum {
    PICK_THREADS = 1024,        /* 32 warps: reductions rely on it */
    PICK_WARPS   = PICK_THREADS / 32,
    PICK_TILE    = 16,
    PICK_BATCH   = 4,           /* a thread's loads in flight: 262144 ids a round */
};

/* Four neighbouring tiles at a time, PICK_BATCH of these in flight together.  Where there are none a thread loads its first ones again:
 * predicates are few.  Behind the tiles, up to a multiple of 4, there are -inf. */
__device__ __forceinline__ void load_tiles(float4 v[PICK_BATCH], const float *tile_max, int from, int n)
{
#pragma unroll
    for (int j = 0; j < PICK_BATCH; j++)
        v[j] = ((const float4 *)tile_max)[from + j * PICK_THREADS < n ? from + j * PICK_THREADS : from];
}

/* The greatest of a thread's tiles, ordered(); 0: it has none. */
__device__ __forceinline__ uint32_t scan_tiles(const float *tile_max, int n_tiles)
{
    const int n = (n_tiles + 3) / 4;
    float max = -INFINITY;
#pragma unroll 1
    for (int from = threadIdx.x; from < n; from += PICK_BATCH * PICK_THREADS) {
        float4 v[PICK_BATCH];
        load_tiles(v, tile_max, from, n);
#pragma unroll
        for (int j = 0; j < PICK_BATCH; j++)
            max = fmaxf(max, fmaxf(fmaxf(v[j].x, v[j].y), fmaxf(v[j].z, v[j].w)));
    }
    return (int)threadIdx.x < n ? ordered(max) : 0;
}

/* f(tile) for a thread's tiles whose maximum is at least `bound`. */
template <class F> __device__ __forceinline__ void each_tile(const float *tile_max, int n_tiles, uint32_t bound, F f)
{
    const int n = (n_tiles + 3) / 4;
#pragma unroll 1
    for (int from = threadIdx.x; from < n; from += PICK_BATCH * PICK_THREADS) {
        float4 v[PICK_BATCH];
        load_tiles(v, tile_max, from, n);
#pragma unroll
        for (int j = 0; j < PICK_BATCH; j++) {
            const float of[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (from + j * PICK_THREADS < n && ordered(of[k]) >= bound)
                    f(4 * (from + j * PICK_THREADS) + k);
        }
    }
}

/* The greatest of all; warp_max [PICK_WARPS] stays with the warps' own. */
__device__ __forceinline__ uint32_t greatest(uint32_t own, uint32_t *warp_max)
{
    own = __reduce_max_sync(~0u, own);
    if (threadIdx.x % 32 == 0)
        warp_max[threadIdx.x / 32] = own;
    __syncthreads();
    return __reduce_max_sync(~0u, warp_max[threadIdx.x % 32]);
}

/* The lowest tile with that maximum into *tile, which was INT32_MAX. */
__device__ __forceinline__ void find_tile(const float *tile_max, int n_tiles, uint32_t own, uint32_t max, int *tile)
{
    if (own == max)
        each_tile(tile_max, n_tiles, max, [&](int i) { atomicMin(tile, i); });
    __syncthreads();
}

/* One warp: the lowest id of a tile with its greatest logit, or with `bad` the lowest whose logit is no number. */
__device__ __forceinline__ int id_in_tile(const float *logits, int n_ids, int tile, bool bad)
{
    int lane = threadIdx.x % 32, id = tile * PICK_TILE + lane;
    float l = lane < PICK_TILE && id < n_ids ? logits[id] : -INFINITY;
    uint32_t key = ordered(fmaxf(l, -INFINITY));        /* NaN is -inf */
    uint32_t max = __reduce_max_sync(~0u, key);
    unsigned hit = __ballot_sync(~0u, bad ? !(l <= FLT_MAX) : key == max);
    return tile * PICK_TILE + (hit ? __ffs((int)hit) - 1 : 0);
}

/* step_draft: the arg-max of the logits of a draft, and its probability.
 * Shapes    logits [n_rows, n_ids] fp32, tile_max [n_rows, step_maxima(n_ids)] fp32
 * Bytes     n_rows * n_ids / 4 and a few tiles
 * Limit     latency: one launch, everything comes from the L2 cache
 * Launch    a block of 1024 threads a row
 * Numerics  probability: weights and their sum in fp32, in a fixed order; among equal logits the lowest id */
#include "kernels/cuda/tile_max.cuh"

/* A thread's part of the sum of exp(l - max).  Tiles far below the maximum are not read: all of them together are less than 2^-18. */
__device__ __forceinline__ float draft_mass(const float *logits, const float *tile_max, int n_ids, float max)
{
    constexpr float FAR = 24;
    float mass = 0;
    each_tile(tile_max, (n_ids + PICK_TILE - 1) / PICK_TILE, ordered(max - FAR), [&](int tile) {
        for (int id = tile * PICK_TILE; id < min(tile * PICK_TILE + PICK_TILE, n_ids); id++)
            mass += expf(logits[id] - max);
    });
    return mass;
}

/* Writes the arg-max of each row's logits as draft i of its slot (kernels/step.h).  A block per row. */
__global__ void __launch_bounds__(PICK_THREADS, 1) step_draft_kernel(const __grid_constant__ struct step_draft_args a)
{
    __shared__ uint32_t warp_max[PICK_WARPS];
    __shared__ float by_warp[PICK_WARPS];
    __shared__ int tile;
    const int n_tiles = (a.n_ids + PICK_TILE - 1) / PICK_TILE, row = blockIdx.x, slot = row_of(a.rows, row).slot;
    const float *logits = a.logits + (size_t)row * a.n_ids, *tile_max = a.tile_max + (size_t)row * step_maxima(a.n_ids);
    if (threadIdx.x == 0)
        tile = INT32_MAX;
    gpu_wait();
    gpu_next();
    const uint32_t own = scan_tiles(tile_max, n_tiles), best = greatest(own, warp_max);
    const float max = logit_of((uint64_t)best << 32);
    const bool sound = isfinite(max);
    find_tile(tile_max, n_tiles, own, best, &tile);
    const float mass = warp_sum(sound ? draft_mass(logits, tile_max, a.n_ids, max) : 0);
    if (threadIdx.x % 32 == 0)
        by_warp[threadIdx.x / 32] = mass;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    const int id = id_in_tile(logits, a.n_ids, tile, false);
    const float all = warp_sum(by_warp[threadIdx.x]);
    if (threadIdx.x == 0) {
        struct step_live *live = a.live + slot;
        struct step_drafts *drafts = a.drafts + slot;
        live->draft_ids[a.i] = id;
        live->ids[1 + a.i] = id;
        live->n_drafts = a.i + 1;
        drafts->ids[a.i] = id;
        drafts->prob[a.i] = sound ? 1 / all : 0;
        __threadfence_system();
        drafts->serial = live->step * STEP_ROWS + a.i + 1;
    }
}

extern "C" void step_draft_cuda(struct cuda_queue *q, const struct step_draft_args *a)
{
    launch(q, "step_draft", step_draft_kernel, dim3(a->rows ? a->n_rows : 1), PICK_THREADS, 0, true, *a);
}

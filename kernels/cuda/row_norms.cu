/* row_norms: the largest Euclidean norm of a row of each of several matrices, for the bounds of products with them (halves.cuh).  A bias is one
 *           more column: by Cauchy and Schwarz no number of W x + b is greater than this norm times sqrt(|x|^2 + 1)
 * Shapes    n packed matrices [rows, cols] of one format, `step` bytes apart -> [n] fp32
 * Bytes     each matrix once
 * Limit     bandwidth; once for all, while loading
 * Launch    a block per matrix, a warp per tile of rows
 * Layout    kernels/pack.h
 * Numerics  the numbers that products of long chunks multiply, so weights times their scales in fp16; squares and sums in fp32 */
#include "kernels/cuda/gemm.cuh"

enum { NORMS_THREADS = 512 };

/* The larger one of the norms, squared, of rows g and g + 8 of a tile: in the lanes 4 g .. 4 g + 3.  bias: of n_rows rows, or NULL */
template <int F>
__device__ __forceinline__ float tile_norm(const char *data, const char *scale, int tile, int n_groups, const float *bias, int n_rows)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4;
    const size_t first = (size_t)tile * (size_t)n_groups;
    const char *at = data + first * group_bytes<F>() + lane * 16, *scales = gemm_scales<F>(scale, first, g);
    float2 sum = {0, 0};
    for (int group = 0; group < n_groups; group++) {
        __half2 s[2];
        gemm_scale_f16<F>(s, gemm_scale<F>(scales, (uint32_t)group));
#pragma unroll
        for (int line = 0; line < group_lines<F>(); line++, at += PACK_LINE) {
            const uint4 v = __ldcs((const uint4 *)at);
#pragma unroll
            for (int step = 0; step < line_steps<F>(); step++) {
                uint32_t a[4];
                gemm_unpack<F, 1>(a, v, step, s);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float2 two = __half22float2(*(const __half2 *)&a[i]);
                    float &row = i % 2 ? sum.y : sum.x;
                    row = fmaf(two.x, two.x, fmaf(two.y, two.y, row));
                }
            }
        }
    }
    const float2 f = row_scale<F>(scale, (size_t)tile, g);
    const float lo = sum.x * f.x * f.x, hi = sum.y * f.y * f.y, unit = gemm_undo<F, 1>() * gemm_undo<F, 1>();
    const float lo2 = lo + __shfl_xor_sync(~0u, lo, 1), hi2 = hi + __shfl_xor_sync(~0u, hi, 1);
    const int row = tile * PACK_ROWS + g;
    const float b = bias && row < n_rows ? bias[row] : 0, b8 = bias && row + 8 < n_rows ? bias[row + 8] : 0;
    return fmaxf((lo2 + __shfl_xor_sync(~0u, lo2, 2)) * unit + b * b, (hi2 + __shfl_xor_sync(~0u, hi2, 2)) * unit + b8 * b8);
}

template <int F>
static __global__ void __launch_bounds__(NORMS_THREADS) row_norms_kernel(float *norms, const char *data, const char *scale, size_t step, int n_rows,
                                                                         int n_groups, const float *bias)
{
    __shared__ float part[NORMS_THREADS / 32];
    const size_t from = blockIdx.x * step;
    float most = 0;
    for (int tile = (int)threadIdx.x / 32; tile < pack_tiles(n_rows); tile += NORMS_THREADS / 32)
        most = fmaxf(most, tile_norm<F>(data + from, scale + from, tile, n_groups, bias, n_rows));
    most = warp_max(most);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = most;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < NORMS_THREADS / 32; i++)
        most = fmaxf(most, part[i]);
    norms[blockIdx.x] = halves_norm(most);
}

extern "C" void row_norms_cuda(struct cuda_queue *q, float *norms, const struct weight *w, const float *bias, int n, size_t step)
{
    auto kernel = w->format == WEIGHT_INT4 ? row_norms_kernel<WEIGHT_INT4> : w->format == WEIGHT_FP8 ? row_norms_kernel<WEIGHT_FP8>
                  : w->format == WEIGHT_INT8 ? row_norms_kernel<WEIGHT_INT8> : row_norms_kernel<WEIGHT_DENSE>;
    launch(q, "row_norms", kernel, dim3((unsigned)n), NORMS_THREADS, 0, false, norms, (const char *)w->data, (const char *)w->scale, step,
           w->rows, pack_groups(w->cols), bias);
}

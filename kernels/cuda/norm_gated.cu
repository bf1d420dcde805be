/* rmsnorm_gated: y = w * x / rms(x) * silu(z), rows of 128.
 * Shapes    x, y, z [n_rows, 128] fp32, w [128]
 * Bytes     12 * 128 * n_rows;  4096 tokens of 64 heads: 403 MB.  Alone for a product: 10 or 12, 336 MB, and no pass of the product's
 * Limit     bandwidth.  At 4.5 TB/s 89 us
 * Launch    a warp per 4 rows, 8 warps a block; alone for a product a block of 8 warps per token, up to 64 rows
 * Layout    16 bytes a lane, all rows of a warp in flight.  Alone for a product y is written as it reads it (halves.cuh)
 * Numerics  fp32 */
#include "kernels/cuda/halves.cuh"

enum { DIM = 128, ROWS = 4, WARPS = 8 };

__device__ __forceinline__ float4 norm_gate(const float4 &x, const float4 &z, const float4 &w, float eps)
{
    float sum = warp_sum(x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w));
    float s = 1.0f / sqrtf(sum / DIM + eps);
    return make_float4(x.x * s * w.x * (z.x / (1.0f + expf(-z.x))), x.y * s * w.y * (z.y / (1.0f + expf(-z.y))),
                       x.z * s * w.z * (z.z / (1.0f + expf(-z.z))), x.w * s * w.w * (z.w / (1.0f + expf(-z.w))));
}

__global__ void __launch_bounds__(32 * WARPS) rmsnorm_gated_kernel(struct rmsnorm_gated_args a)
{
    int lane = threadIdx.x % 32, row = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS;
    float4 w = *(const float4 *)(a.w + 4 * lane), x[ROWS], z[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        size_t at = (size_t)(row + i) * DIM + 4 * lane;
        x[i] = z[i] = make_float4(0, 0, 0, 0);
        if (row + i < a.n_rows) {
            x[i] = *(const float4 *)(a.x + at);
            z[i] = __ldcs((const float4 *)(a.z + at));
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float4 y = norm_gate(x[i], z[i], w, a.eps);
        if (row + i < a.n_rows)
            *(float4 *)(a.y + (size_t)(row + i) * DIM + 4 * lane) = y;
    }
}

/* A token of n rows; warp w has rows w, w + 8, .. */
enum { HELD = 8 };
template <int HALVES>
static __global__ void __launch_bounds__(HALVES_THREADS) rmsnorm_gated_product_kernel(const struct rmsnorm_gated_args a, int n,
                                                                                      const struct halves_to to)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quads = n * (DIM / 4);
    const size_t first = (size_t)blockIdx.x * (size_t)quads;
    const float4 w = __ldg((const float4 *)a.w + lane);
    float4 x[HELD], z[HELD];
    gpu_wait();
    gpu_next();
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (warp + i * WARPS < n) {
            const size_t at = first + (size_t)(threadIdx.x + i * HALVES_THREADS);
            x[i] = ((const float4 *)a.x)[at];
            z[i] = __ldcs((const float4 *)a.z + at);
        }
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (warp + i * WARPS < n)
            x[i] = norm_gate(x[i], z[i], w, a.eps);
    halves_row<HELD, HALVES>(to, (int)blockIdx.x, quads, x);
}
static_assert(32 * (int)WARPS == (int)HALVES_THREADS, "a token's warps");

/* Writes the result as the halves that the next product reads.  False if that product does not take them. */
static bool for_product(struct cuda_queue *q, const struct rmsnorm_gated_args *a)
{
    const int cols = a->next->cols, n = cols / DIM, tokens = n ? a->n_rows / n : 0;
    if (linear_narrow(a->next) || n < 1 || cols % DIM || n > HELD * WARPS || a->n_rows % n || !halves_beside(q, tokens, cols))
        return false;
    auto kernel = gemm_halves(tokens) == 2 ? rmsnorm_gated_product_kernel<2> : rmsnorm_gated_product_kernel<1>;
    launch(q, "rmsnorm_gated", kernel, dim3((unsigned)tokens), HALVES_THREADS, 0, true, *a, n, halves_place(q, tokens, cols));
    halves_made(q, a->y, tokens, cols, false);
    return true;
}

extern "C" void rmsnorm_gated_cuda(struct cuda_queue *q, const struct rmsnorm_gated_args *a)
{
    if (a->dim != DIM)
        queue_note(q, "rmsnorm_gated", cudaErrorInvalidValue);
    else if (!a->next || !for_product(q, a))
        launch(q, "rmsnorm_gated", rmsnorm_gated_kernel, dim3((a->n_rows + ROWS * WARPS - 1) / (ROWS * WARPS)), 32 * WARPS, 0, false, *a);
}

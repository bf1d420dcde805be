/* step_norm: rows of the stream, normed.
 * Shapes    stream [n, hidden], h [n, hidden] fp32; hidden a multiple of 4
 * Bytes     n hidden 12
 * Limit     latency; it is no part of a decode step (step_logits norms by itself), only of runs that want hidden states
 * Launch    a block of 256 threads a row
 * Layout    a thread reads four neighbours at a time, twice
 * Numerics  squares and their sum in fp32, in an order that depends on `hidden` alone */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/stream.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

/* h = norm(stream); a block has one row. */
static __global__ void __launch_bounds__(THREADS) step_norm_kernel(const __grid_constant__ struct step_norm_args a)
{
    __shared__ float by_warp[WARPS];
    const int64_t *from = a.stream + (size_t)blockIdx.x * a.hidden;
    float *to = a.h + (size_t)blockIdx.x * a.hidden, sum = 0;
    gpu_wait();
    gpu_next();
    for (int i = 4 * threadIdx.x; i < a.hidden; i += 4 * THREADS) {
        const float4 u = stream_read4(stream_load4(from + i));
        sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        by_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < WARPS; i++)
        sum += by_warp[i];
    const float s = rsqrtf(sum / (float)a.hidden + a.eps);
    for (int i = 4 * threadIdx.x; i < a.hidden; i += 4 * THREADS) {
        const float4 u = stream_read4(stream_load4(from + i)), w = *(const float4 *)(a.norm + i);
        *(float4 *)(to + i) = make_float4(u.x * s * (1 + w.x), u.y * s * (1 + w.y), u.z * s * (1 + w.z), u.w * s * (1 + w.w));
    }
}

extern "C" void step_norm_cuda(struct cuda_queue *q, const struct step_norm_args *a)
{
    if (a->hidden % 4)
        queue_note(q, "step_norm", cudaErrorInvalidValue);
    else
        launch(q, "step_norm", step_norm_kernel, dim3((unsigned)a->n_rows), THREADS, 0, true, *a);
}

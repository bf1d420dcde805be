/* conv: causal depthwise convolution with four taps, then SiLU, for a prompt chunk.
 * Shapes    x, y [n, channels] fp32, w [channels, 4], window [3, channels]
 * Bytes     8 * n * channels;  n 4096, channels 12288: 403 MB
 * Limit     bandwidth: 4 multiply-adds and one exp per 8 bytes.  At 4.5 TB/s 89 us
 * Launch    a thread per 4 channels and 32 rows, 128 threads a block; the 3 rows above are read again
 * Layout    16-byte loads, 8 rows of them in flight
 * Numerics  fp32, taps in ascending order */
#include "kernels/cuda/common.cuh"

enum { TAPS = 4, RUN_ROWS = 32, STRIP = 8, THREADS = 128 };

__device__ __forceinline__ float silu_exact(float x) { return x / (1.0f + expf(-x)); }

__device__ __forceinline__ float convolve(float m0, float m1, float m2, float m3, float4 w)
{
    return silu_exact(fmaf(w.w, m3, fmaf(w.z, m2, fmaf(w.y, m1, w.x * m0))));
}

__global__ void __launch_bounds__(THREADS) conv_kernel(struct conv_args a)
{
    int c = 4 * (blockIdx.x * THREADS + threadIdx.x), begin = blockIdx.y * RUN_ROWS;
    if (c >= a.n_channels)
        return;
    size_t stride = (size_t)a.n_channels;
    int end = min(begin + RUN_ROWS, a.n_tokens);
    float4 w[4], m[3 + STRIP], old[3];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = *(const float4 *)(a.w + (size_t)(c + i) * TAPS);
#pragma unroll
    for (int i = 0; i < 3; i++) {
        m[i] = begin ? *(const float4 *)(a.x + (size_t)(begin - 3 + i) * stride + c) : *(const float4 *)(a.window + i * stride + c);
        old[i] = m[i];
    }
    for (int t = begin; t < end; t += STRIP) {
#pragma unroll
        for (int i = 0; i < STRIP; i++)
            if (t + i < end)
                m[3 + i] = __ldcs((const float4 *)(a.x + (size_t)(t + i) * stride + c));
#pragma unroll
        for (int i = 0; i < STRIP; i++)
            if (t + i < end) {
                float4 y;
                y.x = convolve(m[i].x, m[i + 1].x, m[i + 2].x, m[i + 3].x, w[0]);
                y.y = convolve(m[i].y, m[i + 1].y, m[i + 2].y, m[i + 3].y, w[1]);
                y.z = convolve(m[i].z, m[i + 1].z, m[i + 2].z, m[i + 3].z, w[2]);
                y.w = convolve(m[i].w, m[i + 1].w, m[i + 2].w, m[i + 3].w, w[3]);
                *(float4 *)(a.y + (size_t)(t + i) * stride + c) = y;
            }
#pragma unroll
        for (int i = 0; i < 3; i++)
            m[i] = m[STRIP + i];
    }
    /* Only the threads that read the old window write the new one. */
    if (begin == 0) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
            int from = a.n_tokens + i;                  /* row of (window, x) */
            float4 v = from == 1 ? old[1] : from == 2 ? old[2] : old[0];
            if (from >= 3)
                v = *(const float4 *)(a.x + (size_t)(from - 3) * stride + c);
            *(float4 *)(a.window + i * stride + c) = v;
        }
    }
}

extern "C" void conv_cuda(struct cuda_queue *q, const struct conv_args *a)
{
    int quads = (a->n_channels + 3) / 4;
    if (a->taps != TAPS || a->n_channels % 4) {
        queue_note(q, "conv", cudaErrorInvalidValue);
        return;
    }
    launch(q, "conv", conv_kernel, dim3((quads + THREADS - 1) / THREADS, (a->n_tokens + RUN_ROWS - 1) / RUN_ROWS), THREADS, 0, false, *a);
}

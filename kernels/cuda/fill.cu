/* fill: random weights on the device, and the plain read with which all rates are compared.
 * Shapes    any range of 16-byte pieces
 * Bytes     fill: written once.  read: read once, a 4-byte result per thread block
 * Limit     bandwidth; the fill computes 16 bytes from two 64-bit hashes, about 60 integer instructions
 * Launch    grid-stride, 16-byte accesses; the read keeps 4 to 16 of them in flight per thread; the fastest shape counts
 * Numerics  the written bytes depend only on key and place (kernels/fill.h) */
#include "kernels/cuda/common.cuh"

extern "C" {
#include "kernels/fill.h"
}

static __global__ void fill_kernel(uint4 *dst, size_t n, struct fill f)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        uint64_t a = fill_word(&f, 2 * i), b = fill_word(&f, 2 * i + 1);
        dst[i] = make_uint4((uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32));
    }
}

extern "C" void fill_cuda(struct cuda_queue *q, void *dst, size_t bytes, const struct fill *f)
{
    size_t n = bytes / 16, blocks = (n + 255) / 256;
    launch(q, "fill", fill_kernel, dim3((unsigned)(blocks < 8192 ? blocks : 8192)), 256, 0, false, (uint4 *)dst, n, *f);
}

__device__ __forceinline__ uint4 read16(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

/* `n` is a multiple of blockDim.x * N. */
template <int N> static __global__ void read_kernel(const uint4 *p, size_t n, uint32_t *sink)
{
    uint32_t sum = 0;
    size_t tile = (size_t)blockDim.x * N;
    for (size_t at = blockIdx.x * tile; at < n; at += gridDim.x * tile) {
        uint4 v[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = read16(p + at + (size_t)j * blockDim.x + threadIdx.x);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    if (sum == 0x9d2c5681u)             /* almost never true, but the compiler cannot know that */
        *sink = sum;
}

/* Returns the shortest time of three reads of n pieces of 16 bytes, after one that warms up; 0 after a fault. */
template <int N> static float read_ms(const uint4 *p, size_t n, uint32_t *sink, int blocks, int threads, cudaEvent_t from, cudaEvent_t to)
{
    float best = 0;
    n -= n % ((size_t)threads * N);
    for (int i = 0; i < 4; i++) {       /* the first one warms up */
        float ms = 0;
        cudaEventRecord(from);
        read_kernel<N><<<blocks, threads>>>(p, n, sink);
        cudaEventRecord(to);
        if (cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
            return 0;
        if (i == 1 || (i > 1 && ms < best))
            best = ms;
    }
    return best;
}

extern "C" double gpu_read_gb_s(const void *p, size_t bytes, int n_sm)
{
    const int per_sm[] = {1, 2, 4, 8, 16}, threads[] = {256, 512, 1024};
    cudaEvent_t from, to;
    uint32_t *sink = NULL;
    float best = 0;
    if (cudaEventCreate(&from) != cudaSuccess || cudaEventCreate(&to) != cudaSuccess || cudaMalloc(&sink, 4) != cudaSuccess)
        return 0;
    for (int b : per_sm)
        for (int t : threads) {
            if (b * t > 4096)
                continue;
            const uint4 *at = (const uint4 *)p;
            float ms[] = {read_ms<4>(at, bytes / 16, sink, b * n_sm, t, from, to), read_ms<8>(at, bytes / 16, sink, b * n_sm, t, from, to),
                          read_ms<16>(at, bytes / 16, sink, b * n_sm, t, from, to)};
            for (float m : ms)
                if (m > 0 && (best == 0 || m < best))
                    best = m;
        }
    cudaFree(sink);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return best > 0 ? (double)bytes / (double)best * 1e-6 : 0;
}

/* ---- products in registers ---- */

enum { MMA_THREADS = 256, MMA_CHAINS = 8, MMA_TURNS = 4096 };

/* Independent products, so that each may begin before the one before it has ended. */
static __global__ void __launch_bounds__(MMA_THREADS) mma_kernel(float *sink)
{
    float c[MMA_CHAINS][4] = {};
    const uint32_t x = 0x3c003c00u + threadIdx.x % 2, a[4] = {x, x, x, x};      /* 1 in fp16 */
    for (int i = 0; i < MMA_TURNS; i++)
#pragma unroll
        for (int k = 0; k < MMA_CHAINS; k++)
            mma_f16(c[k], a, x, x);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < MMA_CHAINS; k++)
        sum += c[k][0] + c[k][1] + c[k][2] + c[k][3];
    if (sum == 0.5f)                    /* never true, but the compiler cannot know that */
        *sink = sum;
}

extern "C" double gpu_mma_tflop_s(int n_sm)
{
    cudaEvent_t from, to;
    float *sink = NULL, best = 0;
    int best_blocks = 1;
    if (cudaEventCreate(&from) != cudaSuccess || cudaEventCreate(&to) != cudaSuccess || cudaMalloc(&sink, 4) != cudaSuccess)
        return 0;
    for (int blocks = 1; blocks <= 4; blocks++)
        for (int i = 0; i < 4; i++) {   /* the first one warms up */
            float ms = 0;
            cudaEventRecord(from);
            mma_kernel<<<blocks * n_sm, MMA_THREADS>>>(sink);
            cudaEventRecord(to);
            if (cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
                return 0;
            if (i > 0 && (best == 0 || ms / (float)blocks < best / (float)best_blocks)) {
                best = ms;
                best_blocks = blocks;
            }
        }
    cudaFree(sink);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    const double flops = 2.0 * 16 * 8 * 16 * MMA_CHAINS * MMA_TURNS * (MMA_THREADS / 32) * best_blocks * n_sm;
    return best > 0 ? flops / (double)best * 1e-9 : 0;
}

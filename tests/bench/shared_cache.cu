/* How much of a GPU's second-level cache holds what all multiprocessors read: every block reads the whole of a buffer, once, then twice.  While
 * the buffer fits, the second launch reads next to nothing from memory; ncu counts.  Arguments: sizes in MiB.
 *
 *     nvcc -arch=sm_90 -o shared_cache tests/bench/shared_cache.cu
 *     ncu --cache-control none --metrics dram__bytes_read.sum ./shared_cache 24 28 32 40 56 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

enum { BLOCKS = 132, THREADS = 1024 };  /* a block for each multiprocessor of an H200 */

__global__ void read_all(const uint4 *p, size_t n, int rounds, uint32_t *sink)
{
    uint32_t sum = 0;
    const size_t part = n / gridDim.x;
    for (int round = 0; round < rounds; round++)
        for (unsigned i = 0; i < gridDim.x; i++) {
            const uint4 *at = p + (size_t)((i + blockIdx.x) % gridDim.x) * part;
            for (size_t k = threadIdx.x; k < part; k += blockDim.x)
                sum += __ldcg(&at[k].x);
        }
    if (sum)                            /* never: all are 0 */
        *sink = sum;
}

int main(int n, char **sizes)
{
    for (int i = 1; i < n; i++) {
        const size_t bytes = (size_t)atoi(sizes[i]) << 20;
        uint4 *p = NULL;
        uint32_t *sink = NULL;
        cudaMalloc(&p, bytes);
        cudaMalloc(&sink, sizeof *sink);
        cudaMemset(p, 0, bytes);
        read_all<<<BLOCKS, THREADS>>>(p, bytes / sizeof *p, 1, sink);
        read_all<<<BLOCKS, THREADS>>>(p, bytes / sizeof *p, 2, sink);
        cudaDeviceSynchronize();
        cudaFree(p);
        cudaFree(sink);
    }
    puts(cudaGetErrorString(cudaGetLastError()));
}

/* embed, step_embed: rows of the bf16 table as fp32, in a step as fixed point.
 * Shapes    ids [n], table [vocab, hidden] bf16 as stored (not packed), y [n, hidden] fp32, of a step in fixed point; hidden a multiple of 8
 * Bytes     n hidden 6, of a step 10
 * Limit     latency for a step, bandwidth for a chunk: 4096 tokens of 3072 at 4.5 TB/s 17 us
 * Launch    256 threads per 2048 columns of a row; step_embed overlaps with what runs before
 * Layout    a thread turns 16 bytes into 8 numbers
 * Numerics  exact; of a step to multiples of 2^-30 (kernels/stream.h) */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/stream.cuh"

__device__ __forceinline__ void put4(float *to, float a, float b, float c, float d) { *(float4 *)to = make_float4(a, b, c, d); }
__device__ __forceinline__ void put4(int64_t *to, float a, float b, float c, float d) { stream_store4(to, a, b, c, d); }

/* Copies a row of the embedding for each token; a block has 2048 numbers of one row. */
template <class T>
static __global__ void __launch_bounds__(256) embed_kernel(T *y, const int32_t *ids, const struct step_row *rows, const uint16_t *table, int hidden)
{
    const struct step_row r = row_of(rows, (int)blockIdx.x);
    const int i = (int)(blockIdx.y * 256 + threadIdx.x) * 8;
    gpu_wait();
    gpu_next();
    if (i >= hidden)
        return;
    /* an earlier kernel of the step may have written it, so the read-only cache must not be used */
    const int id = live_of(ids, r.slot)[r.index];
    const uint4 v = __ldg((const uint4 *)(table + (size_t)id * (size_t)hidden + i));
    T *to = y + (size_t)blockIdx.x * (size_t)hidden + i;
    put4(to, bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
    put4(to + 4, bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w));
}

template <class T>
static void run(struct cuda_queue *q, const char *op, T *y, const int32_t *ids, const struct step_row *rows, const void *table, int n, int hidden)
{
    if (hidden % 8)
        queue_note(q, op, cudaErrorInvalidValue);
    else
        launch(q, op, embed_kernel<T>, dim3((unsigned)n, (unsigned)((hidden + 2047) / 2048)), 256, 0, true, y, ids, rows,
               (const uint16_t *)table, hidden);
}

extern "C" void embed_cuda(struct cuda_queue *q, const struct embed_args *a)
{
    if (a->table.dtype != DT_BF16)
        queue_note(q, "embed", cudaErrorInvalidValue);
    else
        run(q, "embed", a->y, a->ids, NULL, a->table.data, a->n_tokens, a->table.cols);
}

extern "C" void step_embed_cuda(struct cuda_queue *q, const struct step_embed_args *a)
{
    if (a->table.dtype != DT_BF16)
        queue_note(q, "step_embed", cudaErrorInvalidValue);
    else
        run(q, "step_embed", a->stream, a->ids, a->rows, a->table.data, a->n_rows, a->table.cols);
}

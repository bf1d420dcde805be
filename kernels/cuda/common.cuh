/* Shared parts of all CUDA operations: the queue, launches that overlap with the previous kernel, loads and reductions. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>

extern "C" {
#include "kernels/ops.h"
#include "kernels/step.h"
}

/* Activations of which there is a copy for products (halves.cuh). */
struct halves_of {
    const float *x, *undo;              /* x NULL: of none */
    int          n_rows, cols;
    const char  *at;                    /* the copy: at the beginning of scratch memory, or in the memory of x itself, then without norms of rows */
    const char  *eight;                 /* behind it the same rows in eight bits (int8_rows.cuh), or NULL */
    const struct int8_apart *apart;     /* the columns apart that these were made with */
};

/* One in-order queue of a device.  Operations are host functions `void <op>_cuda(struct cuda_queue *, const struct <op>_args *)`
 * that launch; the first failed launch is recorded in `fault`. */
struct cuda_queue {
    cudaStream_t stream;
    int          n_sm, arch;            /* multiprocessors; 90 for sm_90 */
    size_t       smem;                  /* shared memory limit of a block */
    size_t       l2;                    /* second-level cache */
    char        *scratch;               /* for the plain operations */
    size_t       scratch_bytes;
    struct halves_of halves;
    const float *left_out;              /* activations of which there is nothing but that copy */
    cudaError_t  fault;
    const char  *fault_op;
    volatile uint32_t *stopped;         /* in host memory: why a kernel stopped, or 0 */
    bool         left_for_several;      /* several products may read what is left out */
};

enum stopped {
    STOPPED_WAITING = 1,                /* step_experts: a block waited too long for the data of another block */
};

static inline void queue_note(struct cuda_queue *q, const char *op, cudaError_t e)
{
    if (e != cudaSuccess && q->fault == cudaSuccess) {
        q->fault = e;
        q->fault_op = op;
    }
}

/* Activations or scratch memory may change. */
static inline void queue_forget(struct cuda_queue *q) { q->halves.x = NULL; }

/* Launches `kernel`.  With `overlap` it may start before the previous kernel has ended (programmatic dependent launch).  It must call
 * gpu_wait(), in every thread block, before it touches memory that it or an earlier kernel writes or reads; only weights may be loaded
 * before. */
template <class... P, class... A>
static inline void launch(struct cuda_queue *q, const char *op, void (*kernel)(P...), dim3 grid, int threads, size_t smem, bool overlap, A &&...args)
{
    cudaLaunchAttribute attr[1] = {};
    cudaLaunchConfig_t c = {};
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return;
    queue_forget(q);
    if (smem > 48 * 1024)
        queue_note(q, op, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
    c.gridDim = grid;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = smem;
    c.stream = q->stream;
    attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[0].val.programmaticStreamSerializationAllowed = 1;
    c.attrs = attr;
    c.numAttrs = overlap ? 1 : 0;
    queue_note(q, op, cudaLaunchKernelEx(&c, kernel, P(args)...));
}

/* Waits for the end of the previous kernels; until here this kernel may overlap with them. */
__device__ __forceinline__ void gpu_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/* Allows the next kernel to start; that kernel itself waits for the end of this one. */
__device__ __forceinline__ void gpu_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/* ---- rows of several conversations (kernels/step.h)
 *
 * The grid depends on the number of rows alone, and each block finds out from `rows` whose rows it works on, so a recorded step serves
 * however they are shared out.  The host writes `rows` before the step begins: they may be read before gpu_wait().  There are three ways:
 * - All rows share what is read (products, experts): blocks are as without `rows`, and only places that are a slot's are looked up.
 * - A block works on all rows of a slot (step_delta): with `rows` there is a set of blocks for each row, and those of rows that begin no
 *   run (run_at()) leave at once.
 * - A block works on one row (step_attention, step_pick, step_draft): with `rows` there is a set of blocks for each row.  The rows of its slot
 *   before it are rows t - index .. t - 1 of the call; nothing else of the call concerns it. */

/* Returns slot and index of row t of a call.  rows NULL: all rows are those of slot 0, in order. */
__device__ __forceinline__ struct step_row row_of(const struct step_row *rows, int t)
{
    struct step_row r = {0, t, 0};
    if (rows)
        r = rows[t];
    return r;
}

/* Returns the member of a slot's struct step_live that `at` is in that of slot 0. */
__device__ __forceinline__ const int32_t *live_of(const int32_t *at, int slot)
{
    return at + (size_t)slot * (sizeof(struct step_live) / sizeof *at);
}

/* Returns the pointer that is `bytes` further, in the memory of another slot. */
template <class T> __device__ __forceinline__ T *behind(T *p, size_t bytes) { return (T *)((char *)p + bytes); }

/* Rows from .. from + n - 1 of a call: all that it has of one slot. */
struct row_run {
    int slot, from, n;
};
/* The run that begins at row t; n 0: none does.  Without `rows` all rows are one, for t 0. */
__device__ __forceinline__ struct row_run run_at(const struct step_row *rows, int t, int n_rows)
{
    struct row_run r = {0, t, n_rows};
    if (rows) {
        unsigned fits = 0;
#pragma unroll
        for (int i = 0; i < STEP_ROWS; i++)
            if (t + i < n_rows)
                fits |= (unsigned)(rows[t + i].index == i) << i;
        r.slot = rows[t].slot;
        r.n = __ffs((int)~fits) - 1;
    }
    return r;
}

__device__ __forceinline__ float warp_sum(float v)
{
    for (int m = 16; m; m >>= 1)
        v += __shfl_xor_sync(~0u, v, m);
    return v;
}
__device__ __forceinline__ float warp_max(float v)
{
    for (int m = 16; m; m >>= 1)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, m));
    return v;
}

__device__ __forceinline__ float sigmoid_f(float x) { return 1.0f / (1.0f + __expf(-x)); }
/* To 2^-21, for outcomes in 16 bits. */
__device__ __forceinline__ float sigmoid_fast(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float silu_f(float x) { return x / (1.0f + __expf(-x)); }
/* x / 2 (1 + tanh(u)) is x / (1 + exp(-2 u)), here by a power of two; -2 u / ln 2 = x (-2.302208 - 0.1029432 x^2). */
__device__ __forceinline__ float gelu_f(float x)
{
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * fmaf(-0.10294324f, x * x, -2.3022082f)));
    return __fdividef(x, 1.0f + e);
}

/* lo in the lower half */
__device__ __forceinline__ uint32_t bf16_pair(float lo, float hi)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *(uint32_t *)&v;
}
__device__ __forceinline__ float bf16_low(uint32_t v)  { return __uint_as_float(v << 16); }
__device__ __forceinline__ float bf16_high(uint32_t v) { return __uint_as_float(v & 0xffff0000u); }

/* x as hi + lo, two bf16, hi in the lower half: 16 bits of mantissa. */
__device__ __forceinline__ uint32_t bf16_split(float x)
{
    float hi = __bfloat162float(__float2bfloat16_rn(x));
    return bf16_pair(hi, x - hi);
}

/* Asynchronous copy to shared memory; `p` is 16-byte aligned. */
__device__ __forceinline__ void copy16(void *smem, const void *p)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(p) : "memory");
}
/* The same, but writes zeros if !there. */
__device__ __forceinline__ void copy16_if(void *smem, const void *p, bool there)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
    int n = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(s), "l"(p), "r"(n) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

/* c += a b, 16x8x16, bf16 in, fp32 out.  c0 c1: row g, columns 2t and 2t + 1; c2 c3: row g + 8. */
__device__ __forceinline__ void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same with fp16 in. */
__device__ __forceinline__ void mma_f16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d = a b + c, 16x8x32, unsigned by signed bytes, int32 out, exact within int32.  d0 d1: row g, columns 2t and 2t + 1; d2 d3: row g + 8. */
__device__ __forceinline__ void mma_u8s8(int32_t d[4], const int32_t c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

/* The same with signed bytes on both sides. */
__device__ __forceinline__ void mma_s8(int32_t d[4], const int32_t c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

/* x as hi + lo, two fp16, hi in the lower half. */
__device__ __forceinline__ uint32_t f16_split(float x)
{
    __half hi = __float2half_rn(x);
    __half2 v = __halves2half2(hi, __float2half_rn(x - __half2float(hi)));
    return *(uint32_t *)&v;
}

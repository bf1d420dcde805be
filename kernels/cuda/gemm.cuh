/* The inner loop of the matrix products of prompt chunks: a block's tile of y^T = W x^T, W packed (kernels/pack.h).
 *
 * A warp owns MT tiles of 16 weight rows and all NT * 8 tokens of its block, so that a weight is fetched and unpacked once per
 * block.  Weights go from memory to registers, some lines ahead of their use; tokens come as bf16 through shared memory, one
 * group of 128 columns per stage.  A lane reads 16 bytes of a token at a time: the columns 32 p + 8 t .. +7 of the group, which are the
 * k-steps 2 p and 2 p + 1.  A token's 256 bytes keep the order of their columns, except that odd tokens have neighbouring quarters
 * swapped: the eight lanes of two tokens then reach all 32 banks.
 *
 * Every tile shape adds up the columns in the same order, so that the bits of a row do not depend on the shape. */
#ifndef Q35_KERNELS_CUDA_GEMM_CUH
#define Q35_KERNELS_CUDA_GEMM_CUH

#include "kernels/cuda/tiles.cuh"

/* A copy in scratch memory of `rows` fp32 rows as bf16, columns filled up to whole groups with zeros. */
static inline size_t gemm_copy_bytes(size_t rows, int cols) { return rows * (size_t)pack_groups(cols) * PACK_GROUP * 2; }
/* Scratch that linear_* need */
static inline size_t linear_scratch_cuda(int n_tokens, int cols) { return gemm_copy_bytes((size_t)n_tokens, cols); }
/* ... and experts_up and experts_down: the copy, and one entry per tile of at least 16 tokens. */
static inline size_t experts_table_bytes(int n_tokens, int top_k, int n_experts)
{
    return ((size_t)n_experts + (size_t)n_tokens * (size_t)top_k / 16 + 2) * 8 + 128;
}
static inline size_t experts_up_scratch_cuda(int n_tokens, int top_k, int n_experts, int hidden)
{
    return gemm_copy_bytes((size_t)n_tokens, hidden) + experts_table_bytes(n_tokens, top_k, n_experts);
}
static inline size_t experts_down_scratch_cuda(int n_tokens, int top_k, int n_experts, int inter_max)
{
    return gemm_copy_bytes((size_t)n_tokens * (size_t)(top_k + 1), inter_max) + experts_table_bytes(n_tokens, top_k, n_experts);
}

/* Whether the queue has that much scratch memory; notes a fault if not. */
static inline bool gemm_scratch(struct cuda_queue *q, const char *op, size_t bytes)
{
    if (bytes > q->scratch_bytes)
        queue_note(q, op, cudaErrorMemoryAllocation);
    return bytes <= q->scratch_bytes;
}

/* [rows, cols] fp32 -> [rows, groups * 128] bf16, zeros behind cols; a thread makes 8 values. */
static __global__ void __launch_bounds__(256) gemm_copy_kernel(uint4 *dst, const float *x, size_t n_rows, int cols, int pieces)
{
    size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, row = i / (size_t)pieces;
    int col = (int)(i % (size_t)pieces) * 8;
    if (row >= n_rows)
        return;
    const float *p = x + row * (size_t)cols + col;
    float v[8];
    if (cols % 4 == 0 && col + 8 <= cols) {
        *(float4 *)v = __ldg((const float4 *)p);
        *(float4 *)(v + 4) = __ldg((const float4 *)p + 1);
    } else {
        for (int j = 0; j < 8; j++)
            v[j] = col + j < cols ? p[j] : 0.0f;
    }
    dst[i] = make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7]));
}
static inline void gemm_copy(struct cuda_queue *q, const char *op, void *dst, const float *x, size_t n_rows, int cols)
{
    int pieces = pack_groups(cols) * (PACK_GROUP / 8);
    size_t n = n_rows * (size_t)pieces;
    launch(q, op, gemm_copy_kernel, dim3((unsigned)((n + 255) / 256)), 256, 0, false, (uint4 *)dst, x, n_rows, cols, pieces);
}

/* A shape of block: WARPS * MT * 16 weight rows, NT * 8 tokens.  With DEEP a warp keeps 4 KiB of weights on their way: for few
 * tokens, when memory is the limit. */
template <int WARPS_, int MT_, int NT_, int STAGES_, int BLOCKS_, bool DEEP_> struct gemm_shape {
    static constexpr int WARPS = WARPS_, MT = MT_, NT = NT_, STAGES = STAGES_, BLOCKS = BLOCKS_;
    static constexpr bool DEEP = DEEP_;
    static constexpr int THREADS = WARPS * 32, TILES = WARPS * MT, TOKENS = NT * 8;
    static constexpr int STAGE = TOKENS * PACK_GROUP * 2, RING = STAGES * STAGE, SMEM = RING + TOKENS * 4;
    static constexpr int STEP = THREADS / 16, PIECES = TOKENS / STEP;  /* 16-byte pieces of a stage that a thread copies */
    static_assert(STEP % 2 == 0 && TOKENS % STEP == 0, "a thread's tokens have one parity");
    static_assert(SMEM <= 99 * 1024, "shared memory of a GB10");
};
struct gemm_large : gemm_shape<8, 2, 16, 3, 1, false> {};           /* 256 x 128 */
struct gemm_medium : gemm_shape<4, 2, 8, 3, 3, false> {};          /* 128 x 64 */
struct gemm_small : gemm_shape<4, 1, 4, 4, 3, true> {};           /* 64 x 32 */
struct gemm_tiny : gemm_shape<4, 1, 2, 6, 3, true> {};            /* 64 x 16 */

__device__ __forceinline__ uint4 gemm_load(const char *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

/* Raw scales of rows g and g + 8 of one tile and group, and as bf16 twice each. */
template <int F> __device__ __forceinline__ uint2 gemm_scale(const char *scale, size_t at, int g)
{
    if (F == WEIGHT_INT4)
        return make_uint2(__ldg((const unsigned *)scale + at * 8 + g), 0);
    if (F == WEIGHT_FP8)
        return __ldg((const uint2 *)scale + at);
    return make_uint2(0, 0);
}
template <int F> __device__ __forceinline__ void gemm_scale_bf16(__nv_bfloat162 s[2], uint2 raw)
{
    if (F == WEIGHT_INT4) {
        float2 v = __half22float2(*(const __half2 *)&raw.x);
        s[0] = __float2bfloat162_rn(v.x);
        s[1] = __float2bfloat162_rn(v.y);
    } else if (F == WEIGHT_FP8) {
        s[0] = __float2bfloat162_rn(__uint_as_float(raw.x));
        s[1] = __float2bfloat162_rn(__uint_as_float(raw.y));
    }
}
template <int F> __device__ __forceinline__ void gemm_apply(uint32_t a[4], const __nv_bfloat162 s[2])
{
    if (F == WEIGHT_INT4 || F == WEIGHT_FP8) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            __nv_bfloat162 v = __hmul2(*(__nv_bfloat162 *)&a[i], s[i % 2]);
            a[i] = *(uint32_t *)&v;
        }
    }
}

/* Copies a group of the block's tokens.  rows[n]: where token n begins, in units of 16 bytes. */
template <class S> __device__ __forceinline__ void gemm_fill(char *stage, const char *x, const uint32_t *rows, int group)
{
    const int n = (int)threadIdx.x / 16, c = (int)threadIdx.x % 16;
    char *dst = stage + n * 256 + (((c >> 2) ^ (n & 1)) << 6) + ((c & 3) << 4);
    const volatile uint32_t *row = rows + n;            /* volatile: not to be kept in registers */
#pragma unroll
    for (int i = 0; i < S::PIECES; i++)
        copy16(dst + i * S::STEP * 256, x + (size_t)(row[i * S::STEP] + (uint32_t)(group * 16 + c)) * 16);
}

/* The thread's index, read anew: what is derived from it after the sums need not be kept during them. */
__device__ __forceinline__ int gemm_thread()
{
    int i;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(i));
    return i;
}

/* In this order with the products around it: the compiler would else fetch early and run out of registers. */
__device__ __forceinline__ uint4 gemm_tokens_load(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}

/* acc = this warp's tiles of W times the block's tokens.  W: data and scale of the matrix; first: the warp's first tile.  Tiles beyond
 * the last are computed like the last one: the caller does not store them.  x, rows: as in gemm_fill(); rows [TOKENS] in shared memory,
 * a barrier behind its writing. */
template <int F, class S>
__device__ __forceinline__ void gemm_run(float (&acc)[S::MT][S::NT][4], const char *data, const char *scale, int first, int n_tiles,
                                         int n_groups, const char *x, const uint32_t *rows, char *smem)
{
    constexpr int LINES = group_lines<F>(), STEPS = line_steps<F>();
    constexpr int TURN = S::DEEP ? 8 / LINES : 1;                                   /* groups that the ring of lines spans */
    constexpr int RING = S::DEEP ? 8 : 2;
    constexpr bool MAYBE = S::DEEP || F == WEIGHT_DENSE;
    constexpr int MT = S::MT, NT = S::NT, NB = 2, BATCHES = 4 * NT / NB;     /* of NB * 8 tokens and two k-steps */
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int tile0 = first < n_tiles ? first : n_tiles - 1;
    const char *w = data + (size_t)tile0 * (size_t)n_groups * group_bytes<F>() + lane * 16;
    uint32_t tile[MT];                  /* groups from tile0 */
    size_t scale_at = (size_t)tile0 * (size_t)n_groups;
    uint4 ring[RING][MT];
    uint2 raw[TURN][MT];
#pragma unroll
    for (int m = 0; m < MT; m++) {
        tile[m] = (uint32_t)((first + m < n_tiles ? first + m : n_tiles - 1) - tile0) * (uint32_t)n_groups;
#pragma unroll
        for (int i = 0; i < RING; i++)
            if (i / LINES < n_groups)
                ring[i][m] = gemm_load(w + tile[m] * group_bytes<F>() + i * PACK_LINE);
#pragma unroll
        for (int u = 0; u < TURN; u++)
            if (u < n_groups)
                raw[u][m] = gemm_scale<F>(scale, scale_at + tile[m] + u, g);
#pragma unroll
        for (int n = 0; n < NT; n++)
            acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
    }
#pragma unroll
    for (int i = 0; i < S::STAGES - 1; i++) {
        if (i < n_groups)
            gemm_fill<S>(smem + i * S::STAGE, x, rows, i);
        copy_commit();
    }
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem) + (uint32_t)(g * 256 + t * 16 + (g & 1) * 64);
    uint32_t stage = 0;             /* bytes */
    for (int first_group = 0; first_group < n_groups; first_group += TURN) {
#pragma unroll
        for (int u = 0; u < TURN; u++) {
            const int group = first_group + u;
            if (u > 0 && group >= n_groups)
                break;
            const bool more = group + TURN < n_groups;
            const uint32_t ahead = MAYBE || more ? (uint32_t)(TURN * group_bytes<F>()) : 0;      /* else any bytes do */
            copy_wait<S::STAGES - 2>();
            __syncthreads();            /* the stage is there for all, and all are done with the one before */
            if (group + S::STAGES - 1 < n_groups)
                gemm_fill<S>(smem + (stage == 0 ? S::RING - S::STAGE : stage - S::STAGE), x, rows, group + S::STAGES - 1);
            copy_commit();
            __nv_bfloat162 s[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                gemm_scale_bf16<F>(s[m], raw[u][m]);
                if (!MAYBE || more)
                    raw[u][m] = gemm_scale<F>(scale, scale_at + tile[m] + (MAYBE || more ? TURN : 0), g);
            }
            /* An odd token finds quarter p at p ^ 1. */
            const uint32_t even = base + stage, odd = even + (g & 1 ? -64 : 64);
            uint32_t a[2][MT][4];
            uint4 b[2][NB];
#pragma unroll
            for (int n = 0; n < NB; n++)
                b[0][n] = gemm_tokens_load(even + n * 8 * 256);
#pragma unroll
            for (int i = 0; i < BATCHES; i++) {
                const int p = i / (NT / NB), n0 = i % (NT / NB) * NB;
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        const int step = 2 * p + h, line = step / STEPS, slot = (u * LINES + line) % RING;
                        if (n0 > 0)
                            continue;
                        unpack<F>(a[h][m], ring[slot][m], step % STEPS);
                        gemm_apply<F>(a[h][m], s[m]);
                        if (step % STEPS < STEPS - 1)
                            continue;
                        if (line + RING < LINES)
                            ring[slot][m] = gemm_load(w + tile[m] * group_bytes<F>() + (line + RING) * PACK_LINE);
                        else if (!MAYBE || more)
                            ring[slot][m] = gemm_load(w + (tile[m] * group_bytes<F>() + ahead) + (line + RING) % LINES * PACK_LINE);
                    }
#pragma unroll
                for (int n = 0; n < NB; n++) {
                    const int q = (i + 1) / (NT / NB), next = (i + 1) % (NT / NB) * NB + n;
                    if (i + 1 < BATCHES)
                        b[(i + 1) % 2][n] = gemm_tokens_load((q & 1 ? odd : even) + (q >> 1) * 128 + next * 8 * 256);
                }
#pragma unroll
                for (int n = 0; n < NB; n++)
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        mma_bf16(acc[m][n0 + n], a[0][m], b[i % 2][n].x, b[i % 2][n].y);
#pragma unroll
                for (int n = 0; n < NB; n++)
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        mma_bf16(acc[m][n0 + n], a[1][m], b[i % 2][n].z, b[i % 2][n].w);
            }
            w += group_bytes<F>();
            scale_at++;
            stage = stage == S::RING - S::STAGE ? 0 : stage + S::STAGE;
        }
    }
}

#endif

/* Activations of a chunk as the products read them: fp16, in the queue's scratch memory, each row times a power of two that brings its largest
 * magnitude to 512 .. 1024: no overflow, and full precision down to 2^-24 of it, with two halves to 2^-13.  A row of one half is
 * pack_groups(cols) * 128 numbers, columns beyond the matrix are zero; with two halves (kernels/gemm.h) hi and lo are two such rows.  The
 * factors that undo the powers of two lie behind all rows, and behind them the Euclidean norms of the rows.
 *
 * A product may leave a copy elsewhere, too, in the memory of the activations themselves (halves_left()).
 *
 * Whoever writes activations that a product reads next may write the copy, too, and save the product a pass over them (halves_row(),
 * halves_made()).  The queue remembers of which activations there is a copy; every launch forgets it, since it may change them or scratch,
 * unless the operation says otherwise: products, the operations that choose experts, and deltanet_chunk. */
#pragma once

#include "kernels/cuda/packets.cuh"

extern "C" {
#include "kernels/gemm.h"
}

/* Has the queue that much scratch memory?  Records a fault if not. */
static inline bool gemm_scratch(struct cuda_queue *q, const char *op, size_t bytes)
{
    if (bytes > q->scratch_bytes)
        queue_note(q, op, cudaErrorMemoryAllocation);
    return bytes <= q->scratch_bytes;
}

__device__ __forceinline__ uint32_t f16_pair(float lo, float hi)
{
    __half2 v = __floats2half2_rn(lo, hi);
    return *(uint32_t *)&v;
}

/* Converts two, four, eight numbers to fp16 and leaves the rounding errors in place. */
__device__ __forceinline__ uint32_t f16_two(float &x, float &y)
{
    const uint32_t p = f16_pair(x, y);
    const float2 f = __half22float2(*(const __half2 *)&p);
    x -= f.x;
    y -= f.y;
    return p;
}
__device__ __forceinline__ uint2 f16_four(float4 &v)
{
    const uint32_t a = f16_two(v.x, v.y);
    return make_uint2(a, f16_two(v.z, v.w));
}
__device__ __forceinline__ uint4 f16_eight(float v[8])
{
    uint32_t p[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        p[k] = f16_two(v[2 * k], v[2 * k + 1]);
    return make_uint4(p[0], p[1], p[2], p[3]);
}

/* The factor of a row with this greatest magnitude, which becomes 2^top .. 2^(top + 1), and what undoes it.  Exponents are biased by 127: of the
 * maximum, then top - exponent and its negative, both those of normal numbers. */
enum { HALVES_TOP = 9 };
__device__ __forceinline__ float halves_factor(float max, float *undo, int top = HALVES_TOP)
{
    const int exponent = ::max((int)(__float_as_uint(max) >> 23), top + 1);
    *undo = __uint_as_float((uint32_t)(exponent - top) << 23);
    return __uint_as_float((uint32_t)(254 + top - exponent) << 23);
}

/* The Euclidean norm of a row from the sum of its squares; at least 2^-60, since squares of less may have become zero. */
__device__ __forceinline__ float halves_norm(float squares) { return sqrtf(fmaxf(squares, 7.5231638e-37f)); }

/* The factor of a row of outcomes before they are computed.  By Cauchy and Schwarz no number of W x is greater than |x| |W|, where |W| is the
 * largest norm of a row (row_norms); and |silu(g) u| <= |g u|, so SwiGLU is at most the square of that.  Such a bound becomes 2^14 .. 2^15: twice
 * that would fit, so rounding on the way does no harm.  Numbers are rounded to 2^-11 of themselves, or to 2^-39 of the bound: that costs precision
 * where the bound is more than some 2^20 times the row's largest number.  For random numbers it is 2^10 times the largest number.
 * Rounding to eight bits (kernels/int8.h) makes x at most 1.023 times as long, where a group has one number of 127 steps and all others of 11.5. */
enum { HALVES_BOUND_TOP = 14 };
__device__ __forceinline__ float halves_bound_factor(float bound, float *undo) { return halves_factor(bound, undo, HALVES_BOUND_TOP); }

/* Returns the factor of a row, and stores what undoes it, and the norm.  Each of THREADS threads has the greatest magnitude and the sum of squares of
 * a part. */
template <int THREADS> __device__ __forceinline__ float halves_shared(float max, float squares, float *undo, float *norm)
{
    __shared__ float part[THREADS / 32][2];
    max = warp_max(max);
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32][0] = max;
        part[threadIdx.x / 32][1] = squares;
    }
    __syncthreads();
    squares = 0;
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++) {
        max = fmaxf(max, part[i][0]);
        squares += part[i][1];
    }
    float back;
    const float factor = halves_factor(max, &back);
    if (threadIdx.x == 0) {
        *undo = back;
        *norm = halves_norm(squares);
    }
    return factor;
}

struct halves_to {
    char  *dst;
    float *undo, *norm;
};
enum { HALVES_THREADS = 256, GATE_HELD = 8 };           /* of attention's outcome a row has at most GATE_HELD quads a thread */

__device__ __forceinline__ float most_of(const float4 &v) { return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))); }

/* Stores a row of 4 * quads columns times `factor`, of which thread t of HALVES_THREADS holds the quads t, t + HALVES_THREADS, ..  v is lost.  Quads
 * that fill the last group are zeros, which v has in place. */
template <int HELD, int HALVES>
__device__ __forceinline__ void halves_put(const struct halves_to &to, int row, int quads, float4 (&v)[HELD], float factor)
{
    const int filled = (quads + PACK_GROUP / 4 - 1) / (PACK_GROUP / 4) * (PACK_GROUP / 4);
    uint2 *dst = (uint2 *)to.dst + (size_t)row * (size_t)(HALVES * filled);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int at = (int)threadIdx.x + i * HALVES_THREADS;
        if (at >= filled)
            continue;
        v[i] = make_float4(v[i].x * factor, v[i].y * factor, v[i].z * factor, v[i].w * factor);
        dst[at] = f16_four(v[i]);
        if (HALVES == 2)
            dst[filled + at] = f16_four(v[i]);
    }
}

/* The same with the factor that the row's maximum asks for; also stores what undoes it, and the norm. */
template <int HELD, int HALVES>
__device__ __forceinline__ void halves_row(const struct halves_to &to, int row, int quads, float4 (&v)[HELD])
{
    float max = 0, sum = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if ((int)threadIdx.x + i * HALVES_THREADS < quads) {
            max = fmaxf(max, most_of(v[i]));
            sum += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
        }
    halves_put<HELD, HALVES>(to, row, quads, v, halves_shared<HALVES_THREADS>(max, sum, to.undo + row, to.norm + row));
}

/* Halves of a copy that can be written beside n_rows rows of activations; 0: none. */
static inline int halves_beside(const struct cuda_queue *q, int n_rows, int cols)
{
    return cols % PACK_GROUP == 0 && linear_scratch(n_rows, cols) <= q->scratch_bytes ? gemm_halves(n_rows) : 0;
}
static inline struct halves_to halves_place(const struct cuda_queue *q, int n_rows, int cols)
{
    float *undo = (float *)(q->scratch + gemm_factors_at((size_t)(gemm_halves(n_rows) * n_rows), cols));
    return {q->scratch, undo, undo + n_rows};
}
/* Records that a launched kernel leaves the only copy of x at `at`, for one product. */
static inline void halves_left(struct cuda_queue *q, const float *x, const float *undo, int n_rows, int cols, const char *at)
{
    q->halves = {x, undo, n_rows, cols, at};
    q->left_out = x;
    q->left_for_several = false;
}
/* The copy of x has been launched.  Without with_x there is no other, for one product or for `several`. */
static inline void halves_made(struct cuda_queue *q, const float *x, int n_rows, int cols, bool with_x, bool several = false)
{
    q->halves = {x, halves_place(q, n_rows, cols).undo, n_rows, cols, q->scratch};
    q->left_out = with_x ? NULL : x;
    q->left_for_several = several;
}

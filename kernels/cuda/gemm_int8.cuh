/* The inner loop of products of a chunk whose activations have eight bits (int8_rows.cuh), with INT4 weights: y^T = W x^T as in gemm.cuh, where
 * shapes are described, and how weights and tokens arrive.
 *
 * A stage is one group of 128 columns: the codes of the block's tokens, odd tokens with their halves swapped, then the tokens' scales.  A warp
 * unpacks a group of its weights once, as bytes 16 (q - 8), which takes three instructions for eight of them.  The sum of a group over integers
 * is exact: it starts at the bits of 1.5 * 2^23 and stays within 2^21 of that, so that its bits are those of a float, 1.5 * 2^23 plus the sum.
 * A fused multiply-add with the token's scale s, which has 22 bits, and with -1.5 * 2^23 s, exact then, gives sum * s rounded once; another one
 * adds it times the weights' scale.
 *
 * Columns apart are products of fp16 after all groups, the weights of those columns fetched once more.  Results are times GEMM_UNIT. */
#pragma once

#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/int8_pass.cuh"

template <int WARPS_, int MT_, int NT_, int STAGES_, int BLOCKS_> struct gemm_int8_shape {
    static constexpr int WARPS = WARPS_, MT = MT_, NT = NT_, STAGES = STAGES_, BLOCKS = BLOCKS_;
    static constexpr bool EIGHT = true;
    static constexpr int THREADS = WARPS * 32, TILES = WARPS * MT, TOKENS = NT * 8;
    static constexpr int CODES = TOKENS * PACK_GROUP, STAGE = CODES + TOKENS * 4, RING = STAGES * STAGE, SMEM = RING + TOKENS * 4;
    static constexpr int STEP = THREADS / 8, PIECES = TOKENS / STEP;    /* 16-byte pieces of a stage that a thread copies */
    static_assert(STEP % 2 == 0 && TOKENS % STEP == 0 && TOKENS <= THREADS, "a thread's tokens have one parity, and one scale at most");
    static_assert(SMEM <= 99 * 1024, "shared memory of a GB10");
};
struct gemm_int8_most : gemm_int8_shape<4, 3, 8, 4, 2> {};          /* 192 x 64 */
struct gemm_int8_half : gemm_int8_shape<4, 3, 4, 4, 2> {};
struct gemm_int8_rest : gemm_int8_shape<4, 3, 2, 4, 2> {};

/* Copies a group of the block's tokens.  rows[n]: offset of token n in units of 16 bytes. */
template <class S> __device__ __forceinline__ void gemm_int8_fill(char *stage, const char *x, const uint32_t *rows, int group, int n_groups)
{
    const int thread = gemm_thread(), n = thread / 8, c = thread % 8;
    char *dst = stage + n * PACK_GROUP + (((c >> 2) ^ (n & 1)) << 6) + ((c & 3) << 4);
    const volatile uint32_t *row = rows;                /* volatile, so that it is not kept in registers */
#pragma unroll
    for (int i = 0; i < S::PIECES; i++)
        copy16(dst + i * S::STEP * PACK_GROUP, x + (size_t)(row[n + i * S::STEP] + (uint32_t)(group * 8 + c)) * 16);
    if (thread < S::TOKENS)
        gemm_copy4(stage + S::CODES + thread * 4, x + (size_t)row[thread] * 16 + n_groups * PACK_GROUP + group * 4);
}

__device__ __forceinline__ float2 gemm_int8_scales(uint32_t at)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at));
    return v;
}

/* a & b ^ c */
__device__ __forceinline__ uint32_t and_xor(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* Fragments of the two k-steps of 32 columns in a lane's 16 bytes. */
__device__ __forceinline__ void gemm_int8_unpack(uint32_t a[4], uint32_t b[4], const uint4 &v)
{
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        a[2 * i] = and_xor(w[i] << 4, 0xf0f0f0f0u, 0x80808080u);
        a[2 * i + 1] = and_xor(w[i], 0xf0f0f0f0u, 0x80808080u);
        b[2 * i] = and_xor(w[2 + i] << 4, 0xf0f0f0f0u, 0x80808080u);
        b[2 * i + 1] = and_xor(w[2 + i], 0xf0f0f0f0u, 0x80808080u);
    }
}

/* acc = GEMM_UNIT times this warp's tiles of W times the block's tokens, without columns apart; arguments as of gemm_run(). */
template <class S, class PREPARE>
__device__ __forceinline__ void gemm_int8_run(float (&acc)[S::MT][S::NT][4], const char *data, const char *scale, int first, int n_tiles,
                                              int n_groups, const char *x, const uint32_t *rows, char *smem, PREPARE prepare)
{
    constexpr int F = WEIGHT_INT4, LINES = group_lines<F>(), MT = S::MT, NT = S::NT;
    constexpr int NB = 2, BATCHES = 2 * NT / NB;                        /* of NB * 8 tokens and 64 columns */
    constexpr float ORIGIN = 12582912.0f;                               /* 1.5 * 2^23 */
    static_assert(LINES == 2, "two lines of four k-steps of 16 columns");
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int tile0 = first < n_tiles ? first : n_tiles - 1;
    const char *w = data + (size_t)tile0 * (size_t)n_groups * group_bytes<F>() + lane * 16;
    const char *scales = gemm_scales<F>(scale, (size_t)tile0 * (size_t)n_groups, g);
    uint32_t tile[MT];                  /* groups from tile0 */
    uint4 ring[LINES][MT];
    uint2 raw[MT];
#pragma unroll
    for (int m = 0; m < MT; m++) {
        tile[m] = (uint32_t)((first + m < n_tiles ? first + m : n_tiles - 1) - tile0) * (uint32_t)n_groups;
#pragma unroll
        for (int i = 0; i < LINES; i++)
            ring[i][m] = gemm_load(w + tile[m] * group_bytes<F>() + i * PACK_LINE);
        raw[m] = gemm_scale<F>(scales, tile[m]);
#pragma unroll
        for (int n = 0; n < NT; n++)
            acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
    }
    prepare();
#pragma unroll
    for (int i = 0; i < S::STAGES - 1; i++) {
        if (i < n_groups)
            gemm_int8_fill<S>(smem + i * S::STAGE, x, rows, i, n_groups);
        copy_commit();
    }
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem), tokens = (uint32_t)(g * PACK_GROUP + t * 16 + (g & 1) * 64);
    uint32_t stage = 0;                 /* bytes */
    for (int group = 0; group < n_groups; group++) {
        const bool more = group + 1 < n_groups;
        copy_wait<S::STAGES - 2>();
        __syncthreads();                /* all threads see the stage and have finished the previous one */
        if (group + S::STAGES - 1 < n_groups)
            gemm_int8_fill<S>(smem + (stage == 0 ? S::RING - S::STAGE : stage - S::STAGE), x, rows, group + S::STAGES - 1, n_groups);
        copy_commit();
        /* Half h of an odd token is stored at h ^ 1. */
        const uint32_t even = base + stage + tokens, odd = even + (g & 1 ? -64 : 64), factors = base + stage + S::CODES + (uint32_t)t * 8;
        uint32_t a[2 * LINES][MT][4];
        float2 f[MT];
        uint4 b[2][NB];
        int32_t sum[NB][MT][4];
#pragma unroll
        for (int n = 0; n < NB; n++)
            b[0][n] = gemm_tokens_load(even + n * 8 * PACK_GROUP);
        w += group_bytes<F>();
        scales += scale_bytes<F>();
#pragma unroll
        for (int m = 0; m < MT; m++) {
            f[m] = __half22float2(*(const __half2 *)&raw[m].x);
            f[m] = make_float2(f[m].x * (GEMM_UNIT / 16), f[m].y * (GEMM_UNIT / 16));
            if (more)
                raw[m] = gemm_scale<F>(scales, tile[m]);
#pragma unroll
            for (int i = 0; i < LINES; i++) {
                gemm_int8_unpack(a[2 * i][m], a[2 * i + 1][m], ring[i][m]);
                if (more)
                    ring[i][m] = gemm_load(w + tile[m] * group_bytes<F>() + i * PACK_LINE);
            }
        }
#pragma unroll
        for (int i = 0; i < BATCHES; i++) {
            const int h = i % 2, n0 = i / 2 * NB;
#pragma unroll
            for (int n = 0; n < NB; n++)
                if (i + 1 < BATCHES)
                    b[(i + 1) % 2][n] = gemm_tokens_load(((i + 1) % 2 ? odd : even) + ((i + 1) / 2 * NB + n) * 8 * PACK_GROUP);
            const int32_t origin[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};
#pragma unroll
            for (int n = 0; n < NB; n++)
#pragma unroll
                for (int m = 0; m < MT; m++)
                    mma_s8(sum[n][m], h ? sum[n][m] : origin, a[2 * h][m], b[h][n].x, b[h][n].y);
#pragma unroll
            for (int n = 0; n < NB; n++)
#pragma unroll
                for (int m = 0; m < MT; m++)
                    mma_s8(sum[n][m], sum[n][m], a[2 * h + 1][m], b[h][n].z, b[h][n].w);
            if (h == 0)
                continue;
#pragma unroll
            for (int n = 0; n < NB; n++) {
                const float2 s = gemm_int8_scales(factors + (n0 + n) * 32), minus = make_float2(-ORIGIN * s.x, -ORIGIN * s.y);
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        const float v = fmaf(__int_as_float(sum[n][m][c]), c % 2 ? s.y : s.x, c % 2 ? minus.y : minus.x);
                        acc[m][n0 + n][c] = fmaf(v, c < 2 ? f[m].x : f[m].y, acc[m][n0 + n][c]);
                    }
            }
        }
        stage = stage == S::RING - S::STAGE ? 0 : stage + S::STAGE;
    }
}

/* The weights of rows g and g + 8 of a tile at one column, times GEMM_UNIT, in fp16.  tile: its first group; scales: those of row g there. */
__device__ __forceinline__ __half2 gemm_int8_weights(const char *tile, const char *scales, int column, int g)
{
    const int group = column / PACK_GROUP, in = column % PACK_GROUP, step = in / 32 * 2 + in % 8 / 4, t = in % 32 / 8, k = in % 4;
    const char *line = tile + (size_t)group * group_bytes<WEIGHT_INT4>() + step / 4 * PACK_LINE;
    const uint32_t word = __ldg((const uint32_t *)(line + (g * 4 + t) * 16) + step % 4);
    const __half2 f = __hmul2(*(const __half2 *)(scales + group * scale_bytes<WEIGHT_INT4>()), __float2half2_rn(GEMM_UNIT));
    const uint32_t q = word >> (k % 2 * 16 + k / 2 * 8);
    return __hmul2(f, __halves2half2(__int2half_rn((int)(q & 15) - 8), __int2half_rn((int)(q >> 4 & 15) - 8)));
}
/* acc += GEMM_UNIT times the columns apart. */
template <class S>
__device__ __forceinline__ void gemm_int8_apart(float (&acc)[S::MT][S::NT][4], const char *data, const char *scale, int first, int n_tiles,
                                                int n_groups, const char *x, const uint32_t *rows, const struct int8_apart &apart)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const char *numbers = x + n_groups * (PACK_GROUP + 4) + t * 4;
    for (int k0 = 0; k0 < apart.n; k0 += 16, numbers += 32) {
        uint32_t a[S::MT][4];
#pragma unroll
        for (int m = 0; m < S::MT; m++) {
            const size_t at = (size_t)min(first + m, n_tiles - 1) * (size_t)n_groups;
            const char *tile = data + at * group_bytes<WEIGHT_INT4>(), *scales = gemm_scales<WEIGHT_INT4>(scale, at, g);
#pragma unroll
            for (int i = 0; i < 2; i++) {               /* columns beyond the last are multiplied with zeros */
                const int k = k0 + 8 * i + 2 * t;
                const __half2 lo = gemm_int8_weights(tile, scales, apart.column[min(k, apart.n - 1)], g);
                const __half2 hi = gemm_int8_weights(tile, scales, apart.column[min(k + 1, apart.n - 1)], g);
                const __half2 upper = __lows2half2(lo, hi), lower = __highs2half2(lo, hi);
                a[m][2 * i] = *(const uint32_t *)&upper;
                a[m][2 * i + 1] = *(const uint32_t *)&lower;
            }
        }
#pragma unroll
        for (int n = 0; n < S::NT; n++) {
            const uint32_t *b = (const uint32_t *)(numbers + (size_t)rows[n * 8 + g] * 16);
            const uint32_t b0 = b[0], b1 = b[4];
#pragma unroll
            for (int m = 0; m < S::MT; m++)
                mma_f16(acc[m][n], a[m], b0, b1);
        }
    }
}

/* acc = this warp's tiles of W times the block's tokens, in the form that the shape says; in eight bits without the columns apart. */
template <int F, class S, int HALVES, class PREPARE>
__device__ __forceinline__ void gemm_any(float (&acc)[S::MT][S::NT][4], const char *data, const char *scale, int first, int n_tiles, int n_groups,
                                         const char *x, const uint32_t *rows, char *smem, PREPARE prepare)
{
    static_assert(!S::EIGHT || (F == WEIGHT_INT4 && HALVES == 1), "what eight bits are for");
    if constexpr (S::EIGHT)
        gemm_int8_run<S>(acc, data, scale, first, n_tiles, n_groups, x, rows, smem, prepare);
    else
        gemm_run<F, S, HALVES>(acc, data, scale, first, n_tiles, n_groups, x, rows, smem, prepare);
}

/* The inner loop of the matrix products of prompt chunks: one block computes a tile of y^T = W x^T, W packed (kernels/pack.h).
 *
 * A warp has MT tiles of 16 weight rows and all NT * 8 tokens of its block, so that each weight is loaded and unpacked once per
 * block.  Weights are loaded to registers some lines before their use.  Tokens are fp16 in shared memory, one group of 128 columns
 * per stage.  A lane reads 16 bytes of a token at a time: the columns 32 p + 8 t .. +7 of the group, which are the
 * k-steps 2 p and 2 p + 1.  A token's 256 bytes keep the order of their columns, except that odd tokens have neighbouring quarters
 * swapped: the eight lanes of two tokens then reach all 32 banks.
 *
 * All tile shapes sum the columns in the same order, so that the bits of a row do not depend on the shape.
 *
 * HALVES is 1, or 2 for short chunks (gemm.h).  Then hi and lo of an activation are two neighbouring tokens of the copy, and the products
 * run on twice as many tokens: c0 + c1, and c2 + c3, of a lane's fragment belong to one token.  Weights are used exactly, without their
 * scales: the sum of a group is multiplied by its scales in fp32 and then added to the sums of the other groups. */
#pragma once

#include "kernels/cuda/halves_pass.cuh"
#include "kernels/cuda/tiles.cuh"

/* Weights times scales are stored times 64, to avoid subnormals. */
static const float GEMM_UNIT = 64;
template <int F, int HALVES> __host__ __device__ constexpr bool gemm_scaled() { return HALVES == 1 && (F == WEIGHT_INT4 || F == WEIGHT_FP8); }
template <int F, int HALVES> __host__ __device__ constexpr float gemm_undo() { return gemm_scaled<F, HALVES>() ? 1 / GEMM_UNIT : 1.0f; }

/* A shape of block: WARPS * MT * 16 weight rows, NT * 8 tokens.  With DEEP a warp keeps 4 KiB of weight loads in flight: for few
 * tokens, when memory is the limit. */
template <int WARPS_, int MT_, int NT_, int STAGES_, int BLOCKS_, bool DEEP_> struct gemm_shape {
    static constexpr int WARPS = WARPS_, MT = MT_, NT = NT_, STAGES = STAGES_, BLOCKS = BLOCKS_;
    static constexpr bool DEEP = DEEP_, EIGHT = false;      /* EIGHT: activations in eight bits (gemm_int8.cuh) */
    static constexpr int THREADS = WARPS * 32, TILES = WARPS * MT, TOKENS = NT * 8;
    static constexpr int STAGE = TOKENS * PACK_GROUP * 2, RING = STAGES * STAGE, SMEM = RING + TOKENS * 4;
    static constexpr int STEP = THREADS / 16, PIECES = TOKENS / STEP;  /* 16-byte pieces of a stage that a thread copies */
    static_assert(STEP % 2 == 0 && TOKENS % STEP == 0, "a thread's tokens have one parity");
    static_assert(SMEM <= 99 * 1024, "shared memory of a GB10");
};
struct gemm_large : gemm_shape<8, 2, 16, 3, 1, false> {};           /* 256 x 128 */
struct gemm_medium : gemm_shape<4, 2, 8, 3, 3, false> {};          /* 128 x 64 */
struct gemm_dense : gemm_shape<4, 2, 18, 2, 2, false> {};          /* 128 x 144, for weights of 16 bits */
struct gemm_medium_half : gemm_shape<4, 2, 4, 3, 3, false> {};
struct gemm_medium_rest : gemm_shape<4, 2, 2, 4, 3, false> {};
struct gemm_small : gemm_shape<4, 1, 4, 4, 3, true> {};           /* 64 x 32 */
struct gemm_wide : gemm_shape<4, 1, 8, 3, 2, true> {};            /* 64 x 64, for two halves, which need two sets of sums */

/* Weights are the last to leave the second-level cache: other tiles of tokens read them again a moment later. */
__device__ __forceinline__ uint4 gemm_load(const char *p)
{
    uint64_t last;
    uint4 v;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p), "l"(last));
    return v;
}

/* Scales of one tile and group, in bytes; raw those of rows g and g + 8, tile and group `i` from one whose scales begin at `scale`. */
template <int F> __host__ __device__ constexpr int scale_bytes() { return F == WEIGHT_INT4 ? 32 : F == WEIGHT_FP8 ? 8 : 0; }
template <int F> __device__ __forceinline__ const char *gemm_scales(const char *scale, size_t i, int g)
{
    return scale + i * scale_bytes<F>() + (F == WEIGHT_INT4 ? g * 4 : 0);
}
template <int F> __device__ __forceinline__ uint2 gemm_scale(const char *scales, uint32_t i)
{
    if (F == WEIGHT_INT4)
        return make_uint2(__ldg((const unsigned *)(scales + i * scale_bytes<F>())), 0);
    if (F == WEIGHT_FP8)
        return __ldg((const uint2 *)(scales + i * scale_bytes<F>()));
    return make_uint2(0, 0);
}
template <int F> __device__ __forceinline__ float2 gemm_scale_f32(uint2 raw)
{
    if (F == WEIGHT_INT4)
        return __half22float2(*(const __half2 *)&raw.x);
    if (F == WEIGHT_FP8)
        return make_float2(__uint_as_float(raw.x), __uint_as_float(raw.y));
    return make_float2(1.0f, 1.0f);
}
/* ... and as fp16 */
template <int F> __device__ __forceinline__ void gemm_scale_f16(__half2 s[2], uint2 raw)
{
    if (F == WEIGHT_INT4) {
        __half2 v = __hmul2(*(const __half2 *)&raw.x, __float2half2_rn(GEMM_UNIT));
        s[0] = __low2half2(v);
        s[1] = __high2half2(v);
    } else if (F == WEIGHT_FP8) {
        s[0] = __float2half2_rn(__uint_as_float(raw.x) * GEMM_UNIT);
        s[1] = __float2half2_rn(__uint_as_float(raw.y) * GEMM_UNIT);
    }
}

__device__ __forceinline__ uint32_t gemm_mul(uint32_t a, __half2 s)
{
    __half2 v = __hmul2(*(__half2 *)&a, s);
    return *(uint32_t *)&v;
}
/* Two E4M3 in the lower half of w -> fp16, exact */
__device__ __forceinline__ uint32_t gemm_fp8(uint32_t w)
{
    uint32_t v;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(v) : "h"((uint16_t)w));
    return v;
}
/* Four bytes, `p` aligned to them */
__device__ __forceinline__ void gemm_copy4(void *smem, const void *p)
{
    uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(s), "l"(p) : "memory");
}

/* Fragment of k-step `step` (of line_steps) of a lane's 16 bytes, in fp16, with one half times its scales. */
template <int F, int HALVES> __device__ __forceinline__ void gemm_unpack(uint32_t a[4], const uint4 &v, int step, const __half2 s[2])
{
    const uint32_t *w = (const uint32_t *)&v;
    if (F == WEIGHT_INT4) {
        /* 0x6400 is 1024, whose last place is 1: 1024 + q.  Upper nibbles of a byte: 0x5400 is 64, whose last place is 1/16. */
        const __half2 bias = __float2half2_rn(-1032.0f), bias16 = __float2half2_rn(-72.0f);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            uint32_t lo = and_or(w[step] >> (4 * i), 0x000f000fu, 0x64006400u), hi = and_or(w[step] >> (4 * i), 0x00f000f0u, 0x54005400u);
            __half2 x = __hadd2(*(__half2 *)&lo, bias), y = __hadd2(*(__half2 *)&hi, bias16);
            a[i] = *(uint32_t *)&x;
            a[i + 1] = *(uint32_t *)&y;
        }
    } else if (F == WEIGHT_FP8) {
        a[0] = gemm_fp8(w[2 * step]);
        a[1] = gemm_fp8(w[2 * step] >> 16);
        a[2] = gemm_fp8(w[2 * step + 1]);
        a[3] = gemm_fp8(w[2 * step + 1] >> 16);
    } else if (F == WEIGHT_INT8) {
        const __half2 bias = __float2half2_rn(-1152.0f);
        unpack_int8_biased(a, w[2 * step], w[2 * step + 1]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            __half2 x = __hadd2(*(__half2 *)&a[i], bias);
            a[i] = *(uint32_t *)&x;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = f16_pair(bf16_low(w[i]), bf16_high(w[i]));
    }
    if (gemm_scaled<F, HALVES>()) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = gemm_mul(a[i], s[i % 2]);
    }
}

/* acc += sum of a group, times the scales of rows g and g + 8; sum = 0. */
template <int F, int MT, int NT>
__device__ __forceinline__ void gemm_add_group(float (&acc)[MT][NT][4], float (&sum)[MT][NT][4], const uint2 raw[MT])
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        const float2 s = gemm_scale_f32<F>(raw[m]);
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                acc[m][n][c] = fmaf(sum[m][n][c], c < 2 ? s.x : s.y, acc[m][n][c]);
                sum[m][n][c] = 0;
            }
    }
}

/* Rows g and g + 8 of the token whose first column of a fragment is c (with two halves always 0) */
template <int HALVES> __device__ __forceinline__ float2 gemm_result(const float acc[4], int c)
{
    return HALVES == 1 ? make_float2(acc[c], acc[c + 2]) : make_float2(acc[0] + acc[1], acc[2] + acc[3]);
}

/* Reads the thread's and the block's index again, so that values derived from them need no registers during the sums. */
__device__ __forceinline__ int gemm_thread()
{
    int i;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(i));
    return i;
}
__device__ __forceinline__ int gemm_block()
{
    int i;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(i));
    return i;
}

/* Copies a group of the block's tokens.  rows[n]: offset of token n in units of 16 bytes. */
template <class S> __device__ __forceinline__ void gemm_fill(char *stage, const char *x, const uint32_t *rows, int group)
{
    const int thread = gemm_thread(), n = thread / 16, c = thread % 16;
    char *dst = stage + n * 256 + (((c >> 2) ^ (n & 1)) << 6) + ((c & 3) << 4);
    const volatile uint32_t *row = rows + n;            /* volatile, so that it is not kept in registers */
#pragma unroll
    for (int i = 0; i < S::PIECES; i++)
        copy16(dst + i * S::STEP * 256, x + (size_t)(row[i * S::STEP] + (uint32_t)(group * 16 + c)) * 16);
}

/* Keeps the order with the products around it; otherwise the compiler loads early and runs out of registers. */
__device__ __forceinline__ uint4 gemm_tokens_load(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
    return v;
}

/* acc = this warp's tiles of W times the block's tokens.  W: data and scale of the matrix; first: the warp's first tile.  Tiles beyond
 * the last repeat the last one; the caller does not store them.  x, rows: as in gemm_fill(); rows [TOKENS] in shared memory
 * are written by prepare(), which runs while the first weight loads are in flight and ends with a barrier. */
template <int F, class S, int HALVES, class PREPARE>
__device__ __forceinline__ void gemm_run(float (&acc)[S::MT][S::NT][4], const char *data, const char *scale, int first, int n_tiles,
                                         int n_groups, const char *x, const uint32_t *rows, char *smem,
                                         PREPARE prepare)
{
    constexpr int LINES = group_lines<F>(), STEPS = line_steps<F>();
    constexpr int TURN = S::DEEP ? 8 / LINES : 1;                                   /* groups that the ring of lines spans */
    constexpr int RING = S::DEEP ? 8 : 2;
    constexpr bool MAYBE = S::DEEP;
    constexpr int MT = S::MT, NT = S::NT, NB = 2, BATCHES = 4 * NT / NB;     /* of NB * 8 tokens and two k-steps */
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int tile0 = first < n_tiles ? first : n_tiles - 1;
    const char *w = data + (size_t)tile0 * (size_t)n_groups * group_bytes<F>() + lane * 16;
    uint32_t tile[MT];                  /* groups from tile0 */
    const char *scales = gemm_scales<F>(scale, (size_t)tile0 * (size_t)n_groups, g);
    uint4 ring[RING][MT];
    uint2 raw[TURN][MT];
    float group_sum[MT][NT][4] = {};
    float (&sum)[MT][NT][4] = HALVES == 1 ? acc : group_sum;
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
                raw[u][m] = gemm_scale<F>(scales, tile[m] + u);
#pragma unroll
        for (int n = 0; n < NT; n++)
            acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
    }
    prepare();
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
            const uint32_t ahead = MAYBE || more ? (uint32_t)(TURN * group_bytes<F>()) : 0;      /* otherwise the bytes are not used */
            copy_wait<S::STAGES - 2>();
            __syncthreads();            /* all threads see the stage and have finished the previous one */
            if (group + S::STAGES - 1 < n_groups)
                gemm_fill<S>(smem + (stage == 0 ? S::RING - S::STAGE : stage - S::STAGE), x, rows, group + S::STAGES - 1);
            copy_commit();
            __half2 s[MT][2];
            uint2 scale_now[MT];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                scale_now[m] = raw[u][m];
                gemm_scale_f16<F>(s[m], raw[u][m]);
                if (!MAYBE || more)
                    raw[u][m] = gemm_scale<F>(scales, tile[m] + (MAYBE || more ? TURN : 0));
            }
            /* Quarter p of an odd token is stored at p ^ 1. */
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
                        gemm_unpack<F, HALVES>(a[h][m], ring[slot][m], step % STEPS, s[m]);
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
                        mma_f16(sum[m][n0 + n], a[0][m], b[i % 2][n].x, b[i % 2][n].y);
#pragma unroll
                for (int n = 0; n < NB; n++)
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        mma_f16(sum[m][n0 + n], a[1][m], b[i % 2][n].z, b[i % 2][n].w);
            }
            if (HALVES == 2)
                gemm_add_group<F>(acc, sum, scale_now);
            w += group_bytes<F>();
            scales += scale_bytes<F>();
            stage = stage == S::RING - S::STAGE ? 0 : stage + S::STAGE;
        }
    }
}

/* Few tokens, when memory is the limit: a block keeps all columns of up to 16 tokens in shared memory, and its warps stream the
 * weights independently, without barriers.  A warp has two streams of `depth` consecutive tiles, with 4 KiB of loads in flight at any
 * time.  The order of the sums is that of gemm_run(). */
struct gemm_few {
    static constexpr int WARPS = 8, THREADS = WARPS * 32, TOKENS = 16, STREAMS = 2 * WARPS, RING = 4;
    static constexpr int MAX_GROUPS = 24;
    /* Bytes of a token; tokens of different parity are in different halves of the banks. */
    static __host__ __device__ constexpr int pitch(int n_groups) { return n_groups * 256 + 64; }
};
static_assert(gemm_few::TOKENS * gemm_few::pitch(gemm_few::MAX_GROUPS) + 512 <= 99 * 1024, "shared memory of a GB10");

template <int F> struct gemm_streams {
    static constexpr int LINES = group_lines<F>(), STEPS = line_steps<F>(), RING = gemm_few::RING, TURN = RING > LINES ? RING / LINES : 1;
    const char *w[2], *scales[2];
    int         tile[2], n_groups, total;       /* total: groups of a stream */
    uint4       ring[RING][2];
    uint2       raw[TURN][2];

    /* Streams that begin after the last tile repeat earlier ones and are not stored.  n_tiles >= depth. */
    __device__ __forceinline__ void begin(const char *data, const char *scale, int stream0, int depth, int n_tiles, int groups)
    {
        const int lane = (int)threadIdx.x % 32;
        n_groups = groups;
        total = depth * groups;
#pragma unroll
        for (int m = 0; m < 2; m++) {
            tile[m] = min((stream0 + m) * depth, n_tiles - depth);
            const size_t first = (size_t)tile[m] * (size_t)groups;
            w[m] = data + first * group_bytes<F>() + lane * 16;
            scales[m] = gemm_scales<F>(scale, first, lane / 4);
#pragma unroll
            for (int i = 0; i < RING; i++)
                if (i / LINES < total)
                    ring[i][m] = gemm_load(w[m] + i * PACK_LINE);
#pragma unroll
            for (int u = 0; u < TURN; u++)
                if (u < total)
                    raw[u][m] = gemm_scale<F>(scales[m], u);
        }
    }
};

/* tokens: those of this block, in shared memory.  store(m, tile, acc) receives a tile of stream m. */
template <int F, int NT, int HALVES, class STORE>
__device__ __forceinline__ void gemm_stream(struct gemm_streams<F> &s, const char *tokens, STORE store)
{
    constexpr int LINES = s.LINES, STEPS = s.STEPS, RING = s.RING, TURN = s.TURN;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, pitch = gemm_few::pitch(s.n_groups);
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(tokens) + (uint32_t)(g * pitch + t * 16);
    float acc[2][NT][4] = {}, group_sum[2][NT][4] = {};
    float (&sum)[2][NT][4] = HALVES == 1 ? acc : group_sum;
    int group = 0, done = 0;            /* of a tile; tiles */
    for (int i = 0; i < s.total; i += TURN) {
#pragma unroll
        for (int u = 0; u < TURN; u++) {
            if (u > 0 && i + u >= s.total)
                break;
            const bool more = i + u + TURN < s.total;
            const uint32_t at = base + (uint32_t)(group * 256);
            __half2 f[2][2];
            uint2 scale_now[2];
#pragma unroll
            for (int m = 0; m < 2; m++) {
                scale_now[m] = s.raw[u][m];
                gemm_scale_f16<F>(f[m], s.raw[u][m]);
                if (more)
                    s.raw[u][m] = gemm_scale<F>(s.scales[m], TURN);
                s.scales[m] += scale_bytes<F>();
            }
#pragma unroll
            for (int p = 0; p < 4; p++) {
                uint4 b[NT];
                uint32_t a[2][2][4];
#pragma unroll
                for (int n = 0; n < NT; n++)
                    b[n] = gemm_tokens_load(at + (uint32_t)(p * 64 + n * 8 * pitch));
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        const int step = 2 * p + h, line = step / STEPS, slot = (u * LINES + line) % RING;
                        gemm_unpack<F, HALVES>(a[h][m], s.ring[slot][m], step % STEPS, f[m]);
                        if (step % STEPS == STEPS - 1 && (line + RING < LINES || more))
                            s.ring[slot][m] = gemm_load(s.w[m] + (line + RING) * PACK_LINE);
                    }
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int m = 0; m < 2; m++)
                        mma_f16(sum[m][n], a[0][m], b[n].x, b[n].y);
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int m = 0; m < 2; m++)
                        mma_f16(sum[m][n], a[1][m], b[n].z, b[n].w);
            }
            if (HALVES == 2)
                gemm_add_group<F>(acc, sum, scale_now);
            s.w[0] += group_bytes<F>();
            s.w[1] += group_bytes<F>();
            if (++group < s.n_groups)
                continue;
            group = 0;
#pragma unroll
            for (int m = 0; m < 2; m++) {
                store(m, s.tile[m] + done, acc[m]);
#pragma unroll
                for (int n = 0; n < NT; n++)
                    acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
            }
            done++;
        }
    }
}

/* The inner loop of every decode product: a thread block of 8 warps multiplies tiles of 16 weight rows with up to 8 rows of
 * activations.
 *
 * The columns are cut among the warps, and each warp keeps the activations of its columns in registers for all tiles that
 * come, as B fragments: column 2i of the product is the upper half of row i, column 2i + 1 the lower half, so four rows fit one
 * instruction.  Weights stream from memory through a ring of 1 KiB units per warp, in which every lane reads only what it has
 * copied itself: no barrier, and the copies of the first tiles start before the kernel in front has ended.  The warps' sums
 * of some tiles wait in shared memory and meet there, in fixed order: a barrier a tile would make every warp wait for the slowest.
 *
 * What decides the speed is the number of instructions per weight.  INT4 is multiplied as bytes: an instruction unpacks four
 * weights (those of the upper nibbles times 16), and one product takes 32 columns.  Its activations are integers of 16 bits with a scale per group of
 * 128 columns, 256 hi + lo, which a group adds up exactly.  The other formats take the halves as two bf16 or two fp16.  INT8 weights carry an
 * offset (1152 + q in fp16), which the sum of the activations takes off at the end of a group; what that loses, 2^-17 of the sum
 * of magnitudes, is less than the activations' own rounding. */
#pragma once

#include "kernels/cuda/tiles.cuh"

enum {
    STEP_WARPS   = 8,
    STEP_THREADS = 32 * STEP_WARPS,
    STEP_UNIT    = 2 * PACK_LINE,       /* what a warp fetches at a time */
    STEP_PITCH   = 320,                 /* bytes of a staged row of 128 halves: quarter warps hit all banks */
    STEP_SETS    = 8 * STEP_PITCH / 256,        /* sums of a tile and set that a warp can keep */
};

/* A warp's `own` bytes are for staging its input, then for its sums. */
template <int N_UNITS> struct step_shared {
    enum { UNITS = N_UNITS };           /* of a warp's ring: what is on its way from memory */
    uint4    ring[STEP_WARPS][UNITS][64];
    uint32_t scale[STEP_WARPS][UNITS][32];
    uint4    own[STEP_WARPS][8 * STEP_PITCH / 16];
    float    square[2][4][STEP_WARPS];       /* by set of rows */
};

/* Returns the first of n things in the i-th of `parts` equal runs; n * parts < 2^32. */
__device__ __forceinline__ int first_of(int n, int i, int parts) { return (int)((unsigned)n * (unsigned)i / (unsigned)parts); }

__device__ __forceinline__ float square4(const float4 &u) { return u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w; }

template <int F> __host__ __device__ constexpr int group_units() { return group_lines<F>() / 2; }
/* How a product is done.  FP8 goes through fp16, since it unpacks in a third of the instructions; inputs that are not normed could overflow
 * there, and are divided by a power of two for a row and a group of columns. */
enum product { BF16, F16, F16_SCALED, S8 };
template <int F, bool NORMED> __host__ __device__ constexpr int product_of()
{
    return F == WEIGHT_INT4 || F == WEIGHT_PLANES ? S8 : F == WEIGHT_INT8 ? F16 : F == WEIGHT_FP8 ? (NORMED ? F16 : F16_SCALED) : BF16;
}

/* Activations of 128 columns as B fragments, [set of 4 rows][k-step][b0, b1]. */
template <int P, int COLS> struct group_frags {
    uint32_t b[COLS][8][2];
    float    sum[COLS];                 /* of row lane % 4 of the set */
};
template <int COLS> struct group_frags<F16_SCALED, COLS> {
    uint32_t b[COLS][8][2];
    float    scale[COLS];               /* of row lane % 4 */
};
template <int COLS> struct group_frags<S8, COLS> {
    uint32_t b[COLS][4][2];
    int32_t  offset[COLS];              /* -8 times the sum of row lane % 4: an INT4 zero is 8 */
    float    scale[COLS];
};

template <int P, int F> __device__ __forceinline__ void unpack_offset(uint32_t a[4], const uint4 &v, int s)
{
    const uint32_t *w = (const uint32_t *)&v;
    static_assert(P == BF16 ? F == WEIGHT_DENSE : F == WEIGHT_FP8 || (P == F16 && F == WEIGHT_INT8), "no such product");
    if (F == WEIGHT_INT8)
        unpack_int8_biased(a, w[2 * s], w[2 * s + 1]);
    else if (F == WEIGHT_FP8)
        unpack_fp8_half(a, w[2 * s], w[2 * s + 1]);
    else
        unpack<F>(a, v, s);
}
template <int P> __device__ __forceinline__ void step_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (P != BF16)
        mma_f16(c, a, b0, b1);
    else
        mma_bf16(c, a, b0, b1);
}

/* Returns what the offset of INT8 weights adds to a sum; never fused with the subtraction, so that all kernels have the same bits. */
__device__ __forceinline__ float int8_offset(float sum) { return __fmul_rn(1152.0f, sum); }

/* Returns the sum of the activations of row lane % 4. */
template <int P> __device__ __forceinline__ float fragment_sum(const uint32_t b[8][2])
{
    const uint32_t one = P == F16 ? 0x3c003c00u : 0x3f803f80u, a[4] = {one, one, one, one};
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int s = 0; s < 8; s++)
        step_mma<P>(c, a, b[s][0], b[s][1]);
    return c[0] + c[1];
}

/* A row of 128 columns, 4 of them in every lane, as 16-bit integers: q = 256 hi + lo, hi in -127..127, lo in -128..127, the bytes in
 * the order of the nibbles of kernels/pack.h.  What is no number makes the scale none. */
struct quantized {
    uint32_t hi, lo;
    int32_t  sum;                       /* of the row */
    float    scale;
};
__device__ __forceinline__ float max_or_nan(float a, float b)
{
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
__device__ __forceinline__ struct quantized quantize(const float4 &u)
{
    const float most = max_or_nan(max_or_nan(fabsf(u.x), fabsf(u.y)), max_or_nan(fabsf(u.z), fabsf(u.w)));
    const float top = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(most)));
    float by;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(by) : "f"(top));
    by *= 32639.0f;
    /* 1.5 * 2^23: the low half of such a float is an integer; with 128 more, its upper byte is hi and its lower one lo + 128 */
    const float magic = 12582912.0f + 128;
    const uint32_t a = __float_as_uint(fmaf(u.x, by, magic)), b = __float_as_uint(fmaf(u.y, by, magic)), c = __float_as_uint(fmaf(u.z, by, magic)),
                   d = __float_as_uint(fmaf(u.w, by, magic));
    struct quantized r;
    r.hi = __byte_perm(__byte_perm(a, c, 0x0051), __byte_perm(b, d, 0x0051), 0x5410);
    r.lo = __byte_perm(__byte_perm(a, c, 0x0040), __byte_perm(b, d, 0x0040), 0x5410) ^ 0x80808080u;
    r.sum = (int32_t)(__reduce_add_sync(~0u, a + b + c + d) - 128 * (__float_as_uint(12582912.0f) + 128));
    r.scale = by > 0 ? top * (1.0f / 32639.0f) : __int_as_float(0x7fffffff);      /* by is 0 or none when something was not finite */
    if (top == 0)
        r.hi = r.lo = 0, r.sum = 0;
    return r;
}

/* The power of two that brings the greatest of a row's 128 columns between 512 and 1024, and its inverse.  What is below 2^-106 comes out
 * less precise. */
__device__ __forceinline__ float small_enough(const float4 &u, float *inverse)
{
    const float most = max_or_nan(max_or_nan(fabsf(u.x), fabsf(u.y)), max_or_nan(fabsf(u.z), fabsf(u.w)));
    const uint32_t exponent = max(__reduce_max_sync(~0u, __float_as_uint(most)) >> 23, 21u);
    *inverse = __uint_as_float((exponent - 9) << 23);
    return __uint_as_float((254 + 9 - exponent) << 23);
}

enum { STAGE_WORDS = 40 };              /* pitch of a staged row of 32 words: quarter warps hit all banks */

/* Stages N <= 4 rows of a group as bytes; u[i] holds columns 4 lane .. 4 lane + 3 of row i.  Behind the words of a row's upper halves
 * stand its offset and scale.  Rows that are not `wanted` (a bit each) come out as anything times zero. */
enum { STAGE_OFFSET = 32, STAGE_SCALE = 33 };
template <int N> __device__ __forceinline__ void stage_rows(const float4 (&u)[N], uint32_t *staged, uint32_t wanted)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint32_t *to = staged + 2 * i * STAGE_WORDS;
        if (N > 1 && !(wanted >> i & 1)) {
            to[STAGE_SCALE] = 0;
            continue;
        }
        const struct quantized q = quantize(u[i]);
        to[lane] = q.hi;
        to[STAGE_WORDS + lane] = q.lo;
        to[STAGE_OFFSET] = (uint32_t)(-8 * q.sum);
        to[STAGE_SCALE] = __float_as_uint(q.scale);
    }
}
/* Their fragments; rows from N on, which are not there, are zero. */
template <int N, int COLS> __device__ __forceinline__ void take_rows(group_frags<S8, COLS> &f, int set, const uint32_t *staged)
{
    const int lane = threadIdx.x % 32;
    const uint32_t *row = staged + (lane % 4 < N ? 2 * (lane % 4) : 0) * STAGE_WORDS;
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const uint2 v = N == 4 || lane < 8 * N ? *(const uint2 *)(staged + lane / 4 * STAGE_WORDS + 8 * p + 2 * (lane % 4)) : make_uint2(0, 0);
        f.b[set][p][0] = v.x;
        f.b[set][p][1] = v.y;
    }
    f.offset[set] = (int32_t)row[STAGE_OFFSET];
    f.scale[set] = __uint_as_float(row[STAGE_SCALE]);
}

/* One set of N <= 4 rows of one group into fragments; u[i] holds columns 4 lane .. 4 lane + 3 of row i.  Rows that are not `wanted`
 * are 0. */
template <bool NORMED = false, int P, int COLS, int N>
__device__ __forceinline__ void frags_set(group_frags<P, COLS> &f, int set, const float4 (&u)[N], uint4 *staged, uint32_t wanted = ~0u)
{
    const int lane = threadIdx.x % 32;
    __syncwarp();
    if constexpr (P == S8) {
        stage_rows(u, (uint32_t *)staged, wanted);
        __syncwarp();
        take_rows<N>(f, set, (const uint32_t *)staged);
    } else {
        char *s = (char *)staged;
        if constexpr (P == F16_SCALED)
            f.scale[set] = 1;
#pragma unroll
        for (int i = 0; i < N; i++) {
            uint32_t x, y, z, w;
            float by = 1;
            if constexpr (P == F16_SCALED && !NORMED) {
                float scale;
                by = small_enough(u[i], &scale);
                f.scale[set] = lane % 4 == i ? scale : f.scale[set];
            }
            if (P != BF16)
                x = f16_split(u[i].x * by), y = f16_split(u[i].y * by), z = f16_split(u[i].z * by), w = f16_split(u[i].w * by);
            else
                x = bf16_split(u[i].x), y = bf16_split(u[i].y), z = bf16_split(u[i].z), w = bf16_split(u[i].w);
            *(uint2 *)(s + (2 * i) * STEP_PITCH + 8 * lane) = make_uint2(__byte_perm(x, y, 0x5410), __byte_perm(z, w, 0x5410));
            *(uint2 *)(s + (2 * i + 1) * STEP_PITCH + 8 * lane) = make_uint2(__byte_perm(x, y, 0x7632), __byte_perm(z, w, 0x7632));
        }
        __syncwarp();
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const uint4 v = *(const uint4 *)(s + (lane / 4) * STEP_PITCH + 64 * p + 16 * (lane % 4));
            f.b[set][2 * p][0] = v.x;
            f.b[set][2 * p][1] = v.y;
            f.b[set][2 * p + 1][0] = v.z;
            f.b[set][2 * p + 1][1] = v.w;
        }
        if constexpr (P != F16_SCALED)
            f.sum[set] = fragment_sum<P>(f.b[set]);
    }
}

/* Zeroes what frags_set() will not write of a warp's staging: rows from N on. */
template <int N> __device__ __forceinline__ void staging_clear(uint4 *staged)
{
    __syncwarp();                       /* what was there has been read */
    for (int i = threadIdx.x % 32; i < 8 * STEP_PITCH / 16; i += 32)
        staged[i] = make_uint4(0, 0, 0, 0);
}

/* A lane reads 4 bytes of the scales with every unit: INT4 those of rows g and g + 8, FP8 the one of rows 0-7, then 8-15. */
template <int F> __host__ __device__ constexpr bool has_scales() { return F == WEIGHT_INT4 || F == WEIGHT_FP8; }
template <int F> __host__ __device__ constexpr int unit_scale_bytes() { return F == WEIGHT_INT4 ? 32 : 4; }
template <int F> __host__ __device__ constexpr int group_scale_bytes() { return unit_scale_bytes<F>() * group_units<F>(); }
template <int F> __device__ __forceinline__ int lane_scale() { return F == WEIGHT_INT4 ? threadIdx.x % 32 / 4 * 4 : 0; }

/* A warp's units of one tile; with two tiles side by side those of the other lie `pair` bytes on, its scales scale_pair. */
struct step_piece {
    const uint8_t *at, *scale;          /* this lane's scale */
    uint32_t       pair, scale_pair;
    int            units;
};

/* The units of a warp, tile after tile, T tiles side by side: with two there is twice the work between two uses of a register.
 * SRC::next() says where the next piece is; SRC::SCALED, SRC::SCALE_STEP: whether units have scales, and how far one is from
 * the next.  All but one of the ring's places are always under way, with nothing in them at the end. */
template <class SRC, int T, int UNITS> struct step_stream {
    enum { PLACES = UNITS / T, PLACE = T * STEP_UNIT, LAST = (PLACES - 1) * PLACE };
    SRC               src;
    struct step_piece piece;            /* at hand: its next unit, this lane's bytes */
    uint32_t          ring, scales, slot;       /* shared memory: this lane's bytes of place 0; offset of the place to fill next */
    int               remaining;        /* units still to fetch */
    int               under_way;        /* before the first take() */

    __device__ __forceinline__ void next()
    {
        src.next(&piece);
        piece.at += 16 * (threadIdx.x % 32);
    }
    __device__ __forceinline__ void issue()
    {
        if (remaining > 0) {
            const uint32_t s = ring + slot;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n cp.async.cg.shared.global [%0 + 512], [%1 + 512], 16;" ::"r"(s),
                         "l"(piece.at) : "memory");
            if (T == 2)
                asm volatile("cp.async.cg.shared.global [%0 + 1024], [%1], 16;\n cp.async.cg.shared.global [%0 + 1536], [%1 + 512], 16;" ::"r"(s),
                             "l"(piece.at + piece.pair) : "memory");
            if (SRC::SCALED) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(scales + slot / 8), "l"(piece.scale) : "memory");
                if (T == 2)
                    asm volatile("cp.async.ca.shared.global [%0 + 128], [%1], 4;" ::"r"(scales + slot / 8),
                                 "l"(piece.scale + piece.scale_pair) : "memory");
                piece.scale += SRC::SCALE_STEP;
            }
            piece.at += STEP_UNIT;
            remaining--;
            if (--piece.units == 0 && remaining > 0)
                next();
        }
        copy_commit();
        slot = slot == LAST ? 0 : slot + PLACE;
    }
    /* n more units come. */
    __device__ __forceinline__ void extend(int n)
    {
        remaining += n;
        if (piece.units == 0 && remaining > 0)
            next();
#pragma unroll 1
        for (; under_way < PLACES - 1 && remaining > 0; under_way++)
            issue();
    }
    __device__ __forceinline__ void start(struct step_shared<UNITS> *sm, int n)
    {
        ring = (uint32_t)__cvta_generic_to_shared(sm->ring[threadIdx.x / 32][0] + threadIdx.x % 32);
        scales = (uint32_t)__cvta_generic_to_shared(sm->scale[threadIdx.x / 32][0] + threadIdx.x % 32);
        slot = 0;
        remaining = piece.units = under_way = 0;
        extend(n);
    }
    /* All units are known: before the first take(). */
    __device__ __forceinline__ void ready()
    {
#pragma unroll 1
        for (; under_way < PLACES - 1; under_way++)
            copy_commit(), slot = slot == LAST ? 0 : slot + PLACE;
    }
    __device__ __forceinline__ void take(uint4 v[T][2], uint32_t scale[T])
    {
        const uint32_t place = slot == LAST ? 0 : slot + PLACE, s = ring + place;
        copy_wait<PLACES - 2>();
#pragma unroll
        for (int i = 0; i < T; i++) {
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i][0].x), "=r"(v[i][0].y), "=r"(v[i][0].z), "=r"(v[i][0].w)
                         : "r"(s + i * STEP_UNIT) : "memory");
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4 + 512];" : "=r"(v[i][1].x), "=r"(v[i][1].y), "=r"(v[i][1].z), "=r"(v[i][1].w)
                         : "r"(s + i * STEP_UNIT) : "memory");
            if (SRC::SCALED)
                asm volatile("ld.shared.u32 %0, [%1];" : "=r"(scale[i]) : "r"(scales + place / 8 + i * 128) : "memory");
        }
        issue();
    }
};

/* The scales of rows g and g + 8, from what came with the units of a group. */
template <int F> __device__ __forceinline__ float2 scales_of(const uint32_t unit[group_units<F>()])
{
    if constexpr (F == WEIGHT_INT4)
        return __half22float2(*(const __half2 *)&unit[0]);
    else if constexpr (F == WEIGHT_FP8)
        return make_float2(__uint_as_float(unit[0]), __uint_as_float(unit[1]));
    else
        return make_float2(1.0f, 1.0f);
}

/* One group of T tiles: total[tile][set] += scaled product.  In floating point as one or two chains of products a tile, for the tensor
 * cores' latency; what a row adds up to depends on CHAINS, which therefore must not depend on the number of rows.  T may. */
template <int F, int P, int COLS, int T, int CHAINS, class STREAM>
__device__ __forceinline__ void group_product(float2 total[T][COLS], const group_frags<P, COLS> &f, STREAM &s)
{
    uint32_t scale[group_units<F>()][T];
    if constexpr (P == S8) {
        int32_t acc[T][COLS][4];
        uint4 v[T][2];
        s.take(v, scale[0]);
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int i = 0; i < T; i++) {
                const uint32_t *w = (const uint32_t *)&v[i][p / 2] + 2 * (p % 2), low = 0x0f0f0f0fu, high = 0xf0f0f0f0u;
                const uint32_t a[4] = {w[0] & low, w[0] & high, w[1] & low, w[1] & high};
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    const int32_t first[4] = {0, f.offset[c], 0, 16 * f.offset[c]};
                    mma_u8s8(acc[i][c], p ? acc[i][c] : first, a, f.b[c][p][0], f.b[c][p][1]);
                }
            }
#pragma unroll
        for (int i = 0; i < T; i++) {
            const uint32_t of[1] = {scale[0][i]};
            const float2 by = scales_of<F>(of);
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                total[i][c].x += by.x * f.scale[c] * (float)(256 * acc[i][c][0] + acc[i][c][1]);
                total[i][c].y += by.y * (f.scale[c] / 16) * (float)(256 * acc[i][c][2] + acc[i][c][3]);
            }
        }
    } else {
        constexpr int steps = line_steps<F>();
        float acc[T][CHAINS][COLS][4] = {};
#pragma unroll
        for (int unit = 0; unit < group_units<F>(); unit++) {
            uint4 v[T][2];
            s.take(v, scale[unit]);
#pragma unroll
            for (int st = 0; st < 2 * steps; st++)
#pragma unroll
                for (int i = 0; i < T; i++) {
                    uint32_t a[4];
                    unpack_offset<P, F>(a, v[i][st / steps], st % steps);
#pragma unroll
                    for (int c = 0; c < COLS; c++)
                        step_mma<P>(acc[i][st % CHAINS][c], a, f.b[c][unit * 2 * steps + st][0], f.b[c][unit * 2 * steps + st][1]);
                }
        }
        /* c0 c1 are row g, upper and lower half of token lane % 4; c2 c3 row g + 8 */
#pragma unroll
        for (int i = 0; i < T; i++) {
            uint32_t of[group_units<F>()];
#pragma unroll
            for (int u = 0; u < group_units<F>(); u++)
                of[u] = scale[u][i];
            const float2 by = scales_of<F>(of);
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                if (CHAINS == 2)
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        acc[i][0][c][k] += acc[i][CHAINS - 1][c][k];
                float off = 0, scale = 1;
                if constexpr (P == F16_SCALED)
                    scale = f.scale[c];
                else
                    off = F == WEIGHT_INT8 ? int8_offset(f.sum[c]) : 0;
                total[i][c].x += by.x * scale * (acc[i][0][c][0] + acc[i][0][c][1] - off);
                total[i][c].y += by.y * scale * (acc[i][0][c][2] + acc[i][0][c][3] - off);
            }
        }
    }
}

/* The warp's first gw groups of T tiles. */
template <int F, int P, int GW, int COLS, int T, int CHAINS, class STREAM>
__device__ __forceinline__ void tile_product(float2 total[T][COLS], const group_frags<P, COLS> f[GW], int gw, STREAM &s)
{
#pragma unroll
    for (int gi = 0; gi < GW; gi++) {
        if (gi >= gw)
            break;
        group_product<F, P, COLS, T, CHAINS>(total, f[gi], s);
    }
}

/* The threads of `team` neighbouring warps. */
__device__ __forceinline__ void team_sync(int team)
{
    if (team == STEP_WARPS)
        __syncthreads();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / 32 / team), "r"(32 * team) : "memory");
}

/* Keeps the totals of the n-th round of tiles.  Every so many rounds, and at the `last` one, adds up those of a team's warps, each of which
 * has some columns, and hands them to done(round, tile, set, v): v.x is row g, v.y row g + 8, of token 4 set + lane % 4.  Every warp
 * of the team must come here. */
template <int COLS, int T, int UNITS, class DONE>
__device__ __forceinline__ void keep_sums(struct step_shared<UNITS> *sm, int n, bool last, const float2 total[T][COLS], DONE done,
                                          int team = STEP_WARPS)
{
    enum { ROUNDS = STEP_SETS / (T * COLS) };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, kept = n % ROUNDS + 1, first = warp / team * team;
    __syncwarp();                       /* the input that was staged there has been read */
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
            ((float2 *)sm->own[warp])[(((kept - 1) * T + i) * COLS + c) * 32 + lane] = total[i][c];
    if (kept < ROUNDS && !last)
        return;
    team_sync(team);
#pragma unroll 1
    for (int k = warp - first; k < kept * T * COLS; k += team) {
        float2 v = make_float2(0, 0);
#pragma unroll
        for (int w = 0; w < STEP_WARPS; w++) {
            if (w >= team)
                break;
            const float2 o = ((const float2 *)sm->own[first + w])[k * 32 + lane];
            v.x += o.x;
            v.y += o.y;
        }
        done(n + 1 - kept + k / (T * COLS), k / COLS % T, k % COLS, v);
    }
    if (!last)
        team_sync(team);
}

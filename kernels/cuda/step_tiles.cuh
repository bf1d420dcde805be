/* The inner loop of every decode product: a thread block of 8 warps multiplies tiles of 16 weight rows with up to 8 rows of
 * activations.
 *
 * The columns are cut among the warps, and each warp keeps the activations of its columns in registers for all tiles that
 * come, as B fragments: column 2i of the 16x8x16 product is the upper half of row i, column 2i + 1 the lower half (two bf16, or
 * two fp16 for INT8 weights), so four rows in 16 bits of mantissa fit one instruction.  Weights stream from memory through a
 * ring of 1 KiB units per warp, in which every lane reads only what it has copied itself: no barrier, and the copies of the
 * first tiles start before the kernel in front has ended.  After a tile the warps' sums meet in shared memory, in fixed order.
 *
 * INT4 and INT8 are multiplied with an offset (128 + q, 1152 + q), which costs one instruction a register to unpack; the
 * offset times the sum of the activations is taken off at the end of a group.  What this loses, 2^-17 of the sum of magnitudes,
 * is less than the activations' own rounding. */
#ifndef Q35_KERNELS_CUDA_STEP_TILES_CUH
#define Q35_KERNELS_CUDA_STEP_TILES_CUH

#include "kernels/cuda/tiles.cuh"

enum {
    STEP_WARPS   = 8,
    STEP_THREADS = 32 * STEP_WARPS,
    STEP_UNIT    = 2 * PACK_LINE,       /* what a warp fetches at a time */
    STEP_UNITS   = 8,                   /* of a warp's ring: 64 KiB on a multiprocessor */
    STEP_PITCH   = 320,                 /* bytes of a staged row of 128 halves: quarter warps hit all banks */
};

template <int COLS, int T> struct step_shared {
    uint4  ring[STEP_WARPS][STEP_UNITS][64];
    float2 sums[2][STEP_WARPS][T * COLS][32];
};
struct step_staging {
    uint4  staged[STEP_WARPS][8 * STEP_PITCH / 16];
    float  square[2][STEP_WARPS][4];    /* by set of rows */
};

template <int F> __host__ __device__ constexpr int group_units() { return group_lines<F>() / 2; }
__device__ __forceinline__ int format_units(int f) { return pack_lines((enum weight_format)f) / 2; }
/* The offset that products carry. */
template <int F> __host__ __device__ constexpr float product_offset() { return F == WEIGHT_INT4 ? 136 : F == WEIGHT_INT8 ? 1152 : 0; }

/* HALF: products in fp16.  INT8 has them always; FP8 where the input is normed, since it unpacks in a third of the instructions;
 * inputs that are not normed could overflow. */
template <int F, bool HALF> __device__ __forceinline__ void unpack_offset(uint32_t a[4], const uint4 &v, int s)
{
    const uint32_t *w = (const uint32_t *)&v;
    static_assert(HALF ? F == WEIGHT_INT8 || F == WEIGHT_FP8 : F != WEIGHT_INT8, "no such product");
    if (F == WEIGHT_INT4)
        unpack_int4_biased(a, w[s]);
    else if (F == WEIGHT_INT8)
        unpack_int8_biased(a, w[2 * s], w[2 * s + 1]);
    else if (HALF)
        unpack_fp8_half(a, w[2 * s], w[2 * s + 1]);
    else
        unpack<F>(a, v, s);
}
template <bool HALF> __device__ __forceinline__ void step_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (HALF)
        mma_f16(c, a, b0, b1);
    else
        mma_bf16(c, a, b0, b1);
}

/* B fragments of GW groups of 128 columns: [set of 4 rows][group][k-step][b0, b1]; and the sum over a group of the
 * activations of row lane % 4 of each set. */
template <int GW, int COLS> struct step_frags {
    uint32_t b[COLS][GW][8][2];
    float    sum[COLS][GW];
};

template <bool HALF> __device__ __forceinline__ float fragment_sum(const uint32_t b[8][2])
{
    const uint32_t one = HALF ? 0x3c003c00u : 0x3f803f80u, a[4] = {one, one, one, one};
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int s = 0; s < 8; s++)
        step_mma<HALF>(c, a, b[s][0], b[s][1]);
    return c[0] + c[1];
}

/* Zeroes what frags_set() will not write of a warp's staging: rows from `rows` on. */
template <int ROWS> __device__ __forceinline__ void staging_clear(uint4 *staged)
{
    for (int i = 2 * ROWS * STEP_PITCH / 16 + threadIdx.x % 32; i < 8 * STEP_PITCH / 16; i += 32)
        staged[i] = make_uint4(0, 0, 0, 0);
}

/* Turns one group of ROWS <= 4 rows into fragments; u[i] holds columns 4 lane .. 4 lane + 3 of row i.  HALF: as fp16. */
template <int ROWS, bool HALF>
__device__ __forceinline__ void frags_set(uint32_t b[8][2], float *sum, const float4 u[ROWS], uint4 *staged)
{
    const int lane = threadIdx.x % 32;
    char *s = (char *)staged;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        uint32_t x, y, z, w;
        if (HALF)
            x = f16_split(u[i].x), y = f16_split(u[i].y), z = f16_split(u[i].z), w = f16_split(u[i].w);
        else
            x = bf16_split(u[i].x), y = bf16_split(u[i].y), z = bf16_split(u[i].z), w = bf16_split(u[i].w);
        *(uint2 *)(s + (2 * i) * STEP_PITCH + 8 * lane) = make_uint2(__byte_perm(x, y, 0x5410), __byte_perm(z, w, 0x5410));
        *(uint2 *)(s + (2 * i + 1) * STEP_PITCH + 8 * lane) = make_uint2(__byte_perm(x, y, 0x7632), __byte_perm(z, w, 0x7632));
    }
    __syncwarp();
#pragma unroll
    for (int p = 0; p < 4; p++) {
        uint4 v = *(uint4 *)(s + (lane / 4) * STEP_PITCH + 64 * p + 16 * (lane % 4));
        b[2 * p][0] = v.x;
        b[2 * p][1] = v.y;
        b[2 * p + 1][0] = v.z;
        b[2 * p + 1][1] = v.w;
    }
    *sum = fragment_sum<HALF>(b);
}

/* The units of a warp, tile after tile, T tiles side by side: with two there is twice the work between two barriers and between
 * two uses of a register.  SRC::next(&at, &pair) says where the warp's units of the next tile begin, how many bytes on those of
 * the tile beside it, and returns how many there are.  All but one of the ring's places are always under way, with nothing in
 * them at the end. */
template <class SRC, int T> struct step_stream {
    enum { PLACE = T * STEP_UNIT, LAST = (STEP_UNITS / T - 1) * PLACE };
    SRC            src;
    const uint8_t *at;                  /* next unit, this lane's bytes */
    uint32_t       pair;                /* bytes */
    uint32_t       ring, slot;          /* shared memory: this lane's bytes of place 0; offset of the place to fill next */
    int            remaining, left;     /* units still to fetch; of them in the tile at hand */
    int            under_way;           /* before the first take() */

    __device__ __forceinline__ void next()
    {
        left = src.next(&at, &pair);
        at += 16 * (threadIdx.x % 32);
    }
    __device__ __forceinline__ void issue()
    {
        if (remaining > 0) {
            const uint32_t s = ring + slot;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n cp.async.cg.shared.global [%0 + 512], [%1 + 512], 16;" ::"r"(s), "l"(at) : "memory");
            if (T == 2)
                asm volatile("cp.async.cg.shared.global [%0 + 1024], [%1], 16;\n cp.async.cg.shared.global [%0 + 1536], [%1 + 512], 16;" ::"r"(s), "l"(at + pair) : "memory");
            at += STEP_UNIT;
            remaining--;
            if (--left == 0 && remaining > 0)
                next();
        }
        copy_commit();
        slot = slot == LAST ? 0 : slot + PLACE;
    }
    /* n more units come. */
    __device__ __forceinline__ void extend(int n)
    {
        remaining += n;
        if (left == 0 && remaining > 0)
            next();
#pragma unroll 1
        for (; under_way < STEP_UNITS / T - 1 && remaining > 0; under_way++)
            issue();
    }
    __device__ __forceinline__ void start(uint4 *warp_ring, int n)
    {
        ring = (uint32_t)__cvta_generic_to_shared(warp_ring + threadIdx.x % 32);
        slot = 0;
        remaining = left = under_way = 0;
        extend(n);
    }
    /* All units are known: before the first take(). */
    __device__ __forceinline__ void ready()
    {
#pragma unroll 1
        for (; under_way < STEP_UNITS / T - 1; under_way++)
            copy_commit(), slot = slot == LAST ? 0 : slot + PLACE;
    }
    __device__ __forceinline__ void take(uint4 v[T][2])
    {
        const uint32_t s = ring + (slot == LAST ? 0 : slot + PLACE);
        copy_wait<STEP_UNITS / T - 2>();
#pragma unroll
        for (int i = 0; i < T; i++) {
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i][0].x), "=r"(v[i][0].y), "=r"(v[i][0].z), "=r"(v[i][0].w) : "r"(s + i * STEP_UNIT) : "memory");
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4 + 512];" : "=r"(v[i][1].x), "=r"(v[i][1].y), "=r"(v[i][1].z), "=r"(v[i][1].w) : "r"(s + i * STEP_UNIT) : "memory");
        }
        issue();
    }
};

/* One unit of T tiles, as one or two chains of products a tile, for the tensor cores' latency.  b: the k-steps covered. */
template <int F, bool HALF, int COLS, int T, int CHAINS, class B>
__device__ __forceinline__ void unit_product(float acc[T][CHAINS][COLS][4], const uint4 v[T][2], B b)
{
    constexpr int steps = line_steps<F>();
#pragma unroll
    for (int st = 0; st < 2 * steps; st++)
#pragma unroll
        for (int i = 0; i < T; i++) {
            uint32_t a[4];
            unpack_offset<F, HALF>(a, v[i][st / steps], st % steps);
#pragma unroll
            for (int c = 0; c < COLS; c++)
                step_mma<HALF>(acc[i][st % CHAINS][c], a, b(c, st)[0], b(c, st)[1]);
        }
}

/* The end of a group: c0 c1 are row g, upper and lower half of token lane % 4; c2 c3 row g + 8. */
template <int F, int COLS, int CHAINS>
__device__ __forceinline__ void group_end(float2 total[COLS], float acc[CHAINS][COLS][4], const float sum[COLS], float2 scale)
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (CHAINS == 2)
#pragma unroll
            for (int k = 0; k < 4; k++)
                acc[0][c][k] += acc[CHAINS - 1][c][k];
        const float off = product_offset<F>() * sum[c];
        total[c].x += scale.x * (acc[0][c][0] + acc[0][c][1] - off);
        total[c].y += scale.y * (acc[0][c][2] + acc[0][c][3] - off);
    }
}

/* T tiles over the warp's first gw groups: total[tile][set] += scaled product.  after(gi) is called when the scales of group gi have
 * been used: it may fetch the next tiles' into their place.  What a row adds up to depends on CHAINS, which
 * therefore must not depend on the number of rows; T may. */
template <int F, bool HALF, int GW, int COLS, int T, int CHAINS, class SRC, class AFTER>
__device__ __forceinline__ void tile_product(float2 total[T][COLS], const step_frags<GW, COLS> &f, int gw, const group_scales<F> scale[T][GW], step_stream<SRC, T> &s, AFTER after)
{
#pragma unroll
    for (int gi = 0; gi < GW; gi++) {
        if (gi >= gw)
            break;
        float acc[T][CHAINS][COLS][4] = {}, sum[COLS];
#pragma unroll
        for (int unit = 0; unit < group_units<F>(); unit++) {
            uint4 v[T][2];
            s.take(v);
            unit_product<F, HALF, COLS, T, CHAINS>(acc, v, [&](int c, int st) { return f.b[c][gi][unit * 2 * line_steps<F>() + st]; });
        }
#pragma unroll
        for (int c = 0; c < COLS; c++)
            sum[c] = f.sum[c][gi];
#pragma unroll
        for (int i = 0; i < T; i++)
            group_end<F, COLS, CHAINS>(total[i], acc[i], sum, scale[i][gi].get());
        after(gi);
    }
}

/* Adds up the totals of `warps` warps of the n-th round of tiles and hands them to `done(tile, set, v)` in one warp each: v.x is row g,
 * v.y row g + 8, of token 4 set + lane % 4.  One barrier: the buffers alternate. */
template <int COLS, int T, class DONE>
__device__ __forceinline__ void tile_reduce(step_shared<COLS, T> *sm, int n, int warps, const float2 total[T][COLS], DONE done)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
            sm->sums[n & 1][warp][i * COLS + c][lane] = total[i][c];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < T * COLS; k++) {
        if (warp != (n * T * COLS + k) % warps)
            continue;
        float2 v = make_float2(0, 0);
#pragma unroll
        for (int w = 0; w < STEP_WARPS; w++)
            if (w < warps) {
                float2 o = sm->sums[n & 1][w][k][lane];
                v.x += o.x;
                v.y += o.y;
            }
        done(k / COLS, k % COLS, v);
    }
}

#endif

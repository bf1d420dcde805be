/* The inner loop of every decode product: a thread block of 8 warps multiplies tiles of 16 weight rows with up to 8 rows of
 * activations.
 *
 * The columns are cut among the warps, and each warp keeps the activations of its columns in registers for all tiles that
 * come, as B fragments: column 2i of the 16x8x16 product is the upper bf16 half of row i, column 2i + 1 the lower half, so
 * four rows in 16 bits of mantissa fit one instruction.  Weights stream from memory through a ring of 512-byte lines per
 * warp, in which every lane reads only what it has copied itself: no barrier, and the copies of the first tiles start before
 * the kernel in front has ended.  After a tile the warps' sums meet in shared memory, in fixed order. */
#ifndef Q35_KERNELS_CUDA_STEP_TILES_CUH
#define Q35_KERNELS_CUDA_STEP_TILES_CUH

#include "kernels/cuda/tiles.cuh"

enum {
    STEP_WARPS   = 8,
    STEP_THREADS = 32 * STEP_WARPS,
    STEP_LINES   = 12,                  /* ring of a warp: 6 KiB, 48 KiB in flight on a multiprocessor */
    STEP_PITCH   = 320,                 /* bytes of a staged row of 128 bf16: quarter warps hit all banks */
};

template <int COLS> struct step_shared {
    uint4  ring[STEP_WARPS][STEP_LINES][32];
    uint4  staged[STEP_WARPS][8 * STEP_PITCH / 16];
    float2 sums[2][STEP_WARPS][COLS][32];
    float  square[STEP_WARPS][4];
};

/* B fragments of GW groups of 128 columns: [set of 4 rows][group][k-step][b0, b1]. */
template <int GW, int COLS> struct step_frags {
    uint32_t b[COLS][GW][8][2];
};

/* Turns one group of four rows into fragments; u[i] holds columns 4 lane .. 4 lane + 3 of row i. */
template <int GW, int COLS>
__device__ __forceinline__ void frags_set(step_frags<GW, COLS> &f, int set, int group, const float4 u[4], uint4 *staged, int lane)
{
    char *s = (char *)staged;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t x = bf16_split(u[i].x), y = bf16_split(u[i].y), z = bf16_split(u[i].z), w = bf16_split(u[i].w);
        *(uint2 *)(s + (2 * i) * STEP_PITCH + 8 * lane) = make_uint2(__byte_perm(x, y, 0x5410), __byte_perm(z, w, 0x5410));
        *(uint2 *)(s + (2 * i + 1) * STEP_PITCH + 8 * lane) = make_uint2(__byte_perm(x, y, 0x7632), __byte_perm(z, w, 0x7632));
    }
    __syncwarp();
#pragma unroll
    for (int p = 0; p < 4; p++) {
        uint4 v = *(uint4 *)(s + (lane / 4) * STEP_PITCH + 64 * p + 16 * (lane % 4));
        f.b[set][group][2 * p][0] = v.x;
        f.b[set][group][2 * p][1] = v.y;
        f.b[set][group][2 * p + 1][0] = v.z;
        f.b[set][group][2 * p + 1][1] = v.w;
    }
}

/* The lines of a warp, tile after tile.  SRC::next(at) says where the warp's lines of the next tile begin and returns how many
 * there are.  While there are more, STEP_LINES - 1 are under way. */
template <class SRC> struct step_stream {
    SRC            src;
    uint4         *ring;                /* this lane's slot 0 */
    const uint8_t *at;                  /* next line, this lane's bytes */
    int            tiles, left;         /* tiles not begun; lines left of the one begun */
    int            in, out, under_way;  /* ring positions */

    __device__ __forceinline__ void find()
    {
        while (left == 0 && tiles > 0) {
            tiles--;
            left = src.next(&at);
            at += 16 * (threadIdx.x % 32);
        }
    }
    __device__ __forceinline__ void issue()
    {
        if (left == 0)
            return;
        copy16(ring + 32 * in, at);
        copy_commit();
        in = in == STEP_LINES - 1 ? 0 : in + 1;
        under_way++;
        at += PACK_LINE;
        left--;
        find();
    }
    /* n more tiles come. */
    __device__ __forceinline__ void extend(int n)
    {
        tiles += n;
        find();
        while (under_way < STEP_LINES - 1 && left)
            issue();
    }
    __device__ __forceinline__ void start(uint4 *warp_ring, int n)
    {
        ring = warp_ring + threadIdx.x % 32;
        tiles = left = in = out = under_way = 0;
        extend(n);
    }
    __device__ __forceinline__ uint4 take()
    {
        if (left)
            copy_wait<STEP_LINES - 2>();
        else
            copy_wait<0>();
        uint4 v = ring[32 * out];
        out = out == STEP_LINES - 1 ? 0 : out + 1;
        under_way--;
        issue();
        return v;
    }
};

/* One tile over the warp's first gw groups: total[set] += scaled product.  c0 c1: row g, upper and lower half of token
 * lane % 4; c2 c3: row g + 8. */
template <int F, int GW, int COLS, class SRC>
__device__ __forceinline__ void tile_product(float2 total[COLS], const step_frags<GW, COLS> &f, int gw, const group_scales<F> scale[GW],
                                             step_stream<SRC> &s)
{
#pragma unroll
    for (int gi = 0; gi < GW; gi++) {
        if (gi >= gw)
            break;
        float acc[COLS][4] = {};
#pragma unroll
        for (int l = 0; l < group_lines<F>(); l++) {
            uint4 v = s.take();
#pragma unroll
            for (int st = 0; st < line_steps<F>(); st++) {
                uint32_t a[4];
                unpack<F>(a, v, st);
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    mma_bf16(acc[c], a, f.b[c][gi][l * line_steps<F>() + st][0], f.b[c][gi][l * line_steps<F>() + st][1]);
            }
        }
        const float2 by = scale[gi].get();
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            total[c].x += by.x * (acc[c][0] + acc[c][1]);
            total[c].y += by.y * (acc[c][2] + acc[c][3]);
        }
    }
}

/* Adds up the warps' totals of the i-th tile and hands them to `done(set, v)` in one warp per set: v.x is row g, v.y row
 * g + 8, of token 4 set + lane % 4.  One barrier: the buffers alternate. */
template <int COLS, class DONE>
__device__ __forceinline__ void tile_reduce(step_shared<COLS> *sm, int i, const float2 total[COLS], DONE done)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int c = 0; c < COLS; c++)
        sm->sums[i & 1][warp][c][lane] = total[c];
    __syncthreads();
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        if (warp != (i * COLS + c) % STEP_WARPS)
            continue;
        float2 v = make_float2(0, 0);
#pragma unroll
        for (int w = 0; w < STEP_WARPS; w++) {
            float2 o = sm->sums[i & 1][w][c][lane];
            v.x += o.x;
            v.y += o.y;
        }
        done(c, v);
    }
}

#endif

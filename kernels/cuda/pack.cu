/* pack: pieces of stored tensors, as they come from disk, to their places in packed matrices; kernels/pack_piece.h has the arithmetic.
 * Shapes    up to a thousand pieces of any kind per launch, some MiB together
 * Bytes     stored bytes are read once (to INT8 and FP8: twice, the second time from L2); as many are written, or half of them, or a quarter
 * Limit     the disk or the bus: 10 to 50 GB/s.  Halves of a pair are ORed into L2, 8 bytes per operation
 * Launch    blocks of 256 threads, one for each 16 packed bytes; a block finds its piece by bisection.  To INT8: one block per tile; to FP8 and
 *           INT4: one per 128 x 128 numbers
 * Layout    in: as in the checkpoint, aligned to elements; out: kernels/pack.h, or plain rows
 * Numerics  the same bits as kernels/cpu/pack.c, model/int8.c, model/fp8.c and model/int4.c */
#include "kernels/cuda/common.cuh"
extern "C" {
#include "kernels/pack_piece.h"
}
#include "kernels/planes.h"

/* The scale of a row of the piece, found by a warp. */
static __device__ uint16_t plane_scale(const struct pack_piece *p, int row)
{
    const uint64_t at = (uint64_t)row * (unsigned)p->cols;
    uint32_t top = 0;
    for (int k = threadIdx.x % 32; k < p->cols; k += 32)
        top = max(top, pack_load(p->src, p->dtype, at + (unsigned)k) & 0x7fffffff);
    return pack_int8_scale(__reduce_max_sync(~0u, top));
}

static __device__ int64_t warp_total(int64_t v)
{
    for (int m = 16; m; m >>= 1)
        v += __shfl_xor_sync(~0u, (long long)v, m);
    return v;
}

/* The struct plane_row of a row, from exact sums, in fp64, found by a warp. */
static __device__ struct plane_row plane_row(const struct pack_piece *p, int row, uint16_t scale)
{
    const uint64_t at = (uint64_t)row * (unsigned)p->cols;
    struct plane_sums s = {};
    for (int k = threadIdx.x % 32; k < p->cols; k += 32)
        plane_add(&s, (int8_t)pack_int8_value(pack_load(p->src, p->dtype, at + (unsigned)k), scale));
    s = {warp_total(s.n), warp_total(s.q), warp_total(s.qq), warp_total(s.l), warp_total(s.ll), warp_total(s.ql)};
    return plane_row_of(&s, scale);
}

/* Reads the tile three times, the second and third time from L2. */
static __device__ void planes_tile(const struct pack_piece *p, int tile)
{
    __shared__ uint16_t scale[16];
    for (int r = threadIdx.x / 32; r < min(16, p->n - tile * 16); r += PACK_THREADS / 32) {
        const uint16_t of = plane_scale(p, tile * 16 + r);
        const struct plane_row about = plane_row(p, tile * 16 + r, of);
        if (threadIdx.x % 32 == 0) {
            *pack_plane_row_at(p, tile, r) = about;
            scale[r] = of;
        }
    }
    __syncthreads();
    for (unsigned u = threadIdx.x; u < (unsigned)pack_up(p->cols, 128) * 2 * 32; u += PACK_THREADS)
        pack_planes_unit(p, tile, u, scale);
}

/* Packs a tile of the INT8 head: scales by the greatest number of each row, then the codes. */
static __device__ void int8_tile(const struct pack_piece *p, int tile)
{
    __shared__ uint16_t scale[16];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = min(16, p->n - tile * 16);
    for (int r = warp; r < rows; r += PACK_THREADS / 32) {
        uint64_t at = (uint64_t)(tile * 16 + r) * (unsigned)p->cols;
        uint32_t top = 0;
        for (int k = lane; k < p->cols; k += 32)
            top = max(top, pack_load(p->src, p->dtype, at + (unsigned)k) & 0x7fffffff);
        for (int m = 16; m; m >>= 1)
            top = max(top, __shfl_xor_sync(~0u, top, m));
        if (lane == 0)
            *pack_int8_scale_at(p, tile, r) = scale[r] = pack_int8_scale(top);
    }
    __syncthreads();
    unsigned units = (unsigned)pack_up(p->cols, 128) * 4 * 32;
    for (unsigned u = threadIdx.x; u < units; u += PACK_THREADS)
        pack_int8_unit(p, tile, u, scale);
}

/* A function of its own, since within the kernel it would make other kinds spill registers. */
static __device__ __noinline__ void fp8_block(const struct pack_piece *p, int block)
{
    __shared__ uint32_t most[PACK_THREADS / 32];
    const uint32_t top = __reduce_max_sync(~0u, pack_fp8_max(p, block, (int)threadIdx.x, PACK_THREADS));
    if (threadIdx.x % 32 == 0)
        most[threadIdx.x / 32] = top;
    __syncthreads();
    uint32_t max = 0;
    for (int i = 0; i < PACK_THREADS / 32; i++)
        max = most[i] > max ? most[i] : max;
    pack_fp8_block(p, block, max, (int)threadIdx.x, PACK_THREADS);
}

/* Returns the scale that pack_int4_best() would choose for the 128 numbers of a warp, four a lane. */
static __device__ uint16_t int4_scale(const float x[4])
{
    uint32_t key = 0;
    for (int j = 0; j < 4; j++)
        key = max(key, pack_int4_key(f32_bits(x[j])));
    const uint32_t top = pack_int4_top(__reduce_max_sync(~0u, key));
    uint16_t best = pack_int4_scale(top, 0);
    float least = INFINITY;
    for (int i = 0; i < PACK_INT4_SCALES; i++) {
        const uint16_t scale = pack_int4_scale(top, i);
        float e = pack_int4_error(x, scale);
        for (int m = 16; m; m >>= 1)
            e += __shfl_xor_sync(~0u, e, m);
        best = e < least ? scale : best;
        least = e < least ? e : least;
    }
    return best;
}

/* Packs a block of rows as INT4, one group of 128 columns. */
static __device__ __noinline__ void int4_block(const struct pack_piece *p, int block)
{
    const int groups = pack_groups(p->cols), group = block % groups, row = block / groups * PACK_BLOCK, of_tile = p->half == PACK_WHOLE ? 16 : 8;
    const int tiles = pack_up(min(p->n - row, (int)PACK_BLOCK), of_tile), first = (p->first + row) / of_tile;
    const int g = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int tile = first; tile < first + tiles; tile++) {
        uint32_t word = 0;
        for (int h = 0; h < 2; h++) {
            const int at = pack_row(p, tile, g, h) - p->first;
            if (at < 0) {
                word |= pack_int4_beyond(p, h);
                continue;
            }
            float x[4];
            pack_int4_load(p, at, group, lane, x);
            const uint16_t scale = int4_scale(x);
            word |= pack_int4_part(pack_int4_nibbles(x, scale), h);
            if (lane == 0)
                pack_int4_put_scale(p, tile, group, g, h, scale);
        }
        pack_int4_put(p, tile, group, g, lane, word);
    }
}

/* Finds the piece that this block belongs to and packs its part. */
static __global__ void __launch_bounds__(PACK_THREADS) pack_kernel(const struct pack_piece *pieces, int n)
{
    int low = 0, high = n - 1;
    while (low < high) {
        int mid = (low + high + 1) / 2;
        if (pieces[mid].first_block <= blockIdx.x)
            low = mid;
        else
            high = mid - 1;
    }
    struct pack_piece p = pieces[low];
    unsigned block = blockIdx.x - (unsigned)p.first_block;
    if (p.kind == PACK_PLANES) {
        planes_tile(&p, (int)block);
        return;
    }
    if (p.kind == PACK_INT8) {
        int8_tile(&p, (int)block);
        return;
    }
    if (p.kind == PACK_DENSE_FP8) {
        fp8_block(&p, (int)block);
        return;
    }
    if (p.kind == PACK_DENSE_INT4) {
        int4_block(&p, (int)block);
        return;
    }
    uint64_t u = (uint64_t)block * PACK_THREADS + threadIdx.x;
    if (u < pack_units(&p))
        pack_unit(&p, u);
}

extern "C" void pack_cuda(struct cuda_queue *q, const struct pack_args *a)
{
    launch(q, "pack", pack_kernel, dim3((unsigned)a->n_blocks), PACK_THREADS, 0, false, a->pieces, a->n);
}

/* patch_attention: full attention of the patches of a picture, heads of 16, 32, 64 or 72.
 * Shapes    q, k, v [n_heads, n, dim] bf16, y [n_rows, n_heads, dim] fp32, or for a product alone fp16 with one factor for all rows (halves.cuh)
 * Bytes     K and V once per 128 rows, from L2: 4096 patches of 16 heads of 72 have 19 MB of them
 * Limit     tensor cores: 4 * dim flops per head and pair of patches; 4096 patches of 16 heads of 72: 77 GFLOP.  The exponentials are almost as
 *           limiting: 16 per clock and multiprocessor, half of the time of the products of a head of 72
 * Launch    128 rows per block of 4 warps, two blocks a multiprocessor; grid (row blocks, heads).  A warp has 32 rows, so that an operand from shared
 *           memory serves two products.  K and V come in tiles of 64 patches, two stages; q passes through the second stage into registers
 * Layout    rows in shared memory are an odd number of 16-byte pieces apart: the eight rows of an ldmatrix phase are in eight bank groups.  Products
 *           with q take dim in steps of 16 and one of 8
 * Numerics  q, k, v and weights in bf16, logits, softmax and sums in fp32 (online, base 2, tile after tile from 0); within 1e-2 relative L2 of
 *           cpu/vision.c, the bits of a row do not depend on the other rows of the call */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/halves.cuh"

enum { WARPS = 4, THREADS = WARPS * 32, ROWS = 128, TILE = 64 };

/* A head of D numbers: 16-byte pieces of a row, and bytes from one row to the next in shared memory. */
template <int D> struct head {
    static constexpr int PIECES = D / 8, PITCH = (PIECES | 1) * 16, STEPS = D / 16;
    static constexpr bool TAIL = D % 16;                /* a step of 8 */
    static constexpr int SIDE = TILE * PITCH, STAGE = 2 * SIDE, BYTES = 2 * STAGE;      /* K, then V */
    static_assert(D % 8 == 0 && D <= 72 && STAGE == ROWS * PITCH, "rows of q fill a stage");
    static_assert(BYTES <= 99 * 1024 / 2, "two blocks on a multiprocessor of a GB10");
};

static __device__ __forceinline__ void ldmatrix2(uint32_t r[2], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void ldmatrix2_trans(uint32_t r[2], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
/* c += a b, 16x8x8 */
static __device__ __forceinline__ void mma_bf16_half(float c[4], uint32_t a0, uint32_t a1, uint32_t b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b));
}

/* Copies N rows of a head from row r0 on; zeros from row `end` on. */
template <int D, int N> static __device__ __forceinline__ void fetch(char *to, const uint16_t *rows, int r0, int end)
{
    using H = head<D>;
    const char *from = (const char *)(rows + (size_t)r0 * D);
    const int here = (end - r0) * H::PIECES;
#pragma unroll
    for (int i0 = 0; i0 < N * H::PIECES; i0 += THREADS) {
        const int i = i0 + (int)threadIdx.x;
        if (N * H::PIECES % THREADS && i >= N * H::PIECES)
            break;
        char *at = H::PITCH == H::PIECES * 16 ? to + i * 16 : to + i / H::PIECES * H::PITCH + i % H::PIECES * 16;
        copy16_if(at, i < here ? from + (size_t)i * 16 : from, i < here);
    }
}
template <int D> static __device__ __forceinline__ void fetch_tile(char *stage, const uint16_t *k, const uint16_t *v, int p0, int n)
{
    fetch<D, TILE>(stage, k, p0, n);
    fetch<D, TILE>(stage + head<D>::SIDE, v, p0, n);
}

/* Attention between the patches of a picture: a block has ROWS patches of one head, over all patches.  undo: factors of the rows of y, which is then
 * in fp16 (halves.cuh), since no number of it is greater than the greatest of v; or NULL. */
template <int D> static __global__ void __launch_bounds__(THREADS, 2) patch_attention_kernel(const struct patch_attention_args a, float *undo)
{
    using H = head<D>;
    extern __shared__ __align__(128) char smem[];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int row0 = (int)blockIdx.x * ROWS, n_tiles = (a.n + TILE - 1) / TILE;
    const size_t base = (size_t)blockIdx.y * (size_t)a.n * D;
    const uint16_t *k = (const uint16_t *)a.k + base, *v = (const uint16_t *)a.v + base;
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(smem);

    gpu_wait();
    gpu_next();
    fetch<D, ROWS>(smem + H::STAGE, (const uint16_t *)a.q + base, a.first + row0, a.first + a.n_rows);
    copy_commit();
    fetch_tile<D>(smem, k, v, 0, a.n);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    uint32_t q[2][H::STEPS][4], q_tail[2][2];
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const uint32_t at = shared + H::STAGE + (uint32_t)(warp * 32 + m * 16 + lane % 16) * H::PITCH;
#pragma unroll
        for (int s = 0; s < H::STEPS; s++)
            ldmatrix(q[m][s], at + (uint32_t)(2 * s + lane / 16) * 16);
        if (H::TAIL)
            ldmatrix2(q_tail[m], at + (H::PIECES - 1) * 16);
    }

    const float unit = a.scale * 1.4426950408889634f;
    float o[2][H::PIECES][4] = {}, max[2][2], sum[2][2] = {};
    max[0][0] = max[0][1] = max[1][0] = max[1][1] = -INFINITY;
    /* Places of a lane's rows in a tile: of keys one piece a matrix, of values 16 patches and two pieces. */
    const uint32_t k_row = shared + (uint32_t)(lane % 8) * H::PITCH + (uint32_t)(lane / 8) * 16;
    const uint32_t k_tail = shared + (uint32_t)lane * H::PITCH + (H::PIECES - 1) * 16;
    const uint32_t v_row = shared + H::SIDE + (uint32_t)(lane % 16) * H::PITCH + (uint32_t)(lane / 16) * 16;

#pragma unroll 1
    for (int i = 0; i < n_tiles; i++) {
        const uint32_t at = (uint32_t)(i % 2) * H::STAGE;
        copy_wait<0>();
        __syncthreads();                /* tile i has arrived, and all warps have finished what was in the other stage */
        if (i + 1 < n_tiles)
            fetch_tile<D>(smem + ((i + 1) % 2) * H::STAGE, k, v, (i + 1) * TILE, a.n);
        copy_commit();

        /* logits of 64 patches, 32 at a time: eight products that do not wait for each other */
        float s[2][TILE / 8][4] = {};
#pragma unroll
        for (int n = 0; n < TILE / 8; n += 4) {
            const uint32_t keys = at + k_row + n * 8 * H::PITCH;
#pragma unroll
            for (int step = 0; step + 1 < H::STEPS; step += 2) {
                uint32_t b[4][4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    ldmatrix(b[j], keys + j * 8 * H::PITCH + step * 32);
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
#pragma unroll
                        for (int m = 0; m < 2; m++)
                            mma_bf16(s[m][n + j], q[m][step + h], b[j][2 * h], b[j][2 * h + 1]);
            }
            if (H::STEPS % 2) {
                uint32_t b[4][2];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    ldmatrix2(b[j], keys + j * 8 * H::PITCH + (H::STEPS - 1) * 32);
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int m = 0; m < 2; m++)
                        mma_bf16(s[m][n + j], q[m][H::STEPS - 1], b[j][0], b[j][1]);
            }
            if (H::TAIL) {
                uint32_t b[4];
                ldmatrix(b, at + k_tail + n * 8 * H::PITCH);
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int m = 0; m < 2; m++)
                        mma_bf16_half(s[m][n + j], q_tail[m][0], q_tail[m][1], b[j]);
            }
        }
        if ((i + 1) * TILE > a.n)
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (i * TILE + 8 * n + 2 * t + e >= a.n)
                        s[0][n][e] = s[0][n][2 + e] = s[1][n][e] = s[1][n][2 + e] = -INFINITY;

        /* a greater maximum: rescales the sums so far */
        float top[2][2];
        bool greater = false;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float x = max[m][r];
#pragma unroll
                for (int n = 0; n < TILE / 8; n++)
                    x = fmaxf(x, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
                top[m][r] = quad_max(x);
                greater |= top[m][r] > max[m][r];
            }
        if (__any_sync(~0u, greater))
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const float keep = exp2_fast((max[m][r] - top[m][r]) * unit);
                    sum[m][r] *= keep;
                    max[m][r] = top[m][r];
#pragma unroll
                    for (int d = 0; d < H::PIECES; d++) {
                        o[m][d][2 * r] *= keep;
                        o[m][d][2 * r + 1] *= keep;
                    }
                }

        /* 16 patches at a time: weights, as A fragments, and sums of V */
#pragma unroll
        for (int step = 0; step < TILE / 16; step++) {
            uint32_t w[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const int n = 2 * step + c / 2, r = c % 2;
                    const float from = -max[m][r] * unit;
                    const float lo = exp2_fast(fmaf(s[m][n][2 * r], unit, from)), hi = exp2_fast(fmaf(s[m][n][2 * r + 1], unit, from));
                    sum[m][r] += lo + hi;
                    w[m][c] = bf16_pair(lo, hi);
                }
            const uint32_t values = at + v_row + step * 16 * H::PITCH;
#pragma unroll
            for (int d = 0; d + 1 < H::PIECES; d += 2) {
                uint32_t b[4];
                ldmatrix_trans(b, values + d * 16);
#pragma unroll
                for (int m = 0; m < 2; m++)
                    mma_bf16(o[m][d], w[m], b[0], b[1]);
#pragma unroll
                for (int m = 0; m < 2; m++)
                    mma_bf16(o[m][d + 1], w[m], b[2], b[3]);
            }
            if (H::PIECES % 2) {
                uint32_t b[2];
                ldmatrix2_trans(b, values - (uint32_t)(lane / 16) * 16 + (H::PIECES - 1) * 16);
#pragma unroll
                for (int m = 0; m < 2; m++)
                    mma_bf16(o[m][H::PIECES - 1], w[m], b[0], b[1]);
            }
        }
    }

    /* the result, divided by the sum of weights */
    float back = 1;
    const float factor = undo ? halves_factor(*a.most, &back) : 1;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = row0 + warp * 32 + m * 16 + r * 8 + g;
            float all = sum[m][r] + __shfl_xor_sync(~0u, sum[m][r], 1);
            all += __shfl_xor_sync(~0u, all, 2);
            if (row >= a.n_rows)
                continue;
            const size_t at = ((size_t)row * (size_t)a.n_heads + blockIdx.y) * D + 2 * t;
            const float by = factor / all;
            if (undo && blockIdx.y == 0 && t == 0)
                undo[row] = back;
#pragma unroll
            for (int d = 0; d < H::PIECES; d++) {
                const float2 two = make_float2(o[m][d][2 * r] * by, o[m][d][2 * r + 1] * by);
                if (undo)
                    *(uint32_t *)((uint16_t *)a.y + at + d * 8) = f16_pair(two.x, two.y);
                else
                    *(float2 *)(a.y + at + d * 8) = two;
            }
        }
}

template <int D> static void run(struct cuda_queue *q, const struct patch_attention_args *a)
{
    const dim3 grid((unsigned)((a->n_rows + ROWS - 1) / ROWS), (unsigned)a->n_heads);
    const int cols = a->n_heads * D;
    const bool own = a->next && a->most && gemm_halves(a->n_rows) == 1 && cols % PACK_GROUP == 0 && a->next->cols == cols && !linear_narrow(a->next);
    float *undo = own ? (float *)((char *)a->y + gemm_factors_at((size_t)a->n_rows, cols)) : NULL;
    launch(q, "patch_attention", patch_attention_kernel<D>, grid, THREADS, head<D>::BYTES, true, *a, undo);
    if (own)
        halves_left(q, a->y, undo, a->n_rows, cols, (const char *)a->y);
}

extern "C" void patch_attention_cuda(struct cuda_queue *q, const struct patch_attention_args *a)
{
    if (a->dtype != DT_BF16 || !patch_attention_dim(a->dim))
        queue_note(q, "patch_attention", cudaErrorInvalidValue);
    else if (a->dim == 72)
        run<72>(q, a);
    else if (a->dim == 64)
        run<64>(q, a);
    else if (a->dim == 32)
        run<32>(q, a);
    else
        run<16>(q, a);
}

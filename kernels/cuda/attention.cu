/* attention: prompt rows over the KV cache of a layer, bf16 rows of 256, causal.
 * Shapes    q, y [n, n_q_heads, 256] fp32, k and v [n_ctx, n_kv_heads, 256] bf16
 * Bytes     K and V once for every 128 / (query heads a KV head) tokens, mostly from L2: 8 tokens of the 122B
 * Limit     tensor cores: 4 * 256 flops a query head and position; 4096 tokens after 124K of the 122B: 17 TFLOP a layer
 * Launch    128 rows (token, query head of one KV head) a block of 8 warps, 16 rows a warp; grid (n_kv_heads, token blocks), the
 *           longest first; shared memory: 3 or 4 stages of 32 positions, 32 KiB each, by cp.async; one barrier a stage
 * Layout    rows of 512 bytes, 16-byte piece c of row r at c ^ (r & 7): the eight rows of an ldmatrix phase lie in eight bank
 *           groups, and so do the copies.  A warp keeps q (64 registers) and its 16x256 outputs (128); a position's K and V come
 *           as B fragments, two cycles of shared memory for each m16n8k16
 * Numerics  q and weights in bf16, logits, softmax and sums in fp32 (online, base 2, 32 positions at a time from 0); within 1e-2
 *           relative L2 of cpu/attention.c, same bits whatever the other rows of the call */
#include "kernels/cuda/common.cuh"

enum {
    DIM = 256, ROWS = 128, WARPS = 8, TILE = 32,
    ROW_BYTES = DIM * 2,
    STAGE = 2 * TILE * ROW_BYTES,       /* K, then V */
    MORE = ROWS * 4,                    /* behind the stages */
};

static __device__ __forceinline__ void ldmatrix(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void ldmatrix_trans(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
    return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
static __device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

/* Positions p0 .. p0 + 31 of one KV head; zeros after `last`.  Warp w copies rows w, w + 8, ... */
static __device__ __forceinline__ void fetch(char *stage, const struct attention_args &a, int p0, int last)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, row = a.kv.n_kv_heads * DIM;
    char *to = stage + warp * ROW_BYTES + ((lane ^ warp) << 4);
#pragma unroll
    for (int i = 0; i < TILE / WARPS; i++) {
        int p = p0 + warp + i * WARPS;
        size_t at = (size_t)min(p, last) * (size_t)row + (blockIdx.x * DIM + (unsigned)lane * 8);
        copy16_if(to + i * WARPS * ROW_BYTES, (const uint16_t *)a.kv.k + at, p <= last);
        copy16_if(to + (TILE + i * WARPS) * ROW_BYTES, (const uint16_t *)a.kv.v + at, p <= last);
    }
}

template <int STAGES> static __global__ __launch_bounds__(WARPS * 32, 1) void attention_kernel(struct attention_args a)
{
    extern __shared__ __align__(1024) char smem[];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int group = a.n_q_heads / a.kv.n_kv_heads, tokens = ROWS / group;
    const int head0 = (int)blockIdx.x * group, t0 = (int)(gridDim.y - 1 - blockIdx.y) * tokens;
    const int n = min(tokens, a.n_tokens - t0), last = a.pos + t0 + n - 1, n_tiles = last / TILE + 1;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);

    int *limit = (int *)(smem + STAGES * STAGE);        /* last position that a row sees; in memory for want of registers */
    fetch(smem, a, 0, last);
    copy_commit();
    if (threadIdx.x < ROWS)
        limit[threadIdx.x] = a.pos + t0 + (int)threadIdx.x / group;

    /* A warp's 16 rows of q through stages 1 and 2 into A fragments; rows that do not exist are 0. */
    char *mine = smem + STAGE + warp * 16 * ROW_BYTES;
    for (int r = 0; r < 16; r++) {
        int m = warp * 16 + r, tok = m / group;
        uint4 bits = make_uint4(0, 0, 0, 0);
        if (tok < n) {
            const float4 *x = (const float4 *)(a.q + (size_t)(t0 + tok) * a.q_token + (size_t)(head0 + m % group) * a.q_head) + 2 * lane;
            float4 lo = x[0], hi = x[1];
            bits = make_uint4(bf16_pair(lo.x, lo.y), bf16_pair(lo.z, lo.w), bf16_pair(hi.x, hi.y), bf16_pair(hi.z, hi.w));
        }
        *(uint4 *)(mine + r * ROW_BYTES + ((lane ^ (r & 7)) << 4)) = bits;
    }
    __syncwarp();
    uint32_t q[16][4];
#pragma unroll
    for (int s = 0; s < 16; s++)
        ldmatrix(q[s], base + STAGE + (warp * 16 + lane % 16) * ROW_BYTES + (((2 * s + lane / 16) ^ (lane & 7)) << 4));
    __syncthreads();
#pragma unroll
    for (int s = 1; s < STAGES - 1; s++) {
        if (s < n_tiles)
            fetch(smem + s * STAGE, a, s * TILE, last);
        copy_commit();
    }

    const int all_see = limit[warp * 16];
    const float unit = a.scale * 1.4426950408889634f;
    float o[32][4] = {}, max0 = -INFINITY, max1 = -INFINITY, sum0 = 0, sum1 = 0;
    /* Pieces of a row differ from one k-step to the next by an exclusive or, of which the low three bits meet the row's. */
    const uint32_t k_row = (uint32_t)((lane & 7) + (lane >> 4 << 3)) * ROW_BYTES, k_piece = (uint32_t)((lane >> 3 & 1) ^ (lane & 7));
    const uint32_t v_row = (uint32_t)(lane % 16) * ROW_BYTES, v_piece = (uint32_t)(lane / 16 ^ (lane & 7));

    for (int i = 0, stage = 0; i < n_tiles; i++) {
        copy_wait<STAGES - 2>();
        __syncthreads();                /* tile i is here, and everybody is done with tile i - 1 */
        int ahead = i + STAGES - 1, into = stage == 0 ? STAGES - 1 : stage - 1;
        if (ahead < n_tiles)
            fetch(smem + into * STAGE, a, ahead * TILE, last);
        copy_commit();

        uint32_t at = base + stage * STAGE;
        float s[4][4] = {};
#pragma unroll
        for (int step = 0; step < 16; step++)
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                uint32_t b[4];
                ldmatrix(b, at + k_row + pair * 16 * ROW_BYTES + ((k_piece ^ (2 * step)) << 4));
                mma_bf16(s[2 * pair], q[step], b[0], b[1]);
                mma_bf16(s[2 * pair + 1], q[step], b[2], b[3]);
            }

        if (i * TILE + TILE - 1 > all_see) {
            int limit0 = limit[warp * 16 + g], limit1 = limit[warp * 16 + g + 8];
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int p = i * TILE + 8 * j + 2 * t + e;
                    if (p > limit0)
                        s[j][e] = -INFINITY;
                    if (p > limit1)
                        s[j][2 + e] = -INFINITY;
                }
        }
        float top0 = fmaxf(fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1])), fmaxf(fmaxf(s[2][0], s[2][1]), fmaxf(s[3][0], s[3][1])));
        float top1 = fmaxf(fmaxf(fmaxf(s[0][2], s[0][3]), fmaxf(s[1][2], s[1][3])), fmaxf(fmaxf(s[2][2], s[2][3]), fmaxf(s[3][2], s[3][3])));
        top0 = fmaxf(max0, quad_max(top0));
        top1 = fmaxf(max1, quad_max(top1));
        if (__any_sync(~0u, top0 > max0 || top1 > max1)) {      /* rare after the first tiles; else all factors are 1 */
            float keep0 = exp2_fast((max0 - top0) * unit), keep1 = exp2_fast((max1 - top1) * unit);
            sum0 *= keep0;
            sum1 *= keep1;
            max0 = top0;
            max1 = top1;
#pragma unroll
            for (int j = 0; j < 32; j++) {
                o[j][0] *= keep0;
                o[j][1] *= keep0;
                o[j][2] *= keep1;
                o[j][3] *= keep1;
            }
        }
        float from0 = -max0 * unit, from1 = -max1 * unit;
        uint32_t w[2][4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float p0 = exp2_fast(fmaf(s[j][0], unit, from0)), p1 = exp2_fast(fmaf(s[j][1], unit, from0));
            float p2 = exp2_fast(fmaf(s[j][2], unit, from1)), p3 = exp2_fast(fmaf(s[j][3], unit, from1));
            sum0 += p0 + p1;
            sum1 += p2 + p3;
            w[j / 2][j % 2 * 2] = bf16_pair(p0, p1);
            w[j / 2][j % 2 * 2 + 1] = bf16_pair(p2, p3);
        }

        at += TILE * ROW_BYTES + v_row;
#pragma unroll
        for (int step = 0; step < 2; step++)
#pragma unroll
            for (int pair = 0; pair < 16; pair++) {
                uint32_t b[4];
                ldmatrix_trans(b, at + step * 16 * ROW_BYTES + ((v_piece ^ (2 * pair)) << 4));
                mma_bf16(o[2 * pair], w[step], b[0], b[1]);
                mma_bf16(o[2 * pair + 1], w[step], b[2], b[3]);
            }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    float by0 = 1.0f / quad_sum(sum0), by1 = 1.0f / quad_sum(sum1);
    int m0 = warp * 16 + g, m1 = m0 + 8;
    float *y0 = a.y + ((size_t)(t0 + m0 / group) * (size_t)a.n_q_heads + (size_t)(head0 + m0 % group)) * DIM + 2 * t;
    float *y1 = a.y + ((size_t)(t0 + m1 / group) * (size_t)a.n_q_heads + (size_t)(head0 + m1 % group)) * DIM + 2 * t;
#pragma unroll
    for (int j = 0; j < 32; j++) {
        if (m0 / group < n)
            *(float2 *)(y0 + 8 * j) = make_float2(o[j][0] * by0, o[j][1] * by0);
        if (m1 / group < n)
            *(float2 *)(y1 + 8 * j) = make_float2(o[j][2] * by1, o[j][3] * by1);
    }
}

extern "C" void attention_cuda(struct cuda_queue *q, const struct attention_args *a)
{
    int group = a->n_q_heads / a->kv.n_kv_heads, tokens = ROWS / group;
    if (a->kv.dtype != DT_BF16 || a->kv.head_dim != DIM || group < 1 || group > ROWS) {
        queue_note(q, "attention", cudaErrorInvalidValue);
        return;
    }
    dim3 grid((unsigned)a->kv.n_kv_heads, (unsigned)((a->n_tokens + tokens - 1) / tokens));
    if (q->smem >= 4 * STAGE + MORE)
        launch(q, "attention", attention_kernel<4>, grid, WARPS * 32, 4 * STAGE + MORE, false, *a);
    else
        launch(q, "attention", attention_kernel<3>, grid, WARPS * 32, 3 * STAGE + MORE, false, *a);
}

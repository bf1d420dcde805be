/* deltanet_gates, deltanet_chunk: the DeltaNet layers of a prompt chunk.  Sources: kernels/deltanet.h.
 *
 * deltanet_gates: normalises q and k in place, computes beta and g.
 * Shapes    c [n, (2 n_k + n_v) * 128] fp32
 * Bytes     2 * n * 2 n_k * 512;  n 4096, 16 key heads: 134 MB
 * Limit     bandwidth: 30 us at 4.5 TB/s
 * Launch    a block of 8 warps per token, a warp per head, 16 bytes a lane
 * Numerics  fp32
 *
 * deltanet_chunk: raw rows through convolution and gates, then the rule, in blocks of 64 rows and two kernels.  The first (prepare) computes
 * everything that does not need the state, for all blocks and heads in parallel; the second (scan) walks over the blocks.  For one head, with
 * cumulative G:
 *   T = (I + strict_lower(beta_i k_i . k_m))^-1                  without decay, so that entries stay below 1
 *   W = exp(G_i) T beta K;  U = (T D) beta V;  P = lower(Q K^T D),   D[i][m] = exp(G_i - G_m)
 *   N = U - W S;  O = exp(G_i) Q S + P N;  S <- exp(G_last) S + K^T (exp(G_last - G_i) N)
 * Shapes    raw rows (or c) [n, (2 n_k + n_v) * 128], y [n, n_v * 128], state [n_v, 128, 128], all fp32; raw rows of a product
 *           of more than GEMM_FINE rows, if nothing else reads them, in packets (packets.cuh)
 * Bytes     scratch per block: 54,784 per value head, 32,768 per key head, written and read;  4096 tokens, 16/64 heads:
 *           201 MB of rows, half of that in packets, 134 MB of y, 2 * 258 MB of scratch, of which 64 MB at a time mostly stay in a
 *           second-level cache of 50 MB; with a smaller cache 12 MB at a time
 * Limit     tensor cores: 5.3 million multiply-adds per head and block, 43 GFLOP for 4096 tokens: 0.09 ms at 500 TFLOPS;
 *           the scan has one warp per scheduler, 212 mma and about 600 other instructions per block of rows: 0.1 to 0.15 ms
 * Launch    prepare: grid (blocks, key heads in groups of 4 value heads), 256 threads, 92 KB.
 *           scan: grid (value heads, parts of the columns), a warp per 16 columns, 4 or 2 warps, 93 KB
 * Layout    prepare: a warp convolves 8 rows of a head, of which a lane has 4 columns; the 3 rows above are read again.  v passes through shared
 *           memory, since its products want 16 columns for each warp.
 *           The scan works on transposed S, N, O: a warp owns 16 columns of S in accumulators (64 registers), which become
 *           its next A operands within the lane.  W, Q, P, K are B operands, stored in scratch in fragment order, 16 bytes per
 *           lane for two products.  They are streamed in pieces of 16 KB through five slots of shared memory, four pieces ahead
 * Numerics  operands in F16, sums in fp32.  K, Q, W, T, P are at most about 1 (Q and P times 128).  S, N, U scale with v, whose
 *           columns are independent: each is scaled by its own power of two per block, which gives the range of fp32.  The state
 *           is kept in fp32.  Relative L2 error about 5e-4, and 1e-3 when all keys of a block are nearly equal */
#include <type_traits>

#include "kernels/cuda/packets.cuh"

extern "C" {
#include "kernels/gemm.h"
}

enum {
    DIM   = 128,
    C     = DELTANET_CHUNK,
    GROUP = 4,                          /* value heads of one block of prepare: they share q and k */
    SLOTS = 5,                          /* of shared memory in the scan */
    SEGMENT = 16,                       /* blocks of rows per pair of launches, at most; limits the scratch */

    W_BYTES = C * DIM * 2,              /* [k-step 8][i-tile pair 4] of 512 */
    Q_BYTES = C * DIM * 2,              /* the same */
    K_BYTES = C * DIM * 2,              /* [k-step 4][column-tile pair 8] of 512 */
    P_BYTES = 10 * 512,                 /* k-steps below or on the diagonal, p_unit() */
    U_BYTES = C * DIM * 4,              /* [column tile 8][i-tile 8] of 512 */
    E_BYTES = 2 * C * 4,                /* exp(G), exp(G_last - G) */
};

/* The unit of 16 rows i and 16 columns m of P, m-block kk <= i-block p. */
__host__ __device__ constexpr int p_unit(int kk, int p) { return kk * 4 - kk * (kk - 1) / 2 + p - kk; }

/* ------------------------------------------------------------------ fragments */

/* Four 8x8 matrices of 2-byte elements; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ __forceinline__ uint4 load_matrices(const void *row)
{
    uint4 v;
    uint32_t s = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(s) : "memory");
    return v;
}
__device__ __forceinline__ uint4 load_matrices_turned(const void *row)
{
    uint4 v;
    uint32_t s = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z),
                 "=r"(v.w) : "r"(s) : "memory");
    return v;
}

__device__ __forceinline__ uint32_t f16_pair(float lo, float hi)
{
    __half2 v = __floats2half2_rn(lo, hi);
    return *(uint32_t *)&v;
}
/* x and y as hi + lo in F16: 22 bits. */
__device__ __forceinline__ void f16_pair_split(uint32_t *hi, uint32_t *lo, float x, float y)
{
    __half2 v = __floats2half2_rn(x, y);
    float2 f = __half22float2(v);
    *hi = *(uint32_t *)&v;
    *lo = f16_pair(x - f.x, y - f.y);
}

/* The power of two that scales magnitudes up to `most` below 32, and its inverse. */
__device__ __forceinline__ void range_scale(float most, float *scale, float *inverse)
{
    int e = (int)(__float_as_uint(most) >> 23);
    e = min(max(e, 10), 250);
    *scale = __uint_as_float((uint32_t)(258 - e) << 23);
    *inverse = __uint_as_float((uint32_t)(e - 4) << 23);
}

/* Greatest value in the four lanes that share a fragment's row. */
__device__ __forceinline__ float row_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
    return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

/* ------------------------------------------------------------------ prepare */

struct chunk_scratch {
    char *w, *p, *u, *e;                /* [blocks][n_v] */
    char *q, *k;                        /* [blocks][n_k] */
};
struct chunk_call {
    struct deltanet_chunk_args a;
    struct deltanet_raw raw;            /* if a.raw */
    bool packets;                       /* raw.x is in packets */
    struct chunk_scratch s;
    int shift;                          /* pos % 64 */
    int first;                          /* block of the call that is block 0 of the scratch */
    int n_blocks;
};
/* The rows that prepare reads: c as deltanet_gates leaves it, or raw rows in fp32 or in packets. */
enum chunk_input { INPUT_C, INPUT_RAW, INPUT_PACKETS };

/* Rows of block b of the call. */
__device__ __forceinline__ void block_rows(const struct chunk_call &x, int b, int *start, int *n)
{
    int from = max(C * b - x.shift, 0);
    *start = from;
    *n = min(C * (b + 1) - x.shift, x.a.n_tokens) - from;
}

enum {
    K_ROW = DIM + 8, T_ROW = C + 8,     /* in F16: row length is an odd multiple of 16 bytes */
    KK_ROW = C + 8, TT_ROW = 36, V_ROW = DIM + 4,       /* in fp32 */
    HALF  = C / 2,
    WARPS = 8, THREADS = 32 * WARPS,
};
struct prepare_shared {
    __half k[C][K_ROW];
    union {
        struct {
            __half q[C][K_ROW];
            float  kk[C][KK_ROW];       /* k_i . k_m */
        };
        float v[C][V_ROW];              /* a head's v, once q and kk are no longer needed */
    };
    union {
        __half t[C][T_ROW];             /* T, columns times beta and perhaps the decay */
        struct {
            float a[HALF][TT_ROW];      /* T of rows and columns 0..31, transposed */
            float b[HALF][TT_ROW];      /* of 32..63 */
        } half;
    } head[GROUP];
    float G[GROUP][C], beta[GROUP][C], sum[GROUP];
};

/* beta and g of a head in row t of the call. */
__device__ __forceinline__ void gates_of(float *beta, float *g, float a, float b, float a_log, float dt_bias)
{
    const float x = a + dt_bias;
    *beta = 1.0f / (1.0f + expf(-b));
    *g = -expf(a_log) * (x > 20.0f ? x : log1pf(expf(x)));
}

/* Each pair of warps handles a head: beta, cumulative g, and the exponentials for the scan. */
template <enum chunk_input INPUT>
__device__ __forceinline__ void prepare_gates(struct prepare_shared *s, const struct chunk_call &x, int h0, int n_heads, int start, int n)
{
    int h = threadIdx.x / C, i = threadIdx.x % C, lane = threadIdx.x % 32;
    float g = 0, beta = 0;
    if (h < n_heads && i < n) {
        size_t at = (size_t)(start + i) * x.a.n_v_heads + h0 + h;
        if (INPUT == INPUT_C) {
            g = x.a.g[at];
            beta = x.a.beta[at];
        } else {
            gates_of(&beta, &g, x.raw.a[at], x.raw.b[at], x.raw.a_log[h0 + h], x.raw.dt_bias[h0 + h]);
        }
    }
    for (int m = 1; m < 32; m *= 2) {
        float v = __shfl_up_sync(~0u, g, m);
        g += lane >= m ? v : 0.0f;
    }
    if (i == 31)
        s->sum[h] = g;
    __syncthreads();
    if (i >= 32)
        g += s->sum[h];
    s->G[h][i] = g;
    s->beta[h][i] = beta;
    __syncthreads();
    if (h < n_heads) {
        float *e = (float *)(x.s.e + ((size_t)blockIdx.x * x.a.n_v_heads + h0 + h) * E_BYTES);
        e[i] = expf(g);
        e[C + i] = expf(s->G[h][C - 1] - g);
    }
}

__device__ __forceinline__ float convolved(float m0, float m1, float m2, float m3, float4 w)
{
    const float x = fmaf(w.w, m3, fmaf(w.z, m2, fmaf(w.y, m1, w.x * m0)));
    return __fdividef(x, 1.0f + __expf(-x));
}

/* Loads q (times 128) and k as F16, zeros for missing rows.  All loads are in flight together. */
__device__ __forceinline__ void prepare_rows(struct prepare_shared *s, const float *q, const float *k, size_t width, int n)
{
    int quad = threadIdx.x % 32, row = threadIdx.x / 32;
    float4 x[C / WARPS], y[C / WARPS];
#pragma unroll
    for (int i = 0; i < C / WARPS; i++) {
        size_t at = (size_t)(row + i * WARPS) * width + 4 * quad;
        x[i] = y[i] = make_float4(0, 0, 0, 0);
        if (row + i * WARPS < n) {
            x[i] = *(const float4 *)(q + at);
            y[i] = *(const float4 *)(k + at);
        }
    }
#pragma unroll
    for (int i = 0; i < C / WARPS; i++) {
        *(uint2 *)&s->q[row + i * WARPS][4 * quad] = make_uint2(f16_pair(x[i].x * 128, x[i].y * 128), f16_pair(x[i].z * 128, x[i].w * 128));
        *(uint2 *)&s->k[row + i * WARPS][4 * quad] = make_uint2(f16_pair(y[i].x, y[i].y), f16_pair(y[i].z, y[i].w));
    }
}

/* Eight rows of a head's columns before convolution and the three above them: those of a warp in a block of rows.  A lane has two columns from
 * strip_column() on, and two strip_second() further. */
enum { STRIP = C / WARPS, ABOVE = 3, TAPS = ABOVE + 1 };
template <enum chunk_input INPUT> struct strip {
    typename std::conditional<INPUT == INPUT_PACKETS, uint2, float4>::type row[STRIP + ABOVE];
};

template <enum chunk_input INPUT> __device__ __forceinline__ int strip_column(int lane)
{
    return INPUT == INPUT_PACKETS ? packet_column(lane) : 4 * lane;
}
template <enum chunk_input INPUT> __device__ __forceinline__ constexpr int strip_second() { return INPUT == INPUT_PACKETS ? 8 : 2; }

/* Asks for the strip of the 128 columns from `column` on, of the block of n rows from row `start` of the call on. */
template <enum chunk_input INPUT>
__device__ __forceinline__ void strip_load(struct strip<INPUT> &s, const struct chunk_call &x, int column, int start, int n)
{
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * STRIP - ABOVE;
    const size_t width = (size_t)(2 * x.a.n_k_heads + x.a.n_v_heads) * DIM;
    const char *rows = (const char *)x.raw.x + (size_t)column * (INPUT == INPUT_PACKETS ? 2 : 4);
#pragma unroll
    for (int i = 0; i < STRIP + ABOVE; i++) {
        const char *at = rows + (size_t)max(start + min(first + i, n - 1), 0) * width * (INPUT == INPUT_PACKETS ? 2 : 4);
        if constexpr (INPUT == INPUT_PACKETS)
            s.row[i] = __ldg((const uint2 *)at + lane);
        else
            s.row[i] = __ldg((const float4 *)at + lane);
    }
}

/* Convolution and SiLU of a strip: y[i] is the lane's part of row i of the warp. */
template <enum chunk_input INPUT>
__device__ __forceinline__ void strip_convolve(float4 y[STRIP], const struct strip<INPUT> &s, const struct chunk_call &x, int column, int start)
{
    const int lane = threadIdx.x % 32, first = start + (int)threadIdx.x / 32 * STRIP - ABOVE;
    const int width = (2 * x.a.n_k_heads + x.a.n_v_heads) * DIM, c = column + strip_column<INPUT>(lane);
    float4 w[4], m[TAPS];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = __ldg((const float4 *)(x.raw.w + (size_t)(c + i % 2 + i / 2 * strip_second<INPUT>()) * TAPS));
#pragma unroll
    for (int i = 0; i < STRIP + ABOVE; i++) {
        if constexpr (INPUT == INPUT_PACKETS)
            m[i % TAPS] = packet_four(s.row[i], lane);
        else
            m[i % TAPS] = s.row[i];
        if (i < ABOVE && first + i < 0) {
            const float *above = x.raw.window + (size_t)(first + i + ABOVE) * width + c;
            const float2 v0 = *(const float2 *)above, v1 = *(const float2 *)(above + strip_second<INPUT>());
            m[i % TAPS] = make_float4(v0.x, v0.y, v1.x, v1.y);
        }
        if (i < ABOVE)
            continue;
        const float4 m0 = m[(i - 3) % TAPS], m1 = m[(i - 2) % TAPS], m2 = m[(i - 1) % TAPS], m3 = m[i % TAPS];
        y[i - ABOVE] = make_float4(convolved(m0.x, m1.x, m2.x, m3.x, w[0]), convolved(m0.y, m1.y, m2.y, m3.y, w[1]),
                                   convolved(m0.z, m1.z, m2.z, m3.z, w[2]), convolved(m0.w, m1.w, m2.w, m3.w, w[3]));
    }
}

/* q (times 128) or k of a head as F16, normalised; zeros for missing rows. */
template <enum chunk_input INPUT>
__device__ __forceinline__ void prepare_raw_rows(__half (*to)[K_ROW], const struct strip<INPUT> &s, const struct chunk_call &x, int column, int start,
                                                 int n, float scale)
{
    const int c = strip_column<INPUT>(threadIdx.x % 32), row = threadIdx.x / 32 * STRIP;
    float4 y[STRIP];
    strip_convolve(y, s, x, column, start);
#pragma unroll
    for (int i = 0; i < STRIP; i++) {
        const float sum = warp_sum(y[i].x * y[i].x + y[i].y * y[i].y + (y[i].z * y[i].z + y[i].w * y[i].w));
        const float by = scale / sqrtf(sum + 1e-6f);
        const bool there = row + i < n;
        *(uint32_t *)&to[row + i][c] = there ? f16_pair(y[i].x * by, y[i].y * by) : 0;
        *(uint32_t *)&to[row + i][c + strip_second<INPUT>()] = there ? f16_pair(y[i].z * by, y[i].w * by) : 0;
    }
}

/* v of a head into shared memory; zeros for missing rows. */
template <enum chunk_input INPUT>
__device__ __forceinline__ void prepare_raw_v(struct prepare_shared *s, const struct strip<INPUT> &from, const struct chunk_call &x, int column,
                                              int start, int n)
{
    const int c = strip_column<INPUT>(threadIdx.x % 32), row = threadIdx.x / 32 * STRIP;
    float4 y[STRIP];
    strip_convolve(y, from, x, column, start);
#pragma unroll
    for (int i = 0; i < STRIP; i++) {
        const bool there = row + i < n;
        *(float2 *)&s->v[row + i][c] = there ? make_float2(y[i].x, y[i].y) : make_float2(0, 0);
        *(float2 *)&s->v[row + i][c + strip_second<INPUT>()] = there ? make_float2(y[i].z, y[i].w) : make_float2(0, 0);
    }
}

/* The last rows become the window, by all threads of a grid of which this one is `at` of `all`.  Nobody reads the old window any more. */
__device__ __forceinline__ void window_update(const struct chunk_call &x, int at, int all)
{
    const int width = (2 * x.a.n_k_heads + x.a.n_v_heads) * DIM, fours = width / 4;     /* whole warps */
    for (int i = at; i < fours; i += all) {
        const int c = x.packets ? packet_column(i) : 4 * i, second = c + (x.packets ? 8 : 2);
        float4 v[ABOVE];
#pragma unroll
        for (int r = 0; r < ABOVE; r++) {
            const int from = x.a.n_tokens + r - ABOVE;
            const float *row = from < 0 ? x.raw.window + (size_t)(from + ABOVE) * width : x.raw.x + (size_t)from * width;
            if (x.packets && from >= 0) {
                v[r] = packet_four(((const uint2 *)x.raw.x)[(size_t)from * fours + i], i);
            } else {
                const float2 v0 = *(const float2 *)(row + c), v1 = *(const float2 *)(row + second);
                v[r] = make_float4(v0.x, v0.y, v1.x, v1.y);
            }
        }
#pragma unroll
        for (int r = 0; r < ABOVE; r++) {
            *(float2 *)(x.raw.window + (size_t)r * width + c) = make_float2(v[r].x, v[r].y);
            *(float2 *)(x.raw.window + (size_t)r * width + second) = make_float2(v[r].z, v[r].w);
        }
    }
}

/* The 16x16 tile of A fragments at (row, col) of a row-major matrix. */
__device__ __forceinline__ const __half *tile_row(const __half *m, int stride, int row, int col)
{
    int lane = threadIdx.x % 32;
    return m + (row + lane % 16) * stride + col + lane / 16 * 8;
}
/* The B fragments of 16 columns n, stored as rows of k: b0 and b1 of columns 0..7, then of 8..15. */
__device__ __forceinline__ const __half *pair_row(const __half *m, int stride, int row, int col)
{
    int lane = threadIdx.x % 32;
    return m + (row + lane % 8 + lane / 16 * 8) * stride + col + lane / 8 % 2 * 8;
}

/* Warps 0..3: Q K^T of 16 columns m, which becomes P of every head; warps 4..7: K K^T. */
__device__ __forceinline__ void prepare_products(struct prepare_shared *s, const struct chunk_call &x, int h0, int n_heads)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, w = warp % 4;
    const __half *rows = warp < 4 ? s->q[0] : s->k[0];
    float acc[4][2][4] = {};
#pragma unroll
    for (int kk = 0; kk < 8; kk++) {
        uint4 b = load_matrices(pair_row(s->k[0], K_ROW, 16 * w, 16 * kk));
#pragma unroll
        for (int mt = 0; mt < 4; mt++)
            if (mt >= w) {
                uint4 a = load_matrices(tile_row(rows, K_ROW, 16 * mt, 16 * kk));
                mma_f16(acc[mt][0], (const uint32_t *)&a, b.x, b.y);
                mma_f16(acc[mt][1], (const uint32_t *)&a, b.z, b.w);
            }
    }
    if (warp >= 4) {
#pragma unroll
        for (int mt = 0; mt < 4; mt++)
            if (mt >= w)
#pragma unroll
                for (int nt = 0; nt < 2; nt++) {
                    int i = 16 * mt + g, m = 16 * w + 8 * nt + 2 * t;
                    *(float2 *)&s->kk[i][m] = make_float2(acc[mt][nt][0], acc[mt][nt][1]);
                    *(float2 *)&s->kk[i + 8][m] = make_float2(acc[mt][nt][2], acc[mt][nt][3]);
                }
        return;
    }
    for (int h = 0; h < n_heads; h++) {
        const float *G = s->G[h];
        uint4 *p = (uint4 *)(x.s.p + ((size_t)blockIdx.x * x.a.n_v_heads + h0 + h) * P_BYTES);
#pragma unroll
        for (int mt = 0; mt < 4; mt++)
            if (mt >= w) {
                float v[2][4];
#pragma unroll
                for (int nt = 0; nt < 2; nt++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int i = 16 * mt + g + e / 2 * 8, m = 16 * w + 8 * nt + 2 * t + e % 2;
                        v[nt][e] = m <= i ? acc[mt][nt][e] * __expf(G[i] - G[m]) : 0.0f;
                    }
                p[p_unit(w, mt) * 32 + lane] = make_uint4(f16_pair(v[0][0], v[0][1]), f16_pair(v[1][0], v[1][1]),
                                                          f16_pair(v[0][2], v[0][3]), f16_pair(v[1][2], v[1][3]));
            }
    }
}

/* Writes q and k in the order in which the scan reads them. */
__device__ __forceinline__ void prepare_shared_operands(const struct prepare_shared *s, const struct chunk_call &x, int hk)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint4 *q = (uint4 *)(x.s.q + ((size_t)blockIdx.x * x.a.n_k_heads + hk) * Q_BYTES);
    uint4 *k = (uint4 *)(x.s.k + ((size_t)blockIdx.x * x.a.n_k_heads + hk) * K_BYTES);
#pragma unroll
    for (int p = 0; p < 4; p++)
        q[(warp * 4 + p) * 32 + lane] = load_matrices(pair_row(s->q[0], K_ROW, 16 * p, 16 * warp));
#pragma unroll
    for (int kk = 0; kk < 4; kk++)
        k[(kk * 8 + warp) * 32 + lane] = load_matrices_turned(tile_row(s->k[0], K_ROW, 16 * kk, 16 * warp));
}

/* Column j of the inverse of I + strict_lower(beta_i kk[i][m]) of 32 rows, by forward substitution. */
__device__ __forceinline__ void solve_column(float t[HALF], const float (*kk)[KK_ROW], const float *beta, int j)
{
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float sum[4] = {};
#pragma unroll
        for (int m = 0; m < i; m += 4) {
            float4 v = *(const float4 *)&kk[i][m];
            sum[0] = fmaf(v.x, t[m], sum[0]);
            if (m + 1 < i)
                sum[1] = fmaf(v.y, t[m + 1], sum[1]);
            if (m + 2 < i)
                sum[2] = fmaf(v.z, t[m + 2], sum[2]);
            if (m + 3 < i)
                sum[3] = fmaf(v.w, t[m + 3], sum[3]);
        }
        t[i] = (i == j ? 1.0f : 0.0f) - beta[i] * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
}

/* The lower left quarter of T, -T_b L T_a, for 16 columns j of a warp: acc[i-tile][j-tile].  L is beta kk.  Operands as hi + lo:
 * the products cancel when keys are alike. */
__device__ __forceinline__ void solve_quarter(float acc[2][2][4], const struct prepare_shared *s, int h, int j0)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t hi[4], lo[4];
    float x[4][4] = {};                 /* (L T_a)^T: rows j, columns i */
#pragma unroll 1
    for (int ks = 0; ks < 2; ks++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float2 v = *(const float2 *)&s->head[h].half.a[j0 + g + e % 2 * 8][16 * ks + 2 * t + e / 2 * 8];
            f16_pair_split(&hi[e], &lo[e], v.x, v.y);
        }
#pragma unroll
        for (int nt = 0; nt < 4; nt++) {
            float beta = s->beta[h][HALF + 8 * nt + g];
            uint32_t bh[2], bl[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float2 v = *(const float2 *)&s->kk[HALF + 8 * nt + g][16 * ks + 2 * t + 8 * e];
                f16_pair_split(&bh[e], &bl[e], beta * v.x, beta * v.y);
            }
            mma_f16(x[nt], lo, bh[0], bh[1]);
            mma_f16(x[nt], hi, bl[0], bl[1]);
            mma_f16(x[nt], hi, bh[0], bh[1]);
        }
    }
#pragma unroll
    for (int mt = 0; mt < 2; mt++)
#pragma unroll
        for (int nt = 0; nt < 2; nt++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mt][nt][e] = 0;
#pragma unroll
    for (int ks = 0; ks < 2; ks++) {
        uint32_t bh[2][2], bl[2][2];    /* [j-tile][half of k] */
#pragma unroll
        for (int nt = 0; nt < 2; nt++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                f16_pair_split(&bh[nt][e], &bl[nt][e], -x[2 * ks + e][2 * nt], -x[2 * ks + e][2 * nt + 1]);
#pragma unroll
        for (int mt = 0; mt < 2; mt++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float2 v = *(const float2 *)&s->head[h].half.b[16 * mt + g + e % 2 * 8][16 * ks + 2 * t + e / 2 * 8];
                f16_pair_split(&hi[e], &lo[e], v.x, v.y);
            }
#pragma unroll
            for (int nt = 0; nt < 2; nt++) {
                mma_f16(acc[mt][nt], lo, bh[nt][0], bh[nt][1]);
                mma_f16(acc[mt][nt], hi, bl[nt][0], bl[nt][1]);
                mma_f16(acc[mt][nt], hi, bh[nt][0], bh[nt][1]);
            }
        }
    }
}

/* Writes T beta, or with DECAY (T D) beta, from the registers of the two warps of a head. */
template <bool DECAY> __device__ __forceinline__ void store_inverse(struct prepare_shared *s, int h, const float t[HALF],
                                                                    const float quarter[2][2][4])
{
    int lane = threadIdx.x % 32, second = threadIdx.x / 32 % 2, g = lane / 4, q = lane % 4;
    const float *G = s->G[h], *beta = s->beta[h];
    __half (*T)[T_ROW] = s->head[h].t;
    int j = HALF * second + lane;
    float scale = beta[j], Gj = G[j];
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float v = t[i] * scale;
        if (DECAY)
            v *= i >= lane ? __expf(G[HALF * second + i] - Gj) : 0.0f;
        T[HALF * second + i][j] = __float2half_rn(v);
    }
#pragma unroll
    for (int mt = 0; mt < 2; mt++)
#pragma unroll
        for (int nt = 0; nt < 2; nt++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int i = HALF + 16 * mt + g + 8 * e, m = 16 * second + 8 * nt + 2 * q;
                float v0 = quarter[mt][nt][2 * e] * beta[m], v1 = quarter[mt][nt][2 * e + 1] * beta[m + 1];
                if (DECAY) {
                    v0 *= __expf(G[i] - G[m]);
                    v1 *= __expf(G[i] - G[m + 1]);
                }
                *(uint32_t *)&T[i][m] = f16_pair(v0, v1);
            }
}

/* -W of every head, 16 columns per warp. */
__device__ __forceinline__ void prepare_w(const struct prepare_shared *s, const struct chunk_call &x, int h0, int n_heads)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4;
    uint4 b[4];
#pragma unroll
    for (int kk = 0; kk < 4; kk++)
        b[kk] = load_matrices_turned(tile_row(s->k[0], K_ROW, 16 * kk, 16 * warp));
    for (int h = 0; h < n_heads; h++) {
        uint4 *out = (uint4 *)(x.s.w + ((size_t)blockIdx.x * x.a.n_v_heads + h0 + h) * W_BYTES);
#pragma unroll
        for (int mt = 0; mt < 4; mt++) {
            float acc[2][4] = {};
#pragma unroll
            for (int kk = 0; kk <= mt; kk++) {
                uint4 a = load_matrices(tile_row(s->head[h].t[0], T_ROW, 16 * mt, 16 * kk));
                mma_f16(acc[0], (const uint32_t *)&a, b[kk].x, b[kk].y);
                mma_f16(acc[1], (const uint32_t *)&a, b[kk].z, b[kk].w);
            }
            float lo = -__expf(s->G[h][16 * mt + g]), hi = -__expf(s->G[h][16 * mt + g + 8]);
            out[(warp * 4 + mt) * 32 + lane] = make_uint4(f16_pair(acc[0][0] * lo, acc[0][1] * lo), f16_pair(acc[1][0] * lo, acc[1][1] * lo),
                                                          f16_pair(acc[0][2] * hi, acc[0][3] * hi), f16_pair(acc[1][2] * hi, acc[1][3] * hi));
        }
    }
}

/* A warp's 16 columns of v as rows of an A operand: element e of k-step kk is row m = 16 kk + 2 t + (e & 1) + (e & 4 ? 8 : 0),
 * column g + (e & 2 ? 8 : 0). */
__device__ __forceinline__ void load_v(float v[4][8], const float *col, size_t width, int n)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int kk = 0; kk < 4; kk++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            int m = 16 * kk + 2 * t + (e & 1) + (e & 4 ? 8 : 0);
            v[kk][e] = m < n ? col[(size_t)m * width + g + (e & 2 ? 8 : 0)] : 0.0f;
        }
}

/* U transposed, of every head, 16 columns of v per warp.  Raw rows pass through shared memory, since a lane that convolves has other columns. */
template <enum chunk_input INPUT>
__device__ __forceinline__ void prepare_u(struct prepare_shared *s, const struct chunk_call &x, int h0, int n_heads, int start, int n)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    size_t width = (size_t)(2 * x.a.n_k_heads + x.a.n_v_heads) * DIM;
    const int column = (2 * x.a.n_k_heads + h0) * DIM;
    const float *col = x.a.c + (size_t)start * width + column + 16 * warp;
    float v[4][8];
    struct strip<INPUT> next;
    if constexpr (INPUT == INPUT_C) {
        load_v(v, col, width, n);
    } else {
        strip_load(next, x, column, start, n);
        prepare_raw_v(s, next, x, column, start, n);
        __syncthreads();
    }
    for (int h = 0; h < n_heads; h++) {
        if constexpr (INPUT != INPUT_C) {
            load_v(v, &s->v[0][16 * warp], V_ROW, C);
            if (h + 1 < n_heads)
                strip_load(next, x, column + (h + 1) * DIM, start, n);
        }
        float most[2] = {}, scale[2], back[2];
#pragma unroll
        for (int kk = 0; kk < 4; kk++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                most[e / 2 % 2] = fmaxf(most[e / 2 % 2], fabsf(v[kk][e]));
        range_scale(row_max(most[0]), &scale[0], &back[0]);
        range_scale(row_max(most[1]), &scale[1], &back[1]);
        uint32_t a[4][4];
#pragma unroll
        for (int kk = 0; kk < 4; kk++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[kk][e] = f16_pair(v[kk][2 * e] * scale[e % 2], v[kk][2 * e + 1] * scale[e % 2]);
        if constexpr (INPUT == INPUT_C)
            if (h + 1 < n_heads)
                load_v(v, col + (size_t)(h + 1) * DIM, width, n);
        float4 *out = (float4 *)(x.s.u + ((size_t)blockIdx.x * x.a.n_v_heads + h0 + h) * U_BYTES);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            float acc[2][4] = {};
#pragma unroll
            for (int kk = 0; kk <= p; kk++) {
                uint4 b = load_matrices(pair_row(s->head[h].t[0], T_ROW, 16 * p, 16 * kk));
                mma_f16(acc[0], a[kk], b.x, b.y);
                mma_f16(acc[1], a[kk], b.z, b.w);
            }
#pragma unroll
            for (int e = 0; e < 2; e++)
                out[(warp * 8 + 2 * p + e) * 32 + lane] = make_float4(acc[e][0] * back[0], acc[e][1] * back[0], acc[e][2] * back[1],
                                                                      acc[e][3] * back[1]);
        }
        if constexpr (INPUT != INPUT_C)
            if (h + 1 < n_heads) {
                __syncthreads();        /* all warps have read v */
                prepare_raw_v(s, next, x, column + (h + 1) * DIM, start, n);
                __syncthreads();
            }
    }
}

/* Blocks per multiprocessor, limited by its shared memory. */
#if __CUDA_ARCH__ >= 1000
enum { PREPARE_RESIDENT = 1 };
#else
enum { PREPARE_RESIDENT = 2 };
#endif

template <enum chunk_input INPUT> __global__ void __launch_bounds__(THREADS, PREPARE_RESIDENT) deltanet_prepare_kernel(struct chunk_call x)
{
    extern __shared__ __align__(16) char memory[];
    struct prepare_shared *s = (struct prepare_shared *)memory;
    int r = x.a.n_v_heads / x.a.n_k_heads, groups = (r + GROUP - 1) / GROUP;
    int hk = blockIdx.y / groups, group = blockIdx.y % groups;
    int h0 = hk * r + group * GROUP, n_heads = min(GROUP, r - group * GROUP), start, n;
    block_rows(x, x.first + blockIdx.x, &start, &n);
    if constexpr (INPUT == INPUT_C) {
        size_t width = (size_t)(2 * x.a.n_k_heads + x.a.n_v_heads) * DIM;
        const float *row = x.a.c + (size_t)start * width;
        prepare_rows(s, row + hk * DIM, row + (x.a.n_k_heads + hk) * DIM, width, n);
    } else {
        struct strip<INPUT> q, k;
        strip_load(q, x, hk * DIM, start, n);
        strip_load(k, x, (x.a.n_k_heads + hk) * DIM, start, n);
        prepare_raw_rows(s->q, q, x, hk * DIM, start, n, 11.313708498984761f);          /* 128 / sqrt(128) */
        prepare_raw_rows(s->k, k, x, (x.a.n_k_heads + hk) * DIM, start, n, 1);
    }
    prepare_gates<INPUT>(s, x, h0, n_heads, start, n);         /* contains the barriers that the rows need */
    if (group == 0)
        prepare_shared_operands(s, x, hk);
    prepare_products(s, x, h0, n_heads);
    __syncthreads();

    int h = threadIdx.x / C, second = threadIdx.x / 32 % 2, lane = threadIdx.x % 32;
    float t[HALF], quarter[2][2][4];
    solve_column(t, (const float (*)[KK_ROW])&s->kk[HALF * second][HALF * second], &s->beta[h][HALF * second], lane);
    if (second) {
#pragma unroll
        for (int i = 0; i < HALF; i++)
            s->head[h].half.b[i][lane] = t[i];
    } else {
#pragma unroll
        for (int i = 0; i < HALF; i += 4)
            *(float4 *)&s->head[h].half.a[lane][i] = make_float4(t[i], t[i + 1], t[i + 2], t[i + 3]);
    }
    __syncthreads();
    solve_quarter(quarter, s, h, 16 * second);
    __syncthreads();
    store_inverse<false>(s, h, t, quarter);
    __syncthreads();
    prepare_w(s, x, h0, n_heads);
    __syncthreads();
    store_inverse<true>(s, h, t, quarter);
    __syncthreads();
    prepare_u<INPUT>(s, x, h0, n_heads, start, n);
}

/* ------------------------------------------------------------------ scan */

struct scan_shared {
    uint4 slot[SLOTS][W_BYTES / 16];
    uint4 p[2][P_BYTES / 16];
    float e[2][2][C];
};
static_assert(sizeof(prepare_shared) <= 99 * 1024 && sizeof(scan_shared) <= 99 * 1024, "shared memory of a GB10");

/* Starts the copy of piece x: W, Q (with P and the exponentials) and K of a block in turn. */
template <int N> __device__ __forceinline__ void fetch_piece(struct scan_shared *s, const struct chunk_call &x, int piece, int h, int hk)
{
    int b = piece / 3, kind = piece % 3;
    if (b < x.n_blocks) {
        size_t v = (size_t)b * x.a.n_v_heads + h, k = (size_t)b * x.a.n_k_heads + hk;
        const char *src = kind == 0 ? x.s.w + v * W_BYTES : kind == 1 ? x.s.q + k * Q_BYTES : x.s.k + k * K_BYTES;
        uint4 *dst = s->slot[piece % SLOTS];
#pragma unroll
        for (int i = 0; i < W_BYTES / 16 / N; i++)
            copy16(dst + i * N + threadIdx.x, src + (size_t)(i * N + threadIdx.x) * 16);
        if (kind == 1) {
            for (int i = threadIdx.x; i < P_BYTES / 16; i += N)
                copy16(&s->p[b % 2][i], x.s.p + v * P_BYTES + (size_t)i * 16);
            if (threadIdx.x < E_BYTES / 16)
                copy16((char *)s->e[b % 2] + threadIdx.x * 16, x.s.e + v * E_BYTES + threadIdx.x * 16);
        }
    }
    copy_commit();
}

/* After this, piece `piece` is visible to all threads, and the slot of the previous one is free for the next copy. */
template <int N> __device__ __forceinline__ const uint4 *next_piece(struct scan_shared *s, const struct chunk_call &x, int piece, int h, int hk)
{
    copy_wait<SLOTS - 2>();
    __syncthreads();
    fetch_piece<N>(s, x, piece + SLOTS - 1, h, hk);
    return s->slot[piece % SLOTS] + threadIdx.x % 32;
}

__device__ __forceinline__ void load_u(float4 u[8], const struct chunk_call &x, int b, int h, int tile)
{
    const float4 *src = (const float4 *)(x.s.u + ((size_t)b * x.a.n_v_heads + h) * U_BYTES) + tile * 8 * 32 + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; i++)
        u[i] = src[i * 32];
}

/* N threads: N / 32 warps, each with 16 columns of the state.  S, N, O transposed: rows are columns of the state (g and g + 8
 * of a lane), columns are rows of the state, or rows of the block. */
template <int N> __global__ void __launch_bounds__(N, 1) deltanet_scan_kernel(struct chunk_call x)
{
    extern __shared__ __align__(16) char memory[];
    struct scan_shared *s = (struct scan_shared *)memory;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int h = blockIdx.x, hk = h / (x.a.n_v_heads / x.a.n_k_heads), tile = blockIdx.y * (N / 32) + threadIdx.x / 32;
    float *state = x.a.state + (size_t)h * DIM * DIM + 16 * tile + g;
    float S[16][4], unit[2] = {1, 1};   /* the state is S * unit, by row */
    float4 u[8];

    if (x.a.raw && x.first == 0)        /* prepare, which has read the window, is done */
        window_update(x, (blockIdx.y * gridDim.x + blockIdx.x) * N + threadIdx.x, gridDim.x * gridDim.y * N);
    /* the first pieces, and the state */
    for (int i = 0; i < SLOTS - 1; i++)
        fetch_piece<N>(s, x, i, h, hk);
    load_u(u, x, 0, h, tile);
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            S[i][e] = state[(8 * i + 2 * t + e % 2) * DIM + e / 2 * 8];

    for (int b = 0; b < x.n_blocks; b++) {
        /* the scale of this block */
        float change[2], scale[2];
        uint32_t sa[8][4];
        {
            float most[2] = {}, most_u[2] = {};
#pragma unroll
            for (int i = 0; i < 16; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    most[e / 2] = fmaxf(most[e / 2], fabsf(S[i][e]));
#pragma unroll
            for (int i = 0; i < 8; i++) {
                most_u[0] = fmaxf(most_u[0], fmaxf(fabsf(u[i].x), fabsf(u[i].y)));
                most_u[1] = fmaxf(most_u[1], fmaxf(fabsf(u[i].z), fabsf(u[i].w)));
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float back;
                range_scale(row_max(fmaxf(most[e] * unit[e], most_u[e])), &scale[e], &back);
                change[e] = unit[e] * scale[e];
                unit[e] = back;
            }
        }
        /* N = U - W S */
        float n[8][4];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            n[i][0] = u[i].x * scale[0];
            n[i][1] = u[i].y * scale[0];
            n[i][2] = u[i].z * scale[1];
            n[i][3] = u[i].w * scale[1];
#pragma unroll
            for (int e = 0; e < 4; e++)
                sa[i][e] = f16_pair(S[2 * i + e / 2][e % 2 * 2] * change[e % 2], S[2 * i + e / 2][e % 2 * 2 + 1] * change[e % 2]);
        }
        if (b + 1 < x.n_blocks)
            load_u(u, x, b + 1, h, tile);
        const uint4 *w = next_piece<N>(s, x, 3 * b, h, hk);
#pragma unroll
        for (int kk = 0; kk < 8; kk++)
#pragma unroll
            for (int p = 0; p < 4; p++) {
                uint4 f = w[(kk * 4 + p) * 32];
                mma_f16(n[2 * p], sa[kk], f.x, f.y);
                mma_f16(n[2 * p + 1], sa[kk], f.z, f.w);
            }
        /* O = exp(G) Q S + P N */
        const uint4 *q = next_piece<N>(s, x, 3 * b + 1, h, hk);
        const uint4 *pf = s->p[b % 2] + lane;
        const float (*ex)[C] = s->e[b % 2];
        float o[8][4] = {};
#pragma unroll
        for (int kk = 0; kk < 8; kk++)
#pragma unroll
            for (int p = 0; p < 4; p++) {
                uint4 f = q[(kk * 4 + p) * 32];
                mma_f16(o[2 * p], sa[kk], f.x, f.y);
                mma_f16(o[2 * p + 1], sa[kk], f.z, f.w);
            }
        uint32_t na[4][4];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float2 in = *(const float2 *)&ex[0][8 * i + 2 * t];
            o[i][0] *= in.x;
            o[i][1] *= in.y;
            o[i][2] *= in.x;
            o[i][3] *= in.y;
        }
#pragma unroll
        for (int kk = 0; kk < 4; kk++) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                na[kk][e] = f16_pair(n[2 * kk + e / 2][e % 2 * 2], n[2 * kk + e / 2][e % 2 * 2 + 1]);
#pragma unroll
            for (int p = kk; p < 4; p++) {
                uint4 f = pf[p_unit(kk, p) * 32];
                mma_f16(o[2 * p], na[kk], f.x, f.y);
                mma_f16(o[2 * p + 1], na[kk], f.z, f.w);
            }
        }
        /* y <- O */
        int start, rows;
        block_rows(x, x.first + b, &start, &rows);
        float *y = x.a.y + ((size_t)start * x.a.n_v_heads + h) * DIM + 16 * tile + g;
        float back[2] = {unit[0] * (1.0f / 128), unit[1] * (1.0f / 128)};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = 8 * i + 2 * t + e % 2;
                if (row < rows)
                    y[(size_t)row * x.a.n_v_heads * DIM + e / 2 * 8] = o[i][e] * back[e / 2];
            }
        /* S <- exp(G_last) S + K^T (exp(G_last - G) N) */
#pragma unroll
        for (int kk = 0; kk < 4; kk++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float2 out = *(const float2 *)&ex[1][16 * kk + e / 2 * 8 + 2 * t];
                na[kk][e] = f16_pair(n[2 * kk + e / 2][e % 2 * 2] * out.x, n[2 * kk + e / 2][e % 2 * 2 + 1] * out.y);
            }
        float decay = ex[0][C - 1];
        change[0] *= decay;
        change[1] *= decay;
#pragma unroll
        for (int i = 0; i < 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                S[i][e] *= change[e / 2];
        const uint4 *k = next_piece<N>(s, x, 3 * b + 2, h, hk);
#pragma unroll
        for (int kk = 0; kk < 4; kk++)
#pragma unroll
            for (int w2 = 0; w2 < 8; w2++) {
                uint4 f = k[(kk * 8 + w2) * 32];
                mma_f16(S[2 * w2], na[kk], f.x, f.y);
                mma_f16(S[2 * w2 + 1], na[kk], f.z, f.w);
            }
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            state[(8 * i + 2 * t + e % 2) * DIM + e / 2 * 8] = S[i][e] * unit[e / 2];
}

static_assert(W_BYTES + P_BYTES + U_BYTES + E_BYTES == (int)DELTANET_SCRATCH_V_HEAD && Q_BYTES + K_BYTES == (int)DELTANET_SCRATCH_K_HEAD
              && SEGMENT == (int)DELTANET_SCRATCH_BLOCKS, "kernels/deltanet.h has the sizes");

/* Blocks of rows per pair of launches: what prepare writes is to be in the second-level cache when scan reads it.  More blocks keep more
 * multiprocessors busy, so a cache that holds most of SEGMENT is enough for it. */
static int segment(const struct cuda_queue *q, size_t scratch, size_t block)
{
    const size_t in_cache = q->l2 * 4 / 3 >= SEGMENT * block ? (size_t)SEGMENT : max(q->l2 / 2 / block, (size_t)1);
    return (int)min(min(in_cache, (size_t)SEGMENT), scratch / block);
}

/* Bytes at the beginning of scratch memory with a copy of activations that stays there: 0 if there is none, or no room for a block behind it. */
static size_t kept_bytes(const struct cuda_queue *q, size_t block)
{
    const struct halves_of *h = &q->halves;
    const size_t bytes = h->x && h->at == q->scratch ? linear_scratch(h->n_rows, h->cols) : 0;
    return bytes + block <= q->scratch_bytes ? bytes : 0;
}

extern "C" void deltanet_chunk_cuda(struct cuda_queue *q, const struct deltanet_chunk_args *a)
{
    struct chunk_call x = {};
    const struct halves_of kept = q->halves;            /* of the layer's input, which a product reads after this */
    const size_t block = deltanet_block_scratch(a->n_k_heads, a->n_v_heads), taken = kept_bytes(q, block);
    int fit = segment(q, q->scratch_bytes - taken, block), groups = (a->n_v_heads / a->n_k_heads + GROUP - 1) / GROUP;
    if (a->dk != DIM || a->dv != DIM || a->n_v_heads % a->n_k_heads || a->n_tokens < 1 || (a->raw && a->raw->taps != TAPS)) {
        queue_note(q, "deltanet_chunk", cudaErrorInvalidValue);
        return;
    }
    if (fit < 1) {
        queue_note(q, "deltanet_chunk", cudaErrorMemoryAllocation);
        return;
    }
    x.a = *a;
    void (*prepare)(struct chunk_call) = deltanet_prepare_kernel<INPUT_C>;
    if (a->raw) {
        x.raw = *a->raw;
        x.packets = x.raw.own_rows > 0 && gemm_packets(x.raw.own_rows, DIM);
        x.raw.x += (size_t)x.raw.first * (size_t)((2 * a->n_k_heads + a->n_v_heads) * DIM / (x.packets ? 2 : 1));
        prepare = x.packets ? deltanet_prepare_kernel<INPUT_PACKETS> : deltanet_prepare_kernel<INPUT_RAW>;
    }
    x.shift = a->pos % C;
    x.s.w = q->scratch + taken;
    x.s.u = x.s.w + (size_t)fit * a->n_v_heads * W_BYTES;
    x.s.p = x.s.u + (size_t)fit * a->n_v_heads * U_BYTES;
    x.s.e = x.s.p + (size_t)fit * a->n_v_heads * P_BYTES;
    x.s.q = x.s.e + (size_t)fit * a->n_v_heads * E_BYTES;
    x.s.k = x.s.q + (size_t)fit * a->n_k_heads * Q_BYTES;
    int n_blocks = (x.shift + a->n_tokens + C - 1) / C;
    for (x.first = 0; x.first < n_blocks; x.first += fit) {
        x.n_blocks = min(fit, n_blocks - x.first);
        launch(q, "deltanet_chunk", prepare, dim3(x.n_blocks, a->n_k_heads * groups), THREADS, sizeof(struct prepare_shared), false,
               x);
        if (2 * a->n_v_heads > q->n_sm / 2)
            launch(q, "deltanet_chunk", deltanet_scan_kernel<128>, dim3(a->n_v_heads, 2), 128, sizeof(struct scan_shared), false, x);
        else                            /* few heads: more blocks */
            launch(q, "deltanet_chunk", deltanet_scan_kernel<64>, dim3(a->n_v_heads, 4), 64, sizeof(struct scan_shared), false, x);
    }
    if (taken && a->y != kept.x && a->c != kept.x)
        q->halves = {kept.x, kept.undo, kept.n_rows, kept.cols, kept.at};        /* rows in eight bits are lost */
}

/* ------------------------------------------------------------------ gates */

__global__ void __launch_bounds__(THREADS) deltanet_gates_kernel(struct deltanet_gates_args a)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = blockIdx.x;
    float *c = a.c + (size_t)t * (2 * a.n_k_heads + a.n_v_heads) * DIM;
    for (int first = warp; first < 2 * a.n_k_heads; first += 4 * WARPS) {
        float4 x[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (first + i * WARPS < 2 * a.n_k_heads)
                x[i] = *(const float4 *)(c + (first + i * WARPS) * DIM + 4 * lane);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int h = first + i * WARPS;
            if (h < 2 * a.n_k_heads) {
                float sum = warp_sum(x[i].x * x[i].x + x[i].y * x[i].y + (x[i].z * x[i].z + x[i].w * x[i].w));
                float s = (h < a.n_k_heads ? 0.08838834764831845f : 1.0f) / sqrtf(sum + 1e-6f);       /* 128^-0.5 */
                *(float4 *)(c + h * DIM + 4 * lane) = make_float4(x[i].x * s, x[i].y * s, x[i].z * s, x[i].w * s);
            }
        }
    }
    for (int h = threadIdx.x; h < a.n_v_heads; h += THREADS) {
        size_t i = (size_t)t * a.n_v_heads + h;
        gates_of(&a.beta[i], &a.g[i], a.a[i], a.b[i], a.a_log[h], a.dt_bias[h]);
    }
}

extern "C" void deltanet_gates_cuda(struct cuda_queue *q, const struct deltanet_gates_args *a)
{
    if (a->dk != DIM || a->dv != DIM)
        queue_note(q, "deltanet_gates", cudaErrorInvalidValue);
    else
        launch(q, "deltanet_gates", deltanet_gates_kernel, dim3(a->n_tokens), THREADS, 0, false, *a);
}

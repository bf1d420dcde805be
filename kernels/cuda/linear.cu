/* linear_*: y = W x for prompt chunks, any number of tokens.
 * Shapes    W [rows, cols] packed, x [n, cols] fp32, y [n, rows] fp32
 * Bytes     W once, x three times (once as fp16; with two halves twice that), y once, with `add` twice; with own_form from GEMM_FINE + 1 tokens on
 *           y in packets of 2 bytes a number (packets.cuh), with a bias in fp16; with `gate` the rows that it norms once, and 2 bytes a number of
 *           the outcome; with `gelu` 2 bytes a number of it
 * Limit     tensor cores from about 200 tokens: 2 n rows cols flops, twice that with two halves; below that the weights
 * Launch    halves_kernel, unless there is a copy of x (halves.cuh); then 256 threads for 256 rows x 128 tokens, or 128 threads for 128 rows x 64
 *           tokens or 64 rows x 32 tokens; with two halves (up to GEMM_FINE tokens) 128 threads for 64 rows x 16 or 32 tokens; linear_narrow_kernel
 *           for DENSE matrices of up to 256 rows, or two of them (linear_pair); for other DENSE matrices, whose limit are bytes from L2, also
 *           128 threads for 128 rows x 144 tokens, where a multiprocessor has the shared memory for two such blocks.
 *           With `gate` from GEMM_FINE + 1 tokens on linear_gated_kernel, a tile of which has one or two whole heads; else rmsnorm_gated
 *           follows.  With `gelu` the product itself applies it from GEMM_FINE + 1 tokens on; else gelu follows
 * Layout    kernels/cuda/gemm.cuh; bands of 8 row tiles process all tokens, so that both operands stay in L2
 * Numerics  x rounded to fp16 with a power of two per row, scaled weights likewise (INT8 and DENSE exact, but DENSE has no more than
 *           multiples of 2^-24), sums in fp32 by ascending column; up to GEMM_FINE tokens x as two fp16, 22 bits, weights exact (DENSE as
 *           before), sums of groups in fp32, then of these times their scales; narrow ones: x as two bf16, sums of every eighth group,
 *           then of these; with INT4 weights and more tokens on request x in eight bits (gemm_int8.cuh).
 *           linear_gated_kernel: z, norm and gate in fp32, with the fast exponential; the factor of a row of fp16 comes from a
 *           bound (halves.cuh), also with `gelu`, and with own_form and a bias */
#include "kernels/cuda/gemm_int8.cuh"
#include "kernels/cuda/packets.cuh"

enum { BAND = 8 };

/* y = w * rows / rms(rows) * silu(W x), heads of GATE_HEAD columns */
enum { GATE_HEAD = 128, GATE_WARPS = 4, GATE_AHEAD = 4 };       /* warps of a head; loads of GATE_AHEAD * 8 tokens are in flight at a time */
struct linear_gate {
    const float *rows, *w;
    float        eps;
};

/* For y in rows of fp16, which the next product reads */
struct linear_halves {
    const float *norms, *norm;  /* of the tokens; of the matrix, [1] */
    float       *undo;          /* factors of the rows of y; NULL: y is in fp32 or packets */
    bool         gelu;
};

struct linear_job {
    float      *y;
    const char *x, *data, *scale;
    const float *undo;          /* factors of the tokens; not of those in eight bits */
    const float *bias;          /* only of DENSE matrices, or NULL */
    int         rows, n_tiles, n_groups, n_tokens, row_blocks, token_blocks;        /* halves count as tokens */
    int         tiles;          /* of y: n_tiles, in rows of fp16 filled up to whole groups */
    bool        add, packets;   /* packets: y is in them (packets.cuh) */
    struct int8_apart apart;
    struct linear_halves halves;
    struct linear_gate gate;    /* of linear_gated_kernel, whose y is rows of fp16 */
};

/* First tile and token of this block */
template <class S> __device__ __forceinline__ int2 place(const struct linear_job &j)
{
    const int id = gemm_block(), band = id / (BAND * j.token_blocks), in = id - band * BAND * j.token_blocks;
    const int high = min(BAND, j.row_blocks - band * BAND);
    return make_int2((band * BAND + in % high) * S::TILES, in / high * S::TOKENS);
}

/* The factor of the sums of a token. */
template <int F, class S, int HALVES> __device__ __forceinline__ float undo_of(const struct linear_job &j, int token)
{
    return (S::EIGHT ? 1 : __ldg(j.undo + token)) * gemm_undo<F, HALVES>();
}

/* Stores a warp's tiles from tile `first` on for token `token`, the next, and those every 8 behind, in packets. */
template <int F, class S>
__device__ __forceinline__ void linear_packets(const struct linear_job &j, int first, int token, int g, const float (&acc)[S::MT][S::NT][4])
{
#pragma unroll
    for (int n = 0; n < S::NT; n++) {
        bool there[2];
        float u[2];
#pragma unroll
        for (int c = 0; c < 2; c++) {
            there[c] = token + 8 * n + c < j.n_tokens;
            u[c] = there[c] ? undo_of<F, S, 1>(j, token + 8 * n + c) : 0;
        }
#pragma unroll
        for (int m = 0; m < S::MT; m++)
            if (first + m < j.n_tiles) {
                const float2 s = row_scale<F>(j.scale, (size_t)(first + m), g);
                const float lo[2] = {acc[m][n][0] * s.x * u[0], acc[m][n][1] * s.x * u[1]};
                const float hi[2] = {acc[m][n][2] * s.y * u[0], acc[m][n][3] * s.y * u[1]};
                uint32_t *row = (uint32_t *)j.y + (size_t)(token + 8 * n) * (size_t)(j.rows / 2) + (first + m) * 8;
                uint32_t *const rows[2] = {row, row + j.rows / 2};
                packets_store(rows, there, g, lo, hi);
            }
    }
}

/* ---- rows of fp16 */

/* A token of a block, in the shared memory of the ring after the sums: what undoes the factors of a sum; the factor of the row of y. */
template <int F, class S> __device__ __forceinline__ void halves_tokens(const struct linear_job &j, float2 *z, int2 at, int thread, float most)
{
    for (int i = thread; i < S::TOKENS; i += S::THREADS) {
        const int token = min(at.y + i, j.n_tokens - 1);
        const float x = __ldg(j.halves.norms + token);
        float undo;
        const float factor = halves_bound_factor((j.bias ? sqrtf(fmaf(x, x, 1.0f)) : x) * most, &undo);
        if (at.x == 0)
            j.halves.undo[token] = undo;
        z[i] = make_float2(undo_of<F, S, 1>(j, token), factor);
    }
}

/* Two neighbours of a row of an 8x8 matrix, row lane / 4, become those of a row of the transposed one. */
__device__ __forceinline__ uint32_t matrix_transposed(uint32_t two)
{
    uint32_t v;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(two));
    return v;
}
/* Stores a tile's columns of eight tokens, 32 bytes each, of which a lane has columns g (lo) and g + 8 (hi) of tokens 2 t and 2 t + 1.  y: the tile's
 * first column of token g.  Called by the whole warp. */
__device__ __forceinline__ void halves_store(uint16_t *y, bool there, int lane, uint32_t lo, uint32_t hi)
{
    const bool odd = lane % 2;          /* even lanes store four of the columns 0 .. 7, odd ones four of 8 .. 15 */
    lo = matrix_transposed(lo);
    hi = matrix_transposed(hi);
    const uint32_t other = __shfl_xor_sync(~0u, odd ? lo : hi, 1);
    if (there)
        *(uint2 *)(y + (lane % 4 / 2 * 4 + (odd ? 8 : 0))) = odd ? make_uint2(other, hi) : make_uint2(lo, other);
}

/* Stores W x + bias, or GELU of that, of a warp's tiles from tile `first` on. */
template <class S, bool GELU>
__device__ __forceinline__ void linear_halves_rows(const struct linear_job &j, const float2 *z, int first, int token0, int lane,
                                                   const float (&acc)[S::MT][S::NT][4])
{
    const int g = lane / 4, t = lane % 4;
    uint16_t *y = (uint16_t *)j.y + (size_t)(token0 + g) * (size_t)(j.tiles * PACK_ROWS) + first * PACK_ROWS;
    float bias[S::MT][2];
#pragma unroll
    for (int m = 0; m < S::MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = (first + m) * PACK_ROWS + h * 8 + g;
            bias[m][h] = j.bias && row < j.rows ? __ldg(j.bias + row) : 0;
        }
#pragma unroll
    for (int n = 0; n < S::NT; n++, y += 8 * (size_t)(j.tiles * PACK_ROWS)) {
        const float4 two = *(const float4 *)(z + n * 8 + 2 * t);
#pragma unroll
        for (int m = 0; m < S::MT; m++) {
            uint32_t v[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float a = fmaf(acc[m][n][2 * h], two.x, bias[m][h]), b = fmaf(acc[m][n][2 * h + 1], two.z, bias[m][h]);
                v[h] = first + m < j.n_tiles ? f16_pair((GELU ? gelu_f(a) : a) * two.y, (GELU ? gelu_f(b) : b) * two.w) : 0;
            }
            halves_store(y + m * PACK_ROWS, first + m < j.tiles && token0 + n * 8 + g < j.n_tokens, lane, v[0], v[1]);
        }
    }
}

template <int F, class S, int HALVES>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS) linear_kernel(const __grid_constant__ struct linear_job j)
{
    extern __shared__ __align__(128) char smem[];
    int2 at = place<S>(j);
    uint32_t *rows = (uint32_t *)(smem + S::RING);
    float acc[S::MT][S::NT][4];
    gemm_any<F, S, HALVES>(acc, j.data, j.scale, at.x + (int)threadIdx.x / 32 * S::MT, j.n_tiles, j.n_groups, j.x, rows, smem, [&] {
        for (int i = (int)threadIdx.x; i < S::TOKENS; i += S::THREADS)      /* excess tokens are computed but not stored */
            rows[i] = (uint32_t)min(at.y + i, j.n_tokens - 1) * (uint32_t)(j.n_groups * 16);
        gpu_wait();
        gpu_next();
        __syncthreads();
    });
    at = place<S>(j);
    const int thread = gemm_thread(), g = thread % 32 / 4, t = thread % 4, first = at.x + thread / 32 * S::MT;
    if constexpr (S::EIGHT)
        gemm_int8_apart<S>(acc, j.data, j.scale, first, j.n_tiles, j.n_groups, j.x, rows, j.apart);
    if constexpr (F == WEIGHT_DENSE && HALVES == 1)
        if (j.halves.undo) {
            float2 *z = (float2 *)smem;
            __syncthreads();                    /* nobody reads the ring any more */
            halves_tokens<F, S>(j, z, at, thread, __ldg(j.halves.norm));
            __syncthreads();
            if (j.halves.gelu)
                linear_halves_rows<S, true>(j, z, first, at.y, thread % 32, acc);
            else
                linear_halves_rows<S, false>(j, z, first, at.y, thread % 32, acc);
            return;
        }
    if (HALVES == 1 && j.packets) {
        linear_packets<F, S>(j, first, at.y + 2 * t, g, acc);
        return;
    }
#pragma unroll
    for (int m = 0; m < S::MT; m++) {
        const int tile = first + m, row = tile * PACK_ROWS + g;
        if (tile >= j.n_tiles)
            break;
        const float2 s = row_scale<F>(j.scale, (size_t)tile, g);
#pragma unroll
        for (int n = 0; n < S::NT; n++)
#pragma unroll
            for (int c = 0; c < 2; c += HALVES) {
                const int column = at.y + n * 8 + 2 * t + c, token = column / HALVES;
                if (column >= j.n_tokens)
                    continue;
                const float u = undo_of<F, S, HALVES>(j, token);
                const float2 v = gemm_result<HALVES>(acc[m][n], c);
                float *y = j.y + (size_t)token * (size_t)j.rows + row, lo = v.x * s.x * u, hi = v.y * s.y * u;
                if (F == WEIGHT_DENSE && j.bias) {
                    lo += row < j.rows ? __ldg(j.bias + row) : 0;
                    hi += row + 8 < j.rows ? __ldg(j.bias + row + 8) : 0;
                }
                if (row < j.rows)
                    *y = j.add ? *y + lo : lo;
                if (row + 8 < j.rows)
                    y[8] = j.add ? y[8] + hi : hi;
            }
    }
}

/* ---- with a gate
 *
 * A tile has all columns of a head, or of two, of its tokens, so a block can divide by their root mean squares and store rows as the next product
 * reads them.  W x never leaves the registers. */

/* Brings the block's part of the rows that are gated to the second-level cache, where they are when the sums are done.  On an H100 4,096 tokens take
 * 578 us with it and 589 without. */
template <class S> __device__ __forceinline__ void gate_prefetch(const struct linear_job &j, int2 at)
{
    constexpr int LINE = 32, LINES = S::TILES * PACK_ROWS / LINE;
    for (int i = (int)threadIdx.x; i < S::TOKENS * LINES; i += S::THREADS) {
        const int token = at.y + i / LINES, row = at.x * PACK_ROWS + i % LINES * LINE;
        if (token < j.n_tokens && row < j.rows)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(j.gate.rows + (size_t)token * (size_t)j.rows + row));
    }
}

/* A block's tokens, in the shared memory of the ring after the sums */
template <class S> struct gate_tokens {
    float2 z[S::TOKENS];                /* what undoes the factors of a sum; the factor of the row of y */
    float  squares[S::WARPS][S::TOKENS];                        /* of the columns of a warp */
    float  scale[S::WARPS / GATE_WARPS][S::TOKENS];             /* 1 / rms of a head */
};

/* A number is at most |x| |W| * sqrt(GATE_HEAD) * the largest weight of the norm: |silu(z)| <= |z|, and no number of a head is more than
 * sqrt(GATE_HEAD) times their root mean square. */
__device__ __forceinline__ float gate_most(const struct linear_job &j, int thread)
{
    const float weight = fmaxf(warp_max(most_of(__ldg((const float4 *)j.gate.w + thread % 32))), 8.6736174e-19f);       /* 2^-60, if all are zero */
    return weight * 11.3137085f * __ldg(j.halves.norm);
}

/* Keeps the order with the shuffles around it; otherwise the compiler loads early and runs out of registers. */
__device__ __forceinline__ float gate_load(const float *p)
{
    float v;
    asm volatile("ld.global.cs.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

/* acc, the sums of a warp's tiles, becomes w * rows * silu(W x) * the factor.  Adds up the squares of rows. */
template <int F, class S>
__device__ __forceinline__ void gate_apply(const struct linear_job &j, struct gate_tokens<S> &s, int2 at, int warp, int lane,
                                           float (&acc)[S::MT][S::NT][4])
{
    const int g = lane / 4, t = lane % 4, first = (at.x + warp * S::MT) * PACK_ROWS + g;
    const float *rows = j.gate.rows + (size_t)(at.y + 2 * t) * (size_t)j.rows + first;
    float w[S::MT][2];
#pragma unroll
    for (int m = 0; m < S::MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            w[m][h] = __ldg(j.gate.w + (first + m * PACK_ROWS + h * 8) % GATE_HEAD);
#pragma unroll
    for (int n0 = 0; n0 < S::NT; n0 += GATE_AHEAD) {
        float y[GATE_AHEAD][2][S::MT][2];
#pragma unroll
        for (int n = 0; n < GATE_AHEAD; n++, rows += 8 * (size_t)j.rows)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const float *row = c ? rows + j.rows : rows;
                const bool there = at.y + 2 * t + (n0 + n) * 8 + c < j.n_tokens;
#pragma unroll
                for (int m = 0; m < S::MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        y[n][c][m][h] = there ? gate_load(row + m * PACK_ROWS + h * 8) : 0;
            }
#pragma unroll
        for (int n = 0; n < GATE_AHEAD; n++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int token = (n0 + n) * 8 + 2 * t + c;
                const float2 u = s.z[token];
                float sum = 0;
#pragma unroll
                for (int m = 0; m < S::MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        float &a = acc[m][n0 + n][2 * h + c];
                        const float v = y[n][c][m][h], z = a * u.x;
                        sum = fmaf(v, v, sum);
                        a = __fdividef(z * u.y, 1.0f + __expf(-z)) * (w[m][h] * v);
                    }
                for (int mask = 4; mask < 32; mask *= 2)
                    sum += __shfl_xor_sync(~0u, sum, mask);
                if (g == 0)
                    s.squares[warp][token] = sum;
            }
    }
}

/* Stores a warp's tiles, whose numbers are still to be multiplied with `scale` of their tokens. */
template <class S>
__device__ __forceinline__ void gate_store(const struct linear_job &j, const float *scale, int2 at, int warp, int lane,
                                           const float (&acc)[S::MT][S::NT][4])
{
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < S::NT; n++) {
        const float2 s = *(const float2 *)(scale + n * 8 + 2 * t);
        const int token = at.y + n * 8 + g;
        uint16_t *y = (uint16_t *)j.y + (size_t)token * (size_t)j.rows + (at.x + warp * S::MT) * PACK_ROWS;
#pragma unroll
        for (int m = 0; m < S::MT; m++)
            halves_store(y + m * PACK_ROWS, token < j.n_tokens, lane, f16_pair(acc[m][n][0] * s.x, acc[m][n][1] * s.y),
                         f16_pair(acc[m][n][2] * s.x, acc[m][n][3] * s.y));
    }
}

template <int F, class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS) linear_gated_kernel(const __grid_constant__ struct linear_job j)
{
    static_assert(S::MT * PACK_ROWS * GATE_WARPS == GATE_HEAD && S::NT % GATE_AHEAD == 0 && sizeof(gate_tokens<S>) <= S::RING, "a tile is heads");
    extern __shared__ __align__(128) char smem[];
    int2 at = place<S>(j);
    uint32_t *rows = (uint32_t *)(smem + S::RING);
    float acc[S::MT][S::NT][4];
    gemm_run<F, S, 1>(acc, j.data, j.scale, at.x + (int)threadIdx.x / 32 * S::MT, j.n_tiles, j.n_groups, j.x, rows, smem, [&] {
        for (int i = (int)threadIdx.x; i < S::TOKENS; i += S::THREADS)
            rows[i] = (uint32_t)min(at.y + i, j.n_tokens - 1) * (uint32_t)(j.n_groups * 16);
        gpu_wait();
        gpu_next();
        gate_prefetch<S>(j, at);
        __syncthreads();
    });
    at = place<S>(j);
    const int thread = gemm_thread(), warp = thread / 32;
    const bool there = at.x + warp * S::MT < j.n_tiles;         /* of a whole head */
    struct gate_tokens<S> &s = *(struct gate_tokens<S> *)smem;
    __syncthreads();                            /* nobody reads the ring any more */
    halves_tokens<F, S>(j, s.z, at, thread, gate_most(j, thread));
    __syncthreads();
    if (there)
        gate_apply<F, S>(j, s, at, warp, thread % 32, acc);
    __syncthreads();
    for (int i = thread; i < S::WARPS / GATE_WARPS * S::TOKENS; i += S::THREADS) {
        const int head = i / S::TOKENS, token = i % S::TOKENS;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < GATE_WARPS; k++)
            sum += s.squares[head * GATE_WARPS + k][token];
        s.scale[head][token] = 1.0f / sqrtf(sum / GATE_HEAD + j.gate.eps);
    }
    __syncthreads();
    if (there)
        gate_store<S>(j, s.scale[warp / GATE_WARPS], at, warp, thread % 32, acc);
}

template <class S> static void count_blocks(struct linear_job *j)
{
    j->row_blocks = (j->tiles + S::TILES - 1) / S::TILES;
    j->token_blocks = (j->n_tokens + S::TOKENS - 1) / S::TOKENS;
}
template <int F, class S, int HALVES> static void run(struct cuda_queue *q, const char *op, struct linear_job j)
{
    count_blocks<S>(&j);
    launch(q, op, linear_kernel<F, S, HALVES>, dim3((unsigned)(j.row_blocks * j.token_blocks)), S::THREADS, S::SMEM, true, j);
}
template <int F, class S> static void run_gated(struct cuda_queue *q, const char *op, struct linear_job j)
{
    count_blocks<S>(&j);
    launch(q, op, linear_gated_kernel<F, S>, dim3((unsigned)(j.row_blocks * j.token_blocks)), S::THREADS, S::SMEM, true, j);
}
static int blocks(const struct linear_job *j, int tiles, int tokens)
{
    return ((j->tiles + tiles - 1) / tiles) * ((j->n_tokens + tokens - 1) / tokens);
}

/* Narrow DENSE matrices: router and gates, one or two that read the same activations.  Blocks of all their rows for the same tokens are neighbours,
 * so that activations come from memory once.  The warps of a block share the columns, group by group, and add their sums in shared memory, so that
 * a few rows need few round trips to memory.  Activations are fp32 in memory and are multiplied as two bf16, 16 bits of mantissa, because the
 * choice of experts depends on them. */
enum { NARROW_WARPS = 8, NARROW_FEW = 512 };

struct narrow_matrix {
    float       *y;
    const char  *data;
    const float *bias;          /* or NULL */
    int          rows, n_tiles;
    bool         add;
};
struct narrow_job {
    struct narrow_matrix m[2];
    const float *x;
    int          cols, n_groups, n_tokens, n_tiles;     /* tiles of both; those of the first come first */
};

/* Returns the matrix of a tile of the job, and makes the tile one of that matrix. */
__device__ __forceinline__ const struct narrow_matrix &narrow_of(const struct narrow_job &j, int &tile)
{
    const bool second = tile >= j.m[0].n_tiles;
    tile -= second ? j.m[0].n_tiles : 0;
    return j.m[second];
}

/* RT * 16 rows, NT * 8 tokens; BATCH quarters of a group are loaded together. */
template <int RT, int NT, int BATCH>
static __global__ void __launch_bounds__(NARROW_WARPS * 32, 1) linear_narrow_kernel(const __grid_constant__ struct narrow_job j)
{
    __shared__ float sums[NARROW_WARPS][NT * 4][32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tile0 = (int)blockIdx.x * RT, token0 = (int)blockIdx.y * NT * 8;
    const char *w[RT];
    const float *x[NT];
    float acc[RT][NT][4] = {};
#pragma unroll
    for (int r = 0; r < RT; r++) {
        int tile = min(tile0 + r, j.n_tiles - 1);
        const struct narrow_matrix &m = narrow_of(j, tile);
        w[r] = m.data + (size_t)tile * (size_t)j.n_groups * group_bytes<WEIGHT_DENSE>() + lane * 16;
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
        x[n] = j.x + (size_t)min(token0 + n * 8 + g, j.n_tokens - 1) * (size_t)j.cols;
    gpu_wait();
    gpu_next();
    for (int group = warp; group < j.n_groups; group += NARROW_WARPS) {
#pragma unroll
        for (int p0 = 0; p0 < 4; p0 += BATCH) {
            uint4 a[BATCH][RT][2];
            float4 v[BATCH][NT][2];
#pragma unroll
            for (int p = 0; p < BATCH; p++) {
                const int col = group * PACK_GROUP + (p0 + p) * 32 + t * 8;
#pragma unroll
                for (int r = 0; r < RT; r++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        a[p][r][h] = gemm_load(w[r] + (size_t)group * group_bytes<WEIGHT_DENSE>() + (2 * (p0 + p) + h) * PACK_LINE);
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        v[p][n][h] = col < j.cols ? *(const float4 *)(x[n] + col + 4 * h) : make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int p = 0; p < BATCH; p++)
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const float4 f = v[p][n][h];
                        const uint32_t b0 = bf16_pair(f.x, f.y), b1 = bf16_pair(f.z, f.w);
                        const uint32_t c0 = bf16_pair(f.x - bf16_low(b0), f.y - bf16_high(b0)),
                            c1 = bf16_pair(f.z - bf16_low(b1), f.w - bf16_high(b1));
#pragma unroll
                        for (int r = 0; r < RT; r++)
                            mma_bf16(acc[r][n], (const uint32_t *)&a[p][r][h], b0, b1);
#pragma unroll
                        for (int r = 0; r < RT; r++)
                            mma_bf16(acc[r][n], (const uint32_t *)&a[p][r][h], c0, c1);
                    }
        }
    }
#pragma unroll
    for (int r = 0; r < RT; r++) {
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sums[warp][n * 4 + c][lane] = acc[r][n][c];
        __syncthreads();
        for (int i = (int)threadIdx.x; i < NT * 128; i += NARROW_WARPS * 32) {
            /* Neighbouring threads have neighbouring rows. */
            int tile = tile0 + r;
            const struct narrow_matrix &m = narrow_of(j, tile);
            const int in = i % 16, token = token0 + i / 16, row = tile * PACK_ROWS + in;
            const int c = i / 16 % 2 + in / 8 * 2, at = i / 128 * 4 + c, from = in % 8 * 4 + i / 32 % 4;
            float sum = 0;
#pragma unroll
            for (int k = 0; k < NARROW_WARPS; k++)
                sum += sums[k][at][from];
            if (row >= m.rows || token >= j.n_tokens)
                continue;
            float *y = m.y + (size_t)token * (size_t)m.rows + row;
            if (m.bias)
                sum += __ldg(m.bias + row);
            *y = m.add ? *y + sum : sum;
        }
        __syncthreads();
    }
}
template <int RT, int NT, int BATCH> static void run_narrow(struct cuda_queue *q, const char *op, const struct narrow_job *j)
{
    dim3 grid((unsigned)((j->n_tiles + RT - 1) / RT), (unsigned)((j->n_tokens + NT * 8 - 1) / (NT * 8)));
    launch(q, op, linear_narrow_kernel<RT, NT, BATCH>, grid, NARROW_WARPS * 32, 0, true, *j);
}

/* Launches the products of n narrow matrices that read the same. */
static void narrow(struct cuda_queue *q, const char *op, const struct linear_args *a, int n)
{
    struct narrow_job j = {};
    const struct halves_of kept = q->halves;
    bool keeps = true;
    if (q->left_out == a->x)
        queue_note(q, op, cudaErrorInvalidValue);
    for (int i = 0; i < n; i++) {
        j.m[i] = {a[i].y, (const char *)a[i].w.data, a[i].bias, a[i].w.rows, pack_tiles(a[i].w.rows), a[i].add};
        j.n_tiles += j.m[i].n_tiles;
        keeps = keeps && a[i].y != kept.x;
    }
    j.x = a->x;
    j.cols = a->w.cols;
    j.n_groups = pack_groups(j.cols);
    j.n_tokens = a->n_tokens;
    if (j.n_tokens <= NARROW_FEW)
        run_narrow<1, 2, 4>(q, op, &j);
    else if (j.n_tiles <= 8)
        run_narrow<4, 4, 2>(q, op, &j);
    else                        /* the second-level cache is the limit: fewer blocks read the same rows */
        run_narrow<6, 4, 1>(q, op, &j);
    if (keeps)
        q->halves = kept;
}

/* The useful share of the time of the large tiles */
static double large_use(const struct cuda_queue *q, const struct linear_job *j)
{
    int n = blocks(j, gemm_large::TILES, gemm_large::TOKENS), waves = (n + q->n_sm - 1) / q->n_sm;
    return (double)j->n_tiles * j->n_tokens / ((double)waves * q->n_sm * gemm_large::TILES * gemm_large::TOKENS);
}

template <int F> static void run_fine(struct cuda_queue *q, const char *op, const struct linear_job &j)
{
    if (j.n_tokens > gemm_small::TOKENS && blocks(&j, gemm_wide::TILES, gemm_wide::TOKENS) >= q->n_sm)
        run<F, gemm_wide, 2>(q, op, j);
    else
        run<F, gemm_small, 2>(q, op, j);
}
/* Returns the outcomes that the busiest multiprocessor computes. */
template <class S> static double busiest(const struct cuda_queue *q, const struct linear_job *j)
{
    return (double)((blocks(j, S::TILES, S::TOKENS) + q->n_sm - 1) / q->n_sm) * S::TILES * S::TOKENS;
}
template <int F> static void run_coarse(struct cuda_queue *q, const char *op, const struct linear_job &j)
{
    if constexpr (F == WEIGHT_DENSE)
        if (q->smem >= 2 * gemm_dense::SMEM && blocks(&j, gemm_dense::TILES, gemm_dense::TOKENS) >= 1.9 * q->n_sm    /* two on each */
            && busiest<gemm_dense>(q, &j) <= 1.15 * busiest<gemm_medium>(q, &j)) {
            run<F, gemm_dense, 1>(q, op, j);
            return;
        }
    /* The largest tile that keeps the multiprocessors busy: the large one is alone on its multiprocessor and waits for nobody, but
     * comes in whole waves. */
    if (large_use(q, &j) >= 0.85)
        run<F, gemm_large, 1>(q, op, j);
    else if (j.n_tokens > 32 && blocks(&j, gemm_medium::TILES, gemm_medium::TOKENS) >= q->n_sm)
        run<F, gemm_medium, 1>(q, op, j);
    else
        run<F, gemm_small, 1>(q, op, j);
}

/* The product of W and the copy x of its activations, of which each row counts as `halves`. */
static struct linear_job job_of(const struct linear_args *a, const struct halves_of *x, int halves)
{
    struct linear_job j = {};
    j.y = a->y;
    j.x = x->at;
    j.undo = x->undo;
    j.data = (const char *)a->w.data;
    j.scale = (const char *)a->w.scale;
    j.bias = a->bias;
    j.rows = a->w.rows;
    j.n_tiles = j.tiles = pack_tiles(a->w.rows);
    j.n_groups = pack_groups(a->w.cols);
    j.n_tokens = halves * a->n_tokens;
    j.add = a->add;
    return j;
}

/* Lets the product leave rows of fp16 and their factors in the memory of y. */
static void halves_out(struct cuda_queue *q, const char *op, struct linear_job *j, const struct linear_args *a, const struct halves_of *x, float *y,
                       bool gelu)
{
    j->y = y;
    j->tiles = pack_groups(a->w.rows) * (PACK_GROUP / PACK_ROWS);
    j->halves = {x->undo + a->n_tokens, a->norm, (float *)((char *)y + gemm_factors_at((size_t)a->n_tokens, a->w.rows)), gelu};
    queue_note(q, op, x->at == q->scratch ? cudaSuccess : cudaErrorInvalidValue);       /* only a copy in scratch memory has norms */
}

template <int F> static void linear(struct cuda_queue *q, const char *op, const struct linear_args *a)
{
    if (a->n_tokens < 1 || !gemm_scratch(q, op, linear_scratch(a->n_tokens, a->w.cols)))
        return;
    if (a->w.format != F || (a->bias && F != WEIGHT_DENSE)
        || (a->own_form && (a->add || (a->bias && (!a->norm || a->w.rows <= GEMM_NARROW)) || linear_narrow(&a->w)))) {
        queue_note(q, op, cudaErrorInvalidValue);
        return;
    }
    if (linear_narrow(&a->w)) {
        narrow(q, op, a, 1);
        return;
    }
    const int halves = gemm_halves(a->n_tokens);
    const bool int8 = a->int8 && gemm_int8(&a->w, a->n_tokens);
    const struct halves_of x = int8 ? int8_get(q, op, a->x, a->n_tokens, a->w.cols, a->int8) : halves_get(q, op, a->x, a->n_tokens, a->w.cols);
    struct linear_job j = job_of(a, &x, halves);
    const bool gelu = a->norm && a->gelu && linear_gelus(&a->w, a->gelu, a->n_tokens);
    if (gelu || (a->own_form && a->bias && halves == 1))
        halves_out(q, op, &j, a, &x, a->y, gelu);
    else
        j.packets = a->own_form && gemm_packets(a->n_tokens, a->w.rows);
    if (int8) {
        j.x = x.eight;
        j.apart = *a->int8;
        run<WEIGHT_INT4, gemm_int8_most, 1>(q, op, j);
    } else if (halves == 2) {
        run_fine<F>(q, op, j);
    } else {
        run_coarse<F>(q, op, j);
    }
    if (gelu)
        halves_left(q, a->y, j.halves.undo, a->n_tokens, a->w.rows, (const char *)a->y);
    else if (a->y != a->x)
        q->halves = x;
}

/* Product and gate in one.  Leaves rows of fp16 and their factors in the memory of gate->y, for the next product alone. */
template <int F> static void linear_gated(struct cuda_queue *q, const char *op, const struct linear_args *a)
{
    const struct rmsnorm_gated_args *g = a->gate;
    if (!gemm_scratch(q, op, linear_scratch(a->n_tokens, a->w.cols)))
        return;
    const struct halves_of x = halves_get(q, op, a->x, a->n_tokens, a->w.cols);
    struct linear_job j = job_of(a, &x, 1);
    halves_out(q, op, &j, a, &x, g->y, false);
    j.gate = {g->x, g->w, g->eps};
    if (a->w.format != F || g->y == g->x) {             /* other blocks read g->x */
        queue_note(q, op, cudaErrorInvalidValue);
        return;
    }
    if (large_use(q, &j) >= 0.85)
        run_gated<F, gemm_large>(q, op, j);
    else
        run_gated<F, gemm_medium>(q, op, j);
    halves_left(q, g->y, j.halves.undo, a->n_tokens, a->w.rows, (const char *)g->y);
}

extern "C" void rmsnorm_gated_cuda(struct cuda_queue *q, const struct rmsnorm_gated_args *a);         /* norm_gated.cu */
extern "C" void gelu_cuda(struct cuda_queue *q, const struct gelu_args *a);     /* vision.cu */

/* The product and the operation that follows it. */
template <int F> static void linear_then(struct cuda_queue *q, const char *op, const struct linear_args *a)
{
    const struct rmsnorm_gated_args *g = a->gate;
    const struct gelu_args *gelu = a->gelu;
    if ((g && (a->add || a->bias || a->int8 || a->own_form || g->z != a->y))
        || (gelu && (F != WEIGHT_DENSE || g || a->add || a->own_form || gelu->x != a->y || gelu->dim != a->w.rows || gelu->n_rows != a->n_tokens))) {
        queue_note(q, op, cudaErrorInvalidValue);
        return;
    }
    if constexpr (F != WEIGHT_INT8)
        if (g && a->norm && linear_gates(&a->w, g->next, g->dim, a->n_tokens)) {
            linear_gated<F>(q, op, a);
            return;
        }
    linear<F>(q, op, a);
    if (g)
        rmsnorm_gated_cuda(q, g);
    if (gelu && !(a->norm && linear_gelus(&a->w, gelu, a->n_tokens)))
        gelu_cuda(q, gelu);
}

#define LINEAR(op, F) \
    extern "C" void op##_cuda(struct cuda_queue *q, const struct op##_args *a) { linear_then<F>(q, #op, &a->l); }
LINEAR(linear_dense, WEIGHT_DENSE)
LINEAR(linear_int4, WEIGHT_INT4)
LINEAR(linear_fp8, WEIGHT_FP8)

extern "C" void linear_pair_cuda(struct cuda_queue *q, const struct linear_pair_args *a)
{
    struct linear_args both[2] = {};
    for (int i = 0; i < 2; i++) {
        both[i].y = a->y[i];
        both[i].x = a->x;
        both[i].w = a->w[i];
        both[i].n_tokens = a->n_tokens;
    }
    if (linear_narrow(&both[0].w) && linear_narrow(&both[1].w) && both[0].w.cols == both[1].w.cols)
        narrow(q, "linear_pair", both, 2);
    else
        queue_note(q, "linear_pair", cudaErrorInvalidValue);
}

void planes_linear(struct cuda_queue *q, const struct linear_args *a);          /* step_planes.cu */

extern "C" void linear_int8_cuda(struct cuda_queue *q, const struct linear_int8_args *a)
{
    if (a->l.w.format == WEIGHT_PLANES)
        planes_linear(q, &a->l);
    else
        linear_then<WEIGHT_INT8>(q, "linear_int8", &a->l);
}

/* attention: causal attention of prompt rows over the KV cache of a layer, bf16 rows of 256.
 * Shapes    q, y [n, n_q_heads, 256] fp32, k and v [n_ctx, n_kv_heads, 256] bf16
 * Bytes     K and V once per 128 / (query heads per KV head) tokens, mostly from L2: per 8 tokens of the 122B
 * Limit     tensor cores: 4 * 256 flops per query head and position; 4096 tokens after 124K of the 122B: 17 TFLOP a layer.
 *           Shared memory is almost as limiting: 216 bytes per m16n8k16, 1.7 of its cycles (2 with 3 stages of 32 positions)
 * Launch    128 rows (token, query head of one KV head) per block of 8 warps; grid (n_kv_heads, token blocks), the longest first.
 *           With at least 210 KiB of shared memory two warps share 32 rows: each computes the logits of 32 of a tile's 64 positions and
 *           128 of the 256 outputs, and they exchange data in shared memory twice per tile.  q stays in shared memory (64 KiB).
 *           cp.async loads K and V into two stages of 64 KiB; mbarriers guard them, so that warps may be half a tile apart.
 *           With less shared memory a warp has 16 rows and q in registers; tiles are 32 positions, three stages of 32 KiB.
 *           Few tokens after a long context: the positions are cut into pieces (grid.z) if q->scratch has n * n_q_heads * 1032 bytes
 *           for each; a second kernel merges them
 *           A compressed cache: codes become rows in q->scratch, which these kernels read in place of the cache; a block has tokens whose
 *           codes end at the same position.  When there is no room for all, positions are taken in parts, and a part's result is merged
 *           with that of the parts before it
 * Layout    rows of 512 bytes, 16-byte piece c of row r at c ^ (r & 7): the eight rows of an ldmatrix phase are in eight bank
 *           groups, and so are the copies; likewise the softmax weights, in rows of 128 bytes
 *           q is normed and turned in fp32 as it is loaded, y gated as it is stored, if asked for; not where a second kernel merges
 * Numerics  q and weights in bf16, logits, softmax and sums in fp32 (online, base 2, tile after tile from 0); within 1e-2 relative L2
 *           of cpu/attention.c, the bits of a row do not depend on the other rows of the call */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/kv.cuh"

enum {
    DIM = 256, ROWS = 128, WARPS = 8,
    GATES_AHEAD = 4, GATES = 16,        /* tiles before the end when gates are asked for; loads of a thread at a time */
    ROW_BYTES = DIM * 2,
    /* one warp alone */
    TILE = 32, STAGES = 3,
    STAGE = 2 * TILE * ROW_BYTES,       /* K, then V */
    SMALL_BYTES = STAGES * STAGE + ROWS * 4,
    /* two warps together */
    PAIR_TILE = 64,
    PAIR_STAGE = 2 * PAIR_TILE * ROW_BYTES,
    PAIR_Q = 2 * PAIR_STAGE,            /* offsets: [128, 256] bf16 */
    PAIR_WEIGHTS = PAIR_Q + ROWS * ROW_BYTES,           /* [128, 64] bf16 */
    PAIR_TOP = PAIR_WEIGHTS + ROWS * PAIR_TILE * 2,     /* [8 warps, 32] fp32 */
    PAIR_LIMIT = PAIR_TOP + WARPS * 32 * 4,             /* [128] int */
    PAIR_BARRIERS = PAIR_LIMIT + ROWS * 4,              /* stage 0 and 1 full, stage 0 and 1 free */
    PAIR_BYTES = PAIR_BARRIERS + 4 * 8,
};
static_assert(SMALL_BYTES <= 99 * 1024, "a GB10 has 99 KiB");
static_assert((int)ROWS == (int)ATTENTION_SCRATCH_ROWS && DIM * sizeof(float) + sizeof(float2) == ATTENTION_SCRATCH_ROW,
              "kernels/attention.h has the sizes");

static __device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

/* The tokens of a block: tokens t0..t0+n-1 of the call, for all query heads of a KV head.  Of a compressed cache they see positions below `sealed` as
 * codes: blocks are cut at multiples of `tokens`, which divides KV_BLOCK. */
struct tokens {
    int t0, n, sealed;
};
template <bool CODES> static __device__ __forceinline__ struct tokens tokens_of(const struct attention_args &a, int tokens)
{
    const int i = (int)(gridDim.y - 1 - blockIdx.y);
    if (!CODES)
        return {i * tokens, min(tokens, a.n_tokens - i * tokens), 0};
    const int begin = (a.pos / tokens + i) * tokens, t0 = max(begin - a.pos, 0);
    return {t0, min(begin + tokens - a.pos, a.n_tokens) - t0, kv_sealed(&a.kv, a.pos + t0)};
}

/* Copies N positions of one KV head from p0 on, K before V; zeros after `last`.  Warp w copies rows w, w + 8, ... */
template <int N, bool CODES>
static __device__ __forceinline__ void fetch(char *stage, const struct attention_args &a, const struct kv_expanded &x, int sealed, int p0, int last)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, row = a.kv.n_kv_heads * DIM;
    char *to = stage + warp * ROW_BYTES + ((lane ^ warp) << 4);
    auto copy = [&](const uint16_t *k, const uint16_t *v, auto row_of) {
#pragma unroll
        for (int i = 0; i < N / WARPS; i++) {
            const int p = p0 + warp + i * WARPS;
            const size_t at = (size_t)row_of(min(p, last)) * (size_t)row + (blockIdx.x * DIM + (unsigned)lane * 8);
            copy16_if(to + i * WARPS * ROW_BYTES, k + at, p <= last);
            copy16_if(to + (N + i * WARPS) * ROW_BYTES, v + at, p <= last);
        }
    };
    const uint16_t *k = (const uint16_t *)a.kv.k, *v = (const uint16_t *)a.kv.v;
    if (!CODES)
        copy(k, v, [&](int p) { return p; });
    else if (p0 < sealed)
        copy(x.k, x.v, [&](int p) { return p - x.from; });
    else
        copy(k, v, [&](int p) { return kv_exact_row(&a.kv, p); });
}

/* Tokens of a block: as many as its rows hold; with codes a power of two. */
template <bool CODES> static __host__ __device__ __forceinline__ int block_tokens(int group)
{
    int n = CODES ? KV_BLOCK : ROWS / group;
    while (CODES && n * group > ROWS)
        n /= 2;
    return n;
}

/* Positions in parts, one launch after the other: the outcome of the parts before is in y, divided by its sum of weights, and its greatest
 * logit and that sum are in `ends` [n, n_q_heads].  NULL: there is one part. */
struct parts {
    float2 *ends;
    int     from, to;                   /* positions of this part, multiples of KV_BLOCK */
};
static __device__ __forceinline__ float2 outcome_before(const struct parts &part, size_t at)
{
    return part.from > 0 ? part.ends[at] : make_float2(-INFINITY, 0);
}
/* The factors of y (before.y) and of the sums of this part; `end` is the outcome with this part. */
static __device__ __forceinline__ float2 merge(float2 before, float max, float sum, float unit, float2 *end)
{
    const float top = fmaxf(before.x, max), from = top == -INFINITY ? 0 : top;
    const float old = before.y * exp2_fast((before.x - from) * unit), now = exp2_fast((max - from) * unit), all = fmaf(sum, now, old);
    *end = make_float2(top, all);
    return make_float2(now / all, old / all);
}
/* Two neighbours of y. */
static __device__ __forceinline__ void put(float *y, float v0, float v1, float2 by, bool add)
{
    const float2 old = add ? *(const float2 *)y : make_float2(0, 0);
    *(float2 *)y = make_float2(fmaf(old.x, by.y, v0 * by.x), fmaf(old.y, by.y, v1 * by.x));
}

/* The gate of y, which is then stored as rows of fp16 for the next product (halves.cuh), in y's memory.  All rows have one factor, from a bound. */
struct gated {
    const float *gate;                  /* NULL: y is stored as it is */
    size_t       token, head;           /* strides of gate */
    float       *undo, most;            /* what undoes the factor, for each token; the bound */
};
/* Brings the gates of a block to the second-level cache, for the end. */
static __device__ __forceinline__ void prefetch_gates(const struct gated &o, int t0, int n, int head0, int group)
{
    enum { LINE = 32, LINES = DIM / LINE };
    for (int i = (int)threadIdx.x; i < n * group * LINES; i += WARPS * 32) {
        const int row = i / LINES;
        const float *line = o.gate + (size_t)(t0 + row / group) * o.token + (size_t)(head0 + row % group) * o.head + i % LINES * LINE;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
    }
}
/* Stores N pairs of neighbouring numbers of a row, those of `column` and every eighth after it, times `by`. */
template <int N, class Pair>
static __device__ __forceinline__ void put_gated(const struct gated &o, float *y, int token, int head, int n_heads, int column, float by,
                                                 const Pair &pair)
{
    const float *gate = o.gate + (size_t)token * o.token + (size_t)head * o.head + column;
    uint32_t *to = (uint32_t *)y + (((size_t)token * (size_t)n_heads + (size_t)head) * DIM + (size_t)column) / 2;
    float undo;
    const float factor = halves_bound_factor(o.most, &undo);
    if (head == 0 && column == 0)
        o.undo[token] = undo;
#pragma unroll
    for (int first = 0; first < N; first += GATES) {
        float2 g[GATES];
#pragma unroll
        for (int j = 0; j < GATES; j++)
            g[j] = __ldcs((const float2 *)(gate + 8 * (first + j)));
#pragma unroll
        for (int j = 0; j < GATES; j++) {
            const float2 v = pair(first + j);
            to[4 * (first + j)] = f16_pair(v.x * by * sigmoid_fast(g[j].x) * factor, v.y * by * sigmoid_fast(g[j].y) * factor);
        }
    }
}

/* Cosine and sine of the eight pairs of which a lane has one half: lanes 0 .. half / 8 - 1 the first, as many lanes behind them the second. */
static __device__ __forceinline__ void turn_angles(float2 by[8], const struct attention_turn &u, int t)
{
    const int lanes = u.half / 8, first = (int)threadIdx.x % 32 % lanes * 8;
    if ((int)threadIdx.x % 32 >= 2 * lanes)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int p = u.at ? rope_coordinate(u.at[t], first + i) : u.first + t;
        float s, c;
        sincosf((float)p * __ldg(u.freq + first + i), &s, &c);
        by[i] = make_float2(c * u.scale, s * u.scale);
    }
}
/* Norms and turns a row of which a lane has dims 8 lane .. 8 lane + 7, and w, the factors of the norm for these.  Called by the whole warp. */
static __device__ __forceinline__ void turn_row(float x[8], const struct attention_turn &u, const float w[8], const float2 by[8])
{
    const int lane = (int)threadIdx.x % 32, lanes = u.half / 8, partner = lane < lanes ? lane + lanes : lane < 2 * lanes ? lane - lanes : lane;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum += x[i] * x[i];
    const float s = 1.0f / sqrtf(warp_sum(sum) * (1.0f / DIM) + u.eps);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] *= s * w[i];
        const float other = __shfl_sync(~0u, x[i], partner);
        if (lane < lanes)
            x[i] = x[i] * by[i].x - other * by[i].y;
        else if (lane < 2 * lanes)
            x[i] = x[i] * by[i].x + other * by[i].y;
    }
}

/* Loads a warp's 16 rows of q as bf16; rows beyond the last are 0. */
static __device__ __forceinline__ void stage_q(char *to, const struct attention_args &a, int t0, int n, int head0, int group)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float w[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        w[i] = a.turn.norm ? 1.0f + __ldg(a.turn.norm + 8 * lane + i) : 1;
    for (int r0 = 0, end; r0 < 16; r0 = end) {          /* the rows of a token */
        const int tok = (warp * 16 + r0) / group;
        float2 by[8];
        end = min(16, (tok + 1) * group - warp * 16);
        if (a.turn.norm && tok < n)
            turn_angles(by, a.turn, t0 + tok);
#pragma unroll 8
        for (int r = r0; r < end; r++) {
            const int m = warp * 16 + r;
            uint4 bits = make_uint4(0, 0, 0, 0);
            if (tok < n) {
                float x[8];
                const float4 *q = (const float4 *)(a.q + (size_t)(t0 + tok) * a.q_token + (size_t)(head0 + m % group) * a.q_head) + 2 * lane;
                *(float4 *)x = q[0];
                *(float4 *)(x + 4) = q[1];
                if (a.turn.norm)
                    turn_row(x, a.turn, w, by);
                bits = make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7]));
            }
            *(uint4 *)(to + m * ROW_BYTES + ((lane ^ (r & 7)) << 4)) = bits;
        }
    }
}

/* Barriers in shared memory. */
static __device__ __forceinline__ void barrier_init(uint32_t at, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
static __device__ __forceinline__ void barrier_arrive(uint32_t at)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(at) : "memory");
}
/* Arrives when the copies that the thread has issued are complete. */
static __device__ __forceinline__ void barrier_arrive_copied(uint32_t at)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
}
static __device__ __forceinline__ void barrier_wait(uint32_t at, int parity)
{
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again; }"
                 ::"r"(at), "r"(parity) : "memory");
}
static __device__ __forceinline__ void pair_sync(int pair)
{
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* Attention where a warp has 16 rows of its own and all 256 columns; tiles of 32 positions are fetched ahead.  CODES: one part, merged with those
 * before it. */
template <bool CODES>
static __global__ __launch_bounds__(WARPS * 32, 1) void attention_small_kernel(struct attention_args a, struct kv_expanded x, struct parts part,
                                                                               struct gated gated)
{
    extern __shared__ __align__(1024) char smem[];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int group = a.n_q_heads / a.kv.n_kv_heads, head0 = (int)blockIdx.x * group;
    const struct tokens block = tokens_of<CODES>(a, block_tokens<CODES>(group));
    const int t0 = block.t0, n = block.n, last = a.pos + t0 + n - 1, first = CODES ? part.from : 0;
    const int n_tiles = CODES ? min(last / TILE + 1, part.to / TILE) - first / TILE : last / TILE + 1;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);
    int *limit = (int *)(smem + STAGES * STAGE);        /* last position that a row sees; in memory because registers are short */

    if (CODES && n_tiles <= 0)
        return;                         /* this part begins behind them */
    fetch<TILE, CODES>(smem, a, x, block.sealed, first, last);
    copy_commit();
    if (threadIdx.x < ROWS)
        limit[threadIdx.x] = a.pos + t0 + (int)threadIdx.x / group;

    stage_q(smem + STAGE, a, t0, n, head0, group);      /* through stages 1 and 2 into A fragments */
    __syncwarp();
    uint32_t q[16][4];
#pragma unroll
    for (int s = 0; s < 16; s++)
        ldmatrix(q[s], base + STAGE + (warp * 16 + lane % 16) * ROW_BYTES + (((2 * s + lane / 16) ^ (lane & 7)) << 4));
    __syncthreads();
#pragma unroll
    for (int s = 1; s < STAGES - 1; s++) {
        if (s < n_tiles)
            fetch<TILE, CODES>(smem + s * STAGE, a, x, block.sealed, first + s * TILE, last);
        copy_commit();
    }

    const float unit = a.scale * 1.4426950408889634f;
    float o[32][4] = {}, max0 = -INFINITY, max1 = -INFINITY, sum0 = 0, sum1 = 0;
    /* Addresses of pieces c = 0, 2, 4, 6 of a row; those of the other eights are at constant offsets. */
    const uint32_t k_row = base + (uint32_t)((lane & 7) + (lane >> 4 << 3)) * ROW_BYTES + (uint32_t)(((lane >> 3 & 1) ^ (lane & 7)) << 4);
    const uint32_t v_row = base + (uint32_t)(TILE + lane % 16) * ROW_BYTES + (uint32_t)((lane / 16 ^ (lane & 7)) << 4);

    const int soon = gated.gate ? ::max(n_tiles - GATES_AHEAD, 0) : -1;
#pragma unroll 1
    for (int i = 0, stage = 0; i < n_tiles; i++) {
        if (i == soon)
            prefetch_gates(gated, t0, n, head0, group);
        copy_wait<STAGES - 2>();
        __syncthreads();                /* tile i has arrived, and all warps have finished tile i - 1 */
        int ahead = i + STAGES - 1, into = stage == 0 ? STAGES - 1 : stage - 1;
        if (ahead < n_tiles)
            fetch<TILE, CODES>(smem + into * STAGE, a, x, block.sealed, first + ahead * TILE, last);
        copy_commit();

        /* logits of 32 keys, without those after the row's own position */
        const uint32_t at = (uint32_t)stage * STAGE;
        float s[4][4] = {};
#pragma unroll
        for (int step = 0; step < 16; step++)
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                uint32_t b[4];
                ldmatrix(b, at + (k_row ^ (step % 4 << 5)) + pair * 16 * ROW_BYTES + step / 4 * 128);
                mma_bf16(s[2 * pair], q[step], b[0], b[1]);
                mma_bf16(s[2 * pair + 1], q[step], b[2], b[3]);
            }

        if (first + i * TILE + TILE - 1 > limit[warp * 16]) {
            int limit0 = limit[warp * 16 + g], limit1 = limit[warp * 16 + g + 8];
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int p = first + i * TILE + 8 * j + 2 * t + e;
                    if (p > limit0)
                        s[j][e] = -INFINITY;
                    if (p > limit1)
                        s[j][2 + e] = -INFINITY;
                }
        }
        /* a greater maximum: rescales the sums so far */
        float top0 = fmaxf(fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1])), fmaxf(fmaxf(s[2][0], s[2][1]), fmaxf(s[3][0], s[3][1])));
        float top1 = fmaxf(fmaxf(fmaxf(s[0][2], s[0][3]), fmaxf(s[1][2], s[1][3])), fmaxf(fmaxf(s[2][2], s[2][3]), fmaxf(s[3][2], s[3][3])));
        top0 = fmaxf(max0, quad_max(top0));
        top1 = fmaxf(max1, quad_max(top1));
        if (__any_sync(~0u, top0 > max0 || top1 > max1)) {      /* rare after the first tiles; else all factors are 1 */
            float keep0 = CODES && !(top0 > max0) ? 1 : exp2_fast((max0 - top0) * unit);
            float keep1 = CODES && !(top1 > max1) ? 1 : exp2_fast((max1 - top1) * unit);
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
        /* weights, as A fragments */
        float from0 = CODES && max0 == -INFINITY ? 0 : -max0 * unit, from1 = CODES && max1 == -INFINITY ? 0 : -max1 * unit;
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

        /* sums of V */
#pragma unroll
        for (int step = 0; step < 2; step++)
#pragma unroll
            for (int pair = 0; pair < 16; pair++) {
                uint32_t b[4];
                ldmatrix_trans(b, at + (v_row ^ (pair % 4 << 5)) + step * 16 * ROW_BYTES + pair / 4 * 128);
                mma_bf16(o[2 * pair], w[step], b[0], b[1]);
                mma_bf16(o[2 * pair + 1], w[step], b[2], b[3]);
            }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    /* the result: merged with the parts before, or divided by the sum of weights */
    sum0 = quad_sum(sum0), sum1 = quad_sum(sum1);
    int m0 = warp * 16 + g, m1 = m0 + 8;
    size_t at0 = (size_t)(t0 + m0 / group) * (size_t)a.n_q_heads + (size_t)(head0 + m0 % group);
    size_t at1 = (size_t)(t0 + m1 / group) * (size_t)a.n_q_heads + (size_t)(head0 + m1 % group);
    float *y0 = a.y + at0 * DIM + 2 * t, *y1 = a.y + at1 * DIM + 2 * t;
    if (CODES && part.ends) {
        float2 end0, end1, by0 = make_float2(0, 0), by1 = by0;
        if (m0 / group < n)
            by0 = merge(outcome_before(part, at0), max0, sum0, unit, &end0);
        if (m1 / group < n)
            by1 = merge(outcome_before(part, at1), max1, sum1, unit, &end1);
        __syncwarp();                   /* all lanes have read what is written now */
        if (t == 0 && m0 / group < n)
            part.ends[at0] = end0;
        if (t == 0 && m1 / group < n)
            part.ends[at1] = end1;
#pragma unroll
        for (int j = 0; j < 32; j++) {
            if (m0 / group < n)
                put(y0 + 8 * j, o[j][0], o[j][1], by0, part.from > 0);
            if (m1 / group < n)
                put(y1 + 8 * j, o[j][2], o[j][3], by1, part.from > 0);
        }
        return;
    }
    float by0 = 1.0f / sum0, by1 = 1.0f / sum1;
    if (gated.gate) {
        if (m0 / group < n)
            put_gated<32>(gated, a.y, t0 + m0 / group, head0 + m0 % group, a.n_q_heads, 2 * t, by0,
                          [&](int j) { return make_float2(o[j][0], o[j][1]); });
        if (m1 / group < n)
            put_gated<32>(gated, a.y, t0 + m1 / group, head0 + m1 % group, a.n_q_heads, 2 * t, by1,
                          [&](int j) { return make_float2(o[j][2], o[j][3]); });
        return;
    }
#pragma unroll
    for (int j = 0; j < 32; j++) {
        if (m0 / group < n)
            *(float2 *)(y0 + 8 * j) = make_float2(o[j][0] * by0, o[j][1] * by0);
        if (m1 / group < n)
            *(float2 *)(y1 + 8 * j) = make_float2(o[j][2] * by1, o[j][3] * by1);
    }
}

/* Positions cut into pieces, to have more blocks.  The result of a piece for a (token, query head) goes to `sums` [pieces, n,
 * n_q_heads, 256]; its greatest logit and sum of weights go to `ends` [pieces, n, n_q_heads].  NULL: one piece, written to y. */
struct pieces {
    float  *sums;
    float2 *ends;
    int     tiles;                      /* tiles of a piece; blockIdx.z is the piece */
};

/* Attention where two warps share 32 rows: each has half of a tile's positions for the logits, and half of the columns for the sums. */
template <bool CODES>
static __global__ __launch_bounds__(WARPS * 32, 1) void attention_pair_kernel(struct attention_args a, struct pieces pieces, struct kv_expanded x,
                                                                              struct parts part, struct gated gated)
{
    extern __shared__ __align__(1024) char smem[];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int pair = warp / 2, half = warp % 2;         /* rows 32 pair .. + 31; positions 32 half .., columns 128 half .. */
    const int group = a.n_q_heads / a.kv.n_kv_heads, head0 = (int)blockIdx.x * group;
    const struct tokens block = tokens_of<CODES>(a, block_tokens<CODES>(group));
    const int t0 = block.t0, n = block.n, last = a.pos + t0 + n - 1;
    const int first_tile = (int)blockIdx.z * pieces.tiles + (CODES ? part.from / PAIR_TILE : 0);
    const int end_tile = CODES ? min(last / PAIR_TILE + 1, part.to / PAIR_TILE) : last / PAIR_TILE + 1;
    const int n_tiles = min(end_tile - first_tile, pieces.tiles);
    const int first = first_tile * PAIR_TILE;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem), full = base + PAIR_BARRIERS, empty = full + 16;
    int *limit = (int *)(smem + PAIR_LIMIT);            /* last position that a row sees */
    float *top = (float *)(smem + PAIR_TOP) + warp * 32, *other_top = (float *)(smem + PAIR_TOP) + (warp ^ 1) * 32;

    if (threadIdx.x < ROWS)
        limit[threadIdx.x] = a.pos + t0 + (int)threadIdx.x / group;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) {
            barrier_init(full + i * 8, WARPS * 32);
            barrier_init(empty + i * 8, WARPS * 32);
        }
    __syncthreads();
    if (n_tiles > 0)
        fetch<PAIR_TILE, CODES>(smem, a, x, block.sealed, first, last);
    barrier_arrive_copied(full);
    stage_q(smem + PAIR_Q, a, t0, n, head0, group);
    pair_sync(pair);

    const int all_see = limit[pair * 32];
    const float unit = a.scale * 1.4426950408889634f;
    float o[2][16][4] = {}, max[2][2], sum[2][2] = {};
    max[0][0] = max[0][1] = max[1][0] = max[1][1] = -INFINITY;
    /* Address of a lane's row and first piece; pieces 2, 4 and 6 by XOR, those of the other eights at constant offsets. */
    const uint32_t piece = (uint32_t)((lane / 16 ^ (lane & 7)) << 4);
    const uint32_t q_row = base + PAIR_Q + (uint32_t)(pair * 32 + lane % 16) * ROW_BYTES + piece;
    const uint32_t w_row = base + PAIR_WEIGHTS + (uint32_t)(pair * 32 + lane % 16) * PAIR_TILE * 2 + piece;
    const uint32_t k_row = base + (uint32_t)(half * 32 + (lane & 7) + (lane >> 4 << 3)) * ROW_BYTES
                           + (uint32_t)(((lane >> 3 & 1) ^ (lane & 7)) << 4);
    const uint32_t v_row = base + (uint32_t)(PAIR_TILE + lane % 16) * ROW_BYTES + (uint32_t)half * 256 + piece;
    char *to = smem + PAIR_WEIGHTS + (pair * 32 + g) * PAIR_TILE * 2 + t * 4;

    const int soon = gated.gate ? ::max(n_tiles - GATES_AHEAD, 0) : -1;
#pragma unroll 1
    for (int i = 0; i < n_tiles; i++) {
        if (i == soon)
            prefetch_gates(gated, t0, n, head0, group);
        const uint32_t stage = (uint32_t)(i & 1) * PAIR_STAGE;
        barrier_wait(full + (i & 1) * 8, i >> 1 & 1);

        /* logits of the warp's half of the keys */
        float s[2][4][4] = {};
#pragma unroll
        for (int step = 0; step < 16; step++) {
            uint32_t x[2][4], b[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++) {
                ldmatrix(x[m], (q_row ^ (step % 4 << 5)) + m * 16 * ROW_BYTES + step / 4 * 128);
                ldmatrix(b[m], stage + (k_row ^ (step % 4 << 5)) + m * 16 * ROW_BYTES + step / 4 * 128);
            }
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    mma_bf16(s[m][j], x[m], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }

        /* the next tile, into the other stage */
        if (i + 1 < n_tiles) {
            if (i > 0)                  /* all warps have finished tile i - 1 */
                barrier_wait(empty + (i + 1 & 1) * 8, i - 1 >> 1 & 1);
            fetch<PAIR_TILE, CODES>(smem + (i + 1 & 1) * PAIR_STAGE, a, x, block.sealed, first + (i + 1) * PAIR_TILE, last);
            barrier_arrive_copied(full + (i + 1 & 1) * 8);
        }

        if (first + i * PAIR_TILE + PAIR_TILE - 1 > all_see) {
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int see = limit[pair * 32 + m * 16 + e / 2 * 8 + g];
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        if (first + i * PAIR_TILE + half * 32 + 8 * j + 2 * t + e % 2 > see)
                            s[m][j][e] = -INFINITY;
                }
        }
        /* the greatest logits of both warps of the pair */
        float now[2][2];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float v = fmaxf(s[m][0][2 * e], s[m][0][2 * e + 1]);
#pragma unroll
                for (int j = 1; j < 4; j++)
                    v = fmaxf(v, fmaxf(s[m][j][2 * e], s[m][j][2 * e + 1]));
                now[m][e] = quad_max(v);
                if (t == 0)
                    top[m * 16 + e * 8 + g] = now[m][e];
            }
        pair_sync(pair);
        bool grows = false;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                now[m][e] = fmaxf(max[m][e], fmaxf(now[m][e], other_top[m * 16 + e * 8 + g]));
                grows |= now[m][e] > max[m][e];
            }
        if (__any_sync(~0u, grows)) {   /* rare after the first tiles; else all factors are 1 */
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float keep = now[m][e] > max[m][e] ? exp2_fast((max[m][e] - now[m][e]) * unit) : 1;
                    max[m][e] = now[m][e];
                    sum[m][e] *= keep;
#pragma unroll
                    for (int j = 0; j < 16; j++) {
                        o[m][j][2 * e] *= keep;
                        o[m][j][2 * e + 1] *= keep;
                    }
                }
        }
        /* weights, which the pair shares */
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float from = max[m][e] == -INFINITY ? 0 : -max[m][e] * unit;        /* the row sees no position of this piece */
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float p0 = exp2_fast(fmaf(s[m][j][2 * e], unit, from)), p1 = exp2_fast(fmaf(s[m][j][2 * e + 1], unit, from));
                    sum[m][e] += p0 + p1;
                    *(uint32_t *)(to + (m * 16 + e * 8) * PAIR_TILE * 2 + (((half * 4 + j) ^ g) << 4)) = bf16_pair(p0, p1);
                }
            }
        pair_sync(pair);

        /* sums of the warp's half of the columns of V */
#pragma unroll
        for (int step = 0; step < PAIR_TILE / 16; step++) {
            uint32_t w[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++)
                ldmatrix(w[m], (w_row ^ (step << 5)) + m * 16 * PAIR_TILE * 2);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                uint32_t b[4];
                ldmatrix_trans(b, stage + (v_row ^ (j % 4 << 5)) + step * 16 * ROW_BYTES + j / 4 * 128);
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    mma_bf16(o[m][2 * j], w[m], b[0], b[1]);
                    mma_bf16(o[m][2 * j + 1], w[m], b[2], b[3]);
                }
            }
        }
        barrier_arrive(empty + (i & 1) * 8);
    }

    /* Adds the sums of the two warps. */
    const bool merges = CODES && part.ends && !pieces.sums;
    float2 before[2][2];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int r = pair * 32 + m * 16 + e * 8 + g;
            sum[m][e] = quad_sum(sum[m][e]);
            if (t == 0)
                top[m * 16 + e * 8 + g] = sum[m][e];
            if (merges && r / group < n)
                before[m][e] = outcome_before(part, (size_t)(t0 + r / group) * (size_t)a.n_q_heads + (size_t)(head0 + r % group));
        }
    pair_sync(pair);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int r = pair * 32 + m * 16 + e * 8 + g;
            if (r / group >= n)
                continue;
            size_t at = (size_t)(t0 + r / group) * (size_t)a.n_q_heads + (size_t)(head0 + r % group);
            float all = sum[m][e] + other_top[m * 16 + e * 8 + g], by = 1.0f / all, *y = a.y;
            if (merges) {
                float2 end, by2 = merge(before[m][e], max[m][e], all, unit, &end);
                if (t == 0 && half == 0)
                    part.ends[at] = end;
                y += at * DIM + half * 128 + 2 * t;
#pragma unroll
                for (int j = 0; j < 16; j++)
                    put(y + 8 * j, o[m][j][2 * e], o[m][j][2 * e + 1], by2, part.from > 0);
                continue;
            }
            if (gated.gate) {
                put_gated<16>(gated, a.y, t0 + r / group, head0 + r % group, a.n_q_heads, half * 128 + 2 * t, by,
                              [&](int j) { return make_float2(o[m][j][2 * e], o[m][j][2 * e + 1]); });
                continue;
            }
            if (pieces.sums) {
                at += (size_t)blockIdx.z * (size_t)a.n_tokens * (size_t)a.n_q_heads;
                if (t == 0 && half == 0)
                    pieces.ends[at] = make_float2(max[m][e], all);
                y = pieces.sums;
                by = 1;
            }
            y += at * DIM + half * 128 + 2 * t;
#pragma unroll
            for (int j = 0; j < 16; j++)
                *(float2 *)(y + 8 * j) = make_float2(o[m][j][2 * e] * by, o[m][j][2 * e + 1] * by);
        }
}

/* Merges the pieces of one query head of one token; four columns per thread. */
template <bool CODES>
static __global__ __launch_bounds__(DIM / 4) void attention_sum_kernel(struct attention_args a, struct pieces pieces, int n_pieces, struct parts part)
{
    size_t at = (size_t)blockIdx.y * (size_t)a.n_q_heads + blockIdx.x, step = (size_t)a.n_tokens * (size_t)a.n_q_heads;
    const float unit = a.scale * 1.4426950408889634f;
    float max = -INFINITY, sum = 0;
    float4 y = make_float4(0, 0, 0, 0);
    for (int i = 0; i < n_pieces; i++)
        max = fmaxf(max, pieces.ends[at + (size_t)i * step].x);
    const float from = CODES && max == -INFINITY ? 0 : max;     /* a part that the token does not see */
#pragma unroll 4
    for (int i = 0; i < n_pieces; i++) {
        float2 end = pieces.ends[at + (size_t)i * step];
        float4 v = ((const float4 *)pieces.sums)[(at + (size_t)i * step) * (DIM / 4) + threadIdx.x];
        float w = exp2_fast((end.x - from) * unit);
        sum = fmaf(w, end.y, sum);
        y.x = fmaf(w, v.x, y.x);
        y.y = fmaf(w, v.y, y.y);
        y.z = fmaf(w, v.z, y.z);
        y.w = fmaf(w, v.w, y.w);
    }
    float4 *to = (float4 *)a.y + at * (DIM / 4) + threadIdx.x;
    float by = 1.0f / sum;
    if (CODES && part.ends) {
        float2 end, weights = merge(outcome_before(part, at), max, sum, unit, &end);
        float4 old = part.from > 0 ? *to : make_float4(0, 0, 0, 0);
        __syncthreads();                /* all threads have read what is written now */
        if (threadIdx.x == 0)
            part.ends[at] = end;
        by = weights.x;
        *to = make_float4(fmaf(old.x, weights.y, y.x * by), fmaf(old.y, weights.y, y.y * by), fmaf(old.z, weights.y, y.z * by),
                          fmaf(old.w, weights.y, y.w * by));
        return;
    }
    *to = make_float4(y.x * by, y.y * by, y.z * by, y.w * by);
}

/* Few tokens after a long context leave multiprocessors idle: cut into as many pieces of at least 512 positions as fill them and fit
 * into `room` bytes of scratch memory.  Pieces are gated by the operation that follows. */
template <bool CODES>
static void launch_pairs(struct cuda_queue *q, const struct attention_args *a, dim3 grid, const struct kv_expanded &x, const struct parts &part,
                         size_t room, struct gated *gated)
{
    int blocks = (int)(grid.x * grid.y), end = a->pos + a->n_tokens < part.to ? a->pos + a->n_tokens : part.to;
    int n_tiles = (end - part.from - 1) / PAIR_TILE + 1;
    size_t rows = (size_t)a->n_tokens * (size_t)a->n_q_heads, fit = room / (rows * ATTENTION_SCRATCH_ROW);
    int n = q->n_sm / blocks < n_tiles / 8 ? q->n_sm / blocks : n_tiles / 8;
    if ((size_t)n > fit)
        n = (int)fit;
    struct pieces pieces = {.sums = NULL, .ends = NULL, .tiles = n_tiles};
    if (n > 1) {
        pieces.tiles = (n_tiles + n - 1) / n;
        n = (n_tiles + pieces.tiles - 1) / pieces.tiles;
        pieces.sums = (float *)q->scratch;
        pieces.ends = (float2 *)(pieces.sums + (size_t)n * rows * DIM);
        grid.z = (unsigned)n;
        gated->gate = NULL;
    }
    launch(q, "attention", attention_pair_kernel<CODES>, grid, WARPS * 32, PAIR_BYTES, false, *a, pieces, x, part, *gated);
    if (pieces.sums)
        launch(q, "attention", attention_sum_kernel<CODES>, dim3((unsigned)a->n_q_heads, (unsigned)a->n_tokens), DIM / 4, 0, false, *a, pieces, n,
               part);
}

template <bool CODES> static int part_blocks(const struct attention_args *a)
{
    const int tokens = block_tokens<CODES>(a->n_q_heads / a->kv.n_kv_heads);
    return CODES ? (a->pos + a->n_tokens - 1) / tokens - a->pos / tokens + 1 : (a->n_tokens + tokens - 1) / tokens;
}

template <bool CODES>
static void launch_part(struct cuda_queue *q, const struct attention_args *a, const struct kv_expanded &x, const struct parts &part, size_t room,
                        struct gated *gated)
{
    dim3 grid((unsigned)a->kv.n_kv_heads, (unsigned)part_blocks<CODES>(a));
    if (q->smem >= PAIR_BYTES)
        launch_pairs<CODES>(q, a, grid, x, part, room, gated);
    else
        launch(q, "attention", attention_small_kernel<CODES>, grid, WARPS * 32, SMALL_BYTES, false, *a, x, part, *gated);
}

/* Scratch memory of a compressed cache: pieces, if there will be any (a third at most), ends of parts, rows made of codes. */
static void launch_compressed(struct cuda_queue *q, const struct attention_args *a, struct gated *gated)
{
    const int end = (a->pos + a->n_tokens + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK, sealed = kv_sealed(&a->kv, a->pos + a->n_tokens - 1);
    const int blocks = part_blocks<true>(a) * a->kv.n_kv_heads;
    const size_t room = 2 * blocks > q->n_sm ? 0 : q->scratch_bytes / 3, ends = (size_t)a->n_tokens * (size_t)a->n_q_heads * sizeof(float2);
    const size_t row = (size_t)a->kv.n_kv_heads * DIM * sizeof(uint16_t), begin = (room + ends + 255) / 256 * 256;
    const size_t fit = (q->scratch_bytes > begin ? q->scratch_bytes - begin : 0) / (2 * row * KV_BLOCK) * KV_BLOCK;
    if (fit == 0 && sealed > 0) {
        queue_note(q, "attention", cudaErrorMemoryAllocation);
        return;
    }
    const int most = fit < (size_t)end ? (int)fit : end;
    struct parts part = {.ends = NULL, .from = 0, .to = sealed > most ? most : end};
    if (sealed > most) {
        gated->gate = NULL;
        part.ends = (float2 *)(q->scratch + room / 256 * 256);
    }
    struct kv_expanded x = {.k = (uint16_t *)(q->scratch + begin), .v = NULL, .from = 0, .to = 0};
    x.v = x.k + (size_t)most * row / sizeof(uint16_t);
    for (; part.from < end; part.from = part.to, part.to = sealed - part.from > most ? part.from + most : end) {
        x.from = part.from;
        x.to = sealed < part.to ? sealed : part.to;
        kv_expand(q, a->kv, x);
        launch_part<true>(q, a, x, part, room / 256 * 256, gated);
    }
}

/* Returns the gate that attention can apply as it stores, all rows of the call by itself. */
static struct gated gate_of(const struct attention_args *a)
{
    const struct sigmoid_gate_args *g = a->gate;
    const int cols = a->n_q_heads * DIM;
    if (!g || g->most == 0 || !g->next || g->next->cols != cols || cols > GATE_HELD * 4 * HALVES_THREADS || linear_narrow(g->next)
        || gemm_halves(a->n_tokens) == 2 || g->y != a->y || (uintptr_t)g->gate % 8 || g->gate_token % 2 || g->gate_head % 2)
        return {};
    return {g->gate, g->gate_token, g->gate_head, (float *)((char *)a->y + gemm_factors_at((size_t)a->n_tokens, cols)), g->most};
}

extern "C" void sigmoid_gate_cuda(struct cuda_queue *q, const struct sigmoid_gate_args *a);          /* rope.cu */

extern "C" void attention_cuda(struct cuda_queue *q, const struct attention_args *a)
{
    int group = a->n_q_heads / a->kv.n_kv_heads;
    if (a->kv.dtype != DT_BF16 || a->kv.head_dim != DIM || group < 1 || group > ROWS
        || (a->turn.norm && (a->turn.half < 8 || a->turn.half % 8 || 2 * a->turn.half > DIM))) {
        queue_note(q, "attention", cudaErrorInvalidValue);
        return;
    }
    struct gated gated = gate_of(a);
    if (kv_compressed(&a->kv))
        launch_compressed(q, a, &gated);
    else
        launch_part<false>(q, a, {}, {.ends = NULL, .from = 0, .to = INT_MAX}, q->scratch_bytes, &gated);
    if (gated.gate)
        halves_left(q, a->y, gated.undo, a->n_tokens, a->n_q_heads * DIM, (const char *)a->y);
    else if (a->gate)
        sigmoid_gate_cuda(q, a->gate);
}

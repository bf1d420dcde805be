/* step_attention over compressed rows: old positions as codes, the sinks and the newest ones exactly (kernels/attention.h).
 * Shapes    as step_attention.cu; codes of KV_BLOCK positions and a KV head (kernels/kv.h)
 * Bytes     codes and scales of old positions once: with 4 bits 260 B a position and KV head, 68 MB for the 122B at 128K; exact rows of
 *           recent + 80 to recent + 144 positions at most, 1 KiB each
 * Limit     bandwidth; next comes the lookup of levels in shared memory, one of 4 bytes for two codes
 * Launch    1: norms, rope, new rows, q and q rotated, a warp for each head; seals the block that the rows will read as codes
 *           2: grid (row sets, 64 ranges, kv_heads), 8 warps, 256 positions at a time (kernels/kv_units.h); the first ranges are for exact
 *           positions, range i of the n others has units i, i + n, ...; ranges beyond the end leave at once
 *           3: grid (heads, rows) adds the ranges up, turns the part of the codes back, and gates
 * Layout    16 query heads of a KV head are the rows of an m16n8k16.  Logits: a warp has 32 positions; it reads keys from memory as the
 *           operands of its products, dequantizes them in registers, and has q in shared memory.  Values: a warp has 32 numbers of all positions.
 *           Weights, times the scales of the values, pass through shared memory.  Levels of two codes lie in a table with a copy for every
 *           lane, free of bank conflicts.  Keys are requested a unit ahead, values are in the second-level cache by then
 * Numerics  q, levels and weights in bf16, the rest fp32.  What a position is added up with depends on the position alone */
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/step_attention.cuh"

extern "C" {
#include "kernels/kv_units.h"
}

enum {
    WARPS = 8, THREADS = WARPS * 32, HEADS = 16, STEPS = DIM / 16,
    TILES = 4,                          /* of 8 positions; a warp's in a unit */
    Q_BYTES = STEPS * 32 * 16,          /* of a row: the A operands of all steps */
    WEIGHT_BYTES = HEADS * KV_UNIT * 2, /* of a row: [16, 256] bf16, 16-byte piece c of head h at c ^ (h & 7) */
    TOP_BYTES = HEADS * WARPS * 4,
    TABLE_4 = 256 * 128, TABLE_3 = 64 * 128,    /* [pairs of codes, 32 lanes] two bf16 */
    QUERY_BYTES = DIM * 2,              /* a head's q in scratch memory: [16 steps, 4 lanes, 4] bf16; exact, then rotated */
    MOST_EXACT_UNITS = 32,
};
static_assert((int)(WARPS * TILES * 8) == (int)KV_UNIT && (int)(WARPS * 32) == (int)DIM && (int)WARPS == (int)KV_WARPS, "a unit is what a block has at a time");

template <int KF, int VF> static __host__ __device__ constexpr int table_bytes()
{
    return (KF == KV_TQ4 || VF == KV_TQ4 ? TABLE_4 : 0) + (VF == KV_TQ3 ? TABLE_3 : 0);
}
template <int R, int KF, int VF> static __host__ __device__ constexpr int shared_bytes()
{
    return table_bytes<KF, VF>() + R * (Q_BYTES + WEIGHT_BYTES + TOP_BYTES);
}
/* Rows of a block at most: as many as there are registers and, on a GB10, shared memory for. */
template <int KF, int VF> static constexpr int most_rows() { return KF == KV_TQ4 && VF == KV_TQ4 ? 4 : 2; }
static_assert(shared_bytes<4, KV_TQ4, KV_TQ4>() <= 99 * 1024 && shared_bytes<2, KV_TQ4, KV_TQ3>() <= 99 * 1024
              && shared_bytes<2, KV_INT8, KV_TQ4>() <= 99 * 1024, "a GB10 has 99 KiB");

/* q of a row and head in scratch memory, behind the outcomes of ranges. */
static __device__ __forceinline__ uint2 *queries(const struct step_attention_args &a, int row, int head, bool rotated)
{
    char *first = (char *)(partial_ends(a) + 2 * (size_t)STEP_ROWS * (size_t)a.n_q_heads * STEP_RANGES);
    return (uint2 *)(first + (((size_t)row * (size_t)a.n_q_heads + (size_t)head) * 2 + rotated) * QUERY_BYTES);
}

/* ---- 1: rows ---- */

/* A lane's eight numbers of q in the order of the operands. */
static __device__ __forceinline__ void write_query(uint2 *to, enum kv_format f, int lane, const uint4 &bits)
{
    to[kv_number_step(f, 8 * lane)] = make_uint2(bits.x, bits.y);
    to[kv_number_step(f, 8 * lane + 4)] = make_uint2(bits.z, bits.w);
}

/* Head `head` of the row's query heads, then of its keys, then of its values. */
static __device__ __forceinline__ void make_head(const struct step_attention_args &a, int row, int pos, int head, const float2 *turn)
{
    const int lane = (int)threadIdx.x % 32, kv_heads = a.kv.n_kv_heads, kind = head < a.n_q_heads ? 0 : head < a.n_q_heads + kv_heads ? 1 : 2;
    const int h = kind == 0 ? head : (head - a.n_q_heads) % kv_heads;
    const struct head_norm norm = head_norm_of(kind == 0 ? a.q_norm : a.k_norm, a.half, lane);
    const float *x = kind == 0 ? a.qg + ((size_t)row * (size_t)a.n_q_heads + (size_t)h) * 2 * DIM
                               : (kind == 1 ? a.k : a.v) + ((size_t)row * (size_t)kv_heads + (size_t)h) * DIM;
    float v[8], mate[8];
    load_eight(v, x + norm.at, x + norm.at + 4);
    if (kind == 2) {
        *kv_exact_at(a.kv, KV_VALUE, h, pos, lane) = eight_bf16(v);
        return;
    }
    load_eight(mate, x + norm.mate[0], x + norm.mate[1]);
    const uint4 bits = norm_and_turn(norm, v, mate, turn, a.half, a.eps);
    if (kind == 1) {
        *kv_exact_at(a.kv, KV_KEY, h, pos, lane) = bits;
        return;
    }
    write_query(queries(a, row, h, false), KV_EXACT, lane, bits);
    kv_turn(v, KV_KEY, lane);
    write_query(queries(a, row, h, true), a.kv.k_format, lane, eight_bf16(v));
}

/* Block row y < n_rows: 8 heads of a row; the last block row: a KV head's keys or values of the blocks to be sealed. */
static __global__ __launch_bounds__(THREADS, 1) void step_attention_rows_kernel(struct step_attention_args a)
{
    __shared__ float2 turn[DIM / 2];
    const int row = (int)blockIdx.y, head = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32;
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const int pos = *a.pos;
    if (row == a.n_rows) {
        gpu_wait();
        if ((int)blockIdx.x < 2 * a.kv.n_kv_heads)
            for (int first = kv_sealed(&a.kv, pos - 1); first < kv_sealed(&a.kv, pos + a.n_rows - 1); first += KV_BLOCK)
                kv_seal_block(a.kv, (int)blockIdx.x % 2, (int)blockIdx.x / 2, first);
        return;
    }
    for (int i = (int)threadIdx.x; i < a.half; i += THREADS) {
        const float2 v = cos_sin((float)(pos + row) * a.freq[i]);
        turn[i] = make_float2(v.x * a.rope_scale, v.y * a.rope_scale);
    }
    gpu_wait();
    __syncthreads();
    if (head < a.n_q_heads + 2 * a.kv.n_kv_heads)
        make_head(a, row, pos + row, head, turn);
}

/* ---- 2: ranges ---- */

/* Rows row0 .. row0 + n - 1 of the call, at positions pos0 and on; the first sees codes below `sealed`, the last below `end`. */
struct set {
    int row0, n, pos0, sealed, end, kv_head, head0, group;
    float unit;                         /* logits are powers of two */
};

/* Two levels as bf16, for every pair of codes and every lane. */
static __device__ __forceinline__ void fill_table(char *table, enum kv_format f)
{
    const int lane = (int)threadIdx.x % 32;
    for (int e = (int)threadIdx.x; e < (f == KV_TQ4 ? 256 : 64); e += THREADS) {
        const float *levels = f == KV_TQ4 ? kv_levels_4 : kv_levels_3;
        const uint32_t v = bf16_pair(levels[kv_pair_code(f, e, 0)], levels[kv_pair_code(f, e, 1)]);
#pragma unroll
        for (int j = 0; j < 8; j++)
            *(uint4 *)(table + e * 128 + ((j + lane) & 7) * 16) = make_uint4(v, v, v, v);
    }
}

/* Byte k of w in the table; lane4: 4 * lane. */
static __device__ __forceinline__ uint32_t look_up(const char *table, uint32_t lane4, uint32_t w, int k)
{
    return *(const uint32_t *)(table + (((k == 0 ? w << 7 : w >> (8 * k - 7)) & 0x7f80u) | lane4));
}

/* Bytes 2 h and 2 h + 1 of w, minus 128, exact: seven bits fill the mantissa of 128, the eighth one decides whether 128 or 256 is taken away. */
static __device__ __forceinline__ uint32_t int8_pair(uint32_t w, int h)
{
    const uint32_t v = __byte_perm(w, 0, h ? 0x4342 : 0x4140), low = (v & 0x007f007fu) | 0x43004300u, bias = (v & 0x00800080u) ^ 0x43804380u;
    const __nv_bfloat162 x = __hsub2(*(const __nv_bfloat162 *)&low, *(const __nv_bfloat162 *)&bias);
    return *(const uint32_t *)&x;
}

static __device__ __forceinline__ uint4 load16(const void *p) { return __ldcg((const uint4 *)p); }
static __device__ __forceinline__ uint2 load8(const void *p) { return __ldcg((const uint2 *)p); }
static __device__ __forceinline__ uint32_t load4(const void *p) { return __ldcg((const unsigned *)p); }

/* Asks for a line of 128 bytes in the second-level cache.  Only latency depends on it: what another kernel still writes there is seen. */
static __device__ __forceinline__ void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

static __device__ __forceinline__ float half_low(uint32_t v) { return __half2float(__ushort_as_half((unsigned short)v)); }
static __device__ __forceinline__ float half_high(uint32_t v) { return __half2float(__ushort_as_half((unsigned short)(v >> 16))); }

/* Scales of the warp's 32 positions of unit u, two a word. */
static __device__ __forceinline__ void load_scales(uint32_t to[TILES], const uint16_t *scales, const struct step_attention_args &a, const struct set &s,
                                                   int u)
{
    const int warp = (int)threadIdx.x / 32, block = KV_UNIT_BLOCKS * u + warp / 2;
    const uint16_t *from = scales + ((size_t)block * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head) * KV_BLOCK + warp % 2 * 32 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILES; j++)
        to[j] = load4(from + 8 * j);
}

/* A warp's 32 keys of a unit: two of the pieces that a lane needs of its four, the rest follows while these are multiplied. */
template <int F> struct keys {
    const char *at;                     /* the lane's first piece, of exact rows that of row 0 */
    uint32_t    row[F == KV_EXACT ? TILES : 1];
    uint4       now[TILES], next[TILES];
    uint32_t    scales[TILES];
    int         first;                  /* position of the first key */
    bool        any;                    /* there is something to see */
};

template <int F> static __device__ __forceinline__ uint4 piece(const struct keys<F> &k, int j, int c)
{
    return load16(k.at + (F == KV_EXACT ? (size_t)k.row[F == KV_EXACT ? j : 0] * (DIM * 2) : j * 8 * kv_key_bytes((enum kv_format)F)) + 64 * c);
}

template <int F> static __device__ __forceinline__ void begin_keys(struct keys<F> &k, const struct step_attention_args &a, const struct set &s, int u)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, part = warp % 2 * 32;
    if (F == KV_EXACT) {
        const int place = KV_UNIT_BLOCKS * u + warp / 2, last = s.pos0 + s.n - 1;
        k.first = kv_place_begin(&a.kv, place, s.sealed) + part;
        k.any = place <= kv_window(&a.kv) && k.first <= last && (place > 0 || s.end > 0);
        k.at = (const char *)a.kv.k + 16 * t;
#pragma unroll
        for (int j = 0; j < TILES; j++)
            k.row[F == KV_EXACT ? j : 0] = (uint32_t)kv_exact_row(&a.kv, min(k.first + 8 * j + g, last)) * (uint32_t)a.kv.n_kv_heads
                                           + (uint32_t)s.kv_head;
    } else {
        const int block = KV_UNIT_BLOCKS * u + warp / 2;
        const size_t i = (size_t)block * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
        k.first = block * KV_BLOCK + part;
        k.any = k.first < s.end;
        k.at = (const char *)a.kv.k_codes + i * kv_block_bytes((enum kv_format)F) + (part + g) * kv_key_bytes((enum kv_format)F) + 16 * t;
        if (k.any)
            load_scales(k.scales, a.kv.k_scales, a, s, u);
    }
    if (k.any)
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            k.now[j] = piece(k, j, 0);
            k.next[j] = piece(k, j, 1);
        }
}

/* Operands of step x of a piece. */
template <int F> static __device__ __forceinline__ uint2 key_operands(const uint4 &v, int x, const char *table, uint32_t lane4)
{
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
    if (F == KV_TQ4)
        return make_uint2(look_up(table, lane4, w[x / 2], 2 * (x % 2)), look_up(table, lane4, w[x / 2], 2 * (x % 2) + 1));
    if (F == KV_INT8)
        return make_uint2(int8_pair(w[x & 3], 0), int8_pair(w[x & 3], 1));
    return make_uint2(w[2 * x & 3], w[(2 * x + 1) & 3]);
}

/* s = q . keys, without scales. */
template <int R, int F>
static __device__ __forceinline__ void multiply_keys(float s[R][TILES][4], struct keys<F> &k, const char *q, const char *table)
{
    enum { N = F == KV_EXACT ? 2 : F == KV_INT8 ? 4 : 8, PIECES = STEPS / N };   /* kv_piece_steps() */
    const int lane = (int)threadIdx.x % 32;
    const uint32_t lane4 = (uint32_t)lane * 4;
#pragma unroll 1
    for (int c = 0; c < PIECES; c++) {
#pragma unroll
        for (int x = 0; x < N; x++) {
            uint2 b[TILES];
#pragma unroll
            for (int j = 0; j < TILES; j++)
                b[j] = key_operands<F>(k.now[j], x, table, lane4);
#pragma unroll
            for (int r = 0; r < R; r++) {
                const uint4 v = *(const uint4 *)(q + r * Q_BYTES + ((c * N + x) * 32 + lane) * 16);
                const uint32_t rows[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    mma_bf16(s[r][j], rows, b[j].x, b[j].y);
            }
        }
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            k.now[j] = k.next[j];
            if (c + 2 < PIECES)
                k.next[j] = piece(k, j, c + 2);
        }
    }
}

/* A warp's 32 numbers of the values of a block, pairs t, t + 4, ... of tokens. */
template <int F> struct values {
    uint32_t low[F == KV_INT8 ? 16 : 8], high[F == KV_TQ3 ? 8 : 1];
};

template <int F> static __device__ __forceinline__ void load_values(struct values<F> &v, const uint8_t *block)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, number = 32 * warp + 4 * g;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int pair = t + 4 * i;
        if (F == KV_INT8) {
            const uint2 w = load8(block + pair * 2 * KV_DIM + 2 * number);
            v.low[F == KV_INT8 ? 2 * i : 0] = w.x;
            v.low[F == KV_INT8 ? 2 * i + 1 : 0] = w.y;
        } else {
            v.low[i] = load4(block + (F == KV_TQ4 ? pair : pair / 2) * KV_DIM + number);
            if (F == KV_TQ3)
                v.high[F == KV_TQ3 ? i : 0] = load4(block + KV_BLOCK * KV_DIM / 4 + i * KV_DIM + number);
        }
    }
}

/* Pair t + 4 i of tokens, number 4 g + e. */
template <int F> static __device__ __forceinline__ uint32_t value_operand(const struct values<F> &v, int i, int e, const char *table, uint32_t lane4)
{
    if (F == KV_INT8)
        return int8_pair(v.low[F == KV_INT8 ? 2 * i + e / 2 : 0], e % 2);
    return look_up(table, lane4, v.low[i], e);
}

/* o += weights . values of a block of codes; `weights` is of the first head and of the block. */
template <int R, int F>
static __device__ __forceinline__ void multiply_values(float o[R][4][4], const struct values<F> &v, uint32_t weights, int block, const char *table)
{
    const int lane = (int)threadIdx.x % 32;
    const uint32_t lane4 = (uint32_t)lane * 4;
#pragma unroll
    for (int step = 0; step < KV_BLOCK / 16; step++) {
        uint32_t w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            ldmatrix(w[r], weights + r * WEIGHT_BYTES + (lane % 16) * (KV_UNIT * 2) + (((8 * block + 2 * step + lane / 16) ^ (lane & 7)) << 4));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint32_t b0 = value_operand<F>(v, 2 * step, e, table, lane4), b1 = value_operand<F>(v, 2 * step + 1, e, table, lane4);
#pragma unroll
            for (int r = 0; r < R; r++)
                mma_bf16(o[r][e], w[r], b0, b1);
        }
    }
}

/* The values of a unit of codes; the keys and values of a unit of exact rows. */
template <int F> static __device__ __forceinline__ void prefetch_values(const struct step_attention_args &a, const struct set &s, int u)
{
    const int lines = (int)kv_block_bytes((enum kv_format)F) / 128, n = min(KV_UNIT_BLOCKS, s.end / KV_BLOCK - KV_UNIT_BLOCKS * u) * lines;
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        const size_t block = (size_t)(KV_UNIT_BLOCKS * u + i / lines) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
        prefetch(a.kv.v_codes + block * kv_block_bytes((enum kv_format)F) + i % lines * 128);
    }
}
static __device__ __forceinline__ void prefetch_exact(const struct step_attention_args &a, const struct set &s, int u)
{
    const int place = KV_UNIT_BLOCKS * u + (int)threadIdx.x / KV_BLOCK, p = kv_place_begin(&a.kv, place, s.sealed) + (int)threadIdx.x % KV_BLOCK;
    if (place > kv_window(&a.kv) || p > s.pos0 + s.n - 1 || (place == 0 && p >= a.kv.sinks))
        return;
    const size_t row = (size_t)kv_exact_row(&a.kv, p) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
#pragma unroll
    for (int i = 0; i < DIM * 2; i += 128) {
        prefetch((const char *)a.kv.k + row * (DIM * 2) + i);
        prefetch((const char *)a.kv.v + row * (DIM * 2) + i);
    }
}

/* The same for exact rows of a place; what no row sees counts as zeros. */
template <int R>
static __device__ __forceinline__ void multiply_exact_values(float o[R][4][4], const struct step_attention_args &a, const struct set &s, int u,
                                                             uint32_t weights, int block)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int place = KV_UNIT_BLOCKS * u + block, first = kv_place_begin(&a.kv, place, s.sealed), last = s.pos0 + s.n - 1;
    const int from = place > 0 ? s.sealed : 0, to = place > kv_window(&a.kv) ? 0 : place > 0 ? last + 1 : s.end > 0 ? a.kv.sinks : 0;
    if (first >= to)
        return;
#pragma unroll (R > 2 ? 1 : 4)          /* four rows leave no registers */
    for (int step = 0; step < KV_BLOCK / 16; step++) {
        uint2 x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int p = first + 16 * step + 2 * t + i % 2 + i / 2 * 8;
            const size_t row = (size_t)kv_exact_row(&a.kv, min(p, last)) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
            x[i] = load8((const char *)a.kv.v + row * (DIM * 2) + (32 * warp + 4 * g) * 2);
            if (p < from || p >= to)
                x[i] = make_uint2(0, 0);
        }
        uint32_t w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            ldmatrix(w[r], weights + r * WEIGHT_BYTES + (lane % 16) * (KV_UNIT * 2) + (((8 * block + 2 * step + lane / 16) ^ (lane & 7)) << 4));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int select = e % 2 ? 0x7632 : 0x5410;
            const uint32_t b0 = __byte_perm(e / 2 ? x[0].y : x[0].x, e / 2 ? x[1].y : x[1].x, select);
            const uint32_t b1 = __byte_perm(e / 2 ? x[2].y : x[2].x, e / 2 ? x[3].y : x[3].x, select);
#pragma unroll
            for (int r = 0; r < R; r++)
                mma_bf16(o[r][e], w[r], b0, b1);
        }
    }
}

/* What a row of the set sees of the warp's keys. */
template <int F> static __device__ __forceinline__ struct kv_span seen(const struct step_attention_args &a, const struct set &s, int u, int r)
{
    if (r >= s.n)
        return {0, 0};
    return F == KV_EXACT ? kv_seen_exactly(&a.kv, KV_UNIT_BLOCKS * u + (int)threadIdx.x / 64, s.pos0 + r) : kv_seen_as_codes(&a.kv, s.pos0 + r);
}

/* The scale of a code that is no level, and of what is stored exactly. */
template <int F> static __host__ __device__ constexpr float code_unit() { return F == KV_INT8 ? 1.0f / 127 : 1.0f; }

/* One range: units first, first + by, ... below `end`. */
template <int R, int KF, int VF>
static __device__ __forceinline__ void run_range(const struct step_attention_args &a, const struct set &s, char *smem, const char *table4,
                                                 const char *table3, int range, int first, int by, int end, struct keys<KF> &k)
{
    char *q = smem, *weights = q + R * Q_BYTES;
    float *top = (float *)(weights + R * WEIGHT_BYTES);         /* [R, 16, 8 warps] */
    const uint32_t weights_at = (uint32_t)__cvta_generic_to_shared(weights);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float o[R][4][4], max[R][2], sum[R][2];
#pragma unroll
    for (int r = 0; r < R; r++) {
        max[r][0] = max[r][1] = -INFINITY;
        sum[r][0] = sum[r][1] = 0;
#pragma unroll
        for (int e = 0; e < 4; e++)
            o[r][e][0] = o[r][e][1] = o[r][e][2] = o[r][e][3] = 0;
    }
#pragma unroll 1
    for (int u = first; u < end; u += by) {
        const size_t block0 = (size_t)(KV_UNIT_BLOCKS * u) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
        const size_t block_step = (size_t)a.kv.n_kv_heads * kv_block_bytes((enum kv_format)VF);
        const uint8_t *codes = VF == KV_EXACT ? NULL : a.kv.v_codes + block0 * kv_block_bytes((enum kv_format)VF);
        const int n_blocks = VF == KV_EXACT ? KV_UNIT_BLOCKS : min(KV_UNIT_BLOCKS, s.end / KV_BLOCK - KV_UNIT_BLOCKS * u);
        struct values<VF> now, next;
        uint32_t v_scales[TILES] = {};
        if (VF != KV_EXACT)
            load_values<VF>(now, codes);
        if (VF != KV_EXACT && R <= 2 && k.any)
            load_scales(v_scales, a.kv.v_scales, a, s, u);

        float x[R][TILES][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                x[r][j][0] = x[r][j][1] = x[r][j][2] = x[r][j][3] = 0;
        if (k.any)
            multiply_keys<R, KF>(x, k, q, table4);
#pragma unroll
        for (int r = 0; r < R; r++) {
            const struct kv_span see = k.any ? seen<KF>(a, s, u, r) : kv_span{0, 0};
            const bool all = k.first >= see.from && k.first + 8 * TILES <= see.to;
            float top0 = -INFINITY, top1 = -INFINITY;
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int p = k.first + 8 * j + 2 * t + e;
                    const float scale = KF == KV_EXACT ? s.unit : (e ? half_high(k.scales[j]) : half_low(k.scales[j])) * (s.unit * code_unit<KF>());
                    const bool see_it = all || (p >= see.from && p < see.to);
                    x[r][j][e] = see_it ? x[r][j][e] * scale : -INFINITY;
                    x[r][j][2 + e] = see_it ? x[r][j][2 + e] * scale : -INFINITY;
                    top0 = fmaxf(top0, x[r][j][e]);
                    top1 = fmaxf(top1, x[r][j][2 + e]);
                }
            top0 = quad_max(top0);
            top1 = quad_max(top1);
            if (t == 0) {
                top[(r * HEADS + g) * WARPS + warp] = top0;
                top[(r * HEADS + g + 8) * WARPS + warp] = top1;
            }
        }
        const int here = k.first;
        if (VF != KV_EXACT && R > 2 && k.any)   /* four rows leave no registers for them before */
            load_scales(v_scales, a.kv.v_scales, a, s, u);
        if (u + by < end) {
            begin_keys<KF>(k, a, s, u + by);
            if (VF != KV_EXACT && R <= 2)       /* four rows leave no registers */
                prefetch_values<VF>(a, s, u + by);
        }
        __syncthreads();                /* the maxima are here; everybody is done with the weights before */

#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float4 *all = (const float4 *)(top + (r * HEADS + g + 8 * e) * WARPS), m0 = all[0], m1 = all[1];
                const float now_max = fmaxf(fmaxf(fmaxf(fmaxf(m0.x, m0.y), fmaxf(m0.z, m0.w)), fmaxf(fmaxf(m1.x, m1.y), fmaxf(m1.z, m1.w))), max[r][e]);
                const float from = now_max == -INFINITY ? 0 : now_max, keep = exp2_fast(max[r][e] - from);
                max[r][e] = now_max;
                sum[r][e] *= keep;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    o[r][i][2 * e] *= keep;
                    o[r][i][2 * e + 1] *= keep;
                }
                char *to = weights + r * WEIGHT_BYTES + (g + 8 * e) * (KV_UNIT * 2) + t * 4;
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    const float w0 = exp2_fast(x[r][j][2 * e] - from), w1 = exp2_fast(x[r][j][2 * e + 1] - from);
                    float by0 = 1, by1 = 1;
                    if (VF != KV_EXACT) {       /* no row sees what lies outside, and its scales may be anything */
                        const int p = here + 8 * j + 2 * t;
                        by0 = p >= a.kv.sinks && p < s.end ? half_low(v_scales[j]) * code_unit<VF>() : 0;
                        by1 = p + 1 >= a.kv.sinks && p < s.end ? half_high(v_scales[j]) * code_unit<VF>() : 0;
                    }
                    sum[r][e] += w0 + w1;
                    *(uint32_t *)(to + (((TILES * warp + j) ^ g) << 4)) = bf16_pair(w0 * by0, w1 * by1);
                }
            }
        __syncthreads();                /* the weights are here */

        if (VF == KV_EXACT) {
#pragma unroll 1
            for (int b = 0; b < KV_UNIT_BLOCKS; b++)
                multiply_exact_values<R>(o, a, s, u, weights_at, b);
        } else {
#pragma unroll 1
            for (int b = 0; b < n_blocks; b++) {
                if (b + 1 < n_blocks)
                    load_values<VF>(next, codes + (size_t)(b + 1) * block_step);
                if (VF == KV_TQ3)
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        now.low[i] = kv_value_index_3(now.low[i], now.high[VF == KV_TQ3 ? i : 0], t);
                multiply_values<R, VF>(o, now, weights_at, b, VF == KV_TQ3 ? table3 : table4);
                now = next;
            }
        }
    }

    __syncthreads();                    /* everybody has read the maxima */
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float v = sum[r][e];
            v += __shfl_xor_sync(~0u, v, 1);
            v += __shfl_xor_sync(~0u, v, 2);
            if (t == 0)
                top[(r * HEADS + g + 8 * e) * WARPS + warp] = v;
        }
    __syncthreads();
    float *out = (float *)a.scratch, *ends = partial_ends(a);
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if (r >= s.n || g + 8 * e >= s.group || (KF != KV_EXACT && first * KV_UNIT >= kv_sealed(&a.kv, s.pos0 + r)))
                continue;
            const size_t at = partial(s.row0 + r, a.n_q_heads, s.head0 + g + 8 * e, range);
            float4 *to = (float4 *)(out + at * DIM + 32 * warp + 8 * t);
            to[0] = make_float4(o[r][0][2 * e], o[r][1][2 * e], o[r][2][2 * e], o[r][3][2 * e]);
            to[1] = make_float4(o[r][0][2 * e + 1], o[r][1][2 * e + 1], o[r][2][2 * e + 1], o[r][3][2 * e + 1]);
            if (warp == 0 && t == 0) {
                const float *all = top + (r * HEADS + g + 8 * e) * WARPS;
                float total = all[0];
#pragma unroll
                for (int i = 1; i < WARPS; i++)
                    total += all[i];
                ends[2 * at] = max[r][e];
                ends[2 * at + 1] = total;
            }
        }
}

/* q of the set's rows as operands in shared memory; zeros where there is no row or head. */
template <int R> static __device__ __forceinline__ void load_queries(char *q, const struct step_attention_args &a, const struct set &s, bool rotated)
{
#pragma unroll
    for (int i = 0; i < 2 * R; i++) {
        const int at = (int)threadIdx.x + i * THREADS, r = at / (STEPS * 32), step = at / 32 % STEPS, g = at % 32 / 4, t = at % 4;
        uint2 x = make_uint2(0, 0), y = x;
        if (r < s.n && g < s.group)
            x = load8(queries(a, s.row0 + r, s.head0 + g, rotated) + step * 4 + t);
        if (r < s.n && g + 8 < s.group)
            y = load8(queries(a, s.row0 + r, s.head0 + g + 8, rotated) + step * 4 + t);
        *(uint4 *)(q + at * 16) = make_uint4(x.x, y.x, x.y, y.y);
    }
}

/* Rows R * blockIdx.x .. + R - 1, of which some may be missing. */
template <int R, int KF, int VF> static __global__ __launch_bounds__(THREADS, 1) void step_attention_codes_kernel(struct step_attention_args a)
{
    extern __shared__ __align__(1024) char smem[];
    char *table4 = smem, *table3 = smem + (KF == KV_TQ4 || VF == KV_TQ4 ? TABLE_4 : 0), *rest = smem + table_bytes<KF, VF>();
    const int exact_units = kv_exact_units(&a.kv), range = (int)blockIdx.y, first = range - exact_units;
    struct set s;
    s.row0 = R * (int)blockIdx.x, s.n = min(R, a.n_rows - s.row0), s.kv_head = (int)blockIdx.z;
    s.group = a.n_q_heads / a.kv.n_kv_heads, s.head0 = s.kv_head * s.group, s.unit = a.scale * 1.4426950408889634f;
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const int pos = *a.pos;
    s.pos0 = pos + s.row0, s.sealed = kv_sealed(&a.kv, s.pos0), s.end = kv_sealed(&a.kv, s.pos0 + s.n - 1);
    if (first < 0) {
        struct keys<KV_EXACT> k;
        prefetch_exact(a, s, range);
        gpu_wait();
        begin_keys<KV_EXACT>(k, a, s, range);
        load_queries<R>(rest, a, s, false);
        __syncthreads();
        run_range<R, KV_EXACT, KV_EXACT>(a, s, rest, NULL, NULL, range, range, 1, range + 1, k);
        return;
    }
    const int units = kv_code_units(s.end);
    if (first >= units)
        return;
    struct keys<KF> k;
    const bool early = a.settled && (first + 1) * KV_UNIT <= kv_sealed(&a.kv, pos - 1);     /* sealed before this step */
    if (early)
        begin_keys<KF>(k, a, s, first);
    prefetch_values<VF>(a, s, first);
    if (KF == KV_TQ4 || VF == KV_TQ4)
        fill_table(table4, KV_TQ4);
    if (VF == KV_TQ3)
        fill_table(table3, KV_TQ3);
    gpu_wait();
    if (!early)
        begin_keys<KF>(k, a, s, first);
    load_queries<R>(rest, a, s, true);
    __syncthreads();
    run_range<R, KF, VF>(a, s, rest, table4, table3, range, first, STEP_RANGES - exact_units, units, k);
}

/* ---- 3: sums ---- */

/* One head of one row: 8 groups of 64 threads take every 8th range each, four columns a thread. */
enum { SUM_THREADS = 512, SUM_GROUPS = SUM_THREADS / (DIM / 4), SUM_LOADS = STEP_RANGES / SUM_GROUPS };

static __global__ __launch_bounds__(SUM_THREADS) void step_attention_codes_sum_kernel(struct step_attention_args a)
{
    __shared__ float scale[STEP_RANGES], warp_top[2], warp_sums[2], column[2][DIM];
    __shared__ float4 part[2][SUM_GROUPS][DIM / 4];
    const int head = (int)blockIdx.x, row = (int)blockIdx.y, i = (int)threadIdx.x, c = i % (DIM / 4), of = i / (DIM / 4), lane = i % 32;
    const size_t at = (size_t)row * (size_t)a.n_q_heads + (size_t)head, first = partial(row, a.n_q_heads, head, 0);
    const int exact_units = kv_exact_units(&a.kv);
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const int n = min(exact_units + kv_code_units(kv_sealed(&a.kv, *a.pos + row)), (int)STEP_RANGES);
    const float *ends = partial_ends(a) + 2 * first;
    const float4 *o = (const float4 *)((const float *)a.scratch + first * DIM) + c;
    gpu_wait();
    float4 v[SUM_LOADS];                /* all loads in flight at once */
#pragma unroll
    for (int j = 0; j < SUM_LOADS; j++)
        v[j] = of + SUM_GROUPS * j < n ? o[(size_t)(of + SUM_GROUPS * j) * (DIM / 4)] : make_float4(0, 0, 0, 0);
    float gate[8], max = -INFINITY, sum = 0;
    if (i < 32)
        load_eight(gate, a.qg + (2 * at + 1) * DIM + 8 * lane, a.qg + (2 * at + 1) * DIM + 8 * lane + 4);
    if (i < STEP_RANGES) {
        if (i < n) {
            max = ends[2 * i];
            sum = ends[2 * i + 1];
        }
        const float top = warp_max(max);
        if (lane == 0)
            warp_top[i / 32] = top;
    }
    __syncthreads();
    if (i < STEP_RANGES) {
        const float w = exp2_fast(max - fmaxf(warp_top[0], warp_top[1]));
        scale[i] = w;
        sum = warp_sum(w * sum);
        if (lane == 0)
            warp_sums[i / 32] = sum;
    }
    __syncthreads();
    float4 y[2] = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};   /* of exact ranges, of codes */
#pragma unroll
    for (int j = 0; j < SUM_LOADS; j++) {
        const int r = of + SUM_GROUPS * j;
        const float w = scale[r], exact = r < exact_units ? w : 0, codes = r < exact_units ? 0 : w;
        y[0] = make_float4(fmaf(exact, v[j].x, y[0].x), fmaf(exact, v[j].y, y[0].y), fmaf(exact, v[j].z, y[0].z), fmaf(exact, v[j].w, y[0].w));
        y[1] = make_float4(fmaf(codes, v[j].x, y[1].x), fmaf(codes, v[j].y, y[1].y), fmaf(codes, v[j].z, y[1].z), fmaf(codes, v[j].w, y[1].w));
    }
    part[0][of][c] = y[0];
    part[1][of][c] = y[1];
    __syncthreads();
    float all = 0;
#pragma unroll
    for (int j = 0; j < SUM_GROUPS; j++)
        all += ((const float *)part[i / DIM][j])[i % DIM];
    column[i / DIM][i % DIM] = all;
    __syncthreads();
    if (i >= 32)
        return;
    float x[8], exact[8];
    load_eight(exact, &column[0][8 * lane], &column[0][8 * lane + 4]);
    load_eight(x, &column[1][8 * lane], &column[1][8 * lane + 4]);
    kv_turn_back(x, KV_VALUE, lane);
    const float by = 1.0f / (warp_sums[0] + warp_sums[1]);
#pragma unroll
    for (int j = 0; j < 8; j++)
        x[j] = (x[j] + exact[j]) * by * sigmoid_f(gate[j]);
    float4 *to = (float4 *)(a.y + at * DIM + 8 * lane);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
}

/* ---- launches ---- */

template <int R, int KF, int VF> static void launch_ranges(struct cuda_queue *q, const struct step_attention_args *a)
{
    dim3 grid((unsigned)((a->n_rows + R - 1) / R), STEP_RANGES, (unsigned)a->kv.n_kv_heads);
    launch(q, "step_attention", step_attention_codes_kernel<R, KF, VF>, grid, THREADS, shared_bytes<R, KF, VF>(), true, *a);
}

template <int KF, int VF> static bool launch_formats(struct cuda_queue *q, const struct step_attention_args *a)
{
    if ((int)a->kv.k_format != KF || (int)a->kv.v_format != VF)
        return false;
    if (a->n_rows == 1)
        launch_ranges<1, KF, VF>(q, a);
    else if (a->n_rows == 2)
        launch_ranges<2, KF, VF>(q, a);
    else
        launch_ranges<most_rows<KF, VF>(), KF, VF>(q, a);
    return true;
}

void step_attention_codes(struct cuda_queue *q, const struct step_attention_args *a)
{
    const int heads = a->n_q_heads + 2 * a->kv.n_kv_heads, blocks = (heads + WARPS - 1) / WARPS, seals = 2 * a->kv.n_kv_heads;
    if (kv_exact_units(&a->kv) > MOST_EXACT_UNITS || a->kv.sinks > KV_BLOCK || a->kv.recent % KV_BLOCK) {
        queue_note(q, "step_attention", cudaErrorInvalidValue);
        return;
    }
    launch(q, "step_attention", step_attention_rows_kernel, dim3((unsigned)(blocks > seals ? blocks : seals), (unsigned)a->n_rows + 1), THREADS, 0, true, *a);
    if (!launch_formats<KV_TQ4, KV_TQ4>(q, a) && !launch_formats<KV_INT8, KV_TQ4>(q, a) && !launch_formats<KV_INT8, KV_INT8>(q, a)
        && !launch_formats<KV_TQ4, KV_TQ3>(q, a)) {
        queue_note(q, "step_attention", cudaErrorInvalidValue);
        return;
    }
    launch(q, "step_attention", step_attention_codes_sum_kernel, dim3((unsigned)a->n_q_heads, (unsigned)a->n_rows), SUM_THREADS, 0, true, *a);
}

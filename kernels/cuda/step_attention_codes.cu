/* step_attention over compressed rows: old positions as codes, the sinks and the newest ones exactly (kernels/attention.h).
 * Shapes    as step_attention.cu; codes of KV_BLOCK positions and a KV head (kernels/kv.h)
 * Bytes     codes and scales of old positions once: with 4 bits 260 B a position and KV head, 68 MB for the 122B at 128K; exact rows of
 *           recent + 80 to recent + 144 positions at most, 1 KiB each
 * Limit     bandwidth; next come instructions, of which a number of a key or value takes 2, and lookups in shared memory, half a one
 * Launch    1: grid (row sets, 64 ranges, kv_heads); a team of 8 warps has 256 positions at a time (kernels/kv_units.h); the first ranges are for
 *           exact positions, range i of the n others has units i, i + n, ...; ranges beyond the end leave at once.  Each block norms and
 *           turns its 16 heads of q itself.  The range of a new row stores it; that of a block of positions that the rows are the first to read
 *           as codes seals it.  A range adds up two halves: every second unit.  For one row a block has two teams, a half for each;
 *           for more rows there are registers for one team, which takes the halves one after the other, to the same bits
 *           2: grid (heads, rows) adds the ranges up, turns the part of the codes back, and gates
 * Layout    16 query heads of a KV head are the rows of an m16n8k16.  Logits: a warp has 32 positions; it reads keys from memory as the
 *           operands of its products, dequantizes them in registers, and has q in shared memory.  Values: a warp has 32 numbers of all positions.
 *           Weights, times the scales of the values, pass through shared memory.  Levels of two codes lie in a table with a copy for every
 *           lane, free of bank conflicts; a product of bytes makes an address.  Keys are requested a unit ahead, values are in the
 *           second-level cache by then
 * Numerics  q, levels and weights in bf16, the rest fp32.  What a position is added up with depends on the position alone */
#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/step_attention.cuh"

extern "C" {
#include "kernels/kv_units.h"
}

enum {
    WARPS = 8, TEAM = WARPS * 32, HEADS = 16, STEPS = DIM / 16,
    TILES = 4,                          /* of 8 positions; a warp's in a unit */
    Q_BYTES = STEPS * 32 * 16,          /* of a row: the A operands of all steps */
    WEIGHT_BYTES = HEADS * KV_UNIT * 2, /* of a row: [16, 256] bf16, 16-byte piece c of head h at c ^ (h & 7) */
    TOP_BYTES = HEADS * WARPS * 4,
    ENTRY = 128,                        /* bytes of a pair of codes in the table: two levels in bf16 for every lane */
    TABLE_4 = 256 * ENTRY, TABLE_3 = 64 * ENTRY,
};
static_assert((int)(WARPS * TILES * 8) == (int)KV_UNIT && (int)(WARPS * 32) == (int)DIM && (int)WARPS == (int)KV_WARPS, "a unit is what a team has at a time");

/* Shared memory: tables of levels; q; weights and maxima of every team. */
template <int KF, int VF> static __host__ __device__ constexpr int table_4_bytes() { return KF == KV_TQ4 || VF == KV_TQ4 ? TABLE_4 : 0; }
template <int KF, int VF> static __host__ __device__ constexpr int table_bytes() { return table_4_bytes<KF, VF>() + (VF == KV_TQ3 ? TABLE_3 : 0); }
template <int R> static __host__ __device__ constexpr int teams() { return R == 1 ? 2 : 1; }
/* Whether there are registers to load a piece of keys or values while another one is multiplied. */
template <int R, int KF, int VF> static __host__ __device__ constexpr bool loads_ahead() { return R == 2 || (R == 1 && KF == KV_TQ4 && VF == KV_TQ4); }
template <int R, int KF, int VF> static __host__ __device__ constexpr int shared_bytes()
{
    return table_bytes<KF, VF>() + R * Q_BYTES + teams<R>() * R * (WEIGHT_BYTES + TOP_BYTES);
}
/* Rows of a block at most: as many as there are registers and, on a GB10, shared memory for. */
template <int KF, int VF> static constexpr int most_rows() { return KF == KV_TQ4 && VF == KV_TQ4 ? 4 : 2; }
static_assert(shared_bytes<4, KV_TQ4, KV_TQ4>() <= 99 * 1024 && shared_bytes<2, KV_TQ4, KV_TQ3>() <= 99 * 1024
              && shared_bytes<2, KV_INT8, KV_TQ4>() <= 99 * 1024, "a GB10 has 99 KiB");
static_assert(STEP_ROWS * DIM / 2 * (int)sizeof(float2) <= WEIGHT_BYTES, "angles of all rows fit where weights come later");

static __device__ __forceinline__ int team() { return (int)threadIdx.x / TEAM; }
static __device__ __forceinline__ int team_warp() { return (int)threadIdx.x / 32 % WARPS; }
/* Waits for all threads of the team; T: teams of a block. */
template <int T> static __device__ __forceinline__ void team_sync()
{
    if (T == 1)
        __syncthreads();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(1 + team()), "n"((int)TEAM) : "memory");
}

/* Rows row0 .. row0 + n - 1 of the call, at positions pos0 and on; the first sees codes below `sealed`, the last below `end`. */
struct set {
    int row0, n, pos0, sealed, end, kv_head, head0, group;
    float unit;                         /* logits are powers of two */
};

/* ---- the rows' heads ---- */

/* Operands of q: row r, step, lane of the products. */
static __device__ __forceinline__ int query_at(int r, int step, int lane) { return ((r * STEPS + step) * 32 + lane) * 16; }

/* q of the set's rows, normed and turned, as operands in shared memory, rotated unless keys are exact; zeros where there is no row or head. */
template <int R>
static __device__ __forceinline__ void make_queries(char *q, const struct step_attention_args &a, const struct set &s, const struct head_norm &norm,
                                                    const float2 *turn, enum kv_format f)
{
    enum { AT_ONCE = R == 1 ? 1 : 2, ALL = WARPS * teams<R>() };
    const int lane = (int)threadIdx.x % 32;
#pragma unroll 1
    for (int i0 = (int)threadIdx.x / 32; i0 < R * HEADS; i0 += AT_ONCE * ALL) {
        float v[AT_ONCE][8], mates[AT_ONCE][8];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * ALL, r = min(i / HEADS, s.n - 1), h = min(i % HEADS, s.group - 1);
            const float *x = a.qg + ((size_t)(s.row0 + r) * (size_t)a.n_q_heads + (size_t)(s.head0 + h)) * 2 * DIM;
            load_eight(v[j], x + norm.at, x + norm.at + 4);
            load_eight(mates[j], x + norm.mate[0], x + norm.mate[1]);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int i = i0 + j * ALL, r = i / HEADS, h = i % HEADS;
            uint4 bits = norm_and_turn(norm, v[j], mates[j], turn + (s.row0 + min(r, s.n - 1)) * a.half, a.half, a.eps);
            if (f != KV_EXACT) {
                kv_turn(v[j], KV_KEY, lane);
                bits = eight_bf16(v[j]);
            }
            if (r >= s.n || h >= s.group)
                bits = make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int step = kv_number_step(f, 8 * lane + 4 * e);
                uint32_t *to = (uint32_t *)(q + query_at(r, step / 4, h % 8 * 4 + step % 4)) + h / 8;
                to[0] = e ? bits.z : bits.x;
                to[2] = e ? bits.w : bits.y;
            }
        }
    }
}

/* Stores keys and values of the call's rows that have this place, a warp for each.  Sets need the rows before them and write them, too, the
 * same bytes. */
static __device__ __forceinline__ void store_rows(const struct step_attention_args &a, const struct set &s, int place, const float2 *turn)
{
    const int row = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, p = s.pos0 - s.row0 + row;
    if (row >= s.row0 + s.n || kv_place_of(&a.kv, p) != place)
        return;
    const size_t from = ((size_t)row * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head) * DIM;
    const struct head_norm norm = head_norm_of(a.k_norm, a.half, lane);
    float v[8], mate[8];
    load_eight(v, a.k + from + norm.at, a.k + from + norm.at + 4);
    load_eight(mate, a.k + from + norm.mate[0], a.k + from + norm.mate[1]);
    *kv_exact_at(a.kv, KV_KEY, s.kv_head, p, lane) = norm_and_turn(norm, v, mate, turn + row * a.half, a.half, a.eps);
    load_eight(v, a.v + from + norm.at, a.v + from + norm.at + 4);
    *kv_exact_at(a.kv, KV_VALUE, s.kv_head, p, lane) = eight_bf16(v);
}

/* Seals the blocks of this range that nobody sealed before the step: `before` is the end of those that are. */
template <int T, int KF, int VF>
static __device__ __forceinline__ void seal_blocks(const struct step_attention_args &a, const struct set &s, int before, int first, int by)
{
    bool any = false;
    for (int p = before; p < s.end; p += KV_BLOCK)
        if (p / KV_UNIT % by == first) {
            any = true;
            if (T == 1 || team() == 0)
                kv_seal_block(a.kv, (enum kv_format)KF, KV_KEY, s.kv_head, p);
            if (T == 1 || team() == 1)
                kv_seal_block(a.kv, (enum kv_format)VF, KV_VALUE, s.kv_head, p);
        }
    if (any)
        __syncthreads();
}

/* ---- codes as operands ---- */

/* Two levels as bf16, for every pair of codes and every lane. */
template <int F> static __device__ __forceinline__ void fill_table(char *table)
{
    for (int i = (int)threadIdx.x; i < (F == KV_TQ4 ? 256 : 64) * (ENTRY / 16); i += (int)blockDim.x) {
        const int e = i / (ENTRY / 16);
        const float *levels = F == KV_TQ4 ? kv_levels_4 : kv_levels_3;
        const uint32_t v = bf16_pair(levels[kv_pair_code((enum kv_format)F, e, 0)], levels[kv_pair_code((enum kv_format)F, e, 1)]);
        *(uint4 *)(table + e * ENTRY + i % (ENTRY / 16) * 16) = make_uint4(v, v, v, v);
    }
}

/* The two levels of byte k of w.  `table` is in shared memory, at the lane's copy; the address is ENTRY * byte behind it. */
static __device__ __forceinline__ uint32_t look_up(uint32_t table, uint32_t w, int k)
{
    return *(const uint32_t *)__cvta_shared_to_generic(__dp4a(w, (uint32_t)ENTRY << (8 * k), table));
}
static __device__ __forceinline__ uint32_t lanes_copy(const char *table) { return (uint32_t)__cvta_generic_to_shared(table) + threadIdx.x % 32 * 4; }

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
    const int warp = team_warp(), block = KV_UNIT_BLOCKS * u + warp / 2;
    const uint16_t *from = scales + ((size_t)block * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head) * KV_BLOCK + warp % 2 * 32 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILES; j++)
        to[j] = load4(from + 8 * j);
}

/* A warp's 32 keys of a unit: the first of a lane's pieces, each other one follows while the one before it is multiplied. */
template <int F> struct keys {
    const char *at;                     /* the lane's first piece */
    uint4       now[TILES];
    uint32_t    scales[TILES];
    int         first;                  /* position of the first key */
    bool        any;                    /* there is something to see */
};

template <int F> static __device__ __forceinline__ uint4 piece(const struct keys<F> &k, int j, int c)
{
    return load16(k.at + j * 8 * kv_key_bytes((enum kv_format)F) + 64 * c);
}

template <int F> static __device__ __forceinline__ void begin_keys(struct keys<F> &k, const struct step_attention_args &a, const struct set &s, int u)
{
    const int warp = team_warp(), lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, part = warp % 2 * 32, block = KV_UNIT_BLOCKS * u + warp / 2;
    const size_t i = (size_t)block * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
    k.first = block * KV_BLOCK + part;
    k.any = k.first < s.end;
    if (!k.any)
        return;
    k.at = (const char *)a.kv.k_codes + i * kv_block_bytes((enum kv_format)F) + (part + g) * kv_key_bytes((enum kv_format)F) + 16 * t;
    load_scales(k.scales, a.kv.k_scales, a, s, u);
#pragma unroll
    for (int j = 0; j < TILES; j++)
        k.now[j] = piece(k, j, 0);
}

/* Operands of step x of a piece. */
template <int F> static __device__ __forceinline__ uint2 key_operands(const uint4 &v, int x, uint32_t table)
{
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
    if (F == KV_TQ4)
        return make_uint2(look_up(table, w[x / 2], 2 * (x % 2)), look_up(table, w[x / 2], 2 * (x % 2) + 1));
    return make_uint2(int8_pair(w[x & 3], 0), int8_pair(w[x & 3], 1));
}

/* s = q . keys, without scales. */
template <int R, int F, bool ahead>
static __device__ __forceinline__ void multiply_keys(float s[R][TILES][4], struct keys<F> &k, const char *q, uint32_t table)
{
    enum { N = F == KV_INT8 ? 4 : 8, PIECES = STEPS / N };      /* kv_piece_steps() */
    const int lane = (int)threadIdx.x % 32;
    const char *mine = q + query_at(0, 0, lane);
#pragma unroll 1
    for (int c = 0; c < PIECES; c++) {
        uint4 next[TILES];
        if (ahead && c + 1 < PIECES)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                next[j] = piece(k, j, c + 1);
#pragma unroll
        for (int x = 0; x < N; x++) {
            uint2 b[TILES];
#pragma unroll
            for (int j = 0; j < TILES; j++)
                b[j] = key_operands<F>(k.now[j], x, table);
#pragma unroll
            for (int r = 0; r < R; r++) {
                const uint4 v = *(const uint4 *)(mine + query_at(r, x, 0));
                const uint32_t rows[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    mma_bf16(s[r][j], rows, b[j].x, b[j].y);
            }
        }
        mine += query_at(0, N, 0);
#pragma unroll
        for (int j = 0; j < TILES; j++)
            if (ahead)
                k.now[j] = next[j];
            else if (c + 1 < PIECES)
                k.now[j] = piece(k, j, c + 1);
    }
}

/* A warp's 32 numbers of the values of a block, pairs t, t + 4, ... of tokens. */
template <int F> struct values {
    uint32_t low[F == KV_INT8 ? 16 : 8], high[F == KV_TQ3 ? 8 : 1];
};

template <int F> static __device__ __forceinline__ void load_values(struct values<F> &v, const uint8_t *block)
{
    const int warp = team_warp(), lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, number = 32 * warp + 4 * g;
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
template <int F> static __device__ __forceinline__ uint32_t value_operand(const struct values<F> &v, int i, int e, uint32_t table)
{
    if (F == KV_INT8)
        return int8_pair(v.low[F == KV_INT8 ? 2 * i + e / 2 : 0], e % 2);
    return look_up(table, v.low[i], e);
}

/* A lane's row of weights for ldmatrix: row lane % 16 of those that are `pitch` bytes long; step s at the exclusive or with 32 s. */
static __device__ __forceinline__ uint32_t weights_row(uint32_t weights, int pitch)
{
    const int lane = (int)threadIdx.x % 32;
    return weights + (uint32_t)(lane % 16 * pitch + ((lane / 16 ^ (lane & 7)) << 4));
}

/* o += weights . values of a block of codes; `row` is weights_row() of the first row and the block. */
template <int R, int F>
static __device__ __forceinline__ void multiply_values(float o[R][4][4], const struct values<F> &v, uint32_t row, uint32_t table)
{
#pragma unroll
    for (int step = 0; step < KV_BLOCK / 16; step++) {
        uint32_t w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            ldmatrix(w[r], (row ^ (step << 5)) + r * WEIGHT_BYTES);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint32_t b0 = value_operand<F>(v, 2 * step, e, table), b1 = value_operand<F>(v, 2 * step + 1, e, table);
#pragma unroll
            for (int r = 0; r < R; r++)
                mma_bf16(o[r][e], w[r], b0, b1);
        }
    }
}

/* The first block of unit u. */
static __device__ __forceinline__ const uint8_t *codes_of(enum kv_format f, const uint8_t *codes, const struct step_attention_args &a, const struct set &s, int u)
{
    return codes + ((size_t)(KV_UNIT_BLOCKS * u) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head) * kv_block_bytes(f);
}
/* Keys or values of a unit, by a team, into the second-level cache. */
template <int F> static __device__ __forceinline__ void prefetch_codes(const uint8_t *codes, const struct step_attention_args &a, const struct set &s, int u)
{
    enum { LINES = F == KV_INT8 ? 128 : F == KV_TQ4 ? 64 : 48 };       /* of a block */
    const int n_blocks = s.end / KV_BLOCK - KV_UNIT_BLOCKS * u;
    const uint8_t *unit = codes_of((enum kv_format)F, codes, a, s, u);
    const uint32_t block_step = (uint32_t)a.kv.n_kv_heads * (uint32_t)kv_block_bytes((enum kv_format)F);
#pragma unroll
    for (int j = 0; j < (KV_UNIT_BLOCKS * LINES + TEAM - 1) / TEAM; j++) {
        const int i = (int)threadIdx.x % TEAM + j * TEAM, b = i / LINES;
        if (b < min((int)KV_UNIT_BLOCKS, n_blocks))
            prefetch(unit + ((uint32_t)b * block_step + (uint32_t)(i % LINES * 128)));
    }
}

/* The scale of a code that is no level. */
template <int F> static __host__ __device__ constexpr float code_unit() { return F == KV_INT8 ? 1.0f / 127 : 1.0f; }

/* ---- what is added up ---- */

/* What a warp knows of half a range: 32 numbers of every head of every row, the greatest logit, and its lanes' parts of the sum of weights. */
template <int R> struct outcome {
    float o[R][4][4], max[R][2], sum[R][2];
};

template <int R> static __device__ __forceinline__ void outcome_clear(struct outcome<R> &x)
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        x.max[r][0] = x.max[r][1] = -INFINITY;
        x.sum[r][0] = x.sum[r][1] = 0;
#pragma unroll
        for (int e = 0; e < 4; e++)
            x.o[r][e][0] = x.o[r][e][1] = x.o[r][e][2] = x.o[r][e][3] = 0;
    }
}

/* The greatest of a warp's logits of heads g and g + 8 of row r, for the team. */
static __device__ __forceinline__ void put_top(float *top, int r, float top0, float top1)
{
    const int g = (int)threadIdx.x % 32 / 4;
    top0 = quad_max(top0);
    top1 = quad_max(top1);
    if (threadIdx.x % 4 == 0) {
        top[(r * HEADS + g) * WARPS + team_warp()] = top0;
        top[(r * HEADS + g + 8) * WARPS + team_warp()] = top1;
    }
}
/* The greatest of the team's, and of those before; what was added up before is weighted anew.  Logits count from what it returns. */
template <int R> static __device__ __forceinline__ float take_top(struct outcome<R> &x, const float *top, int r, int e)
{
    const float4 *all = (const float4 *)(top + (r * HEADS + (int)threadIdx.x % 32 / 4 + 8 * e) * WARPS), m0 = all[0], m1 = all[1];
    const float now = fmaxf(fmaxf(fmaxf(fmaxf(m0.x, m0.y), fmaxf(m0.z, m0.w)), fmaxf(fmaxf(m1.x, m1.y), fmaxf(m1.z, m1.w))), x.max[r][e]);
    const float from = now == -INFINITY ? 0 : now, keep = exp2_fast(x.max[r][e] - from);
    x.max[r][e] = now;
    x.sum[r][e] *= keep;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x.o[r][i][2 * e] *= keep;
        x.o[r][i][2 * e + 1] *= keep;
    }
    return from;
}

/* Codes: units first, first + by, ... below `end`; k is the first one's. */
template <int R, int T, int KF, int VF>
static __device__ __forceinline__ void codes_half(struct outcome<R> &y, const struct step_attention_args &a, const struct set &s, const char *q, char *weights,
                                                  float *top, uint32_t table4, uint32_t table3, int first, int by, int end, struct keys<KF> &k)
{
    const uint32_t row = weights_row((uint32_t)__cvta_generic_to_shared(weights), KV_UNIT * 2);
    const int warp = team_warp(), lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    constexpr bool ahead = loads_ahead<R, KF, VF>();
    const uint32_t block_step = (uint32_t)a.kv.n_kv_heads * (uint32_t)kv_block_bytes((enum kv_format)VF);
#pragma unroll 1
    for (int u = first; u < end; u += by) {
        const uint8_t *codes = codes_of((enum kv_format)VF, a.kv.v_codes, a, s, u);
        const int n_blocks = min((int)KV_UNIT_BLOCKS, s.end / KV_BLOCK - KV_UNIT_BLOCKS * u);
        struct values<VF> now, next;    /* of blocks behind the end, which have no weights, the last one is read again */
        float x[R][TILES][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                x[r][j][0] = x[r][j][1] = x[r][j][2] = x[r][j][3] = 0;
        if (k.any)
            multiply_keys<R, KF, loads_ahead<R, KF, VF>()>(x, k, q, table4);
        uint32_t v_scales[TILES] = {};
        if (ahead)
            load_values<VF>(now, codes);
        if (k.any)
            load_scales(v_scales, a.kv.v_scales, a, s, u);
        const float unit = s.unit * code_unit<KF>();
#pragma unroll
        for (int r = 0; r < R; r++) {
            const struct kv_span see = kv_seen_as_codes(&a.kv, s.pos0 + r);
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float scale = (e ? half_high(k.scales[j]) : half_low(k.scales[j])) * unit;
                    x[r][j][e] *= scale;
                    x[r][j][2 + e] *= scale;
                }
            if (!k.any || r >= s.n || k.first < see.from || k.first + 8 * TILES > see.to) {
#pragma unroll
                for (int j = 0; j < TILES; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int p = k.first + 8 * j + 2 * t + e;
                        if (r >= s.n || p < see.from || p >= see.to)
                            x[r][j][e] = x[r][j][2 + e] = -INFINITY;
                    }
            }
            float top0 = -INFINITY, top1 = -INFINITY;
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                top0 = fmaxf(top0, fmaxf(x[r][j][0], x[r][j][1]));
                top1 = fmaxf(top1, fmaxf(x[r][j][2], x[r][j][3]));
            }
            put_top(top, r, top0, top1);
        }
        if (k.first < a.kv.sinks || k.first + 8 * TILES > s.end) {      /* no row sees what lies outside, and its scales may be anything */
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                const int p = k.first + 8 * j + 2 * t;
                v_scales[j] &= (p >= a.kv.sinks && p < s.end ? 0xffffu : 0) | (p + 1 >= a.kv.sinks && p + 1 < s.end ? 0xffff0000u : 0);
            }
        }
        if (u + by < end) {
            prefetch_codes<KF>(a.kv.k_codes, a, s, u + by);
            prefetch_codes<VF>(a.kv.v_codes, a, s, u + by);
            begin_keys<KF>(k, a, s, u + by);
        }
        team_sync<T>();                 /* the maxima are here; everybody is done with the weights before */

#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float from = take_top(y, top, r, e);
                char *to = weights + r * WEIGHT_BYTES + (g + 8 * e) * (KV_UNIT * 2) + t * 4;
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    const float w0 = exp2_fast(x[r][j][2 * e] - from), w1 = exp2_fast(x[r][j][2 * e + 1] - from);
                    y.sum[r][e] += w0 + w1;
                    *(uint32_t *)(to + (((TILES * warp + j) ^ g) << 4)) =
                        bf16_pair(w0 * (half_low(v_scales[j]) * code_unit<VF>()), w1 * (half_high(v_scales[j]) * code_unit<VF>()));
                }
            }
        team_sync<T>();                 /* the weights are here */

#pragma unroll 1                        /* the first round pays for the code, which comes from memory */
        for (int b = 0; b < KV_UNIT_BLOCKS; b++) {
            if (ahead && b + 1 < KV_UNIT_BLOCKS)
                load_values<VF>(next, codes + (uint32_t)min(b + 1, n_blocks - 1) * block_step);
            if (!ahead)
                load_values<VF>(now, codes + (uint32_t)min(b, n_blocks - 1) * block_step);
            if (VF == KV_TQ3)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    now.low[i] = kv_value_index_3(now.low[i], now.high[VF == KV_TQ3 ? i : 0], t);
            multiply_values<R, VF>(y.o, now, row + b * (KV_BLOCK * 2), VF == KV_TQ3 ? table3 : table4);
            if (ahead)
                now = next;
        }
    }
}

/* kv_exact_row() of position p of a block that begins at `begin`, base = begin % ring, and the head, without another division. */
static __device__ __forceinline__ size_t exact_row(const struct step_attention_args &a, const struct set &s, int begin, int base, int p)
{
    const int in_ring = base + p - begin, row = p < a.kv.sinks ? p : a.kv.sinks + in_ring - (in_ring >= a.kv.ring ? a.kv.ring : 0);
    return (size_t)(row * a.kv.n_kv_heads + s.kv_head);
}

/* Exact rows of a place.  A warp has 8 of its 64 keys; values that no row sees count as zeros. */
template <int R, int T>
static __device__ __forceinline__ void exact_range(struct outcome<R> &y, const struct step_attention_args &a, const struct set &s, const char *q, char *weights,
                                                  float *top, int place)
{
    enum { PIECES = DIM * 2 / 64 };
    const int warp = team_warp(), lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int begin = kv_place_begin(&a.kv, place, s.sealed), last = s.pos0 + s.n - 1, first = begin + 8 * warp;
    const int from = place > 0 ? s.sealed : 0, to = place > kv_window(&a.kv) ? 0 : place > 0 ? last + 1 : s.end > 0 ? a.kv.sinks : 0;
    if (begin >= to)
        return;                         /* true for the whole team */
    const int base = begin % a.kv.ring;
    const size_t key_row = exact_row(a, s, begin, base, min(first + g, last));
    uint4 k[PIECES];
#pragma unroll
    for (int c = 0; c < PIECES; c++)
        k[c] = load16((const char *)a.kv.k + key_row * (DIM * 2) + 64 * c + 16 * t);
    float x[R][4], odd[R][4];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[r][i] = odd[r][i] = 0;
#pragma unroll
    for (int c = 0; c < PIECES; c++)
#pragma unroll
        for (int r = 0; r < R; r++) {
            const uint4 v0 = *(const uint4 *)(q + query_at(r, 2 * c, lane)), v1 = *(const uint4 *)(q + query_at(r, 2 * c + 1, lane));
            const uint32_t rows0[4] = {v0.x, v0.y, v0.z, v0.w}, rows1[4] = {v1.x, v1.y, v1.z, v1.w};
            mma_bf16(x[r], rows0, k[c].x, k[c].y);
            mma_bf16(odd[r], rows1, k[c].z, k[c].w);
        }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const struct kv_span see = kv_seen_exactly(&a.kv, place, s.pos0 + r);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int p = first + 2 * t + i % 2;
            x[r][i] = r < s.n && p >= see.from && p < see.to ? (x[r][i] + odd[r][i]) * s.unit : -INFINITY;
        }
        put_top(top, r, fmaxf(x[r][0], x[r][1]), fmaxf(x[r][2], x[r][3]));
    }
    team_sync<T>();                     /* the maxima are here */
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float top_logit = take_top(y, top, r, e), w0 = exp2_fast(x[r][2 * e] - top_logit), w1 = exp2_fast(x[r][2 * e + 1] - top_logit);
            y.sum[r][e] += w0 + w1;
            *(uint32_t *)(weights + r * WEIGHT_BYTES + (g + 8 * e) * (KV_BLOCK * 2) + t * 4 + ((warp ^ g) << 4)) = bf16_pair(w0, w1);
        }
    team_sync<T>();                     /* the weights are here */

    const uint32_t row = weights_row((uint32_t)__cvta_generic_to_shared(weights), KV_BLOCK * 2);
#pragma unroll (R > 2 ? 1 : 4)          /* four rows leave no registers */
    for (int step = 0; step < KV_BLOCK / 16; step++) {
        uint2 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int p = begin + 16 * step + 2 * t + i % 2 + i / 2 * 8;
            v[i] = load8((const char *)a.kv.v + exact_row(a, s, begin, base, min(p, last)) * (DIM * 2) + (32 * warp + 4 * g) * 2);
            if (p < from || p >= to)
                v[i] = make_uint2(0, 0);
        }
        uint32_t w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            ldmatrix(w[r], (row ^ (step << 5)) + r * WEIGHT_BYTES);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int select = e % 2 ? 0x7632 : 0x5410;
            const uint32_t b0 = __byte_perm(e / 2 ? v[0].y : v[0].x, e / 2 ? v[1].y : v[1].x, select);
            const uint32_t b1 = __byte_perm(e / 2 ? v[2].y : v[2].x, e / 2 ? v[3].y : v[3].x, select);
#pragma unroll
            for (int r = 0; r < R; r++)
                mma_bf16(y.o[r][e], w[r], b0, b1);
        }
    }
}
/* Its rows that were there before, and the weights of new ones, into the second-level cache. */
static __device__ __forceinline__ void prefetch_exact(const struct step_attention_args &a, const struct set &s, int place)
{
    const int i = (int)threadIdx.x % KV_BLOCK, p = kv_place_begin(&a.kv, place, s.sealed) + i;
    if ((int)threadIdx.x < DIM * 4 / 128)
        prefetch(a.k_norm + (int)threadIdx.x * 32);
    if (p > s.pos0 + s.n - 1 || (place == 0 && p >= a.kv.sinks))
        return;
    const size_t row = (size_t)kv_exact_row(&a.kv, p) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
    for (int j = (int)threadIdx.x / KV_BLOCK; j < 2 * DIM * 2 / 128; j += (int)blockDim.x / KV_BLOCK)
        prefetch((const char *)(j % 2 ? a.kv.v : a.kv.k) + row * (DIM * 2) + j / 2 * 128);
}

/* ---- two halves of a range ---- */

/* What two halves are in common units: factors of the first and of the second. */
static __device__ __forceinline__ float2 join(float max0, float max1)
{
    const float max = fmaxf(max0, max1), from = max == -INFINITY ? 0 : max;
    return make_float2(exp2_fast(max0 - from), exp2_fast(max1 - from));
}
static __device__ __forceinline__ float join_sum(float x, float y, float2 by) { return fmaf(x, by.x, __fmul_rn(y, by.y)); }

/* Sums of weights over all warps of the team. */
template <int R, int T> static __device__ __forceinline__ void whole_sums(struct outcome<R> &x, float *top)
{
    const int g = (int)threadIdx.x % 32 / 4;
    team_sync<T>();                     /* everybody has read the maxima */
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float v = x.sum[r][e];
            v += __shfl_xor_sync(~0u, v, 1);
            v += __shfl_xor_sync(~0u, v, 2);
            if (threadIdx.x % 4 == 0)
                top[(r * HEADS + g + 8 * e) * WARPS + team_warp()] = v;
        }
    team_sync<T>();
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float *all = top + (r * HEADS + g + 8 * e) * WARPS;
            float total = all[0];
#pragma unroll
            for (int i = 1; i < WARPS; i++)
                total += all[i];
            x.sum[r][e] = total;
        }
}

/* The second team's outcome joins the first team's, through shared memory of 16.5 KiB a row; for the first team only. */
template <int R> static __device__ __forceinline__ void join_teams(struct outcome<R> &x, char *room)
{
    float *of = (float *)room + (int)threadIdx.x % TEAM;
    __syncthreads();                    /* both teams are done with it */
    if (team() == 1)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int i = 0; i < 16; i++)
                of[(r * 20 + i) * TEAM] = x.o[r][i / 4][i % 4];
    if (team() == 1)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                of[(r * 20 + 16 + e) * TEAM] = x.max[r][e];
                of[(r * 20 + 18 + e) * TEAM] = x.sum[r][e];
            }
    __syncthreads();
    if (team() == 1)
        return;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float max = of[(r * 20 + 16 + e) * TEAM];
            const float2 by = join(x.max[r][e], max);
            x.max[r][e] = fmaxf(x.max[r][e], max);
            x.sum[r][e] = join_sum(x.sum[r][e], of[(r * 20 + 18 + e) * TEAM], by);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    x.o[r][i][2 * e + j] = join_sum(x.o[r][i][2 * e + j], of[(r * 20 + 4 * i + 2 * e + j) * TEAM], by);
        }
}

/* Into scratch memory, for rows that see codes from position `seen` on, or exact rows if that is negative.  `joins`: with the first half, which is
 * there; the same threads wrote it. */
template <int R, int T>
static __device__ __forceinline__ void write_outcome(struct outcome<R> &x, const struct step_attention_args &a, const struct set &s, int range, int seen,
                                                     bool joins)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float *out = (float *)a.scratch, *ends = partial_ends(a);
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            if (r >= s.n || g + 8 * e >= s.group || seen >= kv_sealed(&a.kv, s.pos0 + r))
                continue;
            const size_t at = partial(s.row0 + r, a.n_q_heads, s.head0 + g + 8 * e, range);
            float4 *to = (float4 *)(out + at * DIM + 32 * team_warp() + 8 * t);
            if (T == 1 && joins) {
                const float2 end = __ldcg((const float2 *)(ends + 2 * at)), by = join(end.x, x.max[r][e]);
                const float4 before[2] = {__ldcg(to), __ldcg(to + 1)};
                x.max[r][e] = fmaxf(end.x, x.max[r][e]);
                x.sum[r][e] = join_sum(end.y, x.sum[r][e], by);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    x.o[r][0][2 * e + j] = join_sum(before[j].x, x.o[r][0][2 * e + j], by);
                    x.o[r][1][2 * e + j] = join_sum(before[j].y, x.o[r][1][2 * e + j], by);
                    x.o[r][2][2 * e + j] = join_sum(before[j].z, x.o[r][2][2 * e + j], by);
                    x.o[r][3][2 * e + j] = join_sum(before[j].w, x.o[r][3][2 * e + j], by);
                }
            }
#pragma unroll
            for (int j = 0; j < 2; j++)
                to[j] = make_float4(x.o[r][0][2 * e + j], x.o[r][1][2 * e + j], x.o[r][2][2 * e + j], x.o[r][3][2 * e + j]);
        }
    if (T == 1)
        __syncthreads();                /* everybody has read the ends, and the maxima */
    if (team_warp() == 0 && t == 0)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (r < s.n && g + 8 * e < s.group && seen < kv_sealed(&a.kv, s.pos0 + r))
                    *(float2 *)(ends + 2 * partial(s.row0 + r, a.n_q_heads, s.head0 + g + 8 * e, range)) = make_float2(x.max[r][e], x.sum[r][e]);
}

/* Where a block's parts of shared memory lie; weights and maxima are those of the team. */
struct room {
    char  *table4, *table3, *q, *weights;
    float *top;
    float2 *turn;                       /* [rows, half], until the weights come */
};
template <int R, int KF, int VF> static __device__ __forceinline__ struct room room_of(char *smem)
{
    char *q = smem + table_bytes<KF, VF>(), *weights = q + R * Q_BYTES, *top = weights + teams<R>() * R * WEIGHT_BYTES;
    return {smem, smem + table_4_bytes<KF, VF>(), q, weights + team() * R * WEIGHT_BYTES, (float *)(top + team() * R * TOP_BYTES), (float2 *)weights};
}

/* Rows R * blockIdx.x .. + R - 1, of which some may be missing. */
template <int R, int KF, int VF>
static __global__ __launch_bounds__(teams<R>() * TEAM, 1) void step_attention_codes_kernel(struct step_attention_args a)
{
    extern __shared__ __align__(1024) char smem[];
    enum { T = teams<R>() };
    const struct room in = room_of<R, KF, VF>(smem);
    const int places = kv_places(&a.kv), range = (int)blockIdx.y, first = range - places, by = STEP_RANGES - places;
    struct set s;
    s.row0 = R == 1 ? 0 : R * (int)blockIdx.x, s.n = R == 1 ? 1 : min(R, a.n_rows - s.row0), s.kv_head = (int)blockIdx.z;
    s.group = a.n_q_heads / a.kv.n_kv_heads, s.head0 = s.kv_head * s.group, s.unit = a.scale * 1.4426950408889634f;
    const struct head_norm norm = head_norm_of(a.q_norm, a.half, (int)threadIdx.x % 32);        /* a weight, so before the wait */
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const int pos = *a.pos;
    s.pos0 = pos + s.row0, s.sealed = kv_sealed(&a.kv, s.pos0), s.end = R == 1 ? s.sealed : kv_sealed(&a.kv, s.pos0 + s.n - 1);
    const int units = kv_code_units(s.end), before = kv_sealed(&a.kv, pos - 1);
    if (first >= units)
        return;

    const int half = T == 2 ? team() : 0, unit = first + half * by;
    if (first < 0) {
        prefetch_exact(a, s, range);
    } else {
        if (unit < units) {
            prefetch_codes<KF>(a.kv.k_codes, a, s, unit);
            prefetch_codes<VF>(a.kv.v_codes, a, s, unit);
        }
        if (table_4_bytes<KF, VF>() > 0)
            fill_table<KV_TQ4>(in.table4);
        if (VF == KV_TQ3)
            fill_table<KV_TQ3>(in.table3);
    }
    for (int i = (int)threadIdx.x; i < (s.row0 + s.n) * a.half; i += T * TEAM) {
        const float2 v = cos_sin((float)(pos + i / a.half) * a.freq[i % a.half]);
        in.turn[i] = make_float2(v.x * a.rope_scale, v.y * a.rope_scale);
    }
    __syncthreads();
    gpu_wait();
    struct outcome<R> x;
    if (first < 0) {
        make_queries<R>(in.q, a, s, norm, in.turn, KV_EXACT);
        store_rows(a, s, range, in.turn);
        __syncthreads();
        if (half == 1)
            return;
        outcome_clear(x);
        exact_range<R, T>(x, a, s, in.q, in.weights, in.top, range);
        whole_sums<R, T>(x, in.top);
        write_outcome<R, T>(x, a, s, range, -1, false);
        return;
    }
    seal_blocks<T, KF, VF>(a, s, before, first, by);
    struct keys<KF> k;
    const bool two = first + by < units;
    if (unit < units)
        begin_keys<KF>(k, a, s, unit);
    make_queries<R>(in.q, a, s, norm, in.turn, (enum kv_format)KF);
    __syncthreads();
    if (half == 1 && !two)
        return;
#pragma unroll 1
    for (int h = 0; h < (T == 1 && two ? 2 : 1); h++) {
        outcome_clear(x);
        if (h > 0)
            begin_keys<KF>(k, a, s, unit + by);
        codes_half<R, T, KF, VF>(x, a, s, in.q, in.weights, in.top, lanes_copy(in.table4), lanes_copy(in.table3), unit + h * by, 2 * by, units, k);
        whole_sums<R, T>(x, in.top);
        if (T == 2 && two)
            join_teams<R>(x, smem);
        if (T == 1 || half == 0)
            write_outcome<R, T>(x, a, s, range, first * KV_UNIT, h > 0);
    }
}

/* ---- 2: sums ---- */

/* One head of one row: 8 groups of 64 threads take every 8th range each, four columns a thread. */
enum { SUM_THREADS = 512, SUM_GROUPS = SUM_THREADS / (DIM / 4), SUM_LOADS = STEP_RANGES / SUM_GROUPS };

static __global__ __launch_bounds__(SUM_THREADS) void step_attention_codes_sum_kernel(struct step_attention_args a)
{
    __shared__ float scale[STEP_RANGES], warp_top[2], warp_sums[2], column[2][DIM];
    __shared__ float4 part[2][SUM_GROUPS][DIM / 4];
    const int head = (int)blockIdx.x, row = (int)blockIdx.y, i = (int)threadIdx.x, c = i % (DIM / 4), of = i / (DIM / 4), lane = i % 32;
    const size_t at = (size_t)row * (size_t)a.n_q_heads + (size_t)head, first = partial(row, a.n_q_heads, head, 0);
    const int places = kv_places(&a.kv);
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const int n = min(places + kv_code_units(kv_sealed(&a.kv, *a.pos + row)), (int)STEP_RANGES);
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
        const float w = scale[r], exact = r < places ? w : 0, codes = r < places ? 0 : w;
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
    launch(q, "step_attention", step_attention_codes_kernel<R, KF, VF>, grid, teams<R>() * TEAM, shared_bytes<R, KF, VF>(), true, *a);
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
    if (kv_places(&a->kv) > STEP_RANGES / 2 || a->kv.sinks > KV_BLOCK || a->kv.recent % KV_BLOCK
        || (!launch_formats<KV_TQ4, KV_TQ4>(q, a) && !launch_formats<KV_INT8, KV_TQ4>(q, a) && !launch_formats<KV_INT8, KV_INT8>(q, a)
            && !launch_formats<KV_TQ4, KV_TQ3>(q, a))) {
        queue_note(q, "step_attention", cudaErrorInvalidValue);
        return;
    }
    launch(q, "step_attention", step_attention_codes_sum_kernel, dim3((unsigned)a->n_q_heads, (unsigned)a->n_rows), SUM_THREADS, 0, true, *a);
}

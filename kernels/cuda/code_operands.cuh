/* Codes of a KV cache as operands of matrix instructions: keys times queries, weights times values, by teams of four warps of a block.
 * step_attention_codes.cu says how a block is made up, kernels/kv_units.h which lane reads what. */
#pragma once

#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/step_heads.cuh"

extern "C" {
#include "kernels/kv_units.h"
}

enum {
    WARPS = 4, TEAM = WARPS * 32, TEAMS = 2, THREADS = TEAMS * TEAM, HEADS = 16, STEPS = DIM / 16,
    TILES = 4,                          /* of 8 positions; a warp's in a unit */
    COLS = DIM / WARPS, EACH = COLS / 8,        /* numbers of a value that a warp has, and a lane of them in one load */
    LINE = 256,                         /* of shared memory: its first half is an entry of the table, two levels in bf16 for each of 32 lanes */
    TABLE = 256 * LINE, TABLE_3 = 64 * LINE,    /* for every pair of codes; that of 3 bits and q have second halves of lines */
    Q_BYTES = STEPS * 4 * LINE,         /* of a row: the A operands of all steps */
    WEIGHT_BYTES = HEADS * KV_UNIT * 2, /* of a row and team: [16, 128] bf16, 16-byte piece c of head h at c ^ (h & 7) */
    TOP_BYTES = HEADS * WARPS * 4,
};
static_assert((int)(WARPS * TILES * 8) == (int)KV_UNIT && (int)(TEAMS * WARPS) == (int)KV_WARPS && (int)KV_PARTS == (int)STEP_RANGES,
              "a unit is what a team has at a time");

static __device__ __forceinline__ int team() { return (int)threadIdx.x / TEAM; }
static __device__ __forceinline__ int team_warp() { return (int)threadIdx.x / 32 % WARPS; }
/* Waits for all threads of the team. */
static __device__ __forceinline__ void team_sync() { asm volatile("bar.sync %0, %1;" ::"r"(1 + team()), "n"((int)TEAM) : "memory"); }

/* Rows row0 .. row0 + n - 1 of the call, all of one slot, whose rows begin with row `first`; their KV rows are pos0 and on.  The first one
 * sees codes below `sealed`, the last one below `end`. */
struct set {
    int row0, n, first, pos0, sealed, end, kv_head, head0, group;
    float unit;                         /* logits are powers of two */
    int    slot;
    size_t behind;                      /* bytes, of the slot's cache */
};
static __device__ __forceinline__ int first_pos(const struct set &s) { return s.pos0 - (s.row0 - s.first); }       /* of row `first` */
static __device__ __forceinline__ struct kv_rows cache_of(const struct step_attention_args &a, const struct set &s)
{
    return kv_behind(a.kv, s.behind);
}

/* Operands of q: row r, step, lane of the products. */
static __device__ __forceinline__ int query_at(int r, int step, int lane) { return ((r * STEPS + step) * 4 + lane / 8) * LINE + lane % 8 * 16; }

/* Two levels as bf16, for every pair of codes and every lane. */
template <int F> static __device__ __forceinline__ void fill_table(char *table)
{
    for (int i = (int)threadIdx.x; i < (F == KV_TQ4 ? 256 : 64) * (LINE / 2 / 16); i += THREADS) {
        const int e = i / (LINE / 2 / 16);
        const float *levels = F == KV_TQ4 ? kv_levels_4 : kv_levels_3;
        const uint32_t v = bf16_pair(levels[kv_pair_code((enum kv_format)F, e, 0)], levels[kv_pair_code((enum kv_format)F, e, 1)]);
        *(uint4 *)(table + e * LINE + i % (LINE / 2 / 16) * 16) = make_uint4(v, v, v, v);
    }
}

/* The two levels of byte k of w, for the lane whose copy is `lane4` bytes behind: the two bytes of the offset are put side by side. */
static __device__ __forceinline__ uint32_t look_up(const char *table, uint32_t lane4, uint32_t w, int k)
{
    return *(const uint32_t *)(table + __byte_perm(w, lane4, 0x5504u | (uint32_t)k << 4));
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

/* Bytes of all numbers of tokens whose codes are together: two tokens, four of TQ3. */
template <int F> static __device__ __forceinline__ constexpr int value_row() { return F == KV_INT8 ? 2 * KV_DIM : KV_DIM; }

/* The places where a thread reads unit 0: codes of keys, in pieces, and of values; scales of the warp's 32 keys. */
struct lane {
    const char     *k, *v;
    const uint16_t *k_scales;           /* those of values lie as far behind as arrays are apart */
};
/* Codes and scales of a unit, and of a block in it, of all KV heads. */
static __device__ __forceinline__ size_t block_step(const struct step_attention_args &a, int f)
{
    return (size_t)((uint32_t)a.kv.n_kv_heads * (uint32_t)kv_block_bytes((enum kv_format)f));
}
static __device__ __forceinline__ size_t unit_step(const struct step_attention_args &a, int f) { return KV_UNIT_BLOCKS * block_step(a, f); }
static __device__ __forceinline__ size_t scales_step(const struct step_attention_args &a) { return (size_t)(KV_UNIT * a.kv.n_kv_heads); }

/* Returns the addresses of a lane's keys, values and scales in the first block. */
template <int KF, int VF> static __device__ __forceinline__ struct lane lane_of(const struct step_attention_args &a, const struct set &s)
{
    const int warp = team_warp(), i = (int)threadIdx.x % 32, g = i / 4, t = i % 4, part = warp % 2 * 32;
    const struct kv_rows kv = cache_of(a, s);
    const size_t head = (size_t)s.kv_head, block = (size_t)(warp / 2);
    struct lane l;
    l.k = (const char *)kv.k_codes + block * block_step(a, KF) + head * kv_block_bytes((enum kv_format)KF)
        + (part + g) * kv_key_bytes((enum kv_format)KF) + 16 * t;
    l.v = (const char *)kv.v_codes + head * kv_block_bytes((enum kv_format)VF)
        + (VF == KV_TQ3 ? t / 2 : t) * value_row<VF>() + (COLS * warp + EACH * g) * value_row<VF>() / KV_DIM;
    l.k_scales = kv.k_scales + (block * (size_t)kv.n_kv_heads + head) * KV_BLOCK + (size_t)(part + 2 * t);
    return l;
}

/* Scales of the warp's 32 positions of unit u, two a word. */
static __device__ __forceinline__ void load_scales(uint32_t to[TILES], const uint16_t *scales, const struct step_attention_args &a, int u)
{
    const uint16_t *from = scales + (size_t)u * scales_step(a);
#pragma unroll
    for (int j = 0; j < TILES; j++)
        to[j] = load4(from + 8 * j);
}

/* Zero, known once `loaded` is.  A load from an address with this in it waits for that one.  A warp has six counters for loads in flight, and who
 * waits for one load waits for all that were asked for later on the same counter: the codes of values come only after those of keys are here,
 * so that nobody waits for both. */
static __device__ __forceinline__ uint32_t once_here(uint32_t loaded, const struct step_attention_args &a)
{
    return loaded & (uint32_t)(a.kv.sinks >> 16);
}

/* Pieces of its keys that a lane holds: as many as there are registers for. */
template <int R> static __host__ __device__ constexpr int keys_held() { return R > 2 ? 1 : 2; }
/* A warp's 32 keys of a unit. */
struct keys {
    uint4    held[2][TILES];
    uint32_t scales[TILES];
};

template <int F> static __device__ __forceinline__ uint4 piece(const char *keys, int j, int c)
{
    return load16(keys + j * 8 * kv_key_bytes((enum kv_format)F) + 64 * c);
}

/* The first position of the warp's keys of a unit. */
static __device__ __forceinline__ int first_key(int u) { return u * KV_UNIT + team_warp() * 32; }

/* Begins to load scales and keys of unit u, if the set has it. */
template <int R, int F>
static __device__ __forceinline__ void begin_keys(struct keys &k, const struct lane &l, const struct step_attention_args &a, const struct set &s,
                                                  int u, uint32_t zero)
{
    if (first_key(u) >= s.end)
        return;
    load_scales(k.scales, l.k_scales + zero, a, u);
#pragma unroll
    for (int c = 0; c < keys_held<R>(); c++)
#pragma unroll
        for (int j = 0; j < TILES; j++)
            k.held[c][j] = piece<F>(l.k + (size_t)u * unit_step(a, F) + zero, j, c);
}

/* Operands of step x of a piece. */
template <int F> static __device__ __forceinline__ uint2 key_operands(const uint4 &v, int x, const char *table, uint32_t lane4)
{
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
    if (F == KV_TQ4)
        return make_uint2(look_up(table, lane4, w[x / 2], 2 * (x % 2)), look_up(table, lane4, w[x / 2], 2 * (x % 2) + 1));
    return make_uint2(int8_pair(w[x & 3], 0), int8_pair(w[x & 3], 1));
}

/* s = q . keys, without scales. */
template <int R, int F>
static __device__ __forceinline__ void multiply_keys(float s[R][TILES][4], struct keys &k, const char *keys, const char *q, const char *table)
{
    enum { N = F == KV_INT8 ? 4 : 8, PIECES = STEPS / N };      /* kv_piece_steps() */
    const char *mine = q + query_at(0, 0, (int)threadIdx.x % 32);
    const uint32_t lane4 = threadIdx.x % 32 * 4;
#pragma unroll
    for (int c = 0; c < PIECES; c++) {
#pragma unroll
        for (int x = 0; x < N; x++) {
            uint2 b[TILES];
#pragma unroll
            for (int j = 0; j < TILES; j++)
                b[j] = key_operands<F>(k.held[c % keys_held<R>()][j], x, table, lane4);
#pragma unroll
            for (int r = 0; r < R; r++) {
                const uint4 v = *(const uint4 *)(mine + query_at(r, c * N + x, 0));
                const uint32_t rows[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    mma_bf16(s[r][j], rows, b[j].x, b[j].y);
            }
        }
        if (c + keys_held<R>() < PIECES)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                k.held[c % keys_held<R>()][j] = piece<F>(keys, j, c + keys_held<R>());
    }
}

/* A warp's 64 numbers of the values of a block, pairs t, t + 4, ... of tokens: 8 neighbouring numbers a lane. */
template <int F> struct values {
    enum { WORDS = F == KV_INT8 ? 4 : 2 };      /* of a pair */
    uint32_t low[8 * WORDS], high[F == KV_TQ3 ? 8 * WORDS : 1];
};

/* The lane's numbers of a block, from lane.v on. */
template <int F> static __device__ __forceinline__ void load_values(struct values<F> &v, const char *block)
{
    const char *high = block - threadIdx.x % 4 / 2 * KV_DIM + KV_BLOCK * KV_DIM / 4;    /* TQ3: rows of eight tokens; lane.v counts those of four */
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (F == KV_INT8)
            *(uint4 *)(v.low + i * values<F>::WORDS) = load16(block + 4 * i * value_row<F>());
        else
            *(uint2 *)(v.low + i * values<F>::WORDS) = load8(block + (F == KV_TQ4 ? 4 : 2) * i * value_row<F>());
        if (F == KV_TQ3)
            *(uint2 *)(v.high + (F == KV_TQ3 ? i * values<F>::WORDS : 0)) = load8(high + i * KV_DIM);
    }
}

/* Pair t + 4 i of tokens, number 8 g + e. */
template <int F> static __device__ __forceinline__ uint32_t value_operand(const struct values<F> &v, int i, int e, const char *table)
{
    const uint32_t *w = v.low + i * values<F>::WORDS;
    if (F == KV_INT8)
        return int8_pair(w[F == KV_INT8 ? e / 2 : 0], e % 2);
    return look_up(table, threadIdx.x % 32 * 4, w[e / 4], e % 4);
}

/* A lane's row of weights for ldmatrix: head lane % 16; step s at the exclusive or with 32 s. */
static __device__ __forceinline__ uint32_t weights_row(const char *weights)
{
    const int lane = (int)threadIdx.x % 32;
    return (uint32_t)__cvta_generic_to_shared(weights) + (uint32_t)(lane % 16 * (KV_UNIT * 2) + ((lane / 16 ^ (lane & 7)) << 4));
}

/* o += weights . values of block b of a unit; `row` is weights_row(). */
template <int R, int F>
static __device__ __forceinline__ void multiply_values(float o[R][EACH][4], const struct values<F> &v, uint32_t row, int b, const char *table)
{
#pragma unroll
    for (int step = 0; step < KV_BLOCK / 16; step++) {
        uint32_t w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            ldmatrix(w[r], (row ^ (uint32_t)((b * (KV_BLOCK / 16) + step) << 5)) + r * WEIGHT_BYTES);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const uint32_t b0 = value_operand<F>(v, 2 * step, e, table), b1 = value_operand<F>(v, 2 * step + 1, e, table);
#pragma unroll
            for (int r = 0; r < R; r++)
                mma_bf16(o[r][e], w[r], b0, b1);
        }
    }
}

/* The scale of a code that is no level. */
template <int F> static __host__ __device__ constexpr float code_unit() { return F == KV_INT8 ? 1.0f / 127 : 1.0f; }

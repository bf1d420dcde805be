/* step_attention over compressed rows: old positions as codes, the sinks and the newest ones exactly (kernels/attention.h).
 * Shapes    as step_attention.cu; codes of KV_BLOCK positions and a KV head (kernels/kv.h)
 * Bytes     codes and scales of old positions once: with 4 bits 260 B a position and KV head, 68 MB for the 122B at 128K; exact rows of
 *           recent + 80 to recent + 144 positions at most, 1 KiB each
 * Limit     on a GB10 bandwidth.  On an H200 something else: codes come at 2,100 GB/s, with fewer instructions as well (docs/log/2026-11.md)
 * Launch    1: grid (sets of rows, 64 parts, kv_heads), 8 warps.  A part is a place of exact positions or has units of codes
 *           (kernels/kv_units.h); parts beyond the end leave at once.  Two teams of 4 warps have half a place each, or every second unit of
 *           the part, and join what they added up at the end, so that one works while the other one waits.  Each block norms and turns
 *           its 16 heads of q itself.  The part of a new row stores it; that of a block of positions that the rows are the first to read
 *           as codes seals it.  A set is up to three rows of one conversation
 *           2: grid (heads, rows) adds the parts up, turns what came from codes back, and gates
 * Layout    16 query heads of a KV head are the rows of an m16n8k16.  Logits: a warp has 32 positions; it reads keys from memory as the
 *           operands of its products, dequantizes them in registers, and has q in shared memory.  Values: a warp has 64 numbers of all positions.
 *           Weights, times the scales of the values, pass through shared memory.  Levels of two codes lie in a table with a copy for every
 *           lane, free of bank conflicts; one byte permutation makes an address.  Codes are on their way into registers while those before
 *           them are multiplied: 16 KiB a team, keys or values (once_here()).  (A prefetch into the second-level cache does not help where memory is
 *           the host's)
 * Numerics  q, levels and weights in bf16, the rest fp32.  What a position is added up with depends on the position alone */
#include "kernels/cuda/code_operands.cuh"

/* Shared memory: tables of levels; q; weights, maxima or sums, and maxima at the end, of both teams. */
template <int KF, int VF> static __host__ __device__ constexpr int q_begin() { return LINE / 2 + (VF == KV_TQ3 ? TABLE_3 : 0); }
template <int R, int KF, int VF> static __host__ __device__ constexpr int lines_bytes() { return KF == KV_TQ4 || VF == KV_TQ4 ? TABLE : R * Q_BYTES; }
template <int R, int KF, int VF> static __host__ __device__ constexpr int shared_bytes()
{
    static_assert(q_begin<KF, VF>() - LINE / 2 + R * Q_BYTES <= lines_bytes<R, KF, VF>(), "q has room beside the table");
    return lines_bytes<R, KF, VF>() + TEAMS * R * (WEIGHT_BYTES + TOP_BYTES + HEADS * 4);
}
/* Blocks of values that there are registers for while keys are multiplied. */
template <int R, int KF, int VF> static __host__ __device__ constexpr int values_held()
{
    return R > 2 ? 0 : VF == KV_TQ4 && (R == 1 || KF == KV_TQ4) ? 2 : 1;
}
/* Rows of a block at most: as many as there are registers for. */
template <int KF, int VF> static constexpr int most_rows() { return KF == KV_TQ4 && VF == KV_TQ4 ? 3 : 2; }
static_assert(shared_bytes<3, KV_TQ4, KV_TQ4>() <= 99 * 1024 && shared_bytes<2, KV_TQ4, KV_TQ3>() <= 99 * 1024
              && shared_bytes<2, KV_INT8, KV_TQ4>() <= 99 * 1024, "a GB10 has 99 KiB");
static_assert(STEP_ROWS * DIM / 2 * (int)sizeof(float2) <= TEAMS * WEIGHT_BYTES, "angles of all rows fit where weights come later");
static_assert(TEAM * EACH * 2 * 4 * TEAMS <= Q_BYTES + TEAMS * WEIGHT_BYTES, "what teams exchange at the end has room");

/* ---- the rows' heads ---- */

/* q of the set's rows, normed and turned, as operands in shared memory, rotated unless keys are exact; zeros where there is no row or head. */
template <int R>
static __device__ __forceinline__ void make_queries(char *q, const struct step_attention_args &a, const struct set &s, const struct head_norm &norm,
                                                    const float2 *turn, enum kv_format f)
{
    enum { AT_ONCE = 2, ALL = TEAMS * WARPS };
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
            uint4 bits = norm_and_turn(norm, v[j], mates[j], turn + (s.row0 - s.first + min(r, s.n - 1)) * a.half, a.half, a.eps);
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

/* Stores keys and values of the slot's rows that have this place, a warp for each.  Sets need the rows before them and write them, too, the
 * same bytes. */
static __device__ __forceinline__ void store_rows(const struct step_attention_args &a, const struct set &s, int place, const float2 *turn)
{
    const struct kv_rows kv = cache_of(a, s);
    const int i = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, row = s.first + i, p = first_pos(s) + i;
    if (row >= s.row0 + s.n || kv_place_of(&kv, p) != place)
        return;
    const size_t from = ((size_t)row * (size_t)kv.n_kv_heads + (size_t)s.kv_head) * DIM;
    const struct head_norm norm = head_norm_of(a.k_norm, a.half, lane);
    float v[8], mate[8];
    load_eight(v, a.k + from + norm.at, a.k + from + norm.at + 4);
    load_eight(mate, a.k + from + norm.mate[0], a.k + from + norm.mate[1]);
    *kv_exact_at(kv, KV_KEY, s.kv_head, p, lane) = norm_and_turn(norm, v, mate, turn + i * a.half, a.half, a.eps);
    load_eight(v, a.v + from + norm.at, a.v + from + norm.at + 4);
    *kv_exact_at(kv, KV_VALUE, s.kv_head, p, lane) = eight_bf16(v);
}

/* Seals the blocks of this part that nobody sealed before the step: `before` is the end of those that are. */
template <int KF, int VF>
static __device__ __forceinline__ void seal_blocks(const struct step_attention_args &a, const struct set &s, int before, int part, int parts)
{
    const struct kv_rows kv = cache_of(a, s);
    bool any = false;
    for (int p = before; p < s.end; p += KV_BLOCK)
        if (kv_unit_part(p / KV_UNIT, parts) == part) {
            any = true;
            kv_seal_block(kv, (enum kv_format)KF, KV_KEY, s.kv_head, p);
            kv_seal_block(kv, (enum kv_format)VF, KV_VALUE, s.kv_head, p);
        }
    if (any)
        __syncthreads();
}

/* ---- what is added up ---- */

/* The outcome of a warp for its team's positions: 64 numbers of every head of every row, the greatest logit, and its lanes' parts of the sum of
 * weights. */
template <int R> struct outcome {
    float o[R][EACH][4], max[R][2], sum[R][2];
};

/* Sets maxima to -inf and all sums to 0. */
template <int R> static __device__ __forceinline__ void outcome_clear(struct outcome<R> &x)
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        x.max[r][0] = x.max[r][1] = -INFINITY;
        x.sum[r][0] = x.sum[r][1] = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++)
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
/* Returns the greatest of the team's. */
static __device__ __forceinline__ float team_top(const float *top, int r, int e)
{
    const float4 m = *(const float4 *)(top + (r * HEADS + (int)threadIdx.x % 32 / 4 + 8 * e) * WARPS);
    return fmaxf(fmaxf(m.x, m.y), fmaxf(m.z, m.w));
}
/* Returns the number that is subtracted from logits. */
static __device__ __forceinline__ float zero_of(float max) { return max == -INFINITY ? 0 : max; }

/* Raises the greatest logit to `top`, if that is greater, and rescales the sums so far. */
template <int R> static __device__ __forceinline__ void raise_top(struct outcome<R> &x, int r, int e, float top)
{
    const float now = fmaxf(top, x.max[r][e]), keep = exp2_fast(x.max[r][e] - zero_of(now));
    x.max[r][e] = now;
    if (__any_sync(~0u, keep != 1)) {
        x.sum[r][e] *= keep;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            x.o[r][i][2 * e] *= keep;
            x.o[r][i][2 * e + 1] *= keep;
        }
    }
}

/* Block b of a unit's values.  Instead of a second block behind the end, which has no weights, the first one is read. */
template <int F>
static __device__ __forceinline__ const char *values_at(const struct lane &l, const struct step_attention_args &a, const struct set &s, int u, int b)
{
    return l.v + (size_t)u * unit_step(a, F) + (u * KV_UNIT + b * KV_BLOCK < s.end ? b : 0) * block_step(a, F);
}
/* Values of unit u, as many blocks as are held, and the scales of those of the positions whose keys the warp has. */
template <int R, int KF, int VF>
static __device__ __forceinline__ void begin_values(struct values<VF> v[], uint32_t scales[TILES], const struct lane &l,
                                                    const struct step_attention_args &a, const struct set &s, int u, uint32_t zero)
{
    if (first_key(u) < s.end)
        load_scales(scales, l.k_scales + (a.kv.v_scales - a.kv.k_scales) + zero, a, u);
#pragma unroll
    for (int b = 0; b < values_held<R, KF, VF>(); b++)
        load_values<VF>(v[b], values_at<VF>(l, a, s, u, b) + zero);
}

/* Codes: unit u and those after it in the chain; k and v are the first one's. */
template <int R, int KF, int VF>
static __device__ __forceinline__ void codes_chain(struct outcome<R> &y, const struct step_attention_args &a, const struct set &s,
                                                   const struct lane &l, const char *q, char *weights, float *top, const char *table, int begin,
                                                   int parts, struct keys &k, struct values<VF> v[], uint32_t v_scales[TILES])
{
    int u = begin;
    const uint32_t row = weights_row(weights);
    const int warp = team_warp(), lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const float unit = s.unit * code_unit<KF>();
#pragma unroll 1
    while (u * KV_UNIT < s.end) {
        const int first = first_key(u), after = kv_next_unit(u, parts);
        float x[R][TILES][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                x[r][j][0] = x[r][j][1] = x[r][j][2] = x[r][j][3] = 0;
        if (values_held<R, KF, VF>() == 0)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                v_scales[j] = 0;        /* so that no registers are kept for them either */
        if (u != begin || values_held<R, KF, VF>() == 0)
            begin_values<R, KF, VF>(v, v_scales, l, a, s, u, once_here(k.scales[0], a));
        if (first < s.end) {
            multiply_keys<R, KF>(x, k, l.k + (size_t)u * unit_step(a, KF), q, table);
        }
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
            if (first < see.from || first + 8 * TILES > see.to) {
#pragma unroll
                for (int j = 0; j < TILES; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int p = first + 8 * j + 2 * t + e;
                        if (p < see.from || p >= see.to)
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
        if (first < a.kv.sinks || first + 8 * TILES > s.end) {          /* no row sees what lies outside, and its scales may be anything */
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                const int p = first + 8 * j + 2 * t;
                v_scales[j] &= (p >= a.kv.sinks && p < s.end ? 0xffffu : 0) | (p + 1 >= a.kv.sinks && p + 1 < s.end ? 0xffff0000u : 0);
            }
        }
        team_sync();                    /* the maxima are here; everybody is done with the weights before */

#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                raise_top(y, r, e, team_top(top, r, e));
                const float from = zero_of(y.max[r][e]);
                char *to = weights + r * WEIGHT_BYTES + (g + 8 * e) * (KV_UNIT * 2) + t * 4;
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    const float w0 = exp2_fast(x[r][j][2 * e] - from), w1 = exp2_fast(x[r][j][2 * e + 1] - from);
                    y.sum[r][e] += w0 + w1;
                    *(uint32_t *)(to + (((TILES * warp + j) ^ g) << 4)) =
                        bf16_pair(w0 * (half_low(v_scales[j]) * code_unit<VF>()), w1 * (half_high(v_scales[j]) * code_unit<VF>()));
                }
            }
        if (values_held<R, KF, VF>() == 0)
            load_values<VF>(v[0], values_at<VF>(l, a, s, u, 0));
        if (after * KV_UNIT < s.end)
            begin_keys<R, KF>(k, l, a, s, after, once_here(v_scales[0], a));
        team_sync();                    /* the weights are here */

#pragma unroll
        for (int b = 0; b < KV_UNIT_BLOCKS; b++) {
            struct values<VF> &now = v[values_held<R, KF, VF>() == 2 ? b : 0];
            if (VF == KV_TQ3)
#pragma unroll
                for (int i = 0; i < 8 * values<VF>::WORDS; i++)
                    now.low[i] = kv_value_index_3(now.low[i], now.high[VF == KV_TQ3 ? i : 0], t);
            multiply_values<R, VF>(y.o, now, row, b, VF == KV_TQ3 ? table + LINE / 2 : table);
            if (values_held<R, KF, VF>() < 2 && b == 0)
                load_values<VF>(now, values_at<VF>(l, a, s, u, 1));
        }
        u = after;
    }
}

/* kv_exact_row() of position p of a block that begins at `begin`, base = begin % ring, and the head, without another division. */
static __device__ __forceinline__ size_t exact_row(const struct step_attention_args &a, const struct set &s, int begin, int base, int p)
{
    const int in_ring = base + p - begin, row = p < a.kv.sinks ? p : a.kv.sinks + in_ring - (in_ring >= a.kv.ring ? a.kv.ring : 0);
    return (size_t)(row * a.kv.n_kv_heads + s.kv_head);
}

/* The exact positions of a team: half of its place.  A warp has 8 of the 32 keys; a lane has a quarter of one of them. */
enum { EXACT = KV_BLOCK / TEAMS, EXACT_PIECES = DIM * 2 / 64 };
struct exact {
    int   begin, base;                  /* of the place; base: in the ring */
    int   first, from, to, last;        /* first of the team; what any row sees of the place; the last row */
    uint4 k[EXACT_PIECES];
};
static __device__ __forceinline__ void exact_place(struct exact &x, const struct step_attention_args &a, const struct set &s, int place)
{
    x.begin = kv_place_begin(&a.kv, place, s.sealed), x.base = x.begin % a.kv.ring;
    x.first = x.begin + EXACT * team(), x.last = s.pos0 + s.n - 1;
    x.from = place > 0 ? s.sealed : 0, x.to = place > kv_window(&a.kv) ? 0 : place > 0 ? x.last + 1 : s.end > 0 ? a.kv.sinks : 0;
}
/* The keys of positions below first_pos(s), or those of the slot's own rows. */
static __device__ __forceinline__ void load_exact_keys(struct exact &x, const struct step_attention_args &a, const struct set &s, bool own)
{
    const int lane = (int)threadIdx.x % 32, p = min(x.first + 8 * team_warp() + lane / 4, x.last);
    if (x.first >= x.to || (p >= first_pos(s)) != own)
        return;
    const struct kv_rows kv = cache_of(a, s);
    const char *row = (const char *)kv.k + exact_row(a, s, x.begin, x.base, p) * (DIM * 2) + 16 * (lane % 4);
#pragma unroll
    for (int c = 0; c < EXACT_PIECES; c++)
        x.k[c] = load16(row + 64 * c);
}

/* Adds them up, their keys are there.  Values that no row sees count as zeros. */
template <int R>
static __device__ __forceinline__ void exact_half(struct outcome<R> &y, struct exact &x, const struct step_attention_args &a, const struct set &s,
                                                  const char *q, char *weights, float *top, int place)
{
    const struct kv_rows kv = cache_of(a, s);
    const int warp = team_warp(), lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, first = x.first + 8 * warp;
    if (x.first >= x.to) {              /* true for the whole team */
        outcome_clear(y);
        return;
    }
    uint4 v[EXACT / 16][4];
#pragma unroll
    for (int step = 0; step < EXACT / 16; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int p = x.first + 16 * step + 2 * t + i % 2 + i / 2 * 8;
            v[step][i] = load16((const char *)kv.v + exact_row(a, s, x.begin, x.base, min(p, x.last)) * (DIM * 2) + (COLS * warp + EACH * g) * 2);
            if (p < x.from || p >= x.to)
                v[step][i] = make_uint4(0, 0, 0, 0);
        }
    float l[R][4], odd[R][4];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            l[r][i] = odd[r][i] = 0;
#pragma unroll
    for (int c = 0; c < EXACT_PIECES; c++)
#pragma unroll
        for (int r = 0; r < R; r++) {
            const uint4 v0 = *(const uint4 *)(q + query_at(r, 2 * c, lane)), v1 = *(const uint4 *)(q + query_at(r, 2 * c + 1, lane));
            const uint32_t rows0[4] = {v0.x, v0.y, v0.z, v0.w}, rows1[4] = {v1.x, v1.y, v1.z, v1.w};
            mma_bf16(l[r], rows0, x.k[c].x, x.k[c].y);
            mma_bf16(odd[r], rows1, x.k[c].z, x.k[c].w);
        }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const struct kv_span see = kv_seen_exactly(&a.kv, place, s.pos0 + r);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int p = first + 2 * t + i % 2;
            l[r][i] = p >= see.from && p < see.to ? (l[r][i] + odd[r][i]) * s.unit : -INFINITY;
        }
        put_top(top, r, fmaxf(l[r][0], l[r][1]), fmaxf(l[r][2], l[r][3]));
    }
    team_sync();                        /* the maxima are here */
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            y.max[r][e] = team_top(top, r, e);
            const float w0 = exp2_fast(l[r][2 * e] - zero_of(y.max[r][e])), w1 = exp2_fast(l[r][2 * e + 1] - zero_of(y.max[r][e]));
            y.sum[r][e] = w0 + w1;
            *(uint32_t *)(weights + r * WEIGHT_BYTES + (g + 8 * e) * (KV_UNIT * 2) + t * 4 + ((warp ^ g) << 4)) = bf16_pair(w0, w1);
        }
    team_sync();                        /* the weights are here */

    const uint32_t row = weights_row(weights);
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < EACH; e++)
            y.o[r][e][0] = y.o[r][e][1] = y.o[r][e][2] = y.o[r][e][3] = 0;
#pragma unroll
    for (int step = 0; step < EXACT / 16; step++) {
        uint32_t w[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            ldmatrix(w[r], (row ^ (uint32_t)(step << 5)) + r * WEIGHT_BYTES);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int select = e % 2 ? 0x7632 : 0x5410;
            uint32_t pair[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                pair[i] = e / 2 == 0 ? v[step][i].x : e / 2 == 1 ? v[step][i].y : e / 2 == 2 ? v[step][i].z : v[step][i].w;
            const uint32_t b0 = __byte_perm(pair[0], pair[1], select), b1 = __byte_perm(pair[2], pair[3], select);
#pragma unroll
            for (int r = 0; r < R; r++)
                mma_bf16(y.o[r][e], w[r], b0, b1);
        }
    }
}
/* The rows of a place that were there before, and the weights of new ones, into the second-level cache. */
static __device__ __forceinline__ void prefetch_exact(const struct step_attention_args &a, const struct set &s, int place)
{
    const struct kv_rows kv = cache_of(a, s);
    const int i = (int)threadIdx.x % KV_BLOCK, p = kv_place_begin(&a.kv, place, s.sealed) + i;
    if ((int)threadIdx.x < DIM * 4 / 128)
        prefetch(a.k_norm + (int)threadIdx.x * 32);
    if (p > s.pos0 + s.n - 1 || (place == 0 && p >= a.kv.sinks))
        return;
    const size_t row = (size_t)kv_exact_row(&a.kv, p) * (size_t)a.kv.n_kv_heads + (size_t)s.kv_head;
    for (int j = (int)threadIdx.x / KV_BLOCK; j < DIM * 2 / 128; j += THREADS / KV_BLOCK)
        prefetch((const char *)kv.v + row * (DIM * 2) + j * 128);
}

/* ---- two teams ---- */

/* Returns the factors of the first and of the second team that bring their sums to common units. */
static __device__ __forceinline__ float2 join(float max0, float max1)
{
    const float max = fmaxf(max0, max1), from = max == -INFINITY ? 0 : max;
    return make_float2(exp2_fast(max0 - from), exp2_fast(max1 - from));
}
static __device__ __forceinline__ float join_sum(float x, float y, float2 by) { return fmaf(x, by.x, __fmul_rn(y, by.y)); }

/* The sum of weights of a row's head over a team: first over lanes, then over warps. */
static __device__ __forceinline__ void put_sum(float *top, int r, int e, float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    v += __shfl_xor_sync(~0u, v, 2);
    if (threadIdx.x % 4 == 0)
        top[(r * HEADS + (int)threadIdx.x % 32 / 4 + 8 * e) * WARPS + team_warp()] = v;
}
static __device__ __forceinline__ float whole_sum(const float *top, int r, int head)
{
    const float4 v = *(const float4 *)(top + (r * HEADS + head) * WARPS);
    return v.x + v.y + v.z + v.w;
}

/* Joins what both teams have and puts it into scratch memory, for rows that see codes from position `seen` on, or exact rows if that is negative.
 * Each team gives the other one half of the heads, and is left with the other half. */
template <int R>
static __device__ __forceinline__ void write_outcome(const struct outcome<R> &x, const struct step_attention_args &a, const struct set &s, char *smem,
                                                     float *tops, int part, int seen)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, mine = team(), head = g + 8 * mine;
    float *room = (float *)smem + (int)threadIdx.x % TEAM, *ends = tops + TEAMS * R * TOP_BYTES / 4;
    float *sums = tops + mine * R * TOP_BYTES / 4;
    __syncthreads();                    /* nobody needs the memory any more */
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            put_sum(sums, r, e, x.sum[r][e]);
            if (team_warp() == 0 && t == 0)
                ends[(mine * R + r) * HEADS + g + 8 * e] = x.max[r][e];
#pragma unroll
            for (int j = 0; j < 2 * EACH; j++)
                if (e != mine)
                    room[((mine * R + r) * 2 * EACH + j) * TEAM] = x.o[r][j % EACH][2 * e + j / EACH];
        }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (r >= s.n || head >= s.group || seen >= kv_sealed(&a.kv, s.pos0 + r))
            continue;
        const float max0 = ends[r * HEADS + head], max1 = ends[(R + r) * HEADS + head];
        const float2 by = join(max0, max1);
        const size_t at = partial(s.row0 + r, a.n_q_heads, s.head0 + head, part);
        float4 *to = (float4 *)((float *)a.scratch + at * DIM + COLS * team_warp() + 2 * EACH * t);
        float v[2 * EACH];
#pragma unroll
        for (int j = 0; j < 2 * EACH; j++) {
            const float own = mine ? x.o[r][j % EACH][2 + j / EACH] : x.o[r][j % EACH][j / EACH];
            const float other = room[(((1 - mine) * R + r) * 2 * EACH + j) * TEAM];
            v[j] = join_sum(mine ? other : own, mine ? own : other, by);
        }
#pragma unroll
        for (int j = 0; j < EACH / 2; j++)
            to[j] = make_float4(v[4 * j], v[4 * j + 1], v[4 * j + 2], v[4 * j + 3]);
        const float sum = join_sum(whole_sum(tops, r, head), whole_sum(tops + R * TOP_BYTES / 4, r, head), by);
        if (team_warp() == 0 && t == 0)
            *(float2 *)(partial_ends(a) + 2 * at) = make_float2(fmaxf(max0, max1), sum);
    }
}

/* The slot and the rows of set blockIdx.x; false if there is none.  With `rows` there is a set for every row, of which those count whose row is the
 * first, or the R-th after that, and so on, of its slot. */
template <int R> static __device__ __forceinline__ bool set_of(struct set &s, const struct step_attention_args &a)
{
    const int x = (int)blockIdx.x;
    int slot = 0;
    if (a.rows) {
        const struct step_row row = a.rows[x];
        slot = row.slot, s.row0 = x, s.first = x - row.index, s.n = 1;
        if (row.index % R)
            return false;
        while (s.n < R && x + s.n < a.n_rows && a.rows[x + s.n].slot == slot)
            s.n++;
    } else {
        s.row0 = R * x, s.first = 0, s.n = R == 1 ? 1 : min(R, a.n_rows - s.row0);
    }
    s.behind = (size_t)slot * a.slot_bytes;
    s.kv_head = (int)blockIdx.z, s.group = a.n_q_heads / a.kv.n_kv_heads, s.head0 = s.kv_head * s.group, s.unit = a.scale * 1.4426950408889634f;
    if (!a.settled)
        gpu_wait();
    s.pos0 = *live_of(a.pos, slot) + s.row0 - s.first, s.slot = slot;
    s.sealed = kv_sealed(&a.kv, s.pos0), s.end = R == 1 ? s.sealed : kv_sealed(&a.kv, s.pos0 + s.n - 1);
    return true;
}

/* Attention of a step over one part of the positions: exact rows, or units of codes.  Also stores the step's rows and seals full blocks. */
template <int R, int KF, int VF> static __global__ __launch_bounds__(THREADS, 1) void step_attention_codes_kernel(struct step_attention_args a)
{
    extern __shared__ __align__(1024) char smem[];
    char *q = smem + q_begin<KF, VF>(), *all_weights = smem + lines_bytes<R, KF, VF>();
    char *weights = all_weights + team() * R * WEIGHT_BYTES;
    float *tops = (float *)(all_weights + TEAMS * R * WEIGHT_BYTES), *top = tops + team() * R * TOP_BYTES / 4;
    float2 *turn = (float2 *)all_weights;       /* [rows, half], until the weights come */
    const struct head_norm norm = head_norm_of(a.q_norm, a.half, (int)threadIdx.x % 32);        /* a weight, so before the wait */
    gpu_next();
    struct set s;
    if (!set_of<R>(s, a))
        return;
    const int places = kv_places(&a.kv), parts = KV_PARTS - places, part = (int)blockIdx.y - places;
    const int units = kv_code_units(s.end), before = kv_sealed(&a.kv, first_pos(s) - 1), unit = kv_first_unit(part, team());
    if (kv_first_unit(part, 0) >= units)
        return;

    struct exact x;
    struct keys k;
    struct values<VF> v[2];
    uint32_t v_scales[TILES];
    struct lane l;
    const bool begun = unit < units && (unit + 1) * KV_UNIT <= before;
    if (part < 0) {
        exact_place(x, a, s, (int)blockIdx.y);
        load_exact_keys(x, a, s, false);
        prefetch_exact(a, s, (int)blockIdx.y);
    } else {
        l = lane_of<KF, VF>(a, s);
        if (begun) {
            begin_keys<R, KF>(k, l, a, s, unit, 0);
            begin_values<R, KF, VF>(v, v_scales, l, a, s, unit, 0);
        }
        if (KF == KV_TQ4 || VF == KV_TQ4)
            fill_table<KV_TQ4>(smem);
        if (VF == KV_TQ3)
            fill_table<KV_TQ3>(smem + LINE / 2);
    }
    turn_rows(turn, a, turned_at(a, s.slot, first_pos(s)), s.row0 - s.first + s.n);
    __syncthreads();
    gpu_wait();
    if (part < 0) {
        store_rows(a, s, (int)blockIdx.y, turn);
    } else {
        seal_blocks<KF, VF>(a, s, before, part, parts);
        if (!begun && unit < units) {
            begin_keys<R, KF>(k, l, a, s, unit, 0);
            begin_values<R, KF, VF>(v, v_scales, l, a, s, unit, 0);
        }
    }
    make_queries<R>(q, a, s, norm, turn, part < 0 ? KV_EXACT : (enum kv_format)KF);
    __syncthreads();
    struct outcome<R> y;
    if (part < 0) {
        load_exact_keys(x, a, s, true);
        exact_half<R>(y, x, a, s, q, weights, top, (int)blockIdx.y);
    } else {
        outcome_clear(y);
        codes_chain<R, KF, VF>(y, a, s, l, q, weights, top, smem, unit, parts, k, v, v_scales);
    }
    write_outcome<R>(y, a, s, smem, tops, (int)blockIdx.y, part < 0 ? -1 : kv_first_unit(part, 0) * KV_UNIT);
}

/* ---- 2: sums ---- */

/* One head of one row: 8 groups of 64 threads take every 8th part each, four columns a thread. */
enum { SUM_THREADS = 512, SUM_GROUPS = SUM_THREADS / (DIM / 4), SUM_LOADS = KV_PARTS / SUM_GROUPS };
static_assert((int)KV_PARTS == 64, "two warps have a part each lane");

/* Adds up the parts of a head, turns back the sum of codes and applies the gate. */
static __global__ __launch_bounds__(SUM_THREADS) void step_attention_codes_sum_kernel(struct step_attention_args a)
{
    __shared__ float scale[KV_PARTS], warp_top[2], warp_sums[2], column[2][DIM];
    __shared__ float4 part[2][SUM_GROUPS][DIM / 4];
    const int head = (int)blockIdx.x, row = (int)blockIdx.y, i = (int)threadIdx.x, c = i % (DIM / 4), of = i / (DIM / 4), lane = i % 32;
    const size_t at = (size_t)row * (size_t)a.n_q_heads + (size_t)head, first = partial(row, a.n_q_heads, head, 0);
    const int places = kv_places(&a.kv);
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const struct step_row of_slot = row_of(a.rows, row);
    const int n = places + kv_code_parts(kv_sealed(&a.kv, *live_of(a.pos, of_slot.slot) + of_slot.index), KV_PARTS - places);
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
    if (i < KV_PARTS) {
        if (i < n) {
            max = ends[2 * i];
            sum = ends[2 * i + 1];
        }
        const float top = warp_max(max);
        if (lane == 0)
            warp_top[i / 32] = top;
    }
    __syncthreads();
    if (i < KV_PARTS) {
        const float w = exp2_fast(max - fmaxf(warp_top[0], warp_top[1]));
        scale[i] = w;
        sum = warp_sum(w * sum);
        if (lane == 0)
            warp_sums[i / 32] = sum;
    }
    __syncthreads();
    float4 y[2] = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};   /* of exact places, of codes */
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

template <int R, int KF, int VF> static void launch_parts(struct cuda_queue *q, const struct step_attention_args *a)
{
    dim3 grid((unsigned)(a->rows ? a->n_rows : (a->n_rows + R - 1) / R), KV_PARTS, (unsigned)a->kv.n_kv_heads);
    launch(q, "step_attention", step_attention_codes_kernel<R, KF, VF>, grid, THREADS, shared_bytes<R, KF, VF>(), true, *a);
}

/* Launches the kernel for this pair of formats.  False if the cache has another pair. */
template <int KF, int VF> static bool launch_formats(struct cuda_queue *q, const struct step_attention_args *a)
{
    if ((int)a->kv.k_format != KF || (int)a->kv.v_format != VF)
        return false;
    if (a->n_rows == 1)
        launch_parts<1, KF, VF>(q, a);
    else if (a->n_rows == 2 || a->n_rows == 4 || a->rows)
        launch_parts<2, KF, VF>(q, a);
    else
        launch_parts<most_rows<KF, VF>(), KF, VF>(q, a);
    return true;
}

void step_attention_codes(struct cuda_queue *q, const struct step_attention_args *a)
{
    if (kv_places(&a->kv) > KV_PARTS / 2 || a->kv.sinks > KV_BLOCK || a->kv.recent % KV_BLOCK
        || (!launch_formats<KV_TQ4, KV_TQ4>(q, a) && !launch_formats<KV_INT8, KV_TQ4>(q, a) && !launch_formats<KV_INT8, KV_INT8>(q, a)
            && !launch_formats<KV_TQ4, KV_TQ3>(q, a))) {
        queue_note(q, "step_attention", cudaErrorInvalidValue);
        return;
    }
    launch(q, "step_attention", step_attention_codes_sum_kernel, dim3((unsigned)a->n_q_heads, (unsigned)a->n_rows), SUM_THREADS, 0, true, *a);
}

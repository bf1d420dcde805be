/* step_attention: one attention layer of a decode step, 1 to 8 rows, between its projections.
 * Shapes    qg [n, heads, 2, 256], k and v [n, kv_heads, 256] fp32; cache rows [kv_heads, 256] bf16
 * Bytes     K and V of all positions once: 1 KiB a position and KV head;  122B at 128K: 268 MB;  partial results of the ranges, 1 KiB
 *           each a row and query head, at most 2 MB a row of the 122B, written and read in L2
 * Limit     bandwidth: 268 MB at 4.5 TB/s 60 us, at 230 GB/s 1.2 ms
 * Launch    1: grid (row sets, 64 ranges, kv_heads), 8 warps, 64 positions a tile; K and V tiles of 32 KiB in three buffers, two
 *           of them in flight (two buffers, one in flight, where shared memory is short); ranges beyond the end leave at once.
 *           A set is up to 4 rows: the second one of 5 to 8 rows runs beside the first and finds K and V in L2.  Where rows are those of
 *           several conversations each one is a set, and rows of the same conversation find K and V in L2
 *           2: grid (heads, rows, quarters of a head) adds the ranges up, and gates
 * Layout    16 query heads of a KV head are the rows of an m16n8k16, missing ones are 0.  Logits: a row of the call belongs to
 *           8 / R warps, each with its own positions of the tile and q in registers; weights meet in shared memory; outputs: a
 *           warp has 32 columns of all rows.  16-byte piece c of row r lies at c ^ (r & 7), free of bank conflicts
 * Numerics  q and weights in bf16, the rest fp32; weights are added up by the tensor cores as ones times weights, so that the order
 *           does not depend on R.  A range is 64 positions long for rows at 0 to 4095, 128 at 4096 to 8191, ... */
#include "kernels/cuda/step_heads.cuh"

enum {
    WARPS = 8, THREADS = WARPS * 32, TILE = 64, HEADS = 16,
    ROW_BYTES = DIM * 2,
    BUFFER = TILE * ROW_BYTES,
};

/* The range length of a row at position p: the smallest multiple of 64 that needs no more than STEP_RANGES ranges. */
static __device__ __forceinline__ int range_length(int p) { return TILE * (p / (TILE * STEP_RANGES) + 1); }

/* N of the query heads of a set of rows, i0, i0 + 8, ...; what does not exist is loaded from elsewhere. */
template <int N>
static __device__ __forceinline__ void load_heads(float v[N][8], float mates[N][8], const struct step_attention_args &a,
                                                  const struct head_norm &norm, int row0, int n, int head0, int group, int i0)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        int i = i0 + j * WARPS, r = min(i / HEADS, n - 1), h = min(i % HEADS, group - 1);
        const float *x = a.qg + ((size_t)(row0 + r) * (size_t)a.n_q_heads + (size_t)(head0 + h)) * 2 * DIM;
        load_eight(v[j], x + norm.at, x + norm.at + 4);
        load_eight(mates[j], x + norm.mate[0], x + norm.mate[1]);
    }
}

/* Which rows a block works on. */
struct set {
    int first, row0, n;                 /* the slot's rows begin at row `first` of the call; ours are row0 .. row0 + n - 1 of them */
    int n_rows;                         /* of the slot in the call, as many as ours need */
    int slot;
};
template <int R> static __device__ __forceinline__ struct set set_of_block(const struct step_attention_args &a)
{
    const int i = (int)blockIdx.x;
    if (!a.rows)
        return {0, 4 * i, min(R, a.n_rows - 4 * i), a.n_rows, 0};
    const struct step_row r = a.rows[i];
    return {i - r.index, r.index, 1, r.index + 1, r.slot};
}

/* Fills a buffer with positions p0 .. p0 + 63 of K or V from the cache; zeros after `last`; nothing where the call's own rows go. */
static __device__ __forceinline__ void fetch(char *buffer, const void *cache, int n_kv_heads, int pos, int p0, int last)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    size_t row = (size_t)n_kv_heads * DIM;
    const uint16_t *from = (const uint16_t *)cache + (size_t)(p0 + warp) * row + (blockIdx.z * DIM + (unsigned)lane * 8);
    char *to = buffer + warp * ROW_BYTES + ((lane ^ warp) << 4);
    if (p0 + TILE <= pos) {
#pragma unroll
        for (int i = 0; i < TILE / WARPS; i++)
            copy16(to + i * WARPS * ROW_BYTES, from + (size_t)(i * WARPS) * row);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < TILE / WARPS; i++) {
        int p = p0 + warp + i * WARPS;
        if (p < pos)
            copy16(to + i * WARPS * ROW_BYTES, from + (size_t)(i * WARPS) * row);
        else if (p > last)
            *(uint4 *)(to + i * WARPS * ROW_BYTES) = make_uint4(0, 0, 0, 0);
    }
}

/* The call's own rows of K or V into the buffer that holds p0 .. p0 + 63; a warp for each. */
static __device__ __forceinline__ void fetch_new(char *buffer, const char *fresh, int pos, int p0, int last)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, p = pos + warp;
    if (p >= p0 && p < p0 + TILE && p <= last)
        *(uint4 *)(buffer + (p - p0) * ROW_BYTES + ((lane ^ ((p - p0) & 7)) << 4)) = *(const uint4 *)(fresh + warp * ROW_BYTES + lane * 16);
}

/* Behind the buffers: the call's K rows and V rows [n_rows, 256] bf16 each, weights [R, 16, 64] bf16, factors [R, 16], maxima
 * [8 warps, 16], angles [n_rows, half]. */
static constexpr size_t shared_bytes(int rows, int buffers, int n_rows, int half)
{
    return (size_t)buffers * BUFFER + (size_t)n_rows * (2 * ROW_BYTES + (size_t)half * sizeof(float2))
           + (size_t)rows * (HEADS * TILE * 2 + HEADS * 4) + WARPS * HEADS * 4;
}

static_assert(shared_bytes(4, 2, STEP_ROWS, DIM / 2) <= 99 * 1024, "a GB10 has 99 KiB");

/* A set of up to R rows; R: 1, 2 or 4. */
template <int R, int BUFFERS> static __global__ __launch_bounds__(THREADS, 1) void step_attention_kernel(struct step_attention_args a)
{
    extern __shared__ __align__(1024) char smem[];
    enum { WARPS_A_ROW = WARPS / R };
    char *fresh_k = smem + BUFFERS * BUFFER, *fresh_v = fresh_k + a.n_rows * ROW_BYTES, *weights = fresh_v + a.n_rows * ROW_BYTES;
    float *factor = (float *)(weights + R * HEADS * TILE * 2), *top = factor + R * HEADS;
    float2 *turn = (float2 *)(top + WARPS * HEADS);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const struct set set = set_of_block<R>(a);
    const int call_row0 = set.first + set.row0, row0 = set.row0, n = set.n, range = (int)blockIdx.y, kv_head = (int)blockIdx.z;
    void *const cache_k = behind((char *)a.kv.k, set.slot * a.slot_bytes), *const cache_v = behind((char *)a.kv.v, set.slot * a.slot_bytes);
    const int group = a.n_q_heads / a.kv.n_kv_heads, head0 = kv_head * group;
    const int my_row = warp / WARPS_A_ROW, my_part = warp % WARPS_A_ROW;        /* whose logits this warp computes */
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem), weights_at = (uint32_t)__cvta_generic_to_shared(weights);
    const float unit = a.scale * 1.4426950408889634f;

    /* The places of a lane's row and first piece; the piece two further on is found by exclusive or. */
    const uint32_t k_row = (uint32_t)(my_part * 8 * R + (lane & 7)) * ROW_BYTES + (uint32_t)(((lane >> 3) ^ (lane & 7)) << 4);
    const uint32_t v_row = (uint32_t)(lane % 16) * ROW_BYTES + (uint32_t)(((4 * warp + lane / 16) ^ (lane & 7)) << 4);
    const uint32_t w_row = (uint32_t)(lane % 16) * TILE * 2 + (uint32_t)((lane / 16 ^ (lane & 7)) << 4);

    const struct head_norm norm = head_norm_of(a.q_norm, a.half, lane);         /* a weight, so before the wait */

    gpu_next();
    if (!a.settled)
        gpu_wait();
    const int pos = *live_of(a.pos, set.slot), pos0 = pos + row0;       /* of the slot's first row, and of ours */
    const int shortest = range_length(pos0), longest = range_length(pos0 + n - 1);
    if (range * shortest > pos0 + n - 1)
        return;                         /* the longer ranges begin later still */

    /* Our rows [first_row, end_row) have ranges of `length`; a second pass is for those behind a multiple of 4096. */
    int length = shortest, first_row = 0, end_row = shortest == longest ? n : (longest / TILE - 1) * (TILE * STEP_RANGES) - pos0;
    int begin = range * length, last = min(begin + length, pos0 + end_row) - 1;
    fetch(smem, cache_k, a.kv.n_kv_heads, pos, begin, last);
    copy_commit();
    if (BUFFERS == 3) {
        fetch(smem + BUFFER, cache_v, a.kv.n_kv_heads, pos, begin, last);
        copy_commit();
    }
    turn_rows(turn, a, turned_at(a, set.slot, pos), set.n_rows);

    gpu_wait();
    enum { AT_ONCE = R == 1 ? 2 : 4 };
    float v[AT_ONCE][8], mates[AT_ONCE][8];
    load_heads<AT_ONCE>(v, mates, a, norm, call_row0, n, head0, group, warp);
    __syncthreads();
    /* K and V of the call's own rows that fall into this range, a warp for each */
    int p = pos + warp;
    if (warp < set.n_rows && (p / shortest == range || p / longest == range)) {
        size_t from = ((size_t)(set.first + warp) * (size_t)a.kv.n_kv_heads + (size_t)kv_head) * DIM;
        size_t to = ((size_t)p * (size_t)a.kv.n_kv_heads + (size_t)kv_head) * (DIM / 8) + (size_t)lane;
        struct head_norm k_norm = head_norm_of(a.k_norm, a.half, lane);
        float x[8], mate[8];
        load_eight(x, a.k + from + norm.at, a.k + from + norm.at + 4);
        load_eight(mate, a.k + from + norm.mate[0], a.k + from + norm.mate[1]);
        uint4 k = norm_and_turn(k_norm, x, mate, turn + warp * a.half, a.half, a.eps);
        load_eight(x, a.v + from + norm.at, a.v + from + norm.at + 4);
        uint4 v_bits = eight_bf16(x);
        *(uint4 *)(fresh_k + warp * ROW_BYTES + lane * 16) = k;
        *(uint4 *)(fresh_v + warp * ROW_BYTES + lane * 16) = v_bits;
        if (warp >= row0 && warp < row0 + n && p / range_length(p) == range) {      /* true in one block of the head */
            ((uint4 *)cache_k)[to] = k;
            ((uint4 *)cache_v)[to] = v_bits;
        }
    }
    /* q through the last buffer into the A fragments of the rows' warps */
    char *stage = smem + (BUFFERS - 1) * BUFFER;
#pragma unroll 1
    for (int i0 = warp; i0 < R * HEADS; i0 += AT_ONCE * WARPS) {
        if (i0 != warp)
            load_heads<AT_ONCE>(v, mates, a, norm, call_row0, n, head0, group, i0);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int i = i0 + j * WARPS, r = min(i / HEADS, n - 1);
            uint4 bits = norm_and_turn(norm, v[j], mates[j], turn + (row0 + r) * a.half, a.half, a.eps);
            if (i / HEADS >= n || i % HEADS >= group)
                bits = make_uint4(0, 0, 0, 0);
            *(uint4 *)(stage + i * ROW_BYTES + ((lane ^ (i & 7)) << 4)) = bits;
        }
    }
    __syncthreads();
    uint32_t q[16][4], at = base + (BUFFERS - 1) * BUFFER + (uint32_t)(my_row * HEADS + lane % 16) * ROW_BYTES;
#pragma unroll
    for (int s = 0; s < 16; s++)
        ldmatrix(q[s], at + (((2 * s + lane / 16) ^ (lane & 7)) << 4));

    for (;;) {                          /* once, or twice if the rows have ranges of two lengths */
        int n_tiles = (last - begin) / TILE + 1, from_row = max(first_row, begin - pos0);       /* rows before it end before this range */
        fetch_new(smem, fresh_k, pos, begin, last);
        if (BUFFERS == 3)
            fetch_new(smem + BUFFER, fresh_v, pos, begin, last);

        const bool mine = my_row >= from_row && my_row < end_row;
        float o[R][4][4], sums[4] = {}, max0 = -INFINITY, max1 = -INFINITY;
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                o[r][j][0] = o[r][j][1] = o[r][j][2] = o[r][j][3] = 0;

        int k_buffer = 0;               /* K of tile i lies in buffer 2 i mod BUFFERS, V in the next one */
#pragma unroll 1
        for (int i = 0; i < n_tiles; i++) {
            int v_buffer = k_buffer + 1 == BUFFERS ? 0 : k_buffer + 1, third = v_buffer + 1 == BUFFERS ? 0 : v_buffer + 1;
            int p0 = begin + i * TILE;
            copy_wait<BUFFERS == 3 ? 1 : 0>();
            __syncthreads();            /* K is here; everybody is done with the V before */
            if (BUFFERS == 2 || i + 1 < n_tiles) {      /* this V, or the next K */
                int next = BUFFERS == 2 ? p0 : p0 + TILE;
                char *into = smem + (BUFFERS == 2 ? v_buffer : third) * BUFFER;
                fetch(into, BUFFERS == 2 ? cache_v : cache_k, a.kv.n_kv_heads, pos, next, last);
                fetch_new(into, BUFFERS == 2 ? fresh_v : fresh_k, pos, next, last);
            }
            copy_commit();

            /* logits of the warp's keys, and their greatest of each head */
            float s[R][4];
#pragma unroll
            for (int j = 0; j < R; j++)
                s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
            if (mine) {
                uint32_t at = base + k_buffer * BUFFER + k_row;
#pragma unroll
                for (int pair = 0; pair < 8; pair++)
#pragma unroll
                    for (int j = 0; j < R; j++) {
                        uint32_t b[4];
                        ldmatrix(b, (at ^ (pair % 2 << 6)) + j * 8 * ROW_BYTES + pair / 2 * 128);
                        mma_bf16(s[j], q[2 * pair], b[0], b[1]);
                        mma_bf16(s[j], q[2 * pair + 1], b[2], b[3]);
                    }
                int limit = pos0 + my_row;
                if (p0 + TILE - 1 > limit) {
#pragma unroll
                    for (int j = 0; j < R; j++)
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            if (p0 + my_part * 8 * R + 8 * j + 2 * t + (e & 1) > limit)
                                s[j][e] = -INFINITY;
                }
                float top0 = s[0][0], top1 = s[0][2];
#pragma unroll
                for (int j = 0; j < R; j++) {
                    top0 = fmaxf(top0, fmaxf(s[j][0], s[j][1]));
                    top1 = fmaxf(top1, fmaxf(s[j][2], s[j][3]));
                }
                top0 = quad_max(top0);
                top1 = quad_max(top1);
                if (t == 0) {
                    top[warp * HEADS + g] = top0;
                    top[warp * HEADS + g + 8] = top1;
                }
            }
            __syncthreads();            /* the maxima are here; everybody is done with K */
            if (i + 1 < n_tiles) {      /* the next K, or the next V */
                fetch(smem + k_buffer * BUFFER, BUFFERS == 2 ? cache_k : cache_v, a.kv.n_kv_heads, pos, p0 + TILE, last);
                fetch_new(smem + k_buffer * BUFFER, BUFFERS == 2 ? fresh_k : fresh_v, pos, p0 + TILE, last);
            }
            copy_commit();
            /* weights, and the factors of the sums so far, from the greatest logits of all warps of the row */
            if (mine) {
                float top0 = max0, top1 = max1;
#pragma unroll
                for (int w = 0; w < WARPS_A_ROW; w++) {
                    top0 = fmaxf(top0, top[(my_row * WARPS_A_ROW + w) * HEADS + g]);
                    top1 = fmaxf(top1, top[(my_row * WARPS_A_ROW + w) * HEADS + g + 8]);
                }
                if (my_part == 0 && t == 0) {
                    factor[my_row * HEADS + g] = exp2_fast((max0 - top0) * unit);
                    factor[my_row * HEADS + g + 8] = exp2_fast((max1 - top1) * unit);
                }
                max0 = top0;
                max1 = top1;
                char *to = weights + my_row * HEADS * TILE * 2 + g * TILE * 2 + t * 4;
#pragma unroll
                for (int j = 0; j < R; j++) {
                    uint32_t *w = (uint32_t *)(to + (((my_part * R + j) ^ g) << 4));
                    w[0] = bf16_pair(exp2_fast((s[j][0] - max0) * unit), exp2_fast((s[j][1] - max0) * unit));
                    w[8 * TILE / 2] = bf16_pair(exp2_fast((s[j][2] - max1) * unit), exp2_fast((s[j][3] - max1) * unit));
                }
            }
            copy_wait<BUFFERS == 3 ? 2 : 1>();
            __syncthreads();            /* V and the weights are here */

            /* The sums: 32 columns of V for all rows a warp.  Rows that are not in reach have no weights, and their sums are not written. */
#pragma unroll
            for (int r = 0; r < R; r++) {
                float keep0 = factor[r * HEADS + g], keep1 = factor[r * HEADS + g + 8];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    o[r][j][0] *= keep0;
                    o[r][j][1] *= keep0;
                    o[r][j][2] *= keep1;
                    o[r][j][3] *= keep1;
                }
            }
            sums[0] *= factor[warp % R * HEADS + g];
            sums[2] *= factor[warp % R * HEADS + g + 8];
            uint32_t v_at = base + v_buffer * BUFFER + v_row, w_at = weights_at + w_row;
#pragma unroll
            for (int step = 0; step < TILE / 16; step++) {
                uint32_t b0[4], b1[4], w[4];
                ldmatrix_trans(b0, v_at + step * 16 * ROW_BYTES);
                ldmatrix_trans(b1, (v_at ^ 32) + step * 16 * ROW_BYTES);
#pragma unroll
                for (int r = 0; r < R; r++) {
                    ldmatrix(w, (w_at ^ (step << 5)) + r * HEADS * TILE * 2);
                    mma_bf16(o[r][0], w, b0[0], b0[1]);
                    mma_bf16(o[r][1], w, b0[2], b0[3]);
                    mma_bf16(o[r][2], w, b1[0], b1[1]);
                    mma_bf16(o[r][3], w, b1[2], b1[3]);
                }
                if (R > 1)
                    ldmatrix(w, (w_at ^ (step << 5)) + warp % R * HEADS * TILE * 2);
                mma_bf16(sums, w, 0x3f803f80u, 0x3f803f80u);
            }
            k_buffer = BUFFERS == 2 ? 0 : third;
        }

        /* the outcome of the range, for step_attention_sum_kernel */
        float *out = (float *)a.scratch, *ends = partial_ends(a);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                if (r < from_row || r >= end_row || g + 8 * e >= group)
                    continue;
                size_t at = partial(call_row0 + r, a.n_q_heads, head0 + g + 8 * e, range);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    *(float2 *)(out + at * DIM + 32 * warp + 8 * j + 2 * t) = make_float2(o[r][j][2 * e], o[r][j][2 * e + 1]);
                if (r == warp && t == 0)
                    ends[2 * at + 1] = sums[2 * e];
                if (r == my_row && my_part == 0 && t == 0)
                    ends[2 * at] = e ? max1 : max0;
            }
        /* the rows with longer ranges */
        first_row = end_row, end_row = n, length = longest;
        begin = range * length, last = min(begin + length, pos0 + end_row) - 1;
        if (first_row == n || begin > last)
            return;
        copy_wait<0>();
        __syncthreads();                /* the next pass begins with empty buffers */
        fetch(smem, cache_k, a.kv.n_kv_heads, pos, begin, last);
        copy_commit();
        if (BUFFERS == 3) {
            fetch(smem + BUFFER, cache_v, a.kv.n_kv_heads, pos, begin, last);
            copy_commit();
        }
    }
}

/* 64 columns of one head of one row: 16 groups of 16 threads take every 16th range each, four columns a thread. */
enum { SUM_COLS = 64, SUM_GROUPS = 16, SUM_LOADS = STEP_RANGES / SUM_GROUPS };
static __global__ __launch_bounds__(256) void step_attention_sum_kernel(struct step_attention_args a)
{
    __shared__ float scale[STEP_RANGES], warp_top[2], warp_sums[2];
    __shared__ float4 part[SUM_GROUPS][SUM_COLS / 4];
    int head = (int)blockIdx.x, row = (int)blockIdx.y, col0 = (int)blockIdx.z * SUM_COLS, i = (int)threadIdx.x, c = i % SUM_GROUPS,
        of = i / SUM_GROUPS;
    size_t at = (size_t)row * (size_t)a.n_q_heads + (size_t)head;
    gpu_next();
    if (!a.settled)
        gpu_wait();
    const struct step_row r = row_of(a.rows, row);
    int p = *live_of(a.pos, r.slot) + r.index, n = p / range_length(p) + 1;
    size_t first = partial(row, a.n_q_heads, head, 0);
    const float *ends = partial_ends(a) + 2 * first;
    const float4 *o = (const float4 *)((const float *)a.scratch + first * DIM + col0) + c;
    gpu_wait();
    float4 v[SUM_LOADS];                /* all loads in flight at once */
#pragma unroll
    for (int j = 0; j < SUM_LOADS; j++)
        v[j] = of + SUM_GROUPS * j < n ? o[(size_t)(of + SUM_GROUPS * j) * (DIM / 4)] : make_float4(0, 0, 0, 0);
    float gate = i < SUM_COLS ? a.qg[(2 * at + 1) * DIM + (size_t)(col0 + i)] : 0, max = -INFINITY, sum = 0;
    if (i < STEP_RANGES) {
        if (i < n) {
            max = ends[2 * i];
            sum = ends[2 * i + 1];
        }
        float top = warp_max(max);
        if (i % 32 == 0)
            warp_top[i / 32] = top;
    }
    __syncthreads();
    if (i < STEP_RANGES) {
        float w = exp2_fast((max - fmaxf(warp_top[0], warp_top[1])) * (a.scale * 1.4426950408889634f));
        scale[i] = w;
        sum = warp_sum(w * sum);
        if (i % 32 == 0)
            warp_sums[i / 32] = sum;
    }
    __syncthreads();
    float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < SUM_LOADS; j++) {
        float w = scale[of + SUM_GROUPS * j];
        y.x = fmaf(w, v[j].x, y.x);
        y.y = fmaf(w, v[j].y, y.y);
        y.z = fmaf(w, v[j].z, y.z);
        y.w = fmaf(w, v[j].w, y.w);
    }
    part[of][c] = y;
    __syncthreads();
    if (i >= SUM_COLS)
        return;
    float all = 0;
#pragma unroll
    for (int j = 0; j < SUM_GROUPS; j++)
        all += ((const float *)part[j])[i];
    a.y[at * DIM + (size_t)(col0 + i)] = all / (warp_sums[0] + warp_sums[1]) * sigmoid_f(gate);
}

template <int R> static void launch_rows(struct cuda_queue *q, const struct step_attention_args *a)
{
    dim3 grid((unsigned)(a->rows ? a->n_rows : (a->n_rows + 3) / 4), STEP_RANGES, (unsigned)a->kv.n_kv_heads);
    size_t two = shared_bytes(R, 2, a->n_rows, a->half), three = shared_bytes(R, 3, a->n_rows, a->half);
    if (three <= q->smem)
        launch(q, "step_attention", step_attention_kernel<R, 3>, grid, THREADS, three, true, *a);
    else
        launch(q, "step_attention", step_attention_kernel<R, 2>, grid, THREADS, two, true, *a);
}

extern "C" void step_attention_cuda(struct cuda_queue *q, const struct step_attention_args *a)
{
    int group = a->n_q_heads / a->kv.n_kv_heads;
    if (a->kv.dtype != DT_BF16 || a->kv.head_dim != DIM || group > HEADS || a->n_rows < 1 || a->n_rows > STEP_ROWS
        || a->half % 4 || 2 * a->half > DIM) {
        queue_note(q, "step_attention", cudaErrorInvalidValue);
        return;
    }
    if (kv_compressed(&a->kv)) {
        step_attention_codes(q, a);
        return;
    }
    if (a->n_rows == 1 || a->rows)
        launch_rows<1>(q, a);
    else if (a->n_rows == 2)
        launch_rows<2>(q, a);
    else
        launch_rows<4>(q, a);
    launch(q, "step_attention", step_attention_sum_kernel, dim3((unsigned)a->n_q_heads, (unsigned)a->n_rows, DIM / SUM_COLS), 256, 0, true, *a);
}

/* step_experts_up, step_experts_down: routing and both halves of the expert products of a step, every expert read once.
 * Shapes    up: pairs [2 inter, hidden] of the distinct experts and the shared one; down: [hidden, inter] of the same
 * Bytes     the packed matrices of distinct experts + shared; activations are small
 * Limit     bandwidth
 * Launch    up: one block of 8 warps per multiprocessor, each takes an equal run of (expert, tile) and routes for itself, a warp a
 *           row.  down: a block takes a tile or two, a warp 128 inner columns of every expert.  The shared expert's first lines are fetched before the router has
 *           answered
 * Layout    kernels/pack.h; the loop: step_tiles.cuh.  All rows go through every expert's product, since the eight columns of an
 *           instruction cost the same as one; rows that did not choose it have weight 0
 * Numerics  as step_linear; a row adds its experts in ascending order, whatever the other rows chose */
#include "kernels/cuda/step_tiles.cuh"

namespace {

enum { WORDS = STEP_EXPERTS / 32, MAX_DISTINCT = STEP_ROWS * STEP_CHOICES };

struct matrix {
    const uint8_t *data, *scale;
    size_t         stride;              /* bytes from one expert to the next */
    int            format;
};

struct up_job {
    struct matrix  routed, shared;
    uint16_t      *h, *shared_h;
    struct step_route *route;
    const float   *logits, *x;
    const int32_t *n_valid;
    size_t         logit_step;
    int            n_logits, overlap, n_rows, n_experts, top_k, inter, hidden, groups, tiles;
    int            slot;                /* halves of one expert's h */
};

struct down_job {
    struct matrix   routed, shared;
    float          *y;
    const uint16_t *h, *shared_h;
    const struct step_route *route;
    const float    *shared_gate;
    size_t          y_split, logit_step;
    int             n_logits, n_rows, hidden, inter, groups, tiles, per_split, slot;
};

/* ---- routing ---- */

struct routing {
    uint32_t chosen[STEP_ROWS][WORDS];  /* a bit per expert */
    int16_t  expert[MAX_DISTINCT];
    int      n;
};

/* Order of floats as order of unsigned numbers; a NaN comes out on top, where it does no harm. */
__device__ __forceinline__ uint32_t sort_key(float x)
{
    uint32_t u = __float_as_uint(x);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The experts of a row as keys, expert lane + 32 i in key[i]; 0 is no expert. */
__device__ __forceinline__ void load_keys(uint32_t key[WORDS], const struct up_job &j, int row)
{
    const float *at = j.logits + (size_t)row * j.n_experts + threadIdx.x % 32;
    float l[WORDS] = {};
#pragma unroll 2
    for (int s = 0; s < j.n_logits; s++, at += j.logit_step)
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            l[i] += threadIdx.x % 32 + 32 * i < j.n_experts ? at[32 * i] : 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        key[i] = threadIdx.x % 32 + 32 * i < j.n_experts ? sort_key(l[i]) : 0;
}

/* This lane's greatest key, the lowest expert among equals. */
__device__ __forceinline__ void best_key(const uint32_t key[WORDS], uint32_t *value, int *expert)
{
    *value = 0;
    *expert = 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        if (key[i] > *value) {
            *value = key[i];
            *expert = threadIdx.x % 32 + 32 * i;
        }
}

__device__ __forceinline__ float key_value(uint32_t k)
{
    return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k);
}

/* One warp, one row: lane i < top_k gets the i-th choice and its weight.  With `overlap` the first choices are row 0's. */
__device__ __forceinline__ void choose(const struct up_job &j, int row, int *expert, float *weight)
{
    const int lane = threadIdx.x % 32, from_first = row && j.overlap > 0 ? min(j.overlap, j.top_k) : 0;
    uint32_t key[WORDS], value = 0, mine;
    int at;
    *expert = -1;
#pragma unroll 1
    for (int i = 0; i < j.top_k; i++) {
        if (i == 0 || i == from_first) {
            load_keys(key, j, i < from_first ? 0 : row);
            for (int k = 0; k < i; k++) {
                const int taken = __shfl_sync(~0u, *expert, k);
#pragma unroll
                for (int w = 0; w < WORDS; w++)
                    if (taken == lane + 32 * w)
                        key[w] = 0;
            }
            best_key(key, &mine, &at);
        }
        const uint32_t best = __reduce_max_sync(~0u, mine);
        const int e = (int)__reduce_min_sync(~0u, mine == best ? (uint32_t)at : ~0u);
        if (lane == i) {
            *expert = e;
            value = best;
        }
        if (e % 32 == lane) {
#pragma unroll
            for (int w = 0; w < WORDS; w++)
                if (e == lane + 32 * w)
                    key[w] = 0;
            best_key(key, &mine, &at);
        }
    }
    const float top = warp_max(lane < j.top_k ? key_value(value) : -INFINITY);
    const float w = lane < j.top_k ? expf(key_value(value) - top) : 0;
    *weight = w / warp_sum(w);
}

/* Fills r; the first block also writes the route for `down`. */
__device__ __forceinline__ void find_route(struct routing *r, const struct up_job &j)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int n_valid = j.n_valid ? min(*j.n_valid, j.n_rows) : j.n_rows;
    int expert = 0;
    float weight = 0;
    if (warp < STEP_ROWS && lane < WORDS)
        r->chosen[warp][lane] = 0;
    __syncwarp();
    if (warp < n_valid) {
        choose(j, warp, &expert, &weight);
        if (lane < j.top_k)
            atomicOr(&r->chosen[warp][expert / 32], 1u << (expert % 32));
    }
    __syncthreads();
    uint32_t any = 0;                   /* lane i: word i of the union */
    for (int t = 0; lane < WORDS && t < n_valid; t++)
        any |= r->chosen[t][lane];
    int before = __popc(any);           /* becomes: distinct experts in words below */
    for (int k = 1; k < 32; k *= 2) {
        int v = __shfl_up_sync(~0u, before, k);
        before += lane >= k ? v : 0;
    }
    const int n = __shfl_sync(~0u, before, 31);
    before -= __popc(any);
    if (warp == 0) {
        int at = before;
        for (uint32_t m = any; m; m &= m - 1)
            r->expert[at++] = (int16_t)(32 * lane + __ffs(m) - 1);
        r->n = n;
    }
    if (blockIdx.x == 0) {
        struct step_route *out = j.route;
        for (int i = threadIdx.x; i < n * STEP_ROWS; i += STEP_THREADS)
            out->weight[i / STEP_ROWS][i % STEP_ROWS] = 0;
        __syncthreads();
        const int word = expert / 32;
        const uint32_t bits = __shfl_sync(~0u, any, word & 31);
        const int index = __shfl_sync(~0u, before, word & 31) + __popc(bits & ((1u << (expert % 32)) - 1));
        if (warp < n_valid && lane < j.top_k)
            out->weight[index][warp] = weight;
        for (int i = threadIdx.x; i < n; i += STEP_THREADS)
            out->expert[i] = r->expert[i];
        if (threadIdx.x == 0)
            out->n = n;
    }
    __syncthreads();
}

/* ---- up ---- */

/* The block's tiles of the shared expert, then its run of (expert, tile). */
struct up_tiles {
    const uint8_t *shared, *routed, *expert_at; /* this warp's columns: of the next shared tile; of tile 0 of expert 0, of the expert at hand */
    size_t         stride;
    uint32_t       shared_step, routed_step;    /* bytes of a tile */
    const int16_t *expert;              /* at hand */
    int            n_shared, tile, tiles, shared_units, routed_units, per;

    __device__ __forceinline__ void first_routed(const struct routing *r, int unit)
    {
        expert = r->expert + unit / tiles;
        tile = unit % tiles;
        expert_at = routed + (size_t)*expert * stride + tile * routed_step;
    }
    /* With two tiles at a time: an expert has an even number of them. */
    __device__ __forceinline__ int next(const uint8_t **at, uint32_t *pair)
    {
        if (n_shared > 0) {
            n_shared -= per;
            *at = shared;
            *pair = shared_step;
            shared += per * shared_step;
            return shared_units;
        }
        if (tile == tiles) {
            tile = 0;
            expert_at = routed + (size_t)*++expert * stride;
        }
        *at = expert_at;
        *pair = routed_step;
        expert_at += per * routed_step;
        tile += per;
        return routed_units;
    }
};

template <int COLS, int T> struct up_shared {
    step_shared<COLS, T> step;
    struct step_staging input;
    struct routing      routing;
};

/* Halves of the upper bf16 of inner column i of a row; the lower one is 32 halves on. */
__device__ __forceinline__ int slot_at(int i, int row, int sets)
{
    const int k = i % PACK_GROUP, lane = row % 4 * 8 + k % 32 / 8;
    return (((i / PACK_GROUP * sets + row / 4) * 4 + k / 32) * 32 + lane) * 8 + k % 8;
}


/* n tiles of one format, T at a time; `where(i)` gives scales, tile and place in h of the i-th. */
template <int F, bool HALF, int GW, int COLS, int T, class WHERE>
__device__ __forceinline__ void up_run(const struct up_job &j, step_shared<COLS, T> *sm, const step_frags<GW, COLS> &f,
                                       step_stream<up_tiles, T> &s, int *round, int n, int g0, int gw, uint16_t *h, WHERE where)
{
    group_scales<F> scale[T][GW];
    const uint8_t *scales;
    int tile, next_tile, out, slot;
    auto fetch = [&](int gi) {
#pragma unroll
        for (int t = 0; t < T; t++)
            if (gi < gw)
                scale[t][gi].load(scales, (size_t)(next_tile + t) * j.groups + g0 + gi, threadIdx.x % 32 / 4);
    };
    if (n <= 0)
        return;
    where(0, &scales, &out, &next_tile);
#pragma unroll
    for (int gi = 0; gi < GW; gi++)
        fetch(gi);
    for (int i = 0; i < n; i += T) {
        float2 total[T][COLS] = {};
        slot = out;
        tile = next_tile;
        if (i + T < n)
            where(i + T, &scales, &out, &next_tile);
        tile_product<F, HALF, GW, COLS, T, 1>(total, f, gw, scale, s, [&](int gi) {
            if (i + T < n)
                fetch(gi);
        });
        tile_reduce<COLS, T>(sm, (*round)++, STEP_WARPS, total, [&](int t, int set, float2 v) {
            const int token = 4 * set + threadIdx.x % 4, at = (tile + t) * 8 + threadIdx.x % 32 / 4;
            if (token < j.n_rows && at < j.inter) {
                const uint32_t both = bf16_split(silu_f(v.x) * v.y);
                const int to = slot + slot_at(at, token, COLS);
                h[to] = (uint16_t)both;
                h[to + 32] = (uint16_t)(both >> 16);
            }
        });
    }
}

template <bool B> struct bool_constant { enum { value = B }; };

/* Tiles of block b in units of T: [first, last) of the shared expert's, and where its share of the routed ones begins, so that all
 * blocks have about the same number of bytes.  weight: a shared tile in routed ones. */
__device__ __forceinline__ int shared_begin(int b, int blocks, int n) { return n <= blocks ? min(b, n) : (int)((long)n * b / blocks); }
__device__ __forceinline__ int routed_begin(int b, int blocks, int n_shared, int n_routed, int weight)
{
    const long all = (long)n_shared * weight + n_routed;
    if (all < (long)blocks * weight || n_shared * weight > n_routed)
        return (int)((long)n_routed * b / blocks);
    return b == blocks ? n_routed : max(0, (int)(all * b / blocks) - weight * shared_begin(b, blocks, n_shared));
}

/* Two blocks a multiprocessor where shared memory has room for them; a GB10 has not, and there registers need no cap. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define UP_BLOCKS 1
#else
#define UP_BLOCKS 2
#endif

template <int FS, int F, int GW, int ROWS, int T>
__global__ void __launch_bounds__(STEP_THREADS, ROWS * GW <= 8 && GW < (FS == WEIGHT_INT4 ? 3 : 4) ? UP_BLOCKS : 1) up_kernel(const __grid_constant__ struct up_job j)
{
    constexpr int COLS = (ROWS + 3) / 4;
    extern __shared__ uint4 memory[];
    up_shared<COLS, T> *sm = (up_shared<COLS, T> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, b = blockIdx.x, nb = gridDim.x;
    const int g0 = warp * GW, gw = max(0, min(GW, j.groups - g0));
    constexpr int shared_units = group_units<FS>();
    const int n_shared = j.tiles / T;
    const int sh0 = T * shared_begin(b, nb, n_shared), sh1 = T * shared_begin(b + 1, nb, n_shared);
    step_frags<GW, COLS> f;
    step_stream<up_tiles, T> s;

    gpu_next();
    s.src.shared_step = (uint32_t)(j.groups * shared_units * STEP_UNIT);
    s.src.routed_step = (uint32_t)(j.groups * group_units<F>() * STEP_UNIT);
    s.src.shared = j.shared.data + (size_t)sh0 * s.src.shared_step + (size_t)g0 * shared_units * STEP_UNIT;
    s.src.routed = j.routed.data + (size_t)g0 * group_units<F>() * STEP_UNIT;
    s.src.stride = j.routed.stride;
    s.src.n_shared = sh1 - sh0;
    s.src.tiles = j.tiles;
    s.src.shared_units = gw * shared_units;
    s.src.routed_units = gw * group_units<F>();
    s.src.per = T;
    s.start(sm->step.ring[warp][0], gw * shared_units * ((sh1 - sh0) / T));
    if (ROWS < 4)
        staging_clear<ROWS>(sm->input.staged[warp]);
    gpu_wait();

    constexpr int  N = ROWS < 4 ? ROWS : 4;
    constexpr bool HALF = FS == WEIGHT_FP8;
    auto load_x = [&](auto half) {
#pragma unroll
        for (int set = 0; set < COLS; set++) {
            float4 x[GW][N];
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    x[gi][i] = gi < gw && 4 * set + i < j.n_rows
                             ? *(const float4 *)(j.x + (size_t)(4 * set + i) * j.hidden + (g0 + gi) * PACK_GROUP + 4 * lane) : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
                frags_set<N, decltype(half)::value>(f.b[set][gi], &f.sum[set][gi], x[gi], sm->input.staged[warp]);
        }
    };
    find_route(&sm->routing, j);
    const int n_routed = sm->routing.n * n_shared, weight = max(1, shared_units / group_units<F>());
    const int u0 = T * routed_begin(b, nb, n_shared, n_routed, weight), u1 = T * routed_begin(b + 1, nb, n_shared, n_routed, weight);
    if (u0 < u1) {
        s.src.first_routed(&sm->routing, u0);
        s.extend(gw * group_units<F>() * ((u1 - u0) / T));
    }
    s.ready();

    int round = 0;
    if (HALF ? sh0 < sh1 : true) {
        load_x(bool_constant<HALF>());
        up_run<FS, HALF, GW, COLS, T>(j, &sm->step, f, s, &round, sh1 - sh0, g0, gw, j.shared_h, [&](int i, const uint8_t **scales, int *slot, int *tile) {
            *scales = j.shared.scale;
            *slot = 0;
            *tile = sh0 + i;
        });
    }
    if (HALF)                           /* the routed experts want it otherwise */
        load_x(bool_constant<F == WEIGHT_FP8>());
    up_run<F, F == WEIGHT_FP8, GW, COLS, T>(j, &sm->step, f, s, &round, u1 - u0, g0, gw, j.h, [&](int i, const uint8_t **scales, int *slot, int *tile) {
        const int e = (u0 + i) / j.tiles;
        *scales = j.routed.scale + (size_t)sm->routing.expert[e] * j.routed.stride;
        *slot = e * j.slot;
        *tile = (u0 + i) % j.tiles;
    });
}

/* ---- down ---- */

/* For each of the block's tiles the shared expert, then the routed ones. */
struct down_tiles {
    const uint8_t *shared, *routed;     /* this warp's columns in the tile at hand, of expert 0 */
    size_t         shared_step, routed_step;
    const size_t  *offset;              /* of the routed experts */
    int            e, n, shared_units, routed_units;

    __device__ __forceinline__ int next(const uint8_t **at, uint32_t *)
    {
        if (e == n) {
            e = 0;
            *at = shared;
            shared += shared_step;
            return shared_units;
        }
        *at = routed + offset[e++];
        if (e == n)
            routed += routed_step;
        return routed_units;
    }
};

template <int COLS> struct down_shared {
    step_shared<COLS, 1> step;
    size_t               offset[MAX_DISTINCT];
};

/* A warp's 128 columns of the rows of one expert, with what multiplies the product. */
template <int COLS, class SCALE> struct down_item {
    uint4  v[COLS][4];
    float  weight[COLS];                /* of token 4 set + lane % 4 */
    SCALE  scale;

    __device__ __forceinline__ void load(const uint16_t *h, int n_rows)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int p = 0; p < 4; p++)
                v[c][p] = 4 * c + lane / 8 < n_rows ? *(const uint4 *)(h + ((c * 4 + p) * 32 + lane) * 8) : make_uint4(0, 0, 0, 0);
    }
};

/* total += weight * (128 columns of one expert's tile) */
template <int F, int COLS>
__device__ __forceinline__ void down_product(float2 total[COLS], const down_item<COLS, group_scales<F>> &in, step_stream<down_tiles, 1> &s)
{
    float acc[1][2][COLS][4] = {}, sum[COLS];
    float2 one[COLS] = {};
    uint32_t b[COLS][8][2];
#pragma unroll
    for (int c = 0; c < COLS; c++) {
#pragma unroll
        for (int p = 0; p < 4; p++) {
            b[c][2 * p][0] = in.v[c][p].x;
            b[c][2 * p][1] = in.v[c][p].y;
            b[c][2 * p + 1][0] = in.v[c][p].z;
            b[c][2 * p + 1][1] = in.v[c][p].w;
        }
        sum[c] = product_offset<F>() != 0 ? fragment_sum<false>(b[c]) : 0;
    }
#pragma unroll
    for (int unit = 0; unit < group_units<F>(); unit++) {
        uint4 v[1][2];
        s.take(v);
        unit_product<F, false, COLS, 1, 2>(acc, v, [&](int c, int st) { return b[c][unit * 2 * line_steps<F>() + st]; });
    }
    group_end<F, COLS, 2>(one, acc[0], sum, in.scale.get());
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        total[c].x += in.weight[c] * one[c].x;
        total[c].y += in.weight[c] * one[c].y;
    }
}

template <int FS, int F, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, ROWS <= 4 ? 2 : 1) down_kernel(const __grid_constant__ struct down_job j)
{
    constexpr int COLS = (ROWS + 3) / 4;
    enum { AHEAD = ROWS <= 4 ? 3 : 2 };                 /* items whose input is on its way */
    extern __shared__ uint4 memory[];
    down_shared<COLS> *sm = (down_shared<COLS> *)memory;
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    const int split = blockIdx.x / j.per_split, block = blockIdx.x % j.per_split;
    const int t0 = j.tiles * block / j.per_split, t1 = j.tiles * (block + 1) / j.per_split;
    const int group = split * warps + warp;
    constexpr int shared_units = group_units<FS>();
    const bool mine = group < j.groups;
    step_stream<down_tiles, 1> s;
    float gate[COLS];

    gpu_next();
    s.src.shared_step = (size_t)j.groups * shared_units * STEP_UNIT;
    s.src.routed_step = (size_t)j.groups * group_units<F>() * STEP_UNIT;
    s.src.shared = j.shared.data + t0 * s.src.shared_step + (size_t)group * shared_units * STEP_UNIT;
    s.src.routed = j.routed.data + t0 * s.src.routed_step + (size_t)group * group_units<F>() * STEP_UNIT;
    s.src.offset = sm->offset;
    s.src.e = s.src.n = 0;
    s.src.shared_units = shared_units;
    s.src.routed_units = group_units<F>();
    s.start(sm->step.ring[warp][0], mine ? shared_units : 0);
    gpu_wait();

    const int n = j.route->n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sm->offset[i] = (size_t)j.route->expert[i] * j.routed.stride;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const int token = 4 * c + lane % 4;
        gate[c] = 0;
#pragma unroll 4
        for (int k = 0; k < j.n_logits; k++)
            gate[c] += token < j.n_rows ? j.shared_gate[k * j.logit_step + token] : 0;
        gate[c] = sigmoid_f(gate[c]);
    }
    __syncthreads();
    s.src.e = 0;
    s.src.n = n;
    if (mine)
        s.extend((t1 - t0) * (shared_units + n * group_units<F>()) - shared_units);
    s.ready();

    const int column = group * COLS * 1024;             /* halves of this warp's columns in a slot */
    for (int tile = t0; tile < t1; tile++) {
        const size_t tile_group = (size_t)tile * j.groups + group;
        float2 total[COLS] = {};
        down_item<COLS, group_scales<F>> item[AHEAD];
        auto fetch = [&](down_item<COLS, group_scales<F>> &in, int e) {
            if (e >= n)
                return;
            in.load(j.h + (size_t)e * j.slot + column, j.n_rows);
#pragma unroll
            for (int c = 0; c < COLS; c++)
                in.weight[c] = j.route->weight[e][4 * c + lane % 4];
            in.scale.load(j.routed.scale + sm->offset[e], tile_group, lane / 4);
        };
        auto with_shared = [&](auto &in) {
            in.load(j.shared_h + column, j.n_rows);
#pragma unroll
            for (int c = 0; c < COLS; c++)
                in.weight[c] = gate[c];
            in.scale.load(j.shared.scale, tile_group, lane / 4);
        };
        if (mine) {
#pragma unroll
            for (int a = 0; a < AHEAD - 1; a++)
                fetch(item[a], a);
            down_item<COLS, group_scales<FS>> shared;
            with_shared(shared);
            down_product<FS, COLS>(total, shared, s);
            for (int e = 0; e < n; e += AHEAD)
#pragma unroll
                for (int a = 0; a < AHEAD; a++) {
                    if (e + a >= n)
                        break;
                    fetch(item[(a + AHEAD - 1) % AHEAD], e + a + AHEAD - 1);
                    down_product<F, COLS>(total, item[a], s);
                }
        }
        float2 sums[1][COLS];
#pragma unroll
        for (int c = 0; c < COLS; c++)
            sums[0][c] = total[c];
        tile_reduce<COLS, 1>(&sm->step, tile - t0, warps, sums, [&](int, int set, float2 v) {
            const int token = 4 * set + threadIdx.x % 4, row = tile * PACK_ROWS + threadIdx.x % 32 / 4;
            float *y = j.y + split * j.y_split + (size_t)token * j.hidden;
            if (token < j.n_rows && row < j.hidden)
                y[row] = v.x;
            if (token < j.n_rows && row + 8 < j.hidden)
                y[row + 8] = v.y;
        });
    }
}

struct matrix matrix_of(const struct weight &w, size_t stride)
{
    return {(const uint8_t *)w.data, (const uint8_t *)w.scale, stride, w.format};
}

template <int FS, int F, int GW> void launch_up(struct cuda_queue *q, const struct up_job &j)
{
    const int per_sm = 2 * sizeof(up_shared<1, 2>) <= q->smem && GW < 4 ? 2 : 1;
    if (j.n_rows == 1)
        launch(q, "step_experts_up", up_kernel<FS, F, GW, 1, 2>, dim3(per_sm * q->n_sm), STEP_THREADS, sizeof(up_shared<1, 2>), true, j);
    else if (j.n_rows <= 4)
        launch(q, "step_experts_up", up_kernel<FS, F, GW, 4, 2>, dim3(q->n_sm), STEP_THREADS, sizeof(up_shared<1, 2>), true, j);
    else
        launch(q, "step_experts_up", up_kernel<FS, F, GW, 8, 1>, dim3(q->n_sm), STEP_THREADS, sizeof(up_shared<2, 1>), true, j);
}
template <int FS, int F> void launch_up_groups(struct cuda_queue *q, const struct up_job &j)
{
    switch ((j.groups + STEP_WARPS - 1) / STEP_WARPS) {
    case 1: launch_up<FS, F, 1>(q, j); break;
    case 2: launch_up<FS, F, 2>(q, j); break;
    case 3: launch_up<FS, F, 3>(q, j); break;
    case 4: launch_up<FS, F, 4>(q, j); break;
    default: queue_note(q, "step_experts_up", cudaErrorInvalidValue);
    }
}
template <int FS, int F> void launch_down(struct cuda_queue *q, const struct down_job &j, int splits, int threads)
{
    const dim3 grid(j.per_split * splits);
    if (j.n_rows == 1)
        launch(q, "step_experts_down", down_kernel<FS, F, 1>, grid, threads, sizeof(down_shared<1>), true, j);
    else if (j.n_rows <= 4)
        launch(q, "step_experts_down", down_kernel<FS, F, 4>, grid, threads, sizeof(down_shared<1>), true, j);
    else
        launch(q, "step_experts_down", down_kernel<FS, F, 8>, grid, threads, sizeof(down_shared<2>), true, j);
}

}

/* Formats of the shared expert and of the routed ones that published checkpoints have together. */
#define PAIR_OF(shared, routed) ((shared) * 8 + (routed))

static_assert(sizeof(up_shared<1, 2>) <= 99 * 1024 && sizeof(up_shared<2, 1>) <= 99 * 1024 && sizeof(down_shared<2>) <= 99 * 1024,
              "shared memory of a GB10");

extern "C" void step_experts_up_cuda(struct cuda_queue *q, const struct step_experts_up_args *a)
{
    struct up_job j = {};
    j.routed = matrix_of(a->pair, a->stride);
    j.shared = matrix_of(a->shared, 0);
    j.h = a->h;
    j.shared_h = a->shared_h;
    j.route = a->route;
    j.logits = a->logits;
    j.x = a->x;
    j.n_valid = a->n_valid;
    j.logit_step = a->logit_step;
    j.n_logits = a->n_logits;
    j.overlap = a->overlap;
    j.n_rows = a->n_rows;
    j.n_experts = a->n_experts;
    j.top_k = a->top_k;
    j.inter = a->inter;
    j.hidden = a->hidden;
    j.slot = (int)(step_slot_bytes(a->inter, a->n_rows) / 2);
    j.groups = pack_groups(a->hidden);
    j.tiles = pack_tiles(2 * a->inter);
    switch (PAIR_OF(j.shared.format, j.routed.format)) {
    case PAIR_OF(WEIGHT_FP8, WEIGHT_INT4):    launch_up_groups<WEIGHT_FP8, WEIGHT_INT4>(q, j); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_INT4):  launch_up_groups<WEIGHT_DENSE, WEIGHT_INT4>(q, j); break;
    case PAIR_OF(WEIGHT_INT4, WEIGHT_INT4):   launch_up_groups<WEIGHT_INT4, WEIGHT_INT4>(q, j); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_DENSE): launch_up_groups<WEIGHT_DENSE, WEIGHT_DENSE>(q, j); break;
    case PAIR_OF(WEIGHT_FP8, WEIGHT_FP8):     launch_up_groups<WEIGHT_FP8, WEIGHT_FP8>(q, j); break;
    default: queue_note(q, "step_experts_up", cudaErrorInvalidValue);
    }
}

extern "C" void step_experts_down_cuda(struct cuda_queue *q, const struct step_experts_down_args *a)
{
    struct down_job j = {};
    const int splits = step_experts_splits(a->inter);
    j.routed = matrix_of(a->down, a->stride);
    j.shared = matrix_of(a->shared, 0);
    j.y = a->y;
    j.h = a->h;
    j.shared_h = a->shared_h;
    j.route = a->route;
    j.shared_gate = a->shared_gate;
    j.y_split = a->y_split;
    j.logit_step = a->logit_step;
    j.n_logits = a->n_logits;
    j.n_rows = a->n_rows;
    j.hidden = a->hidden;
    j.inter = a->inter;
    j.slot = (int)(step_slot_bytes(a->inter, a->n_rows) / 2);
    j.groups = pack_groups(a->inter);
    j.tiles = pack_tiles(a->hidden);
    /* Two blocks fit on a multiprocessor: with one tile each, all of them are there at once, and memory, not the rounding to
     * whole tiles, decides how long it takes. */
    const int resident = 2 * q->n_sm / splits, threads = 32 * (j.groups < STEP_WARPS ? j.groups : STEP_WARPS);
    j.per_split = j.tiles < resident ? j.tiles : resident;
    switch (PAIR_OF(j.shared.format, j.routed.format)) {
    case PAIR_OF(WEIGHT_FP8, WEIGHT_INT4):    launch_down<WEIGHT_FP8, WEIGHT_INT4>(q, j, splits, threads); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_INT4):  launch_down<WEIGHT_DENSE, WEIGHT_INT4>(q, j, splits, threads); break;
    case PAIR_OF(WEIGHT_INT4, WEIGHT_INT4):   launch_down<WEIGHT_INT4, WEIGHT_INT4>(q, j, splits, threads); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_DENSE): launch_down<WEIGHT_DENSE, WEIGHT_DENSE>(q, j, splits, threads); break;
    case PAIR_OF(WEIGHT_FP8, WEIGHT_FP8):     launch_down<WEIGHT_FP8, WEIGHT_FP8>(q, j, splits, threads); break;
    default: queue_note(q, "step_experts_down", cudaErrorInvalidValue);
    }
}

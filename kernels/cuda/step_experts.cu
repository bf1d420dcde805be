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
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        int e = threadIdx.x % 32 + 32 * i;
        float l = 0;
        for (int s = 0; s < j.n_logits && e < j.n_experts; s++)
            l += j.logits[s * j.logit_step + (size_t)row * j.n_experts + e];
        key[i] = e < j.n_experts ? sort_key(l) : 0;
    }
}

/* Takes the greatest key, the lowest expert among equals; returns the expert. */
__device__ __forceinline__ int take_best(uint32_t key[WORDS], uint32_t *value)
{
    uint32_t mine = 0;
    int at = 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        if (key[i] > mine) {
            mine = key[i];
            at = i;
        }
    const uint32_t best = __reduce_max_sync(~0u, mine);
    const int e = (int)__reduce_min_sync(~0u, mine == best ? (uint32_t)(threadIdx.x % 32 + 32 * at) : ~0u);
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        if (e == (int)(threadIdx.x % 32 + 32 * i))
            key[i] = 0;
    *value = best;
    return e;
}

__device__ __forceinline__ float key_value(uint32_t k)
{
    return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k);
}

/* One warp, one row: lane i < top_k gets the i-th choice and its weight. */
__device__ __forceinline__ void choose(const struct up_job &j, int row, int *expert, float *weight)
{
    const int lane = threadIdx.x % 32;
    const int from_first = row && j.overlap > 0 ? min(j.overlap, j.top_k) : 0;
    uint32_t key[WORDS], value, mine = 0;
    int e = 0;
    if (from_first) {
        load_keys(key, j, 0);
        for (int i = 0; i < from_first; i++) {
            int best = take_best(key, &value);
            e = lane == i ? best : e;
            mine = lane == i ? value : mine;
        }
    }
    load_keys(key, j, row);
    for (int i = 0; i < from_first; i++) {
        int taken = __shfl_sync(~0u, e, i);
#pragma unroll
        for (int k = 0; k < WORDS; k++)
            if (taken == lane + 32 * k)
                key[k] = 0;
    }
    for (int i = from_first; i < j.top_k; i++) {
        int best = take_best(key, &value);
        e = lane == i ? best : e;
        mine = lane == i ? value : mine;
    }
    const float top = warp_max(lane < j.top_k ? key_value(mine) : -INFINITY);
    const float w = lane < j.top_k ? expf(key_value(mine) - top) : 0;
    *expert = e;
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
    size_t         shared_step, routed_step, stride;
    const int16_t *expert;              /* at hand */
    int            n_shared, tile, tiles, shared_units, routed_units;

    __device__ __forceinline__ void first_routed(const struct routing *r, int unit)
    {
        expert = r->expert + unit / tiles;
        tile = unit % tiles;
        expert_at = routed + (size_t)*expert * stride + tile * routed_step;
    }
    __device__ __forceinline__ int next(const uint8_t **at)
    {
        if (n_shared > 0) {
            n_shared--;
            *at = shared;
            shared += shared_step;
            return shared_units;
        }
        if (tile == tiles) {
            tile = 0;
            expert_at = routed + (size_t)*++expert * stride;
        }
        *at = expert_at;
        expert_at += routed_step;
        tile++;
        return routed_units;
    }
};

template <int COLS> struct up_shared {
    step_shared<COLS>   step;
    struct step_staging input;
    struct routing      routing;
};

/* Halves of the upper bf16 of inner column i of a row; the lower one is 32 halves on. */
__device__ __forceinline__ int slot_at(int i, int row, int sets)
{
    const int k = i % PACK_GROUP, lane = row % 4 * 8 + k % 32 / 8;
    return (((i / PACK_GROUP * sets + row / 4) * 4 + k / 32) * 32 + lane) * 8 + k % 8;
}


template <int F, int GW>
__device__ __forceinline__ void up_scales(group_scales<F> scale[GW], const uint8_t *at, int tile, int g0, int gw, int groups)
{
#pragma unroll
    for (int gi = 0; gi < GW; gi++)
        if (gi < gw)
            scale[gi].load(at, (size_t)tile * groups + g0 + gi, threadIdx.x % 32 / 4);
}

/* Tiles first .. first + n - 1 of the stream, which are of one format; `where(i)` gives scales, tile and output. */
template <int F, int GW, int COLS, class WHERE>
__device__ __forceinline__ void up_run(const struct up_job &j, step_shared<COLS> *sm, const step_frags<GW, COLS> &f,
                                       step_stream<up_tiles> &s, int first, int n, int g0, int gw, WHERE where)
{
    group_scales<F> scale[GW], ahead[GW];
    const uint8_t *scales;
    uint16_t *out;
    int tile, next_tile;
    if (n <= 0)
        return;
    where(0, &scales, &out, &next_tile);
    up_scales<F, GW>(ahead, scales, next_tile, g0, gw, j.groups);
    for (int i = 0; i < n; i++) {
        float2 total[COLS] = {};
        uint16_t *h = out;
        tile = next_tile;
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            scale[gi] = ahead[gi];
        if (i + 1 < n) {
            where(i + 1, &scales, &out, &next_tile);
            up_scales<F, GW>(ahead, scales, next_tile, g0, gw, j.groups);
        }
        tile_product<F, GW, COLS>(total, f, gw, scale, s);
        tile_reduce<COLS>(sm, first + i, STEP_WARPS, total, [&](int set, float2 v) {
            const int token = 4 * set + threadIdx.x % 4, at = tile * 8 + threadIdx.x % 32 / 4;
            if (token < j.n_rows && at < j.inter) {
                const uint32_t both = bf16_split(silu_f(v.x) * v.y);
                const int to = slot_at(at, token, COLS);
                h[to] = (uint16_t)both;
                h[to + 32] = (uint16_t)(both >> 16);
            }
        });
    }
}

#define BY_FORMAT(format, call)                                                                   \
    switch (format) {                                                                             \
    case WEIGHT_INT4:  { constexpr int F = WEIGHT_INT4; call; } break;                            \
    case WEIGHT_FP8:   { constexpr int F = WEIGHT_FP8; call; } break;                             \
    case WEIGHT_DENSE: { constexpr int F = WEIGHT_DENSE; call; } break;                           \
    }

template <int GW, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, ROWS <= 4 && GW < 4 ? 2 : 1) up_kernel(const __grid_constant__ struct up_job j)
{
    constexpr int COLS = (ROWS + 3) / 4;
    extern __shared__ uint4 memory[];
    up_shared<COLS> *sm = (up_shared<COLS> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, b = blockIdx.x, nb = gridDim.x;
    const int g0 = warp * GW, gw = max(0, min(GW, j.groups - g0));
    const int sh0 = j.tiles * b / nb, sh1 = j.tiles * (b + 1) / nb;
    const int shared_units = format_units(j.shared.format), routed_units = format_units(j.routed.format);
    step_frags<GW, COLS> f;
    step_stream<up_tiles> s;

    gpu_next();
    s.src.shared_step = (size_t)j.groups * shared_units * STEP_UNIT;
    s.src.routed_step = (size_t)j.groups * routed_units * STEP_UNIT;
    s.src.shared = j.shared.data + sh0 * s.src.shared_step + (size_t)g0 * shared_units * STEP_UNIT;
    s.src.routed = j.routed.data + (size_t)g0 * routed_units * STEP_UNIT;
    s.src.stride = j.routed.stride;
    s.src.n_shared = sh1 - sh0;
    s.src.tiles = j.tiles;
    s.src.shared_units = gw * shared_units;
    s.src.routed_units = gw * routed_units;
    s.start(sm->step.ring[warp][0], gw * shared_units * (sh1 - sh0));
    gpu_wait();

    find_route(&sm->routing, j);
    const int units = sm->routing.n * j.tiles, u0 = (int)((long)units * b / nb), u1 = (int)((long)units * (b + 1) / nb);
    if (u0 < u1) {
        s.src.first_routed(&sm->routing, u0);
        s.extend(gw * routed_units * (u1 - u0));
    }
    s.ready();
#pragma unroll
    for (int set = 0; set < COLS; set++)
#pragma unroll
        for (int gi = 0; gi < GW; gi++) {
            float4 u[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                u[i] = i < ROWS && gi < gw && 4 * set + i < j.n_rows
                     ? *(const float4 *)(j.x + (size_t)(4 * set + i) * j.hidden + (g0 + gi) * PACK_GROUP + 4 * lane) : make_float4(0, 0, 0, 0);
            frags_set(f, set, gi, u, false, sm->input.staged[warp], lane);
        }

    BY_FORMAT(j.shared.format, (up_run<F, GW, COLS>(j, &sm->step, f, s, 0, sh1 - sh0, g0, gw,
        [&](int i, const uint8_t **scales, uint16_t **out, int *tile) {
            *scales = j.shared.scale;
            *out = j.shared_h;
            *tile = sh0 + i;
        })))
    BY_FORMAT(j.routed.format, (up_run<F, GW, COLS>(j, &sm->step, f, s, sh1 - sh0, u1 - u0, g0, gw,
        [&](int i, const uint8_t **scales, uint16_t **out, int *tile) {
            const int e = (u0 + i) / j.tiles;
            *scales = j.routed.scale + (size_t)sm->routing.expert[e] * j.routed.stride;
            *out = j.h + (size_t)e * j.slot;
            *tile = (u0 + i) % j.tiles;
        })))
}

/* ---- down ---- */

/* For each of the block's tiles the shared expert, then the routed ones. */
struct down_tiles {
    const uint8_t *shared, *routed;     /* this warp's columns in the tile at hand, of expert 0 */
    size_t         shared_step, routed_step;
    const size_t  *offset;              /* of the routed experts */
    int            e, n, shared_units, routed_units;

    __device__ __forceinline__ int next(const uint8_t **at)
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
    step_shared<COLS> step;
    size_t            offset[MAX_DISTINCT];
};

/* A warp's 128 columns of the rows of one expert, with what multiplies the product. */
template <int COLS> struct down_item {
    uint4  v[COLS][4];
    float  weight[COLS];                /* of token 4 set + lane % 4 */
    float2 scale;

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
__device__ __forceinline__ void down_product(float2 total[COLS], const down_item<COLS> &in, step_stream<down_tiles> &s)
{
    float acc[COLS][2][4] = {};
    uint32_t b[COLS][8][2];
#pragma unroll
    for (int c = 0; c < COLS; c++)
#pragma unroll
        for (int p = 0; p < 4; p++) {
            b[c][2 * p][0] = in.v[c][p].x;
            b[c][2 * p][1] = in.v[c][p].y;
            b[c][2 * p + 1][0] = in.v[c][p].z;
            b[c][2 * p + 1][1] = in.v[c][p].w;
        }
#pragma unroll
    for (int unit = 0; unit < group_units<F>(); unit++) {
        uint4 v[2];
        s.take(v);
        unit_product<F, COLS>(acc, v, [&](int c, int st) { return b[c][unit * 2 * line_steps<F>() + st]; });
    }
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        float2 one = make_float2(0, 0);
        group_end<F>(&one, acc[c], product_offset<F>() != 0 ? fragment_sum<false>(b[c]) : 0, in.scale);
        total[c].x += in.weight[c] * one.x;
        total[c].y += in.weight[c] * one.y;
    }
}

__device__ __forceinline__ float2 any_scale(const struct matrix &m, size_t offset, size_t tile_group)
{
    const int g = threadIdx.x % 32 / 4;
    if (m.format == WEIGHT_INT4)
        return __half22float2(((const __half2 *)(m.scale + offset))[tile_group * 8 + g]);
    if (m.format == WEIGHT_FP8)
        return ((const float2 *)(m.scale + offset))[tile_group];
    return make_float2(1.0f, 1.0f);
}

template <int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, ROWS <= 4 ? 2 : 1) down_kernel(const __grid_constant__ struct down_job j)
{
    constexpr int COLS = (ROWS + 3) / 4;
    extern __shared__ uint4 memory[];
    down_shared<COLS> *sm = (down_shared<COLS> *)memory;
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    const int split = blockIdx.x / j.per_split, block = blockIdx.x % j.per_split;
    const int t0 = j.tiles * block / j.per_split, t1 = j.tiles * (block + 1) / j.per_split;
    const int group = split * warps + warp;
    const bool mine = group < j.groups;
    const int shared_units = format_units(j.shared.format), routed_units = format_units(j.routed.format);
    step_stream<down_tiles> s;
    float gate[COLS];

    gpu_next();
    s.src.shared_step = (size_t)j.groups * shared_units * STEP_UNIT;
    s.src.routed_step = (size_t)j.groups * routed_units * STEP_UNIT;
    s.src.shared = j.shared.data + t0 * s.src.shared_step + (size_t)group * shared_units * STEP_UNIT;
    s.src.routed = j.routed.data + t0 * s.src.routed_step + (size_t)group * routed_units * STEP_UNIT;
    s.src.offset = sm->offset;
    s.src.e = s.src.n = 0;
    s.src.shared_units = shared_units;
    s.src.routed_units = routed_units;
    s.start(sm->step.ring[warp][0], mine ? shared_units : 0);
    gpu_wait();

    const int n = j.route->n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sm->offset[i] = (size_t)j.route->expert[i] * j.routed.stride;
    __syncthreads();
    s.src.e = 0;
    s.src.n = n;
    if (mine)
        s.extend((t1 - t0) * (shared_units + n * routed_units) - shared_units);
    s.ready();
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const int token = 4 * c + lane % 4;
        gate[c] = 0;
        for (int k = 0; k < j.n_logits && token < j.n_rows; k++)
            gate[c] += j.shared_gate[k * j.logit_step + token];
        gate[c] = 1.0f / (1.0f + expf(-gate[c]));
    }

    /* Input and scale of an item are fetched while the one before is computed. */
    const int column = group * COLS * 1024;             /* halves of this warp's columns in a slot */
    down_item<COLS> in, ahead;
    auto fetch = [&](int tile, int e) {
        const size_t tile_group = (size_t)tile * j.groups + group;
        if (!mine)
            return;
        if (e == 0) {
            ahead.load(j.shared_h + column, j.n_rows);
#pragma unroll
            for (int c = 0; c < COLS; c++)
                ahead.weight[c] = gate[c];
            ahead.scale = any_scale(j.shared, 0, tile_group);
        } else {
            ahead.load(j.h + (size_t)(e - 1) * j.slot + column, j.n_rows);
#pragma unroll
            for (int c = 0; c < COLS; c++)
                ahead.weight[c] = j.route->weight[e - 1][4 * c + lane % 4];
            ahead.scale = any_scale(j.routed, sm->offset[e - 1], tile_group);
        }
    };
    fetch(t0, 0);
    for (int tile = t0; tile < t1; tile++) {
        float2 total[COLS] = {};
        for (int e = 0; e <= n && mine; e++) {
            in = ahead;
            if (e < n)
                fetch(tile, e + 1);
            else if (tile + 1 < t1)
                fetch(tile + 1, 0);
            BY_FORMAT(e == 0 ? j.shared.format : j.routed.format, (down_product<F, COLS>(total, in, s)))
        }
        tile_reduce<COLS>(&sm->step, tile - t0, warps, total, [&](int set, float2 v) {
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

template <int GW> void launch_up(struct cuda_queue *q, const struct up_job &j)
{
    if (j.n_rows == 1)
        launch(q, "step_experts_up", up_kernel<GW, 1>, dim3(q->n_sm), STEP_THREADS, sizeof(up_shared<1>), true, j);
    else if (j.n_rows <= 4)
        launch(q, "step_experts_up", up_kernel<GW, 4>, dim3(q->n_sm), STEP_THREADS, sizeof(up_shared<1>), true, j);
    else
        launch(q, "step_experts_up", up_kernel<GW, 8>, dim3(q->n_sm), STEP_THREADS, sizeof(up_shared<2>), true, j);
}

}

static_assert(sizeof(up_shared<2>) <= 99 * 1024 && sizeof(down_shared<2>) <= 99 * 1024, "shared memory of a GB10");

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
    switch ((j.groups + STEP_WARPS - 1) / STEP_WARPS) {
    case 1: launch_up<1>(q, j); break;
    case 2: launch_up<2>(q, j); break;
    case 3: launch_up<3>(q, j); break;
    case 4: launch_up<4>(q, j); break;
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
    const dim3 grid(j.per_split * splits);
    if (a->n_rows == 1)
        launch(q, "step_experts_down", down_kernel<1>, grid, threads, sizeof(down_shared<1>), true, j);
    else if (a->n_rows <= 4)
        launch(q, "step_experts_down", down_kernel<4>, grid, threads, sizeof(down_shared<1>), true, j);
    else
        launch(q, "step_experts_down", down_kernel<8>, grid, threads, sizeof(down_shared<2>), true, j);
}

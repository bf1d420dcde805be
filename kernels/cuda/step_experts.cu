/* step_experts_up, step_experts_down: routing and both halves of the expert products of a step, every expert read once.
 * Shapes    up: pairs [2 inter, hidden] of the distinct experts and the shared one; down: [hidden, inter] of the same
 * Bytes     the packed matrices of distinct experts + shared; activations are small
 * Limit     bandwidth
 * Launch    two blocks of 8 warps per multiprocessor, or four of 4 where `down` has few columns; some take the shared expert, whose weights
 *           they ask for before the kernel in front has ended, the others an equal run of (expert, tile).  Every block routes for
 *           itself, a warp a row: it takes less time than to be told, and `down` can ask for its weights while `up` ends
 * Layout    kernels/pack.h; the loop: step_tiles.cuh.  All rows go through every expert's product, since the eight columns of an
 *           instruction cost the same as one; rows that did not choose it have weight 0
 * Numerics  as step_linear; what a row's experts add to the stream is exact in any order (kernels/step.h) */
#include "kernels/cuda/step_tiles.cuh"

#include <climits>
#include <cstdlib>

namespace {

enum { RING = 6, WORDS = STEP_EXPERTS / 32, MAX_DISTINCT = STEP_ROWS * STEP_CHOICES };

struct matrix {
    const uint8_t *data, *scale;
    size_t         stride;              /* bytes from one expert to the next */
    int            format;
};

struct up_job {
    struct matrix  routed, shared;
    float         *h, *shared_h;
    struct step_choice choice;
    const float   *x;
    int            n_rows, inter, hidden, groups, tiles, shared_blocks;
};

struct down_job {
    struct matrix   routed, shared;
    double         *stream;
    const float    *h, *shared_h;
    struct step_route *route;
    struct step_choice choice;
    const float    *shared_gate;
    size_t          logit_step;
    int             n_logits, n_rows, hidden, inter, groups, tiles, shared_blocks;
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

/* A row's keys of the experts lane + 32 i; 0: no expert. */
__device__ __forceinline__ void load_keys(uint32_t key[WORDS], const struct step_choice &j, int row)
{
    const int lane = threadIdx.x % 32;
    const float *at = j.logits + (size_t)row * j.n_experts + lane;
    float l[WORDS] = {};
#pragma unroll 2
    for (int s = 0; s < j.n_logits; s++, at += j.logit_step)
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            l[i] += lane + 32 * i < j.n_experts ? at[32 * i] : 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        key[i] = lane + 32 * i < j.n_experts ? sort_key(l[i]) : 0;
}

__device__ __forceinline__ float key_value(uint32_t k)
{
    return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k);
}

__device__ __forceinline__ float row_rms(const struct step_rms &r, int row)
{
    float part[STEP_RMS_PARTS], sum = 0;
#pragma unroll
    for (int i = 0; i < STEP_RMS_PARTS; i++)
        part[i] = r.ssq && i < r.n ? r.ssq[i * STEP_ROWS + row] : 0;
#pragma unroll
    for (int i = 0; i < STEP_RMS_PARTS; i++)
        sum += part[i];
    return r.ssq ? rsqrtf(sum / (float)r.width + r.eps) : 1.0f;
}

/* A warp's work space while it chooses. */
struct candidates {
    uint32_t key[STEP_EXPERTS], chosen_key[STEP_CHOICES];
    int16_t  expert[STEP_EXPERTS], chosen[STEP_CHOICES];
};

/* One warp: the k greatest keys, of equal ones those of lower experts; lane i < k gets the i-th by ascending expert. */
__device__ __forceinline__ void select_experts(const uint32_t key[WORDS], int k, struct candidates *c, int *expert, uint32_t *value)
{
    const int lane = threadIdx.x % 32;
    const uint32_t below = (1u << lane) - 1;
    uint32_t top = key[0];
    int rank = 0, n = 0, chosen = 0;
#pragma unroll
    for (int i = 1; i < WORDS; i++)
        top = max(top, key[i]);
    /* Candidates are all that are no less than the k-th of the lanes' greatest. */
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const uint32_t other = __shfl_sync(~0u, top, i);
        rank += other > top || (other == top && i < lane);
    }
    const uint32_t least = __reduce_min_sync(~0u, rank < k ? top : ~0u);
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        const bool in = key[i] >= least && key[i] > 0;
        const uint32_t all = __ballot_sync(~0u, in);
        if (in) {
            c->key[n + __popc(all & below)] = key[i];
            c->expert[n + __popc(all & below)] = (int16_t)(lane + 32 * i);
        }
        n += __popc(all);
    }
    __syncwarp();
    for (int at = lane; at - lane < n; at += 32) {
        const uint32_t mine = c->key[at < n ? at : 0];
        rank = 0;
#pragma unroll 8
        for (int i = 0; i < n; i++)
            rank += c->key[i] > mine || (c->key[i] == mine && i < at);
        const bool in = at < n && rank < k;
        const uint32_t all = __ballot_sync(~0u, in);
        if (in) {
            c->chosen_key[chosen + __popc(all & below)] = mine;
            c->chosen[chosen + __popc(all & below)] = c->expert[at];
        }
        chosen += __popc(all);
    }
    __syncwarp();
    *expert = lane < k ? c->chosen[lane] : -1;
    *value = lane < k ? c->chosen_key[lane] : 0;
}

/* One warp, one row: lane i < top_k gets a choice, by ascending expert, and its key.  With `overlap` the first lanes have row 0's best. */
__device__ __forceinline__ void choose(const struct step_choice &j, int row, struct candidates *c, int *expert, uint32_t *value)
{
    const int lane = threadIdx.x % 32, shared = row && j.overlap > 0 ? min(j.overlap, j.top_k) : 0;
    uint32_t key[WORDS];
    int of_first = -1;
    uint32_t of_first_key = 0;
    if (shared) {
        load_keys(key, j, 0);
        select_experts(key, shared, c, &of_first, &of_first_key);
    }
    load_keys(key, j, row);
    for (int k = 0; k < shared; k++) {
        const int e = __shfl_sync(~0u, of_first, k);
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            key[i] = lane + 32 * i == e ? 0 : key[i];
    }
    select_experts(key, j.top_k - shared, c, expert, value);
    if (shared) {
        *expert = __shfl_sync(~0u, *expert, (lane - shared) & 31);
        *value = __shfl_sync(~0u, *value, (lane - shared) & 31);
        *expert = lane < shared ? of_first : *expert;
        *value = lane < shared ? of_first_key : *value;
    }
}

/* The softmax of those. */
__device__ __forceinline__ float choice_weight(const struct step_choice &j, int row, uint32_t value)
{
    const float top = key_value(__reduce_max_sync(~0u, value)), r = row_rms(j.rms, row);
    const float w = threadIdx.x % 32 < j.top_k ? expf(r * (key_value(value) - top)) : 0;
    return w / warp_sum(w);
}

/* A single row's choices.  WEIGHTS: with their weights in `out`. */
template <bool WEIGHTS> __device__ __forceinline__ void find_route_of_one(struct routing *r, struct candidates *c, const struct step_choice &j, struct step_route *out)
{
    const int lane = threadIdx.x;
    if (threadIdx.x < 32) {
        const int n = j.n_valid && *j.n_valid < 1 ? 0 : j.top_k;
        int expert;
        uint32_t value;
        choose(j, 0, c, &expert, &value);
        if (lane < n)
            r->expert[lane] = (int16_t)expert;
        if (lane == 0)
            r->n = n;
        if (WEIGHTS) {
            const float weight = choice_weight(j, 0, value);
            if (lane < n) {
                out->expert[lane] = expert;
                out->weight[lane][0] = weight;
                for (int t = 1; t < STEP_ROWS; t++)
                    out->weight[lane][t] = 0;
            }
            if (lane == 0)
                out->n = n;
        }
    }
    __syncthreads();
}

/* The same of n_rows rows, a warp each; c: of the warp. */
template <bool WEIGHTS> __device__ __forceinline__ void find_route(struct routing *r, struct candidates *c, const struct step_choice &j, int n_rows, struct step_route *out)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int n_valid = j.n_valid ? min(*j.n_valid, n_rows) : n_rows;
    int expert = 0;
    float weight = 0;
    if (warp < STEP_ROWS && lane < WORDS)
        r->chosen[warp][lane] = 0;
    __syncwarp();
    if (warp < n_valid) {
        uint32_t value;
        choose(j, warp, c, &expert, &value);
        if (lane < j.top_k)
            atomicOr(&r->chosen[warp][expert / 32], 1u << (expert % 32));
        if (WEIGHTS)
            weight = choice_weight(j, warp, value);
        expert = max(expert, 0);        /* of lanes without a choice */
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
    if (WEIGHTS) {
        for (int i = threadIdx.x; i < n * STEP_ROWS; i += blockDim.x)
            out->weight[i / STEP_ROWS][i % STEP_ROWS] = 0;
        __syncthreads();
        const int word = expert / 32;
        const uint32_t bits = __shfl_sync(~0u, any, word & 31);
        const int index = __shfl_sync(~0u, before, word & 31) + __popc(bits & ((1u << (expert % 32)) - 1));
        if (warp < n_valid && lane < j.top_k)
            out->weight[index][warp] = weight;
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            out->expert[i] = r->expert[i];
        if (threadIdx.x == 0)
            out->n = n;
    }
    __syncthreads();
}

/* ---- up ---- */

/* A run of (expert, tile). */
template <int F> struct run_tiles {
    enum { SCALED = has_scales<F>(), SCALE_STEP = unit_scale_bytes<F>() };
    const uint8_t *at, *scale;          /* of the next tile: this warp's columns, this lane's scale */
    const uint8_t *columns, *scales;    /* the same of tile 0 of expert 0 */
    const int16_t *expert;              /* at hand */
    size_t         stride;              /* bytes from one expert to the next */
    uint32_t       step, scale_step;    /* bytes of a tile */
    int            left, tiles, units;  /* tiles left of the expert at hand, of an expert; units of a tile */

    __device__ __forceinline__ void begin(int tile)
    {
        at = columns + (size_t)*expert * stride + tile * step;
        scale = scales + (size_t)*expert * stride + tile * scale_step;
        left = tiles - tile;
    }
    __device__ __forceinline__ void next(struct step_piece *p)
    {
        if (left == 0) {
            expert++;
            begin(0);
        }
        *p = {at, scale, 0, 0, units};
        at += step;
        scale += scale_step;
        left--;
    }
};

struct up_shared {
    struct step_shared<STEP_WARPS, RING> step;
    struct routing routing;
};

/* This warp's groups of the rows. */
template <int GW, int ROWS, int P>
__device__ __forceinline__ void up_input(group_frags<P, (ROWS + 3) / 4> f[GW], const struct up_job &j, int g0, int gw, uint4 *staged)
{
    constexpr int N = ROWS < 4 ? ROWS : 4;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int set = 0; set < (ROWS + 3) / 4; set++) {
        float4 x[GW][N];
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
#pragma unroll
            for (int i = 0; i < N; i++)
                x[gi][i] = gi < gw && 4 * set + i < j.n_rows
                         ? *(const float4 *)(j.x + (size_t)(4 * set + i) * j.hidden + (g0 + gi) * PACK_GROUP + 4 * lane) : make_float4(0, 0, 0, 0);
        const float rms = ROWS == 1 ? row_rms(j.choice.rms, 0) : lane < j.n_rows ? row_rms(j.choice.rms, lane) : 0;     /* of row `lane` */
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float r = ROWS == 1 ? rms : __shfl_sync(~0u, rms, 4 * set + i);
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
                x[gi][i] = make_float4(x[gi][i].x * r, x[gi][i].y * r, x[gi][i].z * r, x[gi][i].w * r);
        }
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            frags_set(f[gi], set, x[gi], staged);
    }
}

/* Tiles u0 .. u1 - 1, counted through all experts. */
template <int F, int GW, int ROWS>
__device__ __forceinline__ void up_run(const struct up_job &j, struct step_shared<STEP_WARPS, RING> *sm, step_stream<run_tiles<F>, 1, RING> &s,
                                       int u0, int u1, int g0, int gw, float *h)
{
    constexpr int COLS = (ROWS + 3) / 4, P = product_of<F, true>();
    group_frags<P, COLS> f[GW];
    up_input<GW, ROWS, P>(f, j, g0, gw, sm->own[threadIdx.x / 32]);
    for (int u = u0; u < u1; u++) {
        float2 total[1][COLS] = {};
        tile_product<F, P, GW, COLS, 1, 1>(total, f, gw, s);
        keep_sums<COLS, 1>(sm, u - u0, u + 1 == u1, total, [&](int round, int, int set, float2 v) {
            const int at = u0 + round, token = 4 * set + threadIdx.x % 4, column = at % j.tiles * 8 + threadIdx.x % 32 / 4;
            if (token < j.n_rows && column < j.inter)
                h[((size_t)(at / j.tiles) * j.n_rows + token) * j.inter + column] = silu_f(v.x) * v.y;
        });
    }
}

/* Starts the stream of those tiles: `tiles` an expert, `groups` a tile. */
template <int F, int WARPS>
__device__ __forceinline__ void run_start(step_stream<run_tiles<F>, 1, RING> &s, struct step_shared<WARPS, RING> *sm, int tiles, int groups, const struct matrix &m,
                                          const int16_t *expert, int u0, int u1, int g0, int gw)
{
    s.src.expert = expert + u0 / tiles;
    s.src.stride = m.stride;
    s.src.tiles = tiles;
    s.src.units = gw * group_units<F>();
    s.src.step = (uint32_t)(groups * group_units<F>() * STEP_UNIT);
    s.src.scale_step = (uint32_t)(groups * group_scale_bytes<F>());
    s.src.columns = m.data + (size_t)g0 * group_units<F>() * STEP_UNIT;
    s.src.scales = m.scale + (size_t)g0 * group_scale_bytes<F>() + lane_scale<F>();
    if (u0 < u1)
        s.src.begin(u0 % tiles);
    s.start(sm, s.src.units * (u1 - u0));
    s.ready();
}

/* Two blocks a multiprocessor where shared memory has room for them; a GB10 has not, and there registers need no cap. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define UP_BLOCKS 1
#else
#define UP_BLOCKS 2
#endif

/* The first blocks take the shared expert, whose weights they ask for before the kernel in front has ended; the others route. */
template <int FS, int F, int GW, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, ROWS <= 4 && GW < 4 ? UP_BLOCKS : 1) up_kernel(const __grid_constant__ struct up_job j)
{
    extern __shared__ uint4 memory[];
    struct up_shared *sm = (struct up_shared *)memory;
    const int warp = threadIdx.x / 32, g0 = warp * GW, gw = max(0, min(GW, j.groups - g0));
    const bool shared = (int)blockIdx.x < j.shared_blocks;
    const int b = shared ? blockIdx.x : blockIdx.x - j.shared_blocks, blocks = shared ? j.shared_blocks : gridDim.x - j.shared_blocks;

    if (shared) {
        if (ROWS < 4)
            staging_clear<ROWS>(sm->step.own[warp]);
        const int u0 = j.tiles * b / blocks, u1 = j.tiles * (b + 1) / blocks;
        step_stream<run_tiles<FS>, 1, RING> s;
        if (threadIdx.x == 0)
            sm->routing.expert[0] = 0;
        __syncthreads();
        run_start<FS>(s, &sm->step, j.tiles, j.groups, j.shared, sm->routing.expert, u0, u1, g0, gw);
        gpu_wait();
        gpu_next();
        if (u0 < u1)
            up_run<FS, GW, ROWS>(j, &sm->step, s, u0, u1, g0, gw, j.shared_h);
        return;
    }
    gpu_wait();
    gpu_next();                         /* not before: `down` relies on what we have waited for */
    struct candidates *c = (struct candidates *)sm->step.own[warp];
    if (ROWS == 1)
        find_route_of_one<false>(&sm->routing, c, j.choice, NULL);
    else
        find_route<false>(&sm->routing, c, j.choice, j.n_rows, NULL);
    const unsigned n = sm->routing.n * j.tiles;
    const int u0 = n * b / blocks, u1 = n * (b + 1) / blocks;
    step_stream<run_tiles<F>, 1, RING> s;
    if (u0 >= u1)
        return;
    run_start<F>(s, &sm->step, j.tiles, j.groups, j.routed, sm->routing.expert, u0, u1, g0, gw);
    if (ROWS < 4)
        staging_clear<ROWS>(sm->step.own[warp]);
    up_run<F, GW, ROWS>(j, &sm->step, s, u0, u1, g0, gw, j.h);
}

/* ---- down ---- */

template <int WARPS> struct down_shared {
    struct step_shared<WARPS, RING> step;
    struct routing routing;
    struct step_route route;            /* of several rows; of one row and the shared expert weight[.][0 .. n_rows - 1] alone */
};

/* This warp's groups of the rows of one expert, rows of weight 0 not read. */
template <int GW, int ROWS> struct down_input {
    enum { N = ROWS < 4 ? ROWS : 4, COLS = (ROWS + 3) / 4 };
    float4   u[COLS][GW][N];
    uint32_t wanted[COLS];

    __device__ __forceinline__ void load(const float *h, const float *weight, const struct down_job &j, int g0, int gw)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            wanted[c] = ROWS == 1 ? 1 : __ballot_sync(~0u, lane < N && weight[4 * c + lane % 4] != 0);
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    u[c][gi][i] = gi < gw && wanted[c] >> i & 1
                                ? *(const float4 *)(h + (size_t)(4 * c + i) * j.inter + (g0 + gi) * PACK_GROUP + 4 * lane) : make_float4(0, 0, 0, 0);
        }
    }
    template <int P> __device__ __forceinline__ void frags(group_frags<P, COLS> f[GW], uint4 *staged) const
    {
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
                frags_set(f[gi], c, u[c][gi], staged, wanted[c]);
    }
};

/* Tiles u0 .. u1 - 1, counted through all experts; weights: [expert][STEP_ROWS]. */
template <int F, int GW, int ROWS, int WARPS>
__device__ __forceinline__ void down_run(const struct down_job &j, struct step_shared<WARPS, RING> *sm, step_stream<run_tiles<F>, 1, RING> &s,
                                         int u0, int u1, int g0, int gw, const float *h, const float *weights)
{
    constexpr int COLS = (ROWS + 3) / 4, P = product_of<F, false>();
    const size_t expert = (size_t)j.n_rows * j.inter;
    uint4 *staged = sm->own[threadIdx.x / 32];
    down_input<GW, ROWS> in;
    int e = u0 / j.tiles;
    in.load(h + e * expert, weights + e * STEP_ROWS, j, g0, gw);
#pragma unroll 1
    for (int u = u0; u < u1; e++) {
        const int start = u, end = min(u1, (e + 1) * j.tiles);
        group_frags<P, COLS> f[GW];
        in.frags(f, staged);
        if (end < u1)
            in.load(h + (e + 1) * expert, weights + (e + 1) * STEP_ROWS, j, g0, gw);
#pragma unroll 1
        for (; u < end; u++) {
            float2 total[1][COLS] = {};
            tile_product<F, P, GW, COLS, 1, 2>(total, f, gw, s);
            keep_sums<COLS, 1>(sm, u - start, u + 1 == end, total, [&](int round, int, int set, float2 v) {
                const int token = 4 * set + threadIdx.x % 4, row = (start + round - e * j.tiles) * PACK_ROWS + threadIdx.x % 32 / 4;
                const float w = weights[e * STEP_ROWS + token];
                double *to = j.stream + (size_t)token * j.hidden + row;
                if (token < j.n_rows && w != 0 && row < j.hidden)
                    atomicAdd(to, on_grid(w * v.x));
                if (token < j.n_rows && w != 0 && row + 8 < j.hidden)
                    atomicAdd(to + 8, on_grid(w * v.y));
            });
        }
        if (u < u1) {
            __syncthreads();
            if (ROWS < 4)
                staging_clear<ROWS>(staged);
        }
    }
}

__device__ __forceinline__ void keep_route(struct step_route *to, const struct step_route *from)
{
    const int n = from->n;
    for (int i = threadIdx.x; i < n * STEP_ROWS; i += blockDim.x) {
        to->weight[0][i] = from->weight[0][i];
        if (i < n)
            to->expert[i] = from->expert[i];
    }
    if (threadIdx.x == 0)
        to->n = n;
}

template <int FS, int F, int GW, int ROWS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, ROWS <= 4 && GW == 1 ? 16 / WARPS : 1) down_kernel(const __grid_constant__ struct down_job j)
{
    extern __shared__ uint4 memory[];
    down_shared<WARPS> *sm = (down_shared<WARPS> *)memory;
    const int warp = threadIdx.x / 32, g0 = warp * GW, gw = max(0, min(GW, j.groups - g0));
    const bool shared = (int)blockIdx.x < j.shared_blocks;
    const int b = shared ? blockIdx.x : blockIdx.x - j.shared_blocks, blocks = shared ? j.shared_blocks : gridDim.x - j.shared_blocks;

    gpu_next();
    if (shared) {
        if (ROWS < 4)
            staging_clear<ROWS>(sm->step.own[warp]);
        const int u0 = j.tiles * b / blocks, u1 = j.tiles * (b + 1) / blocks, t = threadIdx.x;
        step_stream<run_tiles<FS>, 1, RING> s;
        if (t == 0)
            sm->routing.expert[0] = 0;
        __syncthreads();
        run_start<FS>(s, &sm->step, j.tiles, j.groups, j.shared, sm->routing.expert, u0, u1, g0, gw);
        if (t < STEP_ROWS) {
            float gate = 0;
            for (int k = 0; k < j.n_logits; k++)
                gate += t < j.n_rows ? j.shared_gate[k * j.logit_step + t] : 0;
            sm->route.weight[0][t] = t < j.n_rows ? sigmoid_f(gate * row_rms(j.choice.rms, t)) : 0;
        }
        __syncthreads();
        gpu_wait();
        if (u0 < u1)
            down_run<FS, GW, ROWS>(j, &sm->step, s, u0, u1, g0, gw, j.shared_h, sm->route.weight[0]);
        return;
    }
    struct candidates *c = (struct candidates *)sm->step.own[warp];
    if (ROWS == 1)
        find_route_of_one<true>(&sm->routing, c, j.choice, &sm->route);
    else
        find_route<true>(&sm->routing, c, j.choice, j.n_rows, &sm->route);
    const int n = sm->routing.n;
    int u0 = n * j.tiles * b / blocks, u1 = n * j.tiles * (b + 1) / blocks;
    if (ROWS == 1 && blocks >= n && n > 0) {    /* no block has tiles of two experts */
        const int per = blocks / n, e = b / per;
        u0 = e < n ? e * j.tiles + j.tiles * (b % per) / per : 0;
        u1 = e < n ? e * j.tiles + j.tiles * (b % per + 1) / per : 0;
    }
    step_stream<run_tiles<F>, 1, RING> s;
    if (u0 < u1) {
        run_start<F>(s, &sm->step, j.tiles, j.groups, j.routed, sm->routing.expert, u0, u1, g0, gw);
        if (ROWS < 4)
            staging_clear<ROWS>(sm->step.own[warp]);
    }
    gpu_wait();
    if (u0 < u1)
        down_run<F, GW, ROWS>(j, &sm->step, s, u0, u1, g0, gw, j.h, sm->route.weight[0]);
    if (j.route && b == 0)
        keep_route(j.route, &sm->route);
}

struct matrix matrix_of(const struct weight &w, size_t stride)
{
    return {(const uint8_t *)w.data, (const uint8_t *)w.scale, stride, w.format};
}

/* Blocks for the shared expert: those by its bytes, or so many more or fewer that the slowest block, in whole tiles, has less to do, when
 * neighbours share half of their choices, or else when nobody shares.  `ahead`: what its blocks can ask for before the others, in bytes. */
template <class JOB> int shared_blocks(const JOB &j, int blocks, int ahead)
{
    const int shared = j.groups * pack_lines((enum weight_format)j.shared.format), routed = j.groups * pack_lines((enum weight_format)j.routed.format),
              k = j.choice.top_k, n_rows = j.n_rows, by_bytes = blocks * shared / (shared + min(k * n_rows, j.choice.n_experts) * routed);
    const auto slowest = [&](int experts, int others) { return (min(experts, j.choice.n_experts) * j.tiles + others - 1) / others * routed; };
    int best = 1;
    long least = LONG_MAX;
    for (int n = 1; n < blocks && n <= j.tiles; n++) {
        const int own = (j.tiles + n - 1) / n * shared - ahead / PACK_LINE, half = max(own, slowest(k * (n_rows + 1) / 2, blocks - n)),
                  none = max(own, slowest(k * n_rows, blocks - n));
        const long cost = ((long)half << 40) + ((long)none << 16) + abs(n - by_bytes);
        if (cost < least) {
            best = n;
            least = cost;
        }
    }
    return best;
}

template <int FS, int F, int GW, int ROWS> void launch_up_rows(struct cuda_queue *q, struct up_job j)
{
    const size_t bytes = sizeof(struct up_shared);
    const int blocks = (ROWS <= 4 && GW < 4 && 2 * bytes <= (size_t)q->smem ? 2 : 1) * q->n_sm;
    j.shared_blocks = shared_blocks(j, blocks, STEP_WARPS * RING * STEP_UNIT);       /* their rings */
    launch(q, "step_experts_up", up_kernel<FS, F, GW, ROWS>, dim3(blocks), STEP_THREADS, bytes, true, j);
}
template <int FS, int F, int GW> void launch_up(struct cuda_queue *q, const struct up_job &j)
{
    if (j.n_rows == 1)
        launch_up_rows<FS, F, GW, 1>(q, j);
    else if (j.n_rows == 2)             /* one draft, with the formats that are used so */
        launch_up_rows<FS, F, GW, F == WEIGHT_INT4 ? 2 : 4>(q, j);
    else if (j.n_rows <= 4)
        launch_up_rows<FS, F, GW, 4>(q, j);
    else
        launch_up_rows<FS, F, GW, 8>(q, j);
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
template <int FS, int F, int GW, int ROWS, int WARPS> void launch_down_warps(struct cuda_queue *q, struct down_job j)
{
    const size_t bytes = sizeof(struct down_shared<WARPS>);
    const int fit = (int)(q->smem / bytes), most = ROWS <= 4 && GW == 1 ? 16 / WARPS : 1, blocks = (fit < most ? fit : most) * q->n_sm;
    j.shared_blocks = shared_blocks(j, blocks, 0);
    launch(q, "step_experts_down", down_kernel<FS, F, GW, ROWS, WARPS>, dim3(blocks), 32 * WARPS, bytes, true, j);
}
template <int FS, int F, int GW, int WARPS> void launch_down_rows(struct cuda_queue *q, const struct down_job &j)
{
    if (j.n_rows == 1)
        launch_down_warps<FS, F, GW, 1, WARPS>(q, j);
    else if (j.n_rows == 2)
        launch_down_warps<FS, F, GW, F == WEIGHT_INT4 ? 2 : 4, WARPS>(q, j);
    else if (j.n_rows <= 4)
        launch_down_warps<FS, F, GW, 4, WARPS>(q, j);
    else
        launch_down_warps<FS, F, GW, 8, STEP_WARPS>(q, j);
}
template <int FS, int F> void launch_down(struct cuda_queue *q, const struct down_job &j)
{
    switch (j.groups <= 4 ? 0 : (j.groups + STEP_WARPS - 1) / STEP_WARPS) {
    case 0: launch_down_rows<FS, F, 1, 4>(q, j); break;
    case 1: launch_down_rows<FS, F, 1, STEP_WARPS>(q, j); break;
    case 2: launch_down_rows<FS, F, 2, STEP_WARPS>(q, j); break;
    default: queue_note(q, "step_experts_down", cudaErrorInvalidValue);
    }
}

}

/* Formats of the shared expert and of the routed ones that published checkpoints have together. */
#define PAIR_OF(shared, routed) ((shared) * 8 + (routed))

static_assert(sizeof(struct candidates) <= 8 * STEP_PITCH, "candidates lie where a warp's input will be staged");
static_assert(sizeof(struct up_shared) <= 99 * 1024 && sizeof(struct down_shared<8>) <= 99 * 1024, "shared memory of a GB10");

extern "C" void step_experts_up_cuda(struct cuda_queue *q, const struct step_experts_up_args *a)
{
    struct up_job j = {};
    j.routed = matrix_of(a->pair, a->stride);
    j.shared = matrix_of(a->shared, 0);
    j.h = a->h;
    j.shared_h = a->shared_h;
    j.choice = a->choice;
    j.x = a->x;
    j.n_rows = a->n_rows;
    j.inter = a->inter;
    j.hidden = a->hidden;
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
    j.routed = matrix_of(a->down, a->stride);
    j.shared = matrix_of(a->shared, 0);
    j.stream = a->stream;
    j.h = a->h;
    j.shared_h = a->shared_h;
    j.route = a->route;
    j.choice = a->choice;
    j.shared_gate = a->shared_gate;
    j.logit_step = a->logit_step;
    j.n_logits = a->n_logits;
    j.n_rows = a->n_rows;
    j.hidden = a->hidden;
    j.inter = a->inter;
    j.groups = pack_groups(a->inter);
    j.tiles = pack_tiles(a->hidden);
    switch (PAIR_OF(j.shared.format, j.routed.format)) {
    case PAIR_OF(WEIGHT_FP8, WEIGHT_INT4):    launch_down<WEIGHT_FP8, WEIGHT_INT4>(q, j); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_INT4):  launch_down<WEIGHT_DENSE, WEIGHT_INT4>(q, j); break;
    case PAIR_OF(WEIGHT_INT4, WEIGHT_INT4):   launch_down<WEIGHT_INT4, WEIGHT_INT4>(q, j); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_DENSE): launch_down<WEIGHT_DENSE, WEIGHT_DENSE>(q, j); break;
    case PAIR_OF(WEIGHT_FP8, WEIGHT_FP8):     launch_down<WEIGHT_FP8, WEIGHT_FP8>(q, j); break;
    default: queue_note(q, "step_experts_down", cudaErrorInvalidValue);
    }
}

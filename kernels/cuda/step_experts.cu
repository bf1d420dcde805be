/* step_experts_up, step_experts_down: routing and both halves of the expert products of a step, every expert read once.
 * Shapes    up: pairs [2 inter, hidden] of the distinct experts and the shared one; down: [hidden, inter] of the same
 * Bytes     the packed matrices of distinct experts + shared; activations are small
 * Limit     bandwidth
 * Launch    up: two blocks of 8 warps per multiprocessor; by bytes, some take the shared expert, which they fetch before the router has
 *           answered, the others an equal run of (expert, tile) and route for themselves, a warp a row.
 *           down: blocks of 4 warps, a tile or two of one range of inner columns each, a warp 128 of them of every expert; those of a
 *           single row choose its experts again, so that the weights are asked for while `up` ends
 * Layout    kernels/pack.h; the loop: step_tiles.cuh.  All rows go through every expert's product, since the eight columns of an
 *           instruction cost the same as one; rows that did not choose it have weight 0
 * Numerics  as step_linear; a row adds its experts in ascending order, whatever the other rows chose */
#include "kernels/cuda/step_tiles.cuh"

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
    struct step_route *route;
    struct step_choice choice;
    const float   *x;
    int            n_rows, inter, hidden, groups, tiles, shared_blocks;
};

struct down_job {
    struct matrix   routed, shared;
    float          *y;
    const float    *h, *shared_h;
    const struct step_route *route;
    struct step_choice choice;
    const float    *shared_gate;
    size_t          y_split, logit_step;
    int             n_logits, n_rows, hidden, inter, groups, tiles, per_split;
};

/* ---- routing ---- */

struct routing {
    uint32_t chosen[STEP_ROWS][WORDS];  /* a bit per expert */
    int16_t  expert[MAX_DISTINCT];
    float    weight[STEP_CHOICES];      /* of a single row */
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

/* A single row's choices, left in `out` too when that is not NULL.  WEIGHTS: the block wants the weights. */
template <bool WEIGHTS>
__device__ __forceinline__ void find_route_of_one(struct routing *r, struct candidates *c, const struct step_choice &j, struct step_route *out)
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
        if (WEIGHTS || out) {
            const float weight = choice_weight(j, 0, value);
            if (lane < n)
                r->weight[lane] = weight;
            if (out && lane < n) {
                out->expert[lane] = expert;
                out->weight[lane][0] = weight;
                for (int t = 1; t < STEP_ROWS; t++)
                    out->weight[lane][t] = 0;
            }
            if (out && lane == 0)
                out->n = n;
        }
    }
    __syncthreads();
}

/* The same of n_rows rows, a warp each; c: of the warp. */
__device__ __forceinline__ void find_route(struct routing *r, struct candidates *c, const struct step_choice &j, int n_rows, struct step_route *out)
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
        if (out)
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
    if (out) {
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

/* A run of (expert, tile). */
template <int F> struct up_tiles {
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
__device__ __forceinline__ void up_run(const struct up_job &j, struct step_shared<STEP_WARPS, RING> *sm, step_stream<up_tiles<F>, 1, RING> &s,
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

/* Starts the stream of those tiles. */
template <int F>
__device__ __forceinline__ void up_start(step_stream<up_tiles<F>, 1, RING> &s, struct step_shared<STEP_WARPS, RING> *sm, const struct up_job &j, const struct matrix &m,
                                         const int16_t *expert, int u0, int u1, int g0, int gw)
{
    s.src.expert = expert + u0 / j.tiles;
    s.src.stride = m.stride;
    s.src.tiles = j.tiles;
    s.src.units = gw * group_units<F>();
    s.src.step = (uint32_t)(j.groups * group_units<F>() * STEP_UNIT);
    s.src.scale_step = (uint32_t)(j.groups * group_scale_bytes<F>());
    s.src.columns = m.data + (size_t)g0 * group_units<F>() * STEP_UNIT;
    s.src.scales = m.scale + (size_t)g0 * group_scale_bytes<F>() + lane_scale<F>();
    if (u0 < u1)
        s.src.begin(u0 % j.tiles);
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
        step_stream<up_tiles<FS>, 1, RING> s;
        if (threadIdx.x == 0)
            sm->routing.expert[0] = 0;
        __syncthreads();
        up_start<FS>(s, &sm->step, j, j.shared, sm->routing.expert, u0, u1, g0, gw);
        gpu_wait();
        gpu_next();
        if (u0 < u1)
            up_run<FS, GW, ROWS>(j, &sm->step, s, u0, u1, g0, gw, j.shared_h);
        return;
    }
    gpu_wait();
    gpu_next();                         /* not before: `down` relies on what we have waited for */
    struct step_route *out = b == 0 ? j.route : NULL;
    struct candidates *c = (struct candidates *)sm->step.own[warp];
    if (ROWS == 1)
        find_route_of_one<false>(&sm->routing, c, j.choice, out);
    else
        find_route(&sm->routing, c, j.choice, j.n_rows, out);
    const unsigned n = sm->routing.n * j.tiles;
    const int u0 = n * b / blocks, u1 = n * (b + 1) / blocks;
    step_stream<up_tiles<F>, 1, RING> s;
    if (u0 >= u1)
        return;
    up_start<F>(s, &sm->step, j, j.routed, sm->routing.expert, u0, u1, g0, gw);
    if (ROWS < 4)
        staging_clear<ROWS>(sm->step.own[warp]);
    up_run<F, GW, ROWS>(j, &sm->step, s, u0, u1, g0, gw, j.h);
}

/* ---- down ---- */

/* For each of the block's tiles the shared expert, then the routed ones; pieces of one group. */
template <int FS, int F> struct down_tiles {
    enum { SCALED = has_scales<FS>() || has_scales<F>(), SCALE_STEP = 4 };
    const uint8_t *shared, *routed;     /* this warp's columns in the tile at hand, of expert 0 */
    const uint8_t *shared_scale, *routed_scale;         /* this lane's; some readable bytes where a format has none */
    uint32_t       shared_step, routed_step, shared_scale_step, routed_scale_step;      /* bytes of a tile */
    const size_t  *offset, *at, *end;   /* of the routed experts; the next one; behind the last */

    __device__ __forceinline__ void next(struct step_piece *p)
    {
        if (at != end) {
            const size_t o = *at++;
            p->at = routed + o;
            p->scale = routed_scale + (has_scales<F>() ? o : 0);
            p->units = group_units<F>();
            return;
        }
        at = offset;
        p->at = shared;
        p->scale = shared_scale;
        p->units = group_units<FS>();
        if (end != offset) {            /* not the one that was started before the others were known */
            routed += routed_step;
            routed_scale += routed_scale_step;
        }
        shared += shared_step;
        shared_scale += shared_scale_step;
    }
};

template <int ROWS, int WARPS> struct down_shared {
    enum { UNITS = ROWS == 1 && WARPS == 4 ? 10 : RING };     /* all that eight experts and the shared one have of a tile */
    struct step_shared<WARPS, UNITS> step;
    struct routing routing;
    size_t offset[MAX_DISTINCT];
    float  gate[STEP_ROWS], weight[MAX_DISTINCT][STEP_ROWS];
};

/* A warp's 128 columns of the rows of one expert, with what multiplies the product. */
template <int ROWS> struct down_item {
    enum { N = ROWS < 4 ? ROWS : 4, COLS = (ROWS + 3) / 4 };
    float4 u[COLS][N];
    float  weight[COLS];                /* of token 4 set + lane % 4 */

    __device__ __forceinline__ uint32_t wanted(int c) const { return ROWS == 1 ? 1 : __ballot_sync(~0u, weight[c] != 0); }
    /* Rows of weight 0 are not read. */
    __device__ __forceinline__ void load(const float *h, int inter)
    {
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const uint32_t rows = wanted(c);
#pragma unroll
            for (int i = 0; i < N; i++)
                u[c][i] = rows >> i & 1 ? *(const float4 *)(h + (size_t)(4 * c + i) * inter + 4 * (threadIdx.x % 32)) : make_float4(0, 0, 0, 0);
        }
    }
};

/* total += weight * (128 columns of one expert's tile) */
template <int F, int P, int COLS, class STREAM>
__device__ __forceinline__ void down_product(float2 total[COLS], const group_frags<P, COLS> &f, const float *weight, STREAM &s)
{
    float2 one[1][COLS] = {};
    group_product<F, P, COLS, 1, 2>(one, f, s);
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const float w = weight[4 * c + threadIdx.x % 4];
        total[c].x += w * one[0][c].x;
        total[c].y += w * one[0][c].y;
    }
}

/* The input of so many experts is turned into bytes together, since each alone is one long chain of latencies. */
template <int P, int ROWS> __host__ __device__ constexpr int down_batch() { return P != S8 ? 1 : ROWS <= 2 ? 4 : ROWS <= 4 ? 2 : 1; }

/* Tile by tile; `fetch(item, e)` loads what expert e multiplies, e = -1 being the shared one. */
template <int FS, int F, int ROWS, class STREAM, class FETCH>
__device__ __forceinline__ void down_tile(float2 total[(ROWS + 3) / 4], uint4 *own, STREAM &s, const float *gates, const float *weights, int n, FETCH fetch)
{
    constexpr int COLS = (ROWS + 3) / 4, N = ROWS < 4 ? ROWS : 4, PS = product_of<FS, false>(), P = product_of<F, false>(), BATCH = down_batch<P, ROWS>();
    down_item<ROWS> item[BATCH], shared;
    fetch(shared, -1);
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        fetch(item[i], i);
    {
        group_frags<PS, COLS> f;
        if (ROWS < 4)
            staging_clear<ROWS>(own);
#pragma unroll
        for (int c = 0; c < COLS; c++)
            frags_set(f, c, shared.u[c], own);
        down_product<FS, PS, COLS>(total, f, gates, s);
    }
    if (P != S8 && ROWS < 4)
        staging_clear<ROWS>(own);
#pragma unroll 1
    for (int e = 0; e < n; e += BATCH) {
        group_frags<P, COLS> f;
        if constexpr (P == S8) {
            enum { SET = 2 * N * STAGE_WORDS };
            uint32_t *staged = (uint32_t *)own;
            static_assert(BATCH * COLS * SET * 4 <= 8 * STEP_PITCH, "a batch must fit");
            __syncwarp();
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    stage_rows(item[i].u[c], staged + (i * COLS + c) * SET, N == 1 ? 1 : item[i].wanted(c));
            __syncwarp();
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                fetch(item[i], e + BATCH + i);
#pragma unroll 1
            for (int i = 0; i < BATCH && e + i < n; i++) {
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    take_rows<N>(f, c, staged + (i * COLS + c) * SET);
                down_product<F, P, COLS>(total, f, weights + (e + i) * STEP_ROWS, s);
            }
        } else {
#pragma unroll
            for (int c = 0; c < COLS; c++)
                frags_set(f, c, item[0].u[c], own);
            fetch(item[0], e + 1);
            down_product<F, P, COLS>(total, f, weights + e * STEP_ROWS, s);
        }
    }
}

/* The experts, and what their products and the shared one's are multiplied with.  A single row chooses for itself, from what was there
 * before `up` began, so that its weights are asked for while `up` ends; more rows find the route that `up` leaves. */
template <int ROWS, int WARPS> __device__ __forceinline__ void down_route(struct down_shared<ROWS, WARPS> *sm, const struct down_job &j)
{
    const int i = threadIdx.x;
    if (ROWS > 1)
        gpu_wait();
    float gate = 0;
#pragma unroll 4
    for (int k = 0; k < j.n_logits; k++)
        gate += i < j.n_rows ? j.shared_gate[k * j.logit_step + i] : 0;
    gate *= i < j.n_rows ? row_rms(j.choice.rms, i) : 0;
    if (ROWS == 1) {
        find_route_of_one<true>(&sm->routing, (struct candidates *)sm->step.own[0], j.choice, NULL);
        if (i < sm->routing.n) {
            sm->offset[i] = sm->routing.expert[i] * j.routed.stride;
            sm->weight[i][0] = sm->routing.weight[i];
#pragma unroll
            for (int t = 1; t < STEP_ROWS; t++)
                sm->weight[i][t] = 0;
        }
    } else {
        /* all loads under way before the first is used; what lies behind the n-th expert is not looked at */
        enum { MOST = ROWS * STEP_CHOICES, THREADS = 32 * WARPS, LOADS = (MOST * STEP_ROWS + THREADS - 1) / THREADS };
        const int n = j.route->n, id = i < MOST ? j.route->expert[i] : 0;
        float weight[LOADS];
#pragma unroll
        for (int l = 0; l < LOADS; l++)
            weight[l] = l * THREADS + i < MOST * STEP_ROWS ? j.route->weight[0][l * THREADS + i] : 0;
        if (i == 0)
            sm->routing.n = n;
        if (i < MOST)
            sm->offset[i] = (size_t)id * j.routed.stride;
#pragma unroll
        for (int l = 0; l < LOADS; l++)
            if (l * THREADS + i < MOST * STEP_ROWS)
                sm->weight[0][l * THREADS + i] = weight[l];
    }
    if (i < STEP_ROWS)
        sm->gate[i] = i < j.n_rows ? sigmoid_f(gate) : 0;
    __syncthreads();
}

template <int FS, int F, int ROWS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, ROWS <= 4 && F == WEIGHT_INT4 ? (WARPS == 4 ? 3 : 2) : 1) down_kernel(const __grid_constant__ struct down_job j)
{
    constexpr int COLS = (ROWS + 3) / 4;
    extern __shared__ uint4 memory[];
    down_shared<ROWS, WARPS> *sm = (down_shared<ROWS, WARPS> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int split = blockIdx.x / j.per_split, block = blockIdx.x % j.per_split;
    const int t0 = j.tiles * block / j.per_split, t1 = j.tiles * (block + 1) / j.per_split;
    const int group = split * WARPS + warp;
    const bool mine = group < j.groups;
    step_stream<down_tiles<FS, F>, 1, down_shared<ROWS, WARPS>::UNITS> s;

    gpu_next();
    s.src.shared_step = (uint32_t)(j.groups * group_units<FS>() * STEP_UNIT);
    s.src.routed_step = (uint32_t)(j.groups * group_units<F>() * STEP_UNIT);
    s.src.shared = j.shared.data + (size_t)t0 * s.src.shared_step + (size_t)group * group_units<FS>() * STEP_UNIT;
    s.src.routed = j.routed.data + (size_t)t0 * s.src.routed_step + (size_t)group * group_units<F>() * STEP_UNIT;
    s.src.shared_scale_step = has_scales<FS>() ? (uint32_t)(j.groups * group_scale_bytes<FS>()) : 0;
    s.src.routed_scale_step = has_scales<F>() ? (uint32_t)(j.groups * group_scale_bytes<F>()) : 0;
    s.src.shared_scale = has_scales<FS>() ? j.shared.scale + t0 * s.src.shared_scale_step + group * group_scale_bytes<FS>() + lane_scale<FS>() : j.shared.data;
    s.src.routed_scale = has_scales<F>() ? j.routed.scale + t0 * s.src.routed_scale_step + group * group_scale_bytes<F>() + lane_scale<F>() : j.routed.data;
    s.src.offset = s.src.at = s.src.end = sm->offset;
    s.start(&sm->step, mine ? group_units<FS>() : 0);
    down_route<ROWS>(sm, j);
    const int n = sm->routing.n;
    s.src.end = sm->offset + n;
    if (mine)
        s.extend((t1 - t0) * (group_units<FS>() + n * group_units<F>()) - group_units<FS>());
    s.ready();
    if (ROWS == 1)
        gpu_wait();

    const int column = group * PACK_GROUP;
    for (int tile = t0; tile < t1; tile++) {
        float2 total[1][COLS] = {};
        if (mine)
            down_tile<FS, F, ROWS>(total[0], sm->step.own[warp], s, sm->gate, sm->weight[0], n, [&](down_item<ROWS> &in, int e) {
                if (e >= n)
                    return;
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    in.weight[c] = (e < 0 ? sm->gate : sm->weight[e])[4 * c + lane % 4];
                in.load((e < 0 ? j.shared_h : j.h + (size_t)e * j.n_rows * j.inter) + column, j.inter);
            });
        keep_sums<COLS, 1>(&sm->step, 0, true, total, [&](int, int, int set, float2 v) {
            const int token = 4 * set + threadIdx.x % 4, row = tile * PACK_ROWS + threadIdx.x % 32 / 4;
            float *y = j.y + split * j.y_split + (size_t)token * j.hidden;
            if (token < j.n_rows && row < j.hidden)
                y[row] = v.x;
            if (token < j.n_rows && row + 8 < j.hidden)
                y[row + 8] = v.y;
        });
        if (tile + 1 < t1)
            __syncthreads();
    }
}

struct matrix matrix_of(const struct weight &w, size_t stride)
{
    return {(const uint8_t *)w.data, (const uint8_t *)w.scale, stride, w.format};
}

/* Blocks for the shared expert by its bytes, if the rows' choices are independent. */
int shared_blocks(const struct up_job &j, int blocks)
{
    const double distinct = j.choice.n_experts * (1 - pow(1 - (double)j.choice.top_k / j.choice.n_experts, j.n_rows)),
        shared = pack_lines((enum weight_format)j.shared.format), all = shared + distinct * pack_lines((enum weight_format)j.routed.format);
    const int n = (int)(blocks * shared / all + 0.5), most = min(j.tiles, blocks - 1);
    return n < 1 ? 1 : n > most ? most : n;
}

template <int FS, int F, int GW, int ROWS> void launch_up_rows(struct cuda_queue *q, struct up_job j)
{
    const size_t bytes = sizeof(struct up_shared);
    const int blocks = (ROWS <= 4 && GW < 4 && 2 * bytes <= (size_t)q->smem ? 2 : 1) * q->n_sm;
    j.shared_blocks = shared_blocks(j, blocks);
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
template <int FS, int F, int ROWS, int WARPS> void launch_down_warps(struct cuda_queue *q, struct down_job j, int splits)
{
    /* With a tile or two each, all blocks are there at once, and memory, not the rounding to whole tiles, decides how long it takes. */
    const size_t bytes = sizeof(struct down_shared<ROWS, WARPS>);
    const int resident = 16 / WARPS * q->n_sm / splits, room = (int)(q->smem / bytes) * q->n_sm / splits, most = resident < room ? resident : room;
    j.per_split = j.tiles < most ? j.tiles : most;
    launch(q, "step_experts_down", down_kernel<FS, F, ROWS, WARPS>, dim3(j.per_split * splits), 32 * WARPS, bytes, true, j);
}
template <int FS, int F, int WARPS> void launch_down_rows(struct cuda_queue *q, const struct down_job &j, int splits)
{
    if (j.n_rows == 1)
        launch_down_warps<FS, F, 1, WARPS>(q, j, splits);
    else if (j.n_rows == 2)
        launch_down_warps<FS, F, F == WEIGHT_INT4 ? 2 : 4, WARPS>(q, j, splits);
    else if (j.n_rows <= 4)
        launch_down_warps<FS, F, 4, WARPS>(q, j, splits);
    else
        launch_down_warps<FS, F, 8, WARPS>(q, j, splits);
}
template <int FS, int F> void launch_down(struct cuda_queue *q, const struct down_job &j, int splits)
{
    if (step_experts_width(j.inter) == 4 * PACK_GROUP)
        launch_down_rows<FS, F, 4>(q, j, splits);
    else
        launch_down_rows<FS, F, 8>(q, j, splits);
}

}

/* Formats of the shared expert and of the routed ones that published checkpoints have together. */
#define PAIR_OF(shared, routed) ((shared) * 8 + (routed))

static_assert(sizeof(struct candidates) <= 8 * STEP_PITCH, "candidates lie where a warp's input will be staged");
static_assert(sizeof(struct up_shared) <= 99 * 1024 && sizeof(struct down_shared<1, 8>) <= 99 * 1024, "shared memory of a GB10");

extern "C" void step_experts_up_cuda(struct cuda_queue *q, const struct step_experts_up_args *a)
{
    struct up_job j = {};
    j.routed = matrix_of(a->pair, a->stride);
    j.shared = matrix_of(a->shared, 0);
    j.h = a->h;
    j.shared_h = a->shared_h;
    j.route = a->route;
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
    const int splits = step_experts_splits(a->inter);
    j.routed = matrix_of(a->down, a->stride);
    j.shared = matrix_of(a->shared, 0);
    j.y = a->y;
    j.h = a->h;
    j.shared_h = a->shared_h;
    j.route = a->route;
    j.choice = a->choice;
    j.shared_gate = a->shared_gate;
    j.y_split = a->y_split;
    j.logit_step = a->logit_step;
    j.n_logits = a->n_logits;
    j.n_rows = a->n_rows;
    j.hidden = a->hidden;
    j.inter = a->inter;
    j.groups = pack_groups(a->inter);
    j.tiles = pack_tiles(a->hidden);
    switch (PAIR_OF(j.shared.format, j.routed.format)) {
    case PAIR_OF(WEIGHT_FP8, WEIGHT_INT4):    launch_down<WEIGHT_FP8, WEIGHT_INT4>(q, j, splits); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_INT4):  launch_down<WEIGHT_DENSE, WEIGHT_INT4>(q, j, splits); break;
    case PAIR_OF(WEIGHT_INT4, WEIGHT_INT4):   launch_down<WEIGHT_INT4, WEIGHT_INT4>(q, j, splits); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_DENSE): launch_down<WEIGHT_DENSE, WEIGHT_DENSE>(q, j, splits); break;
    case PAIR_OF(WEIGHT_FP8, WEIGHT_FP8):     launch_down<WEIGHT_FP8, WEIGHT_FP8>(q, j, splits); break;
    default: queue_note(q, "step_experts_down", cudaErrorInvalidValue);
    }
}

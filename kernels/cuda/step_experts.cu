/* step_experts: routing and both halves of the expert products of a step, every expert read once.
 * Shapes    pairs [2 inter, hidden] and downs [hidden, inter] of the distinct experts and the shared one
 * Bytes     the packed matrices of distinct experts + shared; activations are small
 * Limit     bandwidth
 * Launch    two blocks of 8 warps per multiprocessor, no more than can stay there together; some take the shared expert, whose weights
 *           they ask for before the kernel in front has ended, the others an equal run of (expert, tile).  Every block routes for
 *           itself, a warp a row: it takes less time than to be told
 * Order     a block makes its run of the pairs, then one of the downs, whose weights come behind the pairs' without a gap.  Consumers
 *           read the destination again and again until the producer has replaced STEP_MISSING: no barrier, no launch.  So all blocks must
 *           be resident at once (kernels/step.h says why they become so); launch_rows_of() limits the grid accordingly.  A block that
 *           has read MOST_READS times in vain ends the launch with a fault
 * Code      some 4,000 instructions for one row, half for either kind of block.  They are not in the cache when a layer comes to them, so
 *           divisions are by inverses, rare branches marked, and both runs go through one loop
 * Layout    kernels/pack.h; the loop: step_tiles.cuh.  All rows go through every expert's product, since the eight columns of an
 *           instruction cost the same as one; rows that did not choose it have weight 0.  Where few columns go down, four warps
 *           take a tile
 * Numerics  as step_router; what a row's experts add to the stream is exact in any order (kernels/step.h) */
#include "kernels/cuda/step_tiles.cuh"
#include "kernels/cuda/stream.cuh"

#include <climits>
#include <cstdlib>

namespace {

enum { WORDS = STEP_EXPERTS / 32, MAX_DISTINCT = STEP_ROWS * STEP_CHOICES };

struct matrices {
    const uint8_t *data, *scale;
    size_t         stride;              /* bytes from one expert to the next */
    int            format, groups, tiles;       /* of one */
    uint32_t       per_tiles;           /* inverse() of tiles */
};

struct job {
    struct matrices    up[2], down[2];  /* routed, shared */
    struct step_choice choice;
    struct step_route *route;
    const float       *x, *shared_gate;
    float             *h;
    int64_t           *stream;
    size_t             gate_step;
    volatile uint32_t *stopped;
    int                n_gates, n_rows, inter, hidden, shared_blocks;
    uint32_t           per_blocks[2], per_teams[2];     /* inverses of how many there are, routed and shared */
    bool               check;
    int                teams_each;      /* of one expert, where a row is alone, or 0 */
    uint32_t           per_teams_each;
};

/* n / d without a division, for n * d < 2^31; for greater ones not exact, but 0 at 0, n at n d, and never falling. */
uint32_t inverse(int d) { return d > 0 ? (uint32_t)(((1u << 31) + (unsigned)d - 1) / (unsigned)d) : 0; }
__device__ __forceinline__ int over(int n, uint32_t inverse) { return (int)__umulhi((uint32_t)n << 1, inverse); }

/* ---- routing ---- */

struct routing {
    uint32_t chosen[STEP_ROWS][WORDS];  /* a bit per expert */
    uint32_t any[WORDS];
    int      before[WORDS];             /* distinct experts in the words below */
    int16_t  expert[MAX_DISTINCT];      /* distinct, ascending */
    int      n;
    int16_t  choice[STEP_ROWS][STEP_CHOICES];
    uint32_t key[STEP_ROWS][STEP_CHOICES];
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
    uint32_t key[STEP_EXPERTS + 4], chosen_key[STEP_CHOICES];
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
#pragma unroll 8
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
    if (lane < 4)
        c->key[n + lane] = 0;
    __syncwarp();
#pragma unroll 1
    for (int at = lane; at - lane < n; at += 32) {
        const uint32_t mine = c->key[at < n ? at : 0];
        rank = 0;
#pragma unroll 1
        for (int i = 0; i < n; i += 4) {
            const uint4 v = *(const uint4 *)&c->key[i];
            rank += (v.x > mine || (v.x == mine && i < at)) + (v.y > mine || (v.y == mine && i + 1 < at))
                  + (v.z > mine || (v.z == mine && i + 2 < at)) + (v.w > mine || (v.w == mine && i + 3 < at));
        }
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

/* One warp, one row: lane i < top_k gets a choice and its key, by ascending expert.  With `overlap` a row's are those of row 0, all but that
 * many of them moved on; that takes no longer, and the order no longer holds. */
__device__ __forceinline__ void choose(const struct step_choice &j, int row, struct candidates *c, int *expert, uint32_t *value)
{
    uint32_t key[WORDS];
    load_keys(key, j, j.overlap >= 0 ? 0 : row);
    select_experts(key, j.top_k, c, expert, value);
    if (__builtin_expect(j.overlap >= 0, 0) && (int)threadIdx.x % 32 >= j.overlap)
        *expert = (*expert + 41 * row) % j.n_experts;
}

/* True if a row chooses experts. */
__device__ __forceinline__ bool chooses(const struct step_choice &j, int row)
{
    if (!j.last_of)
        return true;
    const struct step_row r = row_of(j.rows, row);
    return r.index + 1 == *live_of(j.last_of, r.slot);
}

/* The rows' choices and their union; c: of the warp.  A warp a row. */
template <int ROWS> __device__ __forceinline__ void find_route(struct routing *r, struct candidates *c, const struct step_choice &j, int n_rows)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool counts = warp < n_rows && chooses(j, warp);
    if (ROWS > 1 && warp < STEP_ROWS && lane < WORDS)
        r->chosen[warp][lane] = 0;
    __syncwarp();
    if (ROWS == 1 ? warp == 0 : counts) {
        int expert;
        uint32_t value;
        choose(j, warp, c, &expert, &value);
        if (lane < j.top_k) {
            r->choice[warp][lane] = (int16_t)expert;
            r->key[warp][lane] = value;
            if (ROWS == 1)
                r->expert[lane] = (int16_t)expert;
            else
                atomicOr(&r->chosen[warp][expert / 32], 1u << (expert % 32));
        }
        if (ROWS == 1 && lane == 0)
            r->n = counts ? j.top_k : 0;
    }
    __syncthreads();
    if (ROWS == 1)
        return;
    if (warp == 0) {
        uint32_t any = 0;               /* lane i: word i of the union */
        for (int t = 0; lane < WORDS && t < n_rows; t++)
            any |= r->chosen[t][lane];
        int before = __popc(any);
        for (int k = 1; k < WORDS; k *= 2) {
            const int v = __shfl_up_sync(~0u, before, k);
            before += lane >= k ? v : 0;
        }
        if (lane == WORDS - 1)
            r->n = before;
        before -= __popc(any);
        if (lane < WORDS) {
            r->any[lane] = any;
            r->before[lane] = before;
        }
        for (uint32_t m = any; m; m &= m - 1)
            r->expert[before++] = (int16_t)(32 * lane + __ffs(m) - 1);
    }
    __syncthreads();
}

/* weight[i][t] of distinct expert i for row t, the softmax of the row's choices; 0: the row did not choose it.  A warp a row. */
template <int ROWS> __device__ __forceinline__ void find_weights(float (*weight)[STEP_ROWS], const struct routing *r, const struct step_choice &j,
                                                                 int n_rows)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < r->n * STEP_ROWS; i += blockDim.x)
        weight[0][i] = 0;
    __syncthreads();
    if (warp >= n_rows || !chooses(j, warp))
        return;
    const uint32_t key = lane < j.top_k ? r->key[warp][lane] : 0;
    const float top = key_value(__reduce_max_sync(~0u, key)), e = lane < j.top_k ? expf(row_rms(j.rms, warp) * (key_value(key) - top)) : 0,
        sum = warp_sum(e);
    if (lane >= j.top_k)
        return;
    int index = lane;
    if (ROWS > 1) {
        const int expert = r->choice[warp][lane], word = expert / 32;
        index = r->before[word] + __popc(r->any[word] & ((1u << (expert % 32)) - 1));
    }
    weight[index][warp] = e / sum;
}

/* ---- a block's run ---- */

/* Tiles first .. end - 1, counted through all experts. */
struct run {
    int first, end;
};

/* A warp's part of a run, where its next tile is. */
struct piece_of_run {
    const uint8_t *data, *scale;        /* of expert 0: this warp's columns */
    size_t         stride;              /* bytes from one expert to the next */
    uint32_t       step, scale_step;    /* from one tile to the next */
    int            units, tiles;        /* of a tile; of an expert */
    int            expert, tile;        /* the first */
    struct run     all;
};

/* Units of a warp's ring. */
template <int ROWS> __host__ __device__ constexpr int ring_of() { return ROWS == 1 ? 5 : ROWS == 2 ? 8 : 6; }

struct plan {
    struct routing routing;
    float weight[MAX_DISTINCT][STEP_ROWS];      /* of the shared expert: [0] */
    struct piece_of_run run[STEP_WARPS][2];     /* of the pairs, of the downs */
};
template <int ROWS> struct moe_shared {
    struct plan plan;
    alignas(128) struct step_shared<ring_of<ROWS>()> step;    /* a twentieth slower elsewhere */
};
extern __shared__ uint4 memory[];
__device__ __forceinline__ struct plan *plan_of_block() { return (struct plan *)memory; }

/* Groups of columns of the n-th of the warps that share a tile. */
template <int GW> __device__ __forceinline__ int groups_of(int groups, int n) { return max(0, min(GW, groups - n * GW)); }

/* A warp's tiles: a run of the pairs, then one of the downs. */
template <int F> struct two_runs {
    enum { SCALED = has_scales<F>(), SCALE_STEP = unit_scale_bytes<F>() };
    const struct piece_of_run *r;       /* at hand */
    const uint8_t *at, *scale;          /* of the next tile: this warp's columns, this lane's scale */
    int            run, left, expert;   /* tiles of the pairs to come; of the expert at hand */

    __device__ __forceinline__ void begin(int tile)
    {
        const size_t of = plan_of_block()->routing.expert[expert] * r->stride;
        left = r->tiles - tile;
        at = r->data + of + tile * r->step;
        scale = r->scale + of + tile * r->scale_step + lane_scale<F>();
    }
    __device__ __forceinline__ void next(struct step_piece *p)
    {
        if (__builtin_expect(run == 0 || left == 0, 0)) {
            r += run == 0;
            expert = run == 0 ? r->expert : expert + 1;
            begin(run == 0 ? r->tile : 0);
        }
        *p = {at, scale, 0, 0, r->units};
        at += r->step;
        scale += r->scale_step;
        left--;
        run--;
    }
};
template <int F, int ROWS> using tiles_stream = step_stream<two_runs<F>, 1, ring_of<ROWS>()>;

/* After a barrier: the route must be there. */
template <int F, int GW, int DOWN_GW, int TEAM, class STREAM, class SHARED>
__device__ __forceinline__ void start(STREAM &s, SHARED *sm, const struct matrices &up, const struct matrices &down, const struct run &u,
                                      const struct run &d)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    struct piece_of_run *r = sm->plan.run[warp];
    const int gw = groups_of<GW>(up.groups, warp), down_gw = groups_of<DOWN_GW>(down.groups, warp % TEAM);
    if (lane < 2) {
        const struct matrices &m = lane ? down : up;
        const int g0 = lane ? warp % TEAM * DOWN_GW : warp * GW, first = lane ? d.first : u.first;
        struct piece_of_run *to = r + lane;
        to->data = m.data + g0 * group_units<F>() * STEP_UNIT;
        to->scale = m.scale + g0 * group_scale_bytes<F>();
        to->stride = m.stride;
        to->step = (uint32_t)(m.groups * group_units<F>() * STEP_UNIT);
        to->scale_step = (uint32_t)(m.groups * group_scale_bytes<F>());
        to->units = (lane ? down_gw : gw) * group_units<F>();
        to->tiles = m.tiles;
        to->expert = over(first, m.per_tiles);
        to->tile = first - to->expert * m.tiles;
        to->all = lane ? d : u;
    }
    __syncwarp();
    s.src.r = r;
    s.src.run = gw > 0 ? u.end - u.first : 0;
    s.src.expert = r->expert;
    if (s.src.run > 0)
        s.src.begin(r->tile);
    s.start(&sm->step, (gw * (u.end - u.first) + down_gw * (d.end - d.first)) * group_units<F>());
    s.ready();
}

/* ---- up ---- */

/* This warp's groups of the rows. */
template <int GW, int ROWS, int P>
__device__ __forceinline__ void up_input(group_frags<P, (ROWS + 3) / 4> f[GW], const struct job &j, int g0, int gw, uint4 *staged)
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
            const float by = ROWS == 1 ? rms : __shfl_sync(~0u, rms, 4 * set + i);
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
                x[gi][i] = make_float4(x[gi][i].x * by, x[gi][i].y * by, x[gi][i].z * by, x[gi][i].w * by);
        }
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            frags_set<true>(f[gi], set, x[gi], staged);
    }
}

/* ---- down ---- */

/* Four values that other blocks may be about to write. */
__device__ __forceinline__ float4 load_awaited(const float *at)
{
    float4 v;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at) : "memory");
    return v;
}
__device__ __forceinline__ bool missing(const float4 &v)
{
    return __float_as_uint(v.x) == STEP_MISSING || __float_as_uint(v.y) == STEP_MISSING || __float_as_uint(v.z) == STEP_MISSING
        || __float_as_uint(v.w) == STEP_MISSING;
}

/* Producers never wait, and a read takes a third of a microsecond or more: this many take some seconds, a thousand times what a launch may
 * take.  Reads are counted, not time: blocks that another process keeps off the GPU do not count on. */
enum { MOST_READS = 1 << 23 };

/* Ends the launch, and with it all work of this process on the GPU; the host finds out why. */
__device__ __forceinline__ void stop_waiting(volatile uint32_t *stopped)
{
    *stopped = STOPPED_WAITING;
    __threadfence_system();
    __trap();
}

/* This warp's groups of the rows of one expert, rows of weight 0 not read. */
template <int GW, int ROWS> struct down_input {
    enum { N = ROWS < 4 ? ROWS : 4, COLS = (ROWS + 3) / 4 };
    float4   u[COLS][GW][N];
    uint32_t wanted[COLS];

    __device__ __forceinline__ void load(const float *h, const float *weight, int inter, int g0, int gw)
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
                                ? load_awaited(h + (size_t)(4 * c + i) * inter + (g0 + gi) * PACK_GROUP + 4 * lane) : make_float4(0, 0, 0, 0);
        }
    }
    __device__ __forceinline__ bool complete() const
    {
        bool lacks = false;
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    lacks |= missing(u[c][gi][i]);
        return !__any_sync(~0u, lacks);
    }
    template <int P> __device__ __forceinline__ void frags(group_frags<P, COLS> *f, uint4 *staged) const
    {
#pragma unroll
        for (int c = 0; c < COLS; c++)
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
                frags_set(f[gi], c, u[c][gi], staged, wanted[c]);
    }
};

/* ---- both ---- */

/* A block's run of the pairs, then its team's of the downs, in one loop, for the sake of the instruction cache.  weigh() makes the weights;
 * every thread comes there once.  SHARED: the shared expert. */
template <bool SHARED, int F, int GW, int DOWN_GW, int ROWS, int TEAM, class WEIGH>
__device__ __forceinline__ void run_both(const struct job &j, struct moe_shared<ROWS> *sm, tiles_stream<F, ROWS> &s, WEIGH weigh)
{
    constexpr int COLS = (ROWS + 3) / 4, P = product_of<F, false>();
    const struct plan &plan = sm->plan;
    const int warp = threadIdx.x / 32, n = warp % TEAM;
    uint4 *staged = sm->step.own[warp];
    group_frags<P, COLS> f[GW];
    int e = -1, u = plan.run[warp][0].all.first, end = plan.run[warp][0].all.end, gw = groups_of<GW>(j.up[0].groups, warp);   /* e < 0: the pairs */
    const auto of_expert = [&](int i) { return j.h + (size_t)(i + !SHARED) * (size_t)j.n_rows * j.inter; };
    if (u < end)
        up_input<GW, ROWS, P>(f, j, warp * GW, gw, staged);
#pragma unroll 1
    for (;;) {
        const int start = u;
#pragma unroll 1
        for (; u < end; u++) {
            float2 total[1][COLS] = {};
            tile_product<F, P, GW, COLS, 1, 1>(total, f, gw, s);
            keep_sums<COLS, 1>(&sm->step, u - start, u + 1 == end, total, [&](int round, int, int set, float2 v) {
                const int token = 4 * set + threadIdx.x % 4, at = start + round, g = threadIdx.x % 32 / 4;
                if (e < 0) {
                    const int of = over(at, j.up[0].per_tiles), column = (at - of * j.up[0].tiles) * 8 + g;
                    if (token < j.n_rows && column < j.inter)
                        of_expert(of)[(size_t)token * j.inter + column] = silu_f(v.x) * v.y;
                } else {
                    const int row = (at - e * j.down[0].tiles) * PACK_ROWS + g;
                    const float w = plan.weight[e][token];
                    int64_t *to = j.stream + (size_t)token * j.hidden + row;
                    if (token < j.n_rows && w != 0 && row < j.hidden)
                        stream_add(to, w * v.x);
                    if (token < j.n_rows && w != 0 && row + 8 < j.hidden)
                        stream_add(to + 8, w * v.y);
                }
            }, e < 0 ? STEP_WARPS : TEAM);
        }
        if (e < 0) {
            gpu_next();                 /* not before: the next kernel's blocks would be in the way of those that are still here */
            weigh();
            __syncthreads();
            e = plan.run[warp][1].expert;
            u = plan.run[warp][1].all.first;
            gw = groups_of<DOWN_GW>(j.down[0].groups, n);
        } else {
            e++;
            team_sync(TEAM);
        }
        if (u >= plan.run[warp][1].all.end)
            break;
        if (ROWS < 4)
            staging_clear<ROWS>(staged);
        down_input<DOWN_GW, ROWS> in;
        for (uint32_t reads = 0;; reads++) {
            in.load(of_expert(e), plan.weight[e], j.inter, n * DOWN_GW, gw);
            if (in.complete())
                break;
            if (__builtin_expect(reads == MOST_READS, 0))
                stop_waiting(j.stopped);
        }
        in.template frags<P>(f, staged);
        if (ROWS > 4)
#pragma unroll
            for (int gi = DOWN_GW; gi < GW; gi++)
                f[gi] = {};             /* not needed, but so nothing need be kept of them till here */
        end = min(plan.run[warp][1].all.end, (e + 1) * j.down[0].tiles);
    }
}

/* Two blocks a multiprocessor where shared memory has room for them; a GB10 has not, and there registers need no cap. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define MOE_BLOCKS 1
#else
#define MOE_BLOCKS 2
#endif

/* The i-th of so many equal runs of n tiles. */
__device__ __forceinline__ struct run share(int n, int i, uint32_t per) { return {over(n * i, per), over(n * (i + 1), per)}; }

template <int FS, int F, int GW, int DOWN_GW, int TEAM, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, ROWS <= 4 && GW < 4 ? MOE_BLOCKS : 1) moe_kernel(const __grid_constant__ struct job j)
{
    enum { TEAMS = STEP_WARPS / TEAM };
    struct moe_shared<ROWS> *sm = (struct moe_shared<ROWS> *)memory;
    struct routing *route = &sm->plan.routing;
    const int warp = threadIdx.x / 32, team = warp / TEAM;
    const bool shared = (int)blockIdx.x < j.shared_blocks;
    const int b = shared ? blockIdx.x : blockIdx.x - j.shared_blocks, bt = b * TEAMS + team;

    if (shared) {
        const struct run up = share(j.up[1].tiles, b, j.per_blocks[1]), down = share(j.down[1].tiles, bt, j.per_teams[1]);
        tiles_stream<FS, ROWS> s;
        if (ROWS < 4)
            staging_clear<ROWS>(sm->step.own[warp]);
        if (threadIdx.x == 0)
            route->expert[0] = 0;
        __syncthreads();
        start<FS, GW, DOWN_GW, TEAM>(s, sm, j.up[1], j.down[1], up, down);
        gpu_wait();
        run_both<true, FS, GW, DOWN_GW, ROWS, TEAM>(j, sm, s, [&] {
            if (threadIdx.x < STEP_ROWS) {
                const int t = threadIdx.x;
                float gate = 0;
                for (int k = 0; k < j.n_gates; k++)
                    gate += t < j.n_rows ? j.shared_gate[k * j.gate_step + t] : 0;
                sm->plan.weight[0][t] = t < j.n_rows ? sigmoid_f(gate * row_rms(j.choice.rms, t)) : 0;
            }
        });
        return;
    }
    gpu_wait();
    find_route<ROWS>(route, (struct candidates *)sm->step.own[warp], j.choice, j.n_rows);
    const int n = route->n;
    const struct run up = share(n * j.up[0].tiles, b, j.per_blocks[0]);
    struct run down = share(n * j.down[0].tiles, bt, j.per_teams[0]);
    if (ROWS == 1 && j.teams_each > 0) {        /* nobody has tiles of two experts */
        const int e = over(bt, j.per_teams_each), at = e < n ? e * j.down[0].tiles : 0;
        down = share(e < n ? j.down[0].tiles : 0, bt - e * j.teams_each, j.per_teams_each);
        down.first += at;
        down.end += at;
    }
    tiles_stream<F, ROWS> s;
    start<F, GW, DOWN_GW, TEAM>(s, sm, j.up[0], j.down[0], up, down);
    if (ROWS < 4)
        staging_clear<ROWS>(sm->step.own[warp]);
    run_both<false, F, GW, DOWN_GW, ROWS, TEAM>(j, sm, s, [&] { find_weights<ROWS>(sm->plan.weight, route, j.choice, j.n_rows); });
    if (j.route && b == 0) {
        for (int i = threadIdx.x; i < n * STEP_ROWS; i += blockDim.x) {
            j.route->weight[0][i] = sm->plan.weight[0][i];
            if (i < n)
                j.route->expert[i] = route->expert[i];
        }
        if (threadIdx.x == 0)
            j.route->n = n;
    }
}

struct matrices matrices_of(const struct weight &w, size_t stride)
{
    return {(const uint8_t *)w.data, (const uint8_t *)w.scale, stride, w.format, pack_groups(w.cols), pack_tiles(w.rows),
            inverse(pack_tiles(w.rows))};
}

/* Returns the bytes from one expert's matrix to the next. */
size_t distance(const struct weight &a, const struct weight &b) { return (size_t)((const char *)b.data - (const char *)a.data); }

/* Blocks for the shared expert: those by its bytes, or so many more or fewer that the slowest block, in whole tiles, has less to do, when
 * neighbours share half of their choices, or else when nobody shares.  Its blocks can ask for `ahead` bytes before the others. */
int shared_blocks(const struct job &j, int blocks, int teams, int ahead)
{
    const int k = j.choice.top_k, n_rows = j.n_rows, most = j.choice.n_experts;
    const auto lines = [&](int kind, const struct matrices &m) {
        return m.groups * pack_lines((enum weight_format)(kind ? j.up[1] : j.up[0]).format);
    };
    const int own_up = lines(1, j.up[1]), own_down = lines(1, j.down[1]), up = lines(0, j.up[0]), down = lines(0, j.down[0]);
    const auto whole = [](int tiles, int n) { return (tiles + n - 1) / n; };
    const auto slowest = [&](int experts, int n) {
        experts = experts < most ? experts : most;
        return whole(experts * j.up[0].tiles, n) * up + whole(experts * j.down[0].tiles, n * teams) * teams * down;
    };
    const long own_bytes = (long)own_up * j.up[1].tiles + (long)own_down * j.down[1].tiles,
               all_bytes = own_bytes + (k * n_rows < most ? k * n_rows : most) * ((long)up * j.up[0].tiles + (long)down * j.down[0].tiles);
    const int by_bytes = (int)(blocks * own_bytes / all_bytes);
    int best = 1;
    long least = LONG_MAX;
    for (int n = 1; n < blocks && n <= j.up[1].tiles; n++) {
        const int own = whole(j.up[1].tiles, n) * own_up + whole(j.down[1].tiles, n * teams) * teams * own_down - ahead / PACK_LINE,
                  half = max(own, slowest(k * (n_rows + 1) / 2, blocks - n)), none = max(own, slowest(k * n_rows, blocks - n));
        const long cost = ((long)half << 40) + ((long)none << 16) + abs(n - by_bytes);
        if (cost < least) {
            best = n;
            least = cost;
        }
    }
    return best;
}

template <int FS, int F, int GW, int DOWN_GW, int TEAM, int ROWS> void launch_rows_of(struct cuda_queue *q, struct job j)
{
    void (*const kernel)(const struct job) = moe_kernel<FS, F, GW, DOWN_GW, TEAM, ROWS>;
    const size_t bytes = sizeof(struct moe_shared<ROWS>);
    int fit = 0;
    queue_note(q, "step_experts", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    queue_note(q, "step_experts", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, STEP_THREADS, bytes));
    const int blocks = (fit > 2 ? 2 : fit) * q->n_sm;   /* all at once: they wait for each other */
    if (blocks < 2)
        queue_note(q, "step_experts", cudaErrorCooperativeLaunchTooLarge);
    if (blocks < 2 || j.check)
        return;
    j.shared_blocks = shared_blocks(j, blocks, STEP_WARPS / TEAM, STEP_WARPS * ring_of<ROWS>() * STEP_UNIT);
    const int of[2] = {blocks - j.shared_blocks, j.shared_blocks}, teams = STEP_WARPS / TEAM;
    for (int i = 0; i < 2; i++) {
        j.per_blocks[i] = inverse(of[i]);
        j.per_teams[i] = inverse(of[i] * teams);
    }
    j.teams_each = of[0] * teams / j.choice.top_k;
    j.per_teams_each = inverse(j.teams_each);
    launch(q, "step_experts", kernel, dim3(blocks), STEP_THREADS, bytes, true, j);
}
template <int FS, int F, int GW, int DOWN_GW, int TEAM> void launch_rows(struct cuda_queue *q, const struct job &j)
{
    if (j.n_rows == 1)
        launch_rows_of<FS, F, GW, DOWN_GW, TEAM, 1>(q, j);
    else if (j.n_rows == 2)             /* one draft, with the formats that are used so */
        launch_rows_of<FS, F, GW, DOWN_GW, TEAM, F == WEIGHT_INT4 ? 2 : 4>(q, j);
    else if (j.n_rows <= 4)
        launch_rows_of<FS, F, GW, DOWN_GW, TEAM, 4>(q, j);
    else
        launch_rows_of<FS, F, GW, DOWN_GW, TEAM, 8>(q, j);
}
/* The smallest code for the columns.  NARROW, WIDE: there is code of its own for experts like those of the 35B, and of the 122B; what is left
 * goes through code for the widest ones and eight rows. */
template <int FS, int F, bool NARROW, bool WIDE> void launch_widths(struct cuda_queue *q, const struct job &j)
{
    const int up = j.up[0].groups, down = j.down[0].groups;
    if constexpr (NARROW)
        if (up <= 16 && down <= 4) {
            launch_rows<FS, F, 2, 1, 4>(q, j);
            return;
        }
    if constexpr (WIDE)
        if (up <= 24 && down <= 8) {
            launch_rows<FS, F, 3, 1, 8>(q, j);
            return;
        }
    if (up <= 32 && down <= 16)
        launch_rows_of<FS, F, 4, 2, 8, 8>(q, j);
    else
        queue_note(q, "step_experts", cudaErrorInvalidValue);
}

}

/* Formats of the shared expert and of the routed ones that published checkpoints have together. */
#define PAIR_OF(shared, routed) ((shared) * 8 + (routed))

static_assert(sizeof(struct candidates) <= 8 * STEP_PITCH, "candidates lie where a warp's input will be staged");
static_assert(sizeof(struct moe_shared<1>) <= 99 * 1024 && sizeof(struct moe_shared<2>) <= 99 * 1024, "shared memory of a GB10");

extern "C" void step_experts_cuda(struct cuda_queue *q, const struct step_experts_args *a)
{
    struct job j = {};
    const struct expert_weights *x = a->experts;
    j.up[0] = matrices_of(x->gate, distance(x[0].gate, x[1].gate));
    j.up[1] = matrices_of(a->shared->gate, 0);
    j.down[0] = matrices_of(x->down, distance(x[0].down, x[1].down));
    j.down[1] = matrices_of(a->shared->down, 0);
    j.choice = a->choice;
    j.route = a->route;
    j.x = a->x;
    j.shared_gate = a->shared_gate;
    j.h = a->h;
    j.stream = a->stream;
    j.gate_step = a->gate_step;
    j.n_gates = a->n_gates;
    j.n_rows = a->n_rows;
    j.inter = a->inter;
    j.hidden = a->hidden;
    j.check = a->check;
    j.stopped = q->stopped;
    switch (PAIR_OF(j.up[1].format, j.up[0].format)) {
    case PAIR_OF(WEIGHT_FP8, WEIGHT_INT4):    launch_widths<WEIGHT_FP8, WEIGHT_INT4, true, true>(q, j); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_INT4):  launch_widths<WEIGHT_DENSE, WEIGHT_INT4, true, true>(q, j); break;
    case PAIR_OF(WEIGHT_DENSE, WEIGHT_DENSE): launch_widths<WEIGHT_DENSE, WEIGHT_DENSE, true, true>(q, j); break;
    case PAIR_OF(WEIGHT_FP8, WEIGHT_FP8):     launch_widths<WEIGHT_FP8, WEIGHT_FP8, true, true>(q, j); break;
    case PAIR_OF(WEIGHT_INT4, WEIGHT_INT4):   launch_widths<WEIGHT_INT4, WEIGHT_INT4, false, false>(q, j); break;
    default: queue_note(q, "step_experts", cudaErrorInvalidValue);
    }
}

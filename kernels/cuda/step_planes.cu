/* step_logits of a head in two planes (WEIGHT_PLANES): kernels/step.h says which logits there are, kernels/cpu/step_planes.c is the definition.
 * Five kernels, all of them in every record; what is not needed ends at once:
 *   rows      norms the rows of the stream, and measures them
 *   upper     bounds or estimates of all ids, from the upper plane
 *   best      the ids with the greatest bounds, their INT8 logits, and the least logit that wanted ids can have.  Estimates end here
 *   complete  INT8 logits of the ids whose bounds reach that; the others get their estimates, if alternatives are wanted, else -inf
 *   whole     INT8 logits of all ids, for rows that want all: reads both planes
 * Shapes    planes [tiles, groups, 2 lines] as INT4 lies, h [n, cols] fp32, cols a multiple of 128 and at most 4096
 * Bytes     the upper plane, 8 bytes a row; 12 cols a row of the step; for each id that is completed `cols` of both planes, in pieces of
 *           64 bytes of which half counts; n vocab 4 written, for bounds and for logits.  `whole`: both planes
 * Limit     bandwidth; best and complete: latency, some microseconds each
 *           Between `upper` and `complete` logits are bounds before bias and penalties, tile_max has the greatest bounds with them
 * Launch    upper, whole: as step_linear; rows, best: a block a row; complete: a block for 1024 ids and a row
 * Layout    kernels/pack.h; the loop: step_tiles.cuh; scratch: struct facts of each row
 * Numerics  bounds: activations in 16 bits of the greatest of 128 columns, sums of a group exact.  Logits: bit for bit those of the INT8 head
 *           in step_linear.cu: the same products in the same order, of normed rows with the same bits.
 * When more than CAND bounds are equal to the k-th best, or fewer than k are finite, all ids are completed. */
#include "kernels/cuda/keys.cuh"
#include "kernels/cuda/step_tiles.cuh"
#include "kernels/cuda/stream.cuh"

namespace {

enum {
    TILE         = PACK_ROWS,           /* ids of one maximum */
    BEST_THREADS = 1024,
    TEAMS        = BEST_THREADS / STEP_THREADS,
    CAND         = BEST_THREADS,        /* ids that reach the bound of the k-th best thread, at most */
    RANGE        = 64,                  /* tiles of a block of `complete` */
};
static_assert(TEAMS * TILE == STEP_WANTED, "the best ids are completed together");

/* Figures of a row. */
struct facts {
    float sum, length;                  /* of its numbers; sqrt of the sum of their squares */
    float least;                        /* ids whose bounds are less cannot be among the wanted ones */
    float least_plain;                  /* the same for alternatives, before bias and penalties; inf: no alternatives are wanted */
};
static_assert(STEP_ROWS * sizeof(struct facts) <= STEP_LOGITS_SCRATCH, "step.h");

struct job {
    const uint8_t *upper, *lower;
    const struct plane_row *about;      /* [TILE tiles] */
    float         *logits, *tile_max;   /* tile_max: NULL if nobody wants it */
    const int64_t *stream;              /* normed into h_out, which is h then; or NULL */
    const float   *norm, *h;
    float         *h_out;
    struct facts  *facts;
    const struct step_sampling *sampling;
    const uint8_t *seen;
    const float   *bias;
    const int32_t *drafts, *row;
    const struct step_row *rows;
    bool           estimate, whole;
    int            n_rows, n_ids, vocab, tiles, cols, groups;
    int            warp_groups;         /* of columns */
    float          eps;
};

/* ---- whose row it is, and what it wants.  What is read of sampling is written between requests alone: it may be read before gpu_wait() */

__device__ __forceinline__ const struct step_sampling *how_of(const struct job &j, const struct step_row &r)
{
    return j.sampling ? j.sampling + r.slot : nullptr;
}
__device__ __forceinline__ int ids_of(const struct job &j, const struct step_row &r)
{
    const int given = j.sampling ? how_of(j, r)->n_ids : j.n_ids;
    return given > 0 && given < j.vocab ? given : j.vocab;
}
/* How many of the best ids; 0: all ids get INT8 logits. */
__device__ __forceinline__ int wanted(const struct job &j, const struct step_row &r)
{
    const int n_ids = ids_of(j, r);
    return j.estimate ? min((int)STEP_COMPLETED, n_ids) : j.whole ? 0 : step_wanted(how_of(j, r), n_ids);
}
/* A bit for each row that wants all. */
__device__ __forceinline__ unsigned whole_rows(const struct job &j)
{
    unsigned bits = 0;
    for (int t = 0; t < j.n_rows; t++)
        bits |= (unsigned)!wanted(j, row_of(j.rows, t)) << t;
    return bits;
}

/* Bias and penalties, in the order of engine/sampler.h; no fused operations, so that a logit has the same bits wherever it is computed. */
__device__ __forceinline__ float penalised(const struct job &j, float l, int id, const struct step_row &r)
{
    const struct step_sampling *s = how_of(j, r);
    if (id >= ids_of(j, r))
        return -INFINITY;
    if (!s)
        return l;
    const size_t at = (size_t)r.slot * j.vocab + id;
    int seen = j.seen[at];
    for (int i = 0; i < r.index; i++)
        if (live_of(j.drafts, r.slot)[i] == id)
            seen = STEP_IN_TEXT | STEP_IN_ANSWER;
    if (s->biased)
        l = __fadd_rn(l, j.bias[at]);
    if (seen && s->repetition_penalty > 0 && s->repetition_penalty != 1)
        l = l > 0 ? l / s->repetition_penalty : __fmul_rn(l, s->repetition_penalty);
    return seen & STEP_IN_ANSWER ? __fsub_rn(l, s->presence_penalty) : l;
}

__device__ __forceinline__ float scale_of(const struct job &j, int id) { return __half2float(*(const __half *)&j.about[id].scale); }

/* ---- rows */

/* Adds up the parts of the warps, in the order in which step_linear.cu adds up squares. */
__device__ __forceinline__ float sum_of_warps(const float v[STEP_WARPS])
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

enum { MOST_GROUPS = 4 };               /* of a warp */

__global__ void __launch_bounds__(STEP_THREADS) planes_rows_kernel(const __grid_constant__ struct job j)
{
    __shared__ float by_warp[3][STEP_WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = blockIdx.x, g0 = warp * j.warp_groups;
    const int gw = min(j.warp_groups, j.groups - g0), column = g0 * PACK_GROUP + 4 * lane;
    const struct step_row r = row_of(j.rows, t);
    float4 u[MOST_GROUPS];
    float sum = 0, squares = 0;
    gpu_next();
    gpu_wait();
    const size_t from = (size_t)(j.row ? r.first + *live_of(j.row, r.slot) : t) * j.cols + column, to = (size_t)t * j.cols + column;
#pragma unroll
    for (int gi = 0; gi < MOST_GROUPS; gi++) {
        u[gi] = make_float4(0, 0, 0, 0);
        if (gi < gw)
            u[gi] = j.stream ? stream_read4(stream_load4(j.stream + from + gi * PACK_GROUP)) : *(const float4 *)(j.h + to + gi * PACK_GROUP);
        squares += square4(u[gi]);
    }
    if (j.stream) {
        squares = warp_sum(squares);
        if (lane == 0)
            by_warp[0][warp] = squares;
        __syncthreads();
        const float by = rsqrtf(sum_of_warps(by_warp[0]) / (float)j.cols + j.eps);
        squares = 0;
#pragma unroll
        for (int gi = 0; gi < MOST_GROUPS; gi++)
            if (gi < gw) {
                const float4 norm = *(const float4 *)(j.norm + column + gi * PACK_GROUP);
                u[gi].x *= by * (1 + norm.x);
                u[gi].y *= by * (1 + norm.y);
                u[gi].z *= by * (1 + norm.z);
                u[gi].w *= by * (1 + norm.w);
                *(float4 *)(j.h_out + to + gi * PACK_GROUP) = u[gi];
                squares += square4(u[gi]);
            }
    }
#pragma unroll
    for (int gi = 0; gi < MOST_GROUPS; gi++)
        sum += (u[gi].x + u[gi].y) + (u[gi].z + u[gi].w);
    sum = warp_sum(sum);
    squares = warp_sum(squares);
    if (lane == 0) {
        by_warp[1][warp] = sum;
        by_warp[2][warp] = squares;
    }
    __syncthreads();
    if (threadIdx.x == 0 && j.facts)
        j.facts[t] = {sum_of_warps(by_warp[1]), sqrtf(sum_of_warps(by_warp[2])), -INFINITY, INFINITY};
}

/* ---- products of all ids: upper, whole */

/* A warp's units of the upper plane, tile after tile. */
struct upper_tiles {
    enum { SCALED = false, SCALE_STEP = 0 };
    const uint8_t *tile;
    uint32_t       step;                /* bytes of a tile */
    int            n_units, tiles, per;
    __device__ __forceinline__ void next(struct step_piece *p)
    {
        *p = {tile, nullptr, tiles > 1 ? step : 0, 0, n_units};
        tile += per * step;
        tiles -= per;
    }
};

/* The same of both planes, a unit of one and then of the other. */
struct both_tiles {
    enum { SCALED = false, SCALE_STEP = 0 };
    const uint8_t *tile;
    size_t         lower;               /* bytes from the upper plane to the lower */
    uint32_t       step;
    int            n_units, tiles, per, unit;   /* unit: counts both planes' */
    __device__ __forceinline__ void next(struct step_piece *p)
    {
        *p = {tile + unit / 2 * STEP_UNIT + (unit % 2 ? lower : 0), nullptr, tiles > 1 ? step : 0, 0, 1};
        if (++unit == 2 * n_units) {
            unit = 0;
            tile += per * step;
            tiles -= per;
        }
    }
};

/* The same tiles as in step_linear.cu. */
template <int ROWS> __host__ __device__ constexpr int tiles_of() { return ROWS <= 4 ? 2 : 1; }
template <int T> using shared_of = struct step_shared<T == 2 ? 8 : 5>;
static_assert(sizeof(shared_of<tiles_of<1>()>) <= 99 * 1024, "shared memory of a GB10");
template <int GW, int ROWS, bool WHOLE> __host__ __device__ constexpr int blocks_of()
{
    return GW >= 4 ? 1 : WHOLE ? (ROWS * GW <= 8 ? 2 : 1) : ROWS <= 4 ? 2 : 1;
}

/* The rows' columns from group g0 on, gw groups, as fragments. */
template <int P, int GW, int ROWS, class SHARED>
__device__ __forceinline__ void load_rows(group_frags<P, (ROWS + 3) / 4> f[GW], SHARED *sm, const struct job &j, int g0, int gw)
{
    constexpr int N = ROWS < 4 ? ROWS : 4, COLS = (ROWS + 3) / 4;
    const float *h = j.h + g0 * PACK_GROUP + 4 * (threadIdx.x % 32);
#pragma unroll
    for (int set = 0; set < COLS; set++) {
        float4 u[GW][N];
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int gi = 0; gi < GW; gi++) {
                u[gi][i] = make_float4(0, 0, 0, 0);
                if (4 * set + i < j.n_rows && gi < gw)
                    u[gi][i] = *(const float4 *)(h + (size_t)(4 * set + i) * j.cols + gi * PACK_GROUP);
            }
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            frags_set(f[gi], set, u[gi], sm->own[threadIdx.x / 32]);
    }
}

/* Writes the logits of a tile's ids 16 tile + g and + 8 for a token, and the greatest reach in the tile.  Called by all lanes; those with `keep` have
 * results. */
__device__ __forceinline__ void write_tile(const struct job &j, int tile, int token, float2 v, float2 reach, bool keep)
{
    const int g = threadIdx.x % 32 / 4, id = tile * TILE + g;
    if (j.tile_max) {
        float m = isnan(reach.x) || isnan(reach.y) ? INFINITY : fmaxf(reach.x, reach.y);
        for (int k = 4; k < 32; k *= 2)
            m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
        if (keep && g == 0) {
            const int n = step_maxima(j.vocab);
            float *max = j.tile_max + (size_t)token * n;
            max[tile] = m;
            for (int i = tile + 1 == j.tiles ? j.tiles : n; i < n; i++)
                max[i] = -INFINITY;
        }
    }
    float *y = j.logits + (size_t)token * j.vocab;
    if (keep && id < j.vocab)
        y[id] = v.x;
    if (keep && id + 8 < j.vocab)
        y[id + 8] = v.y;
}

/* Figures of a row of the head that its planes come with. */
struct about {
    float scale, gain, mean, spread;
};
__device__ __forceinline__ struct about about_of(const struct job &j, int id)
{
    const uint2 v = ((const uint2 *)j.about)[id];
    const float2 a = __half22float2(*(const __half2 *)&v.x), b = __half22float2(*(const __half2 *)&v.y);
    return {a.x, a.y, b.x, b.y};
}
/* Returns how far the bound on a logit is above its estimate. */
__device__ __forceinline__ float margin(const struct about &a, const struct facts &f)
{
    return __fmul_rn(STEP_DEVIATIONS * a.scale * a.spread, f.length);
}

/* The bound on a logit, or its estimate, from the sum over the upper plane; before bias and penalties.  It says where operations are fused, so
 * that the bits are the same for any number of rows. */
__device__ __forceinline__ float bound(const struct job &j, int id, const struct facts &f, float product, const struct step_row &r)
{
    const struct about a = about_of(j, id);
    const float e = __fmul_rn(a.scale * (1 + a.gain), fmaf(a.mean, f.sum, 16 * product));
    return id >= ids_of(j, r) ? -INFINITY : j.estimate ? e : __fadd_rn(e, margin(a, f));
}

/* The share of a warp: of tiles t0 to t1 - 1 its gw groups of columns from g0 on, T tiles at a time. */
struct share {
    int t0, t1, g0, gw;
    uint32_t tile_bytes;
    size_t   begin;                     /* its first unit, in bytes of a plane */
};
template <int T> __device__ __forceinline__ struct share share_of(const struct job &j, int warp)
{
    const int pairs = (j.tiles + T - 1) / T;
    struct share w;
    w.t0 = first_of(pairs, blockIdx.x, gridDim.x) * T;
    w.t1 = min(first_of(pairs, blockIdx.x + 1, gridDim.x) * T, j.tiles);
    w.g0 = warp * j.warp_groups;
    w.gw = max(0, min(j.warp_groups, j.groups - w.g0));
    w.tile_bytes = (uint32_t)j.groups * STEP_UNIT;
    w.begin = (size_t)w.t0 * w.tile_bytes + (size_t)w.g0 * STEP_UNIT;
    return w;
}

template <int GW, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, blocks_of<GW, ROWS, false>()) planes_upper_kernel(const __grid_constant__ struct job j)
{
    constexpr int COLS = (ROWS + 3) / 4, T = tiles_of<ROWS>();
    extern __shared__ uint4 memory[];
    shared_of<T> *sm = (shared_of<T> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct share w = share_of<T>(j, warp);
    const int t0 = w.t0, t1 = w.t1, gw = w.gw;
    step_stream<upper_tiles, T, shared_of<T>::UNITS> s;
    group_frags<S8, COLS> f[GW];
    gpu_next();
    if (whole_rows(j) + 1 == 1u << j.n_rows) {
        gpu_wait();
        return;
    }
    s.src = {j.upper + w.begin, w.tile_bytes, gw, t1 - t0, T};
    s.start(sm, gw * ((t1 - t0 + T - 1) / T));
    s.ready();
    if (ROWS < 4)
        staging_clear<ROWS>(sm->own[warp]);
    gpu_wait();
    load_rows<S8, GW, ROWS>(f, sm, j, w.g0, gw);
    for (int tile = t0, n = 0; tile < t1; tile += T, n++) {
        float2 total[T][COLS] = {};
        tile_product<WEIGHT_PLANES, S8, GW, COLS, T, 1>(total, f, gw, s);
        keep_sums<COLS, T>(sm, n, tile + T >= t1, total, [&](int round, int i, int set, float2 v) {
            const int at = t0 + round * T + i, token = 4 * set + lane % 4, id = at * TILE + lane / 4;
            if (at >= t1)
                return;
            float2 b = make_float2(-INFINITY, -INFINITY), reach = b;
            if (token < j.n_rows) {
                const struct step_row r = row_of(j.rows, token);
                const struct facts of = j.facts[token];
                b = make_float2(bound(j, id, of, v.x, r), bound(j, id + 8, of, v.y, r));
                reach = make_float2(penalised(j, b.x, id, r), penalised(j, b.y, id + 8, r));
            }
            write_tile(j, at, token, b, reach, token < j.n_rows);
        });
    }
}

/* Eight bytes q + 128 of two rows -> 1152 + q in fp16 as the registers of one k-step: bytes 0 and 2 of a row are neighbours, so are 1
 * and 3. */
__device__ __forceinline__ void unpack_bytes(uint32_t a[4], uint32_t low, uint32_t high)
{
    a[0] = __byte_perm(low, 0x64646464u, 0x4240);
    a[1] = __byte_perm(high, 0x64646464u, 0x4240);
    a[2] = __byte_perm(low, 0x64646464u, 0x4341);
    a[3] = __byte_perm(high, 0x64646464u, 0x4341);
}

/* One group of T tiles from both planes: what group_product() does for INT8. */
template <int COLS, int T, class STREAM>
__device__ __forceinline__ void whole_group(float2 total[T][COLS], const group_frags<F16, COLS> &f, STREAM &s)
{
    float acc[T][COLS][4] = {};
    uint4 upper[T][2], lower[T][2];
    uint32_t none[T];
    s.take(upper, none);
    s.take(lower, none);
#pragma unroll
    for (int st = 0; st < 8; st++)
#pragma unroll
        for (int i = 0; i < T; i++) {
            const uint32_t u = ((const uint32_t *)&upper[i][st / 4])[st % 4], l = ((const uint32_t *)&lower[i][st / 4])[st % 4];
            uint32_t a[4];
            unpack_bytes(a, (u << 4 & 0xf0f0f0f0u) | (l & 0x0f0f0f0fu), (u & 0xf0f0f0f0u) | (l >> 4 & 0x0f0f0f0fu));
#pragma unroll
            for (int c = 0; c < COLS; c++)
                mma_f16(acc[i][c], a, f.b[c][st][0], f.b[c][st][1]);
        }
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const float off = int8_offset(f.sum[c]);
            total[i][c].x += acc[i][c][0] + acc[i][c][1] - off;
            total[i][c].y += acc[i][c][2] + acc[i][c][3] - off;
        }
}

/* Nothing is fetched before it is known that some row wants all. */
template <int GW, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, blocks_of<GW, ROWS, true>()) planes_whole_kernel(const __grid_constant__ struct job j)
{
    constexpr int COLS = (ROWS + 3) / 4, T = tiles_of<ROWS>();
    extern __shared__ uint4 memory[];
    shared_of<T> *sm = (shared_of<T> *)memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct share w = share_of<T>(j, warp);
    const int t0 = w.t0, t1 = w.t1, gw = w.gw;
    step_stream<both_tiles, T, shared_of<T>::UNITS> s;
    group_frags<F16, COLS> f[GW];
    gpu_next();
    gpu_wait();
    const unsigned whole = whole_rows(j);
    if (!whole)
        return;
    s.src = {j.upper + w.begin, (size_t)(j.lower - j.upper), w.tile_bytes, gw, t1 - t0, T, 0};
    s.start(sm, 2 * gw * ((t1 - t0 + T - 1) / T));
    s.ready();
    if (ROWS < 4)
        staging_clear<ROWS>(sm->own[warp]);
    load_rows<F16, GW, ROWS>(f, sm, j, w.g0, gw);
    for (int tile = t0, n = 0; tile < t1; tile += T, n++) {
        float2 total[T][COLS] = {};
#pragma unroll
        for (int gi = 0; gi < GW; gi++) {
            if (gi >= gw)
                break;
            whole_group<COLS, T>(total, f[gi], s);
        }
        keep_sums<COLS, T>(sm, n, tile + T >= t1, total, [&](int round, int i, int set, float2 v) {
            const int at = t0 + round * T + i, token = 4 * set + lane % 4, id = at * TILE + lane / 4;
            if (at >= t1)
                return;
            float2 l = make_float2(-INFINITY, -INFINITY);
            if (token < j.n_rows) {
                const struct step_row r = row_of(j.rows, token);
                l.x = penalised(j, __fmul_rn(v.x, scale_of(j, id)), id, r);
                l.y = penalised(j, __fmul_rn(v.y, scale_of(j, id + 8)), id + 8, r);
            }
            write_tile(j, at, token, l, l, token < j.n_rows && (whole >> token & 1));
        });
    }
}

/* ---- products of 16 chosen ids: best, complete */

/* K-step s of a row of 128 columns as a B fragment of one token. */
__device__ __forceinline__ uint2 row_fragment(const float *h, int s)
{
    const int lane = threadIdx.x % 32;
    const uint32_t half = lane < 4 ? 0x5410 : 0x7632;
    if (lane >= 8)
        return make_uint2(0, 0);
    const float4 v = *(const float4 *)(h + 32 * (s / 2) + 8 * (lane % 4) + 4 * (s % 2));
    return make_uint2(__byte_perm(f16_split(v.x), f16_split(v.y), half), __byte_perm(f16_split(v.z), f16_split(v.w), half));
}

/* Returns the place of a lane's nibbles of an id in the upper plane; NULL if there is no such id. */
struct nibbles {
    const uint8_t *at;
    int            shift;
};
__device__ __forceinline__ struct nibbles nibbles_of(const struct job &j, int id)
{
    const uint8_t *at = j.upper + (size_t)(id / TILE) * j.groups * STEP_UNIT + (4 * (id % 8) + threadIdx.x % 4) * 16;
    return {id < 0 ? nullptr : at, 4 * (id / 8 % 2)};
}
__device__ __forceinline__ uint4 load_nibbles(const struct nibbles &n, size_t behind)
{
    return n.at ? *(const uint4 *)(n.at + behind) : make_uint4(0, 0, 0, 0);
}
__device__ __forceinline__ uint32_t bytes_of(uint32_t upper, uint32_t lower, int shift)
{
    return (upper >> shift & 0x0f0f0f0fu) << 4 | (lower >> shift & 0x0f0f0f0fu);
}

/* A warp's columns of the products of `h` with ids `low` and `high`, those of this lane's rows g and g + 8; lanes 4 g have them. */
__device__ __forceinline__ float2 chosen_product(const struct job &j, const float *h, int low, int high, int warp)
{
    const struct nibbles of_low = nibbles_of(j, low), of_high = nibbles_of(j, high);
    const size_t lower = (size_t)(j.lower - j.upper);
    float2 total = make_float2(0, 0);
#pragma unroll 1
    for (int gi = 0; gi < j.warp_groups; gi++) {
        const int group = warp * j.warp_groups + gi;
        const uint32_t one = 0x3c003c00u, ones[4] = {one, one, one, one};
        float acc[4] = {}, sum[4] = {};
        if (group >= j.groups)
            break;
#pragma unroll 1                        /* else there are not enough registers */
        for (int line = 0; line < 2; line++) {
            const size_t at = (size_t)group * STEP_UNIT + line * PACK_LINE;
            const uint4 ul = load_nibbles(of_low, at), uh = load_nibbles(of_high, at), ll = load_nibbles(of_low, lower + at),
                lh = load_nibbles(of_high, lower + at);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t a[4];
                unpack_bytes(a, bytes_of(((const uint32_t *)&ul)[i], ((const uint32_t *)&ll)[i], of_low.shift),
                             bytes_of(((const uint32_t *)&uh)[i], ((const uint32_t *)&lh)[i], of_high.shift));
                const uint2 b = row_fragment(h + group * PACK_GROUP, 4 * line + i);
                mma_f16(acc, a, b.x, b.y);
                mma_f16(sum, ones, b.x, b.y);   /* as fragment_sum() */
            }
        }
        const float off = int8_offset(sum[0] + sum[1]);
        total.x += acc[0] + acc[1] - off;
        total.y += acc[2] + acc[3] - off;
    }
    return total;
}

/* The warps' sums of one lane, in the order of keep_sums(). */
__device__ __forceinline__ float2 add_warps(const float2 (*sums)[32])
{
    float2 v = make_float2(0, 0);
#pragma unroll
    for (int w = 0; w < STEP_WARPS; w++) {
        v.x += sums[w][threadIdx.x % 32].x;
        v.y += sums[w][threadIdx.x % 32].y;
    }
    return v;
}

__device__ __forceinline__ float chosen_logit(const struct job &j, float sum, int id, const struct step_row &r)
{
    return penalised(j, __fmul_rn(sum, scale_of(j, id)), id, r);
}

/* ---- best */

struct best {
    uint64_t key[CAND];
    float2   sums[TEAMS][STEP_WARPS][32];
    int32_t  tile[CAND], id[STEP_WANTED];
    float    bound[STEP_WANTED], logit[STEP_WANTED], plain[STEP_WANTED];    /* plain: before bias and penalties */
    uint32_t reduce[BEST_THREADS / 32];
    int      n_tiles, n_found;
};

/* The ids whose bounds, with bias and penalties, are the k greatest; false when a bound is not finite, or they cannot be found among CAND. */
__device__ bool greatest_bounds(struct best *s, const struct job &j, const struct step_row &r, const float *bounds, const float *tile_max, int k)
{
    const int i = threadIdx.x, n_ids = ids_of(j, r), n_tiles = (n_ids + TILE - 1) / TILE;
    uint32_t own = 0;
#pragma unroll 4
    for (int tile = i; tile < n_tiles; tile += BEST_THREADS)
        own = max(own, ordered(tile_max[tile]));
    const uint32_t most = block_max(own, s->reduce);
    if (most >= ORDERED_INFINITY)
        return false;
    const uint32_t least = k == 1 ? most : threads_bound(own, k, s->reduce);
    if (i == 0)
        s->n_tiles = s->n_found = 0;
    __syncthreads();
    for (int tile = i; tile < n_tiles && own >= least; tile += BEST_THREADS)
        if (ordered(tile_max[tile]) >= least) {
            const int at = atomicAdd(&s->n_tiles, 1);
            if (at < CAND)
                s->tile[at] = tile;
        }
    __syncthreads();
    if (s->n_tiles > CAND)
        return false;
    for (int at = i; at < s->n_tiles * TILE; at += BEST_THREADS) {
        const int id = s->tile[at / TILE] * TILE + at % TILE;
        const float b = id < n_ids ? penalised(j, bounds[id], id, r) : -INFINITY;
        if (b > -INFINITY && ordered(b) >= least) {
            const int to = atomicAdd(&s->n_found, 1);
            if (to < CAND)
                s->key[to] = key_of(b, id);
        }
    }
    __syncthreads();
    const int n = s->n_found;
    if (n < k || n > CAND)
        return false;
    if (i < n) {                        /* keys are distinct */
        const uint64_t mine = s->key[i];
        int greater = 0;
        for (int other = 0; other < n; other++)
            greater += s->key[other] > mine;
        if (greater < k) {
            s->id[greater] = id_of(mine);
            s->bound[greater] = logit_of(mine);
        }
    }
    __syncthreads();
    return true;
}

/* Stores the INT8 logit of best id i: after penalties in s->logit, before them in s->plain. */
__device__ __forceinline__ void put_best(struct best *s, const struct job &j, const struct step_row &r, int i, float sum)
{
    s->plain[i] = __fmul_rn(sum, scale_of(j, s->id[i]));
    s->logit[i] = penalised(j, s->plain[i], s->id[i], r);
}
__device__ void complete_best(struct best *s, const struct job &j, int t, const struct step_row &r, int k)
{
    const int team = threadIdx.x / STEP_THREADS, warp = threadIdx.x / 32 % STEP_WARPS, lane = threadIdx.x % 32;
    const int low = team * TILE + lane / 4, high = low + 8;
    if (team * TILE < k)
        s->sums[team][warp][lane] = chosen_product(j, j.h + (size_t)t * j.cols, low < k ? s->id[low] : -1, high < k ? s->id[high] : -1, warp);
    __syncthreads();
    if (warp == 0 && lane % 4 == 0) {
        const float2 v = add_warps(s->sums[team]);
        if (low < k)
            put_best(s, j, r, low, v.x);
        if (high < k)
            put_best(s, j, r, high, v.y);
    }
    __syncthreads();
}

/* The n-th greatest logit before bias and penalties of k, where what is banned is none, or -inf; by all threads. */
__device__ float nth_plain(struct best *s, int k, int n)
{
    const int i = threadIdx.x;
    float *nth = (float *)s->reduce;
    int greater = 0;
    if (i < k && s->logit[i] == -INFINITY)
        s->plain[i] = -INFINITY;
    if (i == 0)
        *nth = -INFINITY;
    __syncthreads();
    for (int other = 0; other < k && i < k; other++)
        greater += s->plain[other] > s->plain[i] || (s->plain[other] == s->plain[i] && other < i);
    if (i < k && greater == n - 1)
        *nth = s->plain[i];
    __syncthreads();
    return *nth;
}

/* The greatest of a tile of a row, as tile_max has it. */
__device__ __forceinline__ float greatest_of_tile(const float *logits, int tile, int n_ids)
{
    float max = -INFINITY;
    bool nan = false;
    for (int id = tile * TILE; id < min(tile * TILE + TILE, n_ids); id++) {
        nan |= isnan(logits[id]);
        max = fmaxf(max, logits[id]);
    }
    return nan ? INFINITY : max;
}

__global__ void __launch_bounds__(BEST_THREADS) planes_best_kernel(const __grid_constant__ struct job j)
{
    __shared__ struct best s;
    const int t = blockIdx.x, i = threadIdx.x;
    const struct step_row r = row_of(j.rows, t);
    const int k = wanted(j, r), n_ids = ids_of(j, r), alternatives = j.estimate ? 0 : step_alternatives(how_of(j, r));
    float *logits = j.logits + (size_t)t * j.vocab, *tile_max = j.tile_max + (size_t)t * step_maxima(j.vocab);
    gpu_next();
    gpu_wait();
    if (!k || !greatest_bounds(&s, j, r, logits, tile_max, k))          /* facts->least is -inf */
        return;
    complete_best(&s, j, t, r, k);
    const float plain = alternatives ? nth_plain(&s, k, alternatives) : INFINITY;
    if (j.estimate) {
        if (i < k)
            logits[s.id[i]] = s.logit[i];
        __syncthreads();
        if (i < k)
            tile_max[s.id[i] / TILE] = greatest_of_tile(logits, s.id[i] / TILE, n_ids);
    } else if (i == 0) {                /* the k ids get their logits in any case */
        float least = INFINITY;
        for (int n = 0; n < k; n++)
            least = fminf(least, fminf(s.logit[n], s.bound[n]));
        j.facts[t].least = least < INFINITY ? least : -INFINITY;
        j.facts[t].least_plain = plain;
    }
}

/* ---- complete */

struct range {
    int32_t  id[RANGE * TILE];          /* that reach the least */
    float2   sums[STEP_WARPS][32];
    uint32_t max[RANGE];                /* ordered() */
    int      n;
};

/* True if an id's INT8 logit is needed; `b` is the bound before bias and penalties. */
__device__ __forceinline__ bool reaches(const struct job &j, const struct facts &f, float b, float greatest_of_tile, int id, const struct step_row &r)
{
    return !(b < f.least_plain) || (!(greatest_of_tile < f.least) && !(penalised(j, b, id, r) < f.least));
}

__global__ void __launch_bounds__(STEP_THREADS) planes_complete_kernel(const __grid_constant__ struct job j)
{
    __shared__ struct range s;
    const int t = blockIdx.y, i = threadIdx.x, warp = i / 32, lane = i % 32, first = blockIdx.x * RANGE;
    const struct step_row r = row_of(j.rows, t);
    const bool alternatives = step_alternatives(how_of(j, r));
    float *logits = j.logits + (size_t)t * j.vocab, *tile_max = j.tile_max + (size_t)t * step_maxima(j.vocab);
    gpu_next();
    gpu_wait();
    if (!wanted(j, r))
        return;
    const struct facts f = j.facts[t];
    const int n_ids = ids_of(j, r), last = min(j.vocab, (first + RANGE) * TILE);
    if (i == 0)
        s.n = 0;
    if (i < RANGE)
        s.max[i] = ORDERED_BAN;
    __syncthreads();
    for (int id = first * TILE + i; id < last; id += STEP_THREADS) {
        const float greatest = tile_max[id / TILE], b = alternatives || !(greatest < f.least) ? logits[id] : -INFINITY;
        if (id < n_ids && reaches(j, f, b, greatest, id, r)) {
            s.id[atomicAdd(&s.n, 1)] = id;
            continue;
        }
        const float e = alternatives && id < n_ids ? penalised(j, __fsub_rn(b, margin(about_of(j, id), f)), id, r) : -INFINITY;
        logits[id] = e;
        if (alternatives)
            atomicMax(&s.max[id / TILE - first], ordered(e));
    }
    __syncthreads();
    for (int from = 0; from < s.n; from += TILE) {
        const int low = from + lane / 4, high = low + 8;
        s.sums[warp][lane] = chosen_product(j, j.h + (size_t)t * j.cols, low < s.n ? s.id[low] : -1, high < s.n ? s.id[high] : -1, warp);
        __syncthreads();
        if (warp == 0 && lane % 4 == 0) {
            const float2 v = add_warps(s.sums);
            for (int h = 0; h < 2; h++) {
                const int at = low + 8 * h;
                if (at >= s.n)
                    break;
                const float l = chosen_logit(j, h ? v.y : v.x, s.id[at], r);
                logits[s.id[at]] = l;
                atomicMax(&s.max[s.id[at] / TILE - first], isnan(l) ? (uint32_t)ORDERED_INFINITY : ordered(l));
            }
        }
        __syncthreads();
    }
    if (i < RANGE && first + i < j.tiles)
        tile_max[first + i] = logit_of((uint64_t)s.max[i] << 32);
}

/* ---- launches */

template <int GW, int ROWS, bool WHOLE> void launch_tiles(struct cuda_queue *q, const char *op, struct job &j)
{
    constexpr int T = tiles_of<ROWS>();
    const size_t shared = sizeof(shared_of<T>);
    const int per_sm = blocks_of<GW, ROWS, WHOLE>() >= 2 && 2 * shared <= (size_t)q->smem ? 2 : 1, pairs = (j.tiles + T - 1) / T;
    const unsigned blocks = (unsigned)(per_sm * q->n_sm < pairs ? per_sm * q->n_sm : pairs);
    if constexpr (WHOLE)
        launch(q, op, planes_whole_kernel<GW, ROWS>, dim3(blocks), STEP_THREADS, shared, true, j);
    else
        launch(q, op, planes_upper_kernel<GW, ROWS>, dim3(blocks), STEP_THREADS, shared, true, j);
}

/* Code of its own for the widths of config/models.def, as in step_linear.cu; `whole`, which few ask for, has less of it. */
template <int GW, bool WHOLE> void launch_rows(struct cuda_queue *q, const char *op, struct job &j)
{
    if (GW == MOST_GROUPS || j.n_rows > 4)
        launch_tiles<GW, 8, WHOLE>(q, op, j);
    else if constexpr (GW != MOST_GROUPS) {
        if (j.n_rows == 1)
            launch_tiles<GW, 1, WHOLE>(q, op, j);
        else if (j.n_rows == 2 && !WHOLE)
            launch_tiles<GW, 2, false>(q, op, j);
        else
            launch_tiles<GW, 4, WHOLE>(q, op, j);
    }
}
template <bool WHOLE> void launch_width(struct cuda_queue *q, const char *op, struct job &j)
{
    if (j.warp_groups <= 2)
        launch_rows<2, WHOLE>(q, op, j);
    else if (j.warp_groups == 3)
        launch_rows<3, WHOLE>(q, op, j);
    else
        launch_rows<MOST_GROUPS, WHOLE>(q, op, j);
}

/* A job about this matrix; false, with a fault, when there is no code for its width. */
bool job_of(struct cuda_queue *q, const char *op, struct job *j, const struct weight *w)
{
    *j = {};
    j->upper = (const uint8_t *)w->data;
    j->lower = (const uint8_t *)w->low_plane;
    j->about = (const struct plane_row *)w->scale;
    j->vocab = w->rows;
    j->tiles = pack_tiles(w->rows);
    j->cols = w->cols;
    j->groups = pack_groups(w->cols);
    j->warp_groups = (j->groups + STEP_WARPS - 1) / STEP_WARPS;
    const bool fits = w->cols % PACK_GROUP == 0 && j->warp_groups <= MOST_GROUPS;
    queue_note(q, op, fits ? cudaSuccess : cudaErrorInvalidValue);
    return fits;
}

}

void step_planes(struct cuda_queue *q, const struct step_logits_args *a)
{
    static const char op[] = "step_logits of two planes";
    struct job j;
    if (!job_of(q, op, &j, &a->w))
        return;
    if (!a->scratch || !a->tile_max || (a->stream && !a->hidden_out)) {
        queue_note(q, op, cudaErrorInvalidValue);
        return;
    }
    j.logits = a->logits;
    j.tile_max = a->tile_max;
    j.stream = a->stream;
    j.norm = a->norm;
    j.h = a->stream ? a->hidden_out : a->hidden;
    j.h_out = a->hidden_out;
    j.facts = (struct facts *)a->scratch;
    j.sampling = a->sampling;
    j.seen = a->seen;
    j.bias = a->bias;
    j.drafts = a->drafts;
    j.row = a->row;
    j.rows = a->rows;
    j.estimate = a->estimate;
    j.whole = a->whole;
    j.n_rows = a->n_rows;
    j.n_ids = a->n_ids;
    j.eps = a->eps;
    launch(q, op, planes_rows_kernel, dim3((unsigned)j.n_rows), STEP_THREADS, 0, true, j);
    if (a->estimate || a->sampling) {
        launch_width<false>(q, op, j);
        launch(q, op, planes_best_kernel, dim3((unsigned)j.n_rows), BEST_THREADS, 0, true, j);
    }
    if (a->estimate)
        return;
    if (a->sampling)
        launch(q, op, planes_complete_kernel, dim3((unsigned)((j.tiles + RANGE - 1) / RANGE), (unsigned)j.n_rows), STEP_THREADS, 0, true, j);
    launch_width<true>(q, op, j);
}

void planes_linear(struct cuda_queue *q, const struct linear_args *a)
{
    struct job j;
    if (!job_of(q, "linear_int8", &j, &a->w))
        return;
    queue_note(q, "linear_int8", a->add || a->gate ? cudaErrorInvalidValue : cudaSuccess);
    for (int t = 0; t < a->n_tokens; t += STEP_ROWS) {
        j.h = a->x + (size_t)t * a->w.cols;
        j.logits = a->y + (size_t)t * a->w.rows;
        j.n_rows = a->n_tokens - t < STEP_ROWS ? a->n_tokens - t : STEP_ROWS;
        launch_width<true>(q, "linear_int8", j);
    }
}

/* step_pick: the next tokens from the logits of a step's rows; step_draft: the arg-max of a draft.
 * Shapes    logits [n_rows, vocab] fp32, tile_max [n_rows, step_maxima(vocab)] fp32, hidden [n_rows, width] fp32
 * Bytes     n_rows * vocab / 4 and a few tiles; n_rows * vocab * 4 twice with neither top-k nor greedy
 * Limit     latency: one launch, everything comes from the L2 cache
 * Launch    n_rows x 16 blocks of 1024 threads.  Block (row, 0) picks for its row, as if the row were reached; the last row
 *           that is done walks the rows while picks and drafts agree.  The 15 others are for the mass of all ids: without
 *           top-k each sums up a slice, and the last one done picks; so they do for outlooks.  step_draft: one block
 *           Rows of several conversations: each one's are walked by the last of them that is done
 * Layout    scratch: struct work, must be zeroed before the first call; the last block to arrive resets the counter
 * Numerics  weights in fp32, at most 1, that of the best id.  Their sums (`mass`) are in fixed point; when the kept ids are more than fit
 *           into shared memory, sums over threads' strides are in fp32.  Every order is fixed, so equal logits give equal picks
 *
 * A tile with a NaN or infinite logit has the maximum infinity, so that nobody has to look at all logits for that.
 * Fast: the rank-th greatest of the warps' or threads' own maxima (over tile_max) is a lower bound of the rank-th greatest
 * logit, and what reaches it is little more than rank ids: they are gathered and sorted.  That settles top-k up to TOP.
 * Without top-k it settles whatever ends within those ids: the mass of all is known from the slices.  Slow: search for the cut
 * bit by bit, each pass over the whole row. */
#include <float.h>

#include "kernels/cuda/keys.cuh"

enum {
    THREADS = 1024,             /* 32 warps: reductions rely on it */
    WARPS   = THREADS / 32,
    SLICES  = 16,
    RANK    = 256,              /* without top-k */
    TOP     = 512,              /* top-k for the fast way; the bound gets loose towards THREADS */
    CAND    = 2048,             /* ids that reach the bound, at most */
    TILES   = 1024,             /* tiles that they lie in, at most */
    TILE    = 16,
    BATCH   = 4,                /* a thread's loads in flight: 262144 ids a round */
    FEW     = 256,              /* keys that are sorted by counting */
};
#define GOLDEN 0x9e3779b97f4a7c15ull    /* the step of SplitMix64 */

/* Sums of weights, in units of 2^-38: up to 2^20 weights of at most 1 stay below 2^59.  No fp64, which a GB10 hardly has, nor conversions
 * of 64-bit integers, which are as slow there. */
typedef uint64_t mass;

struct slice {
    float max;                  /* greatest logit */
    float mass;                 /* sum of exp((l - max) / temperature) */
};
struct row {
    int32_t id;
    float   prob;
    int32_t ended;              /* enum step_end: failed, or goes on */
    int32_t bad_id;
    float   bad_logit;
};
/* What an outlook needs of a slice. */
struct look {
    float    mass;              /* sum of exp(l - best l), of logits before bias and penalties */
    uint64_t key[STEP_ALTERNATIVES];    /* the best ones; 0: no more */
};
struct work {
    unsigned     rows_done[STEP_ROWS];  /* of the slot whose rows begin at this one */
    unsigned     slices_done[STEP_ROWS];
    struct row   row[STEP_ROWS];
    struct slice slice[STEP_ROWS][SLICES];
    struct look  look[STEP_ROWS][SLICES];
    struct step_outlook outlook[STEP_ROWS];
};
static_assert(sizeof(struct work) <= 65536, "step_pick_scratch()");

/* A row under one rule. */
struct target {
    const float *logits;
    int    n_ids, top_k;        /* 0: all */
    float  max, colder, top_p, min_p;   /* colder: 1 / temperature */
    mass   all;                 /* of all ids; only when top_k is 0 */
    uint64_t u;                 /* the random number, in units of 2^-64 */
    uint64_t below;             /* the slow way picks among lesser keys: the ids from here on, */
    mass   settled;             /* which weigh so much, were looked at and are not it */
};

/* Shared memory of a block that picks. */
struct shared {
    uint64_t key[CAND];
    mass     cum[CAND];
    int32_t  tile[TILES];
    mass     amount[3], mass_of_warp[WARPS];
    float    by_warp[3][WARPS];
    uint32_t warp_max[WARPS], reduce[WARPS], bound;
    int      n_tiles, n_cand, slow, best_tile;
    struct row row;
    struct target target;
};

/* ---- tiles ---- */

/* Four neighbouring tiles at a time, BATCH of these in flight together.  Where there are none a thread loads its first ones again:
 * predicates are few.  Behind the tiles, up to a multiple of 4, there are -inf. */
__device__ __forceinline__ void load_tiles(float4 v[BATCH], const float *tile_max, int from, int n)
{
#pragma unroll
    for (int j = 0; j < BATCH; j++)
        v[j] = ((const float4 *)tile_max)[from + j * THREADS < n ? from + j * THREADS : from];
}

/* The greatest of a thread's tiles, ordered(); 0: it has none. */
__device__ __forceinline__ uint32_t scan_tiles(const float *tile_max, int n_tiles)
{
    const int n = (n_tiles + 3) / 4;
    float max = -INFINITY;
#pragma unroll 1
    for (int from = threadIdx.x; from < n; from += BATCH * THREADS) {
        float4 v[BATCH];
        load_tiles(v, tile_max, from, n);
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            max = fmaxf(max, fmaxf(fmaxf(v[j].x, v[j].y), fmaxf(v[j].z, v[j].w)));
    }
    return (int)threadIdx.x < n ? ordered(max) : 0;
}

/* f(tile) for a thread's tiles whose maximum is at least `bound`. */
template <class F> __device__ __forceinline__ void each_tile(const float *tile_max, int n_tiles, uint32_t bound, F f)
{
    const int n = (n_tiles + 3) / 4;
#pragma unroll 1
    for (int from = threadIdx.x; from < n; from += BATCH * THREADS) {
        float4 v[BATCH];
        load_tiles(v, tile_max, from, n);
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const float of[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (from + j * THREADS < n && ordered(of[k]) >= bound)
                    f(4 * (from + j * THREADS) + k);
        }
    }
}

/* The greatest of all; warp_max [WARPS] stays with the warps' own. */
__device__ __forceinline__ uint32_t greatest(uint32_t own, uint32_t *warp_max)
{
    own = __reduce_max_sync(~0u, own);
    if (threadIdx.x % 32 == 0)
        warp_max[threadIdx.x / 32] = own;
    __syncthreads();
    return __reduce_max_sync(~0u, warp_max[threadIdx.x % 32]);
}

/* The lowest tile with that maximum into *tile, which was INT32_MAX. */
__device__ __forceinline__ void find_tile(const float *tile_max, int n_tiles, uint32_t own, uint32_t max, int *tile)
{
    if (own == max)
        each_tile(tile_max, n_tiles, max, [&](int i) { atomicMin(tile, i); });
    __syncthreads();
}

/* One warp: the lowest id of a tile with its greatest logit, or with `bad` the lowest whose logit is no number. */
__device__ __forceinline__ int id_in_tile(const float *logits, int n_ids, int tile, bool bad)
{
    int lane = threadIdx.x % 32, id = tile * TILE + lane;
    float l = lane < TILE && id < n_ids ? logits[id] : -INFINITY;
    uint32_t key = ordered(fmaxf(l, -INFINITY));        /* NaN is -inf */
    uint32_t max = __reduce_max_sync(~0u, key);
    unsigned hit = __ballot_sync(~0u, bad ? !(l <= FLT_MAX) : key == max);
    return tile * TILE + (hit ? __ffs((int)hit) - 1 : 0);
}

__device__ __forceinline__ float inverse(float temperature) { return fminf(1 / temperature, FLT_MAX); }     /* 0 * it is 0 */

__device__ __forceinline__ float weight_of(const struct target &t, float logit)
{
    return expf((logit - t.max) * t.colder);
}

/* ---- masses ---- */

/* 0 <= x <= 2^20 */
__device__ __forceinline__ mass mass_of(float x)
{
    const float high = rintf(x * 1024), low = (x * 1024 - high) * 0x1p28f;
    return (mass)((int64_t)__float2int_rn(high) * (1 << 28) + __float2int_rn(low));
}
__device__ __forceinline__ float mass_value(mass m)
{
    return (float)(int32_t)(m >> 28) * 0x1p-10f + (float)(int32_t)(m & 0xfffffff) * 0x1p-38f;
}
/* p of it, rounded up; 0 <= p < 1. */
__device__ __forceinline__ mass share_of(float p, mass m)
{
    const uint32_t bits = __float_as_uint(p), digits = (bits & 0x7fffff) | 0x800000;
    const int shift = (int)(bits >> 23) - 86;           /* p = digits * 2^shift / 2^64 */
    const uint64_t part = shift >= 0 ? (uint64_t)digits << shift : shift > -24 ? digits >> -shift : 0;
    return __umul64hi(part, m) + (part * m != 0);
}

/* ---- slices ---- */

/* One slice of a row: greatest logit and mass. */
__device__ void scan_slice(struct slice *out, const float *logits, int n_ids, int from, int to, float colder, struct shared *s)
{
    uint32_t best = ORDERED_BAN;
    float mass = 0;
    to = min(to, n_ids);
    for (int id = from + (int)threadIdx.x; id < to; id += THREADS)
        best = max(best, ordered(logits[id]));
    const float max = logit_of((uint64_t)block_max(best, s->reduce) << 32);
    for (int id = from + (int)threadIdx.x; id < to && max > -INFINITY; id += THREADS)
        mass += expf((logits[id] - max) * colder);
    mass = warp_sum(mass);
    if (threadIdx.x % 32 == 0)
        s->by_warp[0][threadIdx.x / 32] = mass;
    __syncthreads();
    mass = warp_sum(s->by_warp[0][threadIdx.x % 32]);
    if (threadIdx.x == 0)
        *out = {max, mass};
}

/* ---- fast: the best ids, sorted ---- */

__device__ void sort_many(uint64_t *key, int n)         /* n a power of two; bitonic; one pair a thread */
{
    int i = threadIdx.x;
    for (int size = 2; size <= n; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            if (i < n / 2) {
                int a = 2 * i - i % step, b = a + step;
                uint64_t x = key[a], y = key[b];
                if ((x < y) == !(a & size)) {
                    key[a] = y;
                    key[b] = x;
                }
            }
            __syncthreads();
        }
}

/* n <= FEW distinct keys: each one's place is the number of greater ones, counted by `parts` threads. */
__device__ void sort_few(uint64_t *key, int n)
{
    int parts = 32, greater = 0;
    while (n > THREADS / parts)
        parts /= 2;
    int i = threadIdx.x / parts, part = threadIdx.x % parts;
    uint64_t mine = i < n ? key[i] : 0;
#pragma unroll 4
    for (int j = part; j < n; j += parts)
        greater += key[j] > mine;
    for (int m = parts / 2; m; m /= 2)
        greater += __shfl_xor_sync(~0u, greater, m);
    __syncthreads();
    if (i < n && part == 0)
        key[greater] = mine;
    __syncthreads();
}

/* The rank-th greatest of the warps' maxima; 0 when too few warps have tiles. */
__device__ uint32_t warps_bound(int rank, struct shared *s)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t mine = s->warp_max[warp], other = s->warp_max[lane];
    unsigned before = __ballot_sync(~0u, other > mine || (other == mine && lane < warp));
    if (lane == 0 && __popc(before) == rank - 1)
        s->bound = mine;
    __syncthreads();
    return s->bound;
}

/* Gathers the ids that reach the bound into s->key, from the best down.  Returns how many, or -1 when there is no room. */
__device__ int gather_best(const float *logits, const float *tile_max, int n_ids, uint32_t own, uint32_t bound, struct shared *s)
{
    __syncthreads();
    if (threadIdx.x == 0)
        s->n_tiles = s->n_cand = 0;
    __syncthreads();
    if (own >= bound)
        each_tile(tile_max, (n_ids + TILE - 1) / TILE, bound, [&](int i) {
            int at = atomicAdd(&s->n_tiles, 1);
            if (at < TILES)
                s->tile[at] = i;
        });
    __syncthreads();
    if (s->n_tiles > TILES)
        return -1;
    for (int i = threadIdx.x; i < s->n_tiles * TILE; i += THREADS) {
        int id = s->tile[i / TILE] * TILE + i % TILE;
        float l = id < n_ids ? logits[id] : -INFINITY;
        if (l > -INFINITY && ordered(l) >= bound) {
            int at = atomicAdd(&s->n_cand, 1);
            if (at < CAND)
                s->key[at] = key_of(l, id);
        }
    }
    __syncthreads();
    int n = s->n_cand, size = 2 * FEW;
    if (n > CAND)
        return -1;
    if (n <= FEW) {
        sort_few(s->key, n);
        return n;
    }
    while (size < n)
        size *= 2;
    for (int i = n + threadIdx.x; i < size; i += THREADS)
        s->key[i] = 0;
    __syncthreads();
    sort_many(s->key, size);
    return n;
}

/* One warp: s->cum[i] = weight of the i + 1 best ids. */
__device__ void accumulate(const struct target &t, int n, struct shared *s)
{
    int lane = threadIdx.x % 32;
    mass before = 0;
    for (int from = 0; from < n; from += 32) {
        int i = from + lane;
        mass sum = i < n ? mass_of(weight_of(t, logit_of(s->key[i]))) : 0;
        for (int m = 1; m < 32; m *= 2) {
            mass left = __shfl_up_sync(~0u, sum, m);
            if (lane >= m)
                sum += left;
        }
        sum += before;
        if (i < n)
            s->cum[i] = sum;
        before = __shfl_sync(~0u, sum, 31);
    }
    __syncwarp();
}

/* One warp: the first i < n that the test accepts, or n.  Accepted ones have no others behind them. */
template <class F> __device__ int first_of(int n, F test)
{
    for (int from = 0; from < n; from += 32) {
        int i = from + (int)threadIdx.x % 32;
        unsigned hit = __ballot_sync(~0u, i < n && test(i));
        if (hit)
            return from + __ffs((int)hit) - 1;
    }
    return n;
}

/* One warp: picks among the n best ids; false when the answer may lie behind them. */
__device__ bool pick_best(struct target &t, int n, bool all, struct shared *s)
{
    bool by_mass = t.top_p > 0 && t.top_p < 1, by_weight = t.min_p > 0;
    if (t.top_k && n >= t.top_k) {
        n = t.top_k;
        all = true;
    }
    if (t.top_k && !all)                /* maxima that are not the logits' */
        return false;
    accumulate(t, n, s);
    int end = all ? n : INT32_MAX;      /* where the kept ids end, as far as can be seen */
    if (by_mass) {
        mass enough = share_of(t.top_p, all ? s->cum[n - 1] : t.all);
        int i = first_of(n, [&](int k) { return s->cum[k] >= enough; });
        end = min(end, i < n ? i + 1 : INT32_MAX);
    }
    if (by_weight) {
        int i = first_of(n, [&](int k) { return weight_of(t, logit_of(s->key[k])) < t.min_p; });
        end = min(end, i < n ? i : INT32_MAX);
    }
    bool seen = end != INT32_MAX;
    if (!seen && (by_mass || by_weight))
        return false;
    end = seen ? end : n;
    mass total = seen ? s->cum[end - 1] : t.all, aim = __umul64hi(t.u, total);
    int i = first_of(end, [&](int k) { return s->cum[k] > aim; });
    if (i == end) {
        i = first_of(end, [&](int k) { return s->cum[k] == s->cum[end - 1]; });     /* the last that weighs anything */
        if (!seen) {                    /* else it is rounding */
            t.below = s->key[i];
            t.settled = s->cum[i];
            return false;
        }
    }
    s->row.id = id_of(s->key[i]);
    s->row.prob = weight_of(t, logit_of(s->key[i])) / mass_value(total);
    return true;
}

/* ---- slow: the whole row ---- */

/* What the ids from three keys on amount to: their number, or their weight.  Only ids from `floor` on count. */
__device__ void measure(const struct target &t, uint64_t floor, const uint64_t from[3], bool weigh, struct shared *s)
{
    float sum[3] = {0, 0, 0};
    for (int id = threadIdx.x; id < t.n_ids; id += THREADS) {
        float l = t.logits[id];
        uint64_t k = key_of(l, id);
        if (k < floor || k < from[0] || l == -INFINITY)
            continue;
        float x = weigh ? weight_of(t, l) : 1.0f;
        sum[0] += x;
        sum[1] += k >= from[1] ? x : 0;
        sum[2] += k >= from[2] ? x : 0;
    }
#pragma unroll
    for (int j = 0; j < 3; j++) {
        sum[j] = warp_sum(sum[j]);
        if (threadIdx.x % 32 == 0)
            s->by_warp[j][threadIdx.x / 32] = sum[j];
    }
    __syncthreads();
    if (threadIdx.x < 3) {
        mass all = 0;
#pragma unroll 1
        for (int w = 0; w < WARPS; w++)
            all += mass_of(s->by_warp[threadIdx.x][w]);
        s->amount[threadIdx.x] = all;
    }
    __syncthreads();
}

/* The greatest key such that the ids from it on, down to `floor`, amount to `enough`; `floor` when all of them do not. */
__device__ uint64_t search_cut(const struct target &t, uint64_t floor, bool weigh, mass enough, struct shared *s)
{
    int high = 2;                       /* bits of an id, even */
    uint64_t cut = 0;
    while (t.n_ids > 1 << high)
        high += 2;
    for (int bit = 62; bit >= 0; bit -= 2) {
        if (bit < 32 && bit >= high) {  /* of ~id: ones */
            cut |= 3ull << bit;
            continue;
        }
        const uint64_t from[3] = {cut | 1ull << bit, cut | 2ull << bit, cut | 3ull << bit};
        measure(t, floor, from, weigh, s);
        for (int j = 2; j >= 0; j--)
            if (s->amount[j] >= enough) {
                cut = from[j];
                break;
            }
    }
    return cut > floor ? cut : floor;
}

/* Picks among the ids from `floor` on.  The settled ones come first, the random number has ruled them out already; then the
 * others in order of ids: warps own ranges of them. */
__device__ void pick_from(const struct target &t, uint64_t floor, struct shared *s)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int range = (t.n_ids + 32 * WARPS - 1) / (32 * WARPS) * 32;
    int start = warp * range, stop = min(start + range, t.n_ids);
    auto weight = [&](int id) {
        float l = id < stop ? t.logits[id] : -INFINITY;
        float w = l > -INFINITY && key_of(l, id) >= floor && key_of(l, id) < t.below ? weight_of(t, l) : 0;
        return w >= t.min_p ? w : 0;
    };
    mass sum = 0;
    for (int from = start; from < stop; from += 32)
        sum += mass_of(warp_sum(weight(from + lane)));
    if (lane == 0)
        s->mass_of_warp[warp] = sum;
    __syncthreads();
    mass rest = 0;
    int mine = 0;
#pragma unroll 4                        /* all 32 would be all registers */
    for (int w = 0; w < WARPS; w++)
        rest += s->mass_of_warp[w];
    const mass total = t.settled + rest;
    mass aim = __umul64hi(t.u, total);
    aim = aim > t.settled ? aim - t.settled : 0;
    if (rest == 0) {                    /* nothing that weighs */
        if (threadIdx.x == 0) {
            s->row.id = id_of(t.below);
            s->row.prob = weight_of(t, logit_of(t.below)) / mass_value(total);
        }
        return;
    }
#pragma unroll 1
    for (int w = 0; w < WARPS; w++) {   /* the warp in whose range it falls; the last one with a weight gets what rounding leaves */
        if (s->mass_of_warp[w] > 0)
            mine = w;
        if (aim < s->mass_of_warp[w])
            break;
        aim -= w + 1 < WARPS ? s->mass_of_warp[w] : 0;
    }
    if (warp != mine)
        return;
    int last = start;
    for (int from = start; from < stop; from += 32) {
        float w = weight(from + lane);
        mass upto = mass_of(w);
        for (int m = 1; m < 32; m *= 2) {
            mass left = __shfl_up_sync(~0u, upto, m);
            if (lane >= m)
                upto += left;
        }
        unsigned some = __ballot_sync(~0u, w > 0), hit = __ballot_sync(~0u, w > 0 && upto > aim);
        if (some)
            last = from + 31 - __clz((int)some);
        if (hit) {
            last = from + __ffs((int)hit) - 1;
            break;
        }
        aim -= __shfl_sync(~0u, upto, 31);
    }
    if (lane == 0) {
        s->row.id = last;
        s->row.prob = weight_of(t, t.logits[last]) / mass_value(total);
    }
}

__device__ void pick_slowly(const struct target &t, struct shared *s)
{
    uint64_t floor = 0;
    if (t.top_k)
        floor = search_cut(t, floor, false, mass_of((float)t.top_k), s);
    if (t.top_p > 0 && t.top_p < 1) {
        const uint64_t from[3] = {floor, floor, floor};
        measure(t, floor, from, true, s);
        floor = search_cut(t, floor, true, share_of(t.top_p, s->amount[0]), s);
    }
    pick_from(t, floor, s);
}

/* ---- a row ---- */

/* The i-th number of the stream, as engine/sampler.c draws it: 53 bits. */
__device__ uint64_t uniform(uint64_t state, int i)
{
    uint64_t z = state + (uint64_t)(i + 1) * GOLDEN;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return z & ~0x7ffull;
}

__device__ void sample_row(const struct step_pick_args &a, const struct step_sampling *how, const struct slice *slice, int row, int n_ids,
                           uint32_t own, uint32_t best, struct shared *s)
{
    struct target &t = s->target;
    const float *logits = a.logits + (size_t)row * a.vocab, *tile_max = a.tile_max + (size_t)row * step_maxima(a.vocab);
    const int top_k = how->top_k > 0 && how->top_k < n_ids ? how->top_k : 0, rank = top_k ? top_k : RANK;
    if (threadIdx.x == THREADS - 1) {
        t.logits = logits;
        t.n_ids = n_ids;
        t.top_k = top_k;
        t.max = logit_of((uint64_t)best << 32);
        t.colder = inverse(how->temperature);
        t.top_p = how->top_p;
        t.min_p = how->min_p;
        t.u = uniform(how->rng, row);
        t.all = t.settled = 0;
        t.below = ~0ull;
        for (int i = 0; i < SLICES && !top_k; i++) {
            float mass = __ldcg(&slice[i].mass);
            if (mass > 0)
                t.all += mass_of(mass * weight_of(t, __ldcg(&slice[i].max)));
        }
        s->slow = 1;
    }
    int n = -1;
    for (int by_threads = rank > WARPS; n < 0 && by_threads < 2 && rank <= TOP; by_threads++) {
        uint32_t bound = by_threads ? threads_bound(own, rank, s->reduce) : warps_bound(rank, s);
        if (bound || by_threads)
            n = gather_best(logits, tile_max, n_ids, own, bound, s);
        if (n > 0 && threadIdx.x < 32) {
            bool found = pick_best(t, n, bound <= ORDERED_BAN, s);
            if (threadIdx.x == 0)
                s->slow = !found;
        }
    }
    __syncthreads();
    if (s->slow)
        pick_slowly(t, s);
    __syncthreads();
}

/* Leaves s->row. */
__device__ void pick_row(const struct step_pick_args &a, const struct step_sampling *how, const struct slice *slice, int row, int n_ids,
                         uint32_t own, struct shared *s)
{
    const float *tile_max = a.tile_max + (size_t)row * step_maxima(a.vocab);
    if (threadIdx.x == 0)
        s->best_tile = INT32_MAX;
    const uint32_t best = greatest(own, s->warp_max);
    const bool bad = best >= ORDERED_INFINITY;
    if (how->temperature > 0 && !bad && best > ORDERED_BAN) {
        if (threadIdx.x == 0)
            s->row = {};
        sample_row(a, how, slice, row, n_ids, own, best, s);
        return;
    }
    find_tile(tile_max, step_maxima(a.vocab), own, best, &s->best_tile);
    if (threadIdx.x < 32) {
        const float *logits = a.logits + (size_t)row * a.vocab;
        int id = id_in_tile(logits, n_ids, s->best_tile, bad);
        if (threadIdx.x == 0) {
            s->row = {};
            if (bad) {
                s->row.ended = STEP_BAD_LOGIT;
                s->row.bad_id = id;
                s->row.bad_logit = logits[id];
            } else if (best <= ORDERED_BAN) {
                s->row.ended = STEP_ALL_BANNED;
            } else {
                s->row.id = id;
                s->row.prob = 1;
            }
        }
    }
    __syncthreads();
}

/* ---- outlooks: the row as it was before bias and penalties ---- */

struct plain_row {
    const float   *logits, *bias;       /* bias: NULL if there is none */
    const uint8_t *seen;
    const int32_t *drafts;              /* the row counts as behind these */
    int   n_drafts, n_ids;
    float presence, repetition;
};

/* Undoes the bias and penalties that step_logits applied.  -inf (a banned id) stays -inf. */
__device__ __forceinline__ float plain_logit(const struct plain_row &r, int id)
{
    float l = r.logits[id];
    int seen = r.seen[id];
    if (l == -INFINITY)
        return l;
    for (int i = 0; i < r.n_drafts; i++)
        seen = r.drafts[i] == id ? STEP_IN_TEXT | STEP_IN_ANSWER : seen;
    if (seen & STEP_IN_ANSWER)
        l += r.presence;
    if (seen && r.repetition > 0 && r.repetition != 1)
        l = l > 0 ? l * r.repetition : l / r.repetition;
    return r.bias ? l - r.bias[id] : l;
}

__device__ __forceinline__ uint64_t block_best(uint64_t key, struct shared *s)
{
    const uint32_t high = block_max((uint32_t)(key >> 32), s->reduce);
    return (uint64_t)high << 32 | block_max((uint32_t)(key >> 32) == high ? (uint32_t)key : 0, s->reduce);
}

/* A thread's best key below another; 0: none. */
__device__ uint64_t best_below(const struct plain_row &r, int from, int to, uint64_t below)
{
    uint64_t best = 0;
    for (int id = from + (int)threadIdx.x; id < to; id += THREADS) {
        const uint64_t key = key_of(plain_logit(r, id), id);
        best = key < below && key > best ? key : best;
    }
    return best;
}

__device__ void look_at_slice(struct look *out, const struct plain_row &r, int from, int to, struct shared *s)
{
    to = min(to, r.n_ids);
    float max = 0, mass = 0;
    uint64_t own = best_below(r, from, to, ~0ull);
    for (int i = 0; i < STEP_ALTERNATIVES; i++) {
        const uint64_t best = block_best(own, s);
        if (i == 0)
            max = logit_of(best);
        if (threadIdx.x == 0)
            out->key[i] = best;
        if (own == best)                /* keys are distinct: one thread looks for its next */
            own = best_below(r, from, to, best);
    }
    for (int id = from + (int)threadIdx.x; id < to && max > -INFINITY; id += THREADS)
        mass += expf(plain_logit(r, id) - max);
    mass = warp_sum(mass);
    if (threadIdx.x % 32 == 0)
        s->by_warp[0][threadIdx.x / 32] = mass;
    __syncthreads();
    mass = warp_sum(s->by_warp[0][threadIdx.x % 32]);
    if (threadIdx.x == 0)
        out->mass = mass;
}

/* The best of all slices, and how likely `id` was. */
__device__ void look_at_row(struct step_outlook *out, const struct look *slice, const struct plain_row &r, int n, int id, struct shared *s)
{
    const int i = threadIdx.x;
    uint64_t own = i < SLICES * STEP_ALTERNATIVES ? __ldcg((const unsigned long long *)&slice[i / STEP_ALTERNATIVES].key[i % STEP_ALTERNATIVES]) : 0;
    for (int k = 0; k < STEP_ALTERNATIVES; k++) {
        const uint64_t best = block_best(own, s);
        if (own == best)
            own = 0;
        if (i == 0)
            s->key[k] = best;
    }
    if (i == 0) {
        const float max = logit_of(s->key[0]);
        mass sum = 0;
        for (int k = 0; k < SLICES; k++) {
            const float mass = __ldcg(&slice[k].mass);
            if (mass > 0)
                sum += mass_of(mass * expf(logit_of(__ldcg((const unsigned long long *)&slice[k].key[0])) - max));
        }
        const float all = mass_value(sum);
        out->n = n = min(min(n, (int)STEP_ALTERNATIVES), r.n_ids);
        out->prob = expf(plain_logit(r, id) - max) / all;
        for (int k = 0; k < n; k++) {
            out->ids[k] = id_of(s->key[k]);
            out->probs[k] = expf(logit_of(s->key[k]) - max) / all;
        }
        __threadfence();
    }
    __syncthreads();
}

/* ---- the step ---- */

struct walk {
    struct step_live     live;
    struct step_sampling how;
    struct step_result   result;
    struct row           row[STEP_ROWS];
    int                  hidden;        /* the row whose hidden state is kept; -1: the one that was */
    int                  parity;        /* before */
};
enum {
    LIVE_WORDS = sizeof(struct step_live) / 4,
    HOW_WORDS  = sizeof(struct step_sampling) / 4,
    ROW_WORDS  = sizeof(struct row) / 4,
};
static_assert(LIVE_WORDS + HOW_WORDS <= THREADS && offsetof(struct walk, how) == 4 * LIVE_WORDS, "one word a thread");

__device__ __forceinline__ void copy_words(void *dst, const void *src, int bytes, int lane)
{
    for (int i = lane; i < bytes / 4; i += 32)
        ((uint32_t *)dst)[i] = ((const uint32_t *)src)[i];
}

/* Whether the draft of a position is made the token, for measurements. */
__device__ __forceinline__ bool lucky(const struct step_sampling *how, int pos)
{
    uint64_t z = (uint64_t)(pos + 1) * GOLDEN;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (float)(uint32_t)(z >> 40) * 0x1p-24f < how->trial[pos / how->trial_tokens % 2];
}

/* Row by row while picks and drafts agree; the state after that.  One warp, a lane per row. */
__device__ void walk_rows(const struct step_pick_args &a, struct walk *k)
{
    struct step_live *v = &k->live;
    const struct step_sampling *how = &k->how;
    struct step_result *r = &k->result;
    const int lane = threadIdx.x, old = v->pos, done = v->done;
    const int n_drafts = a.first || done ? 0 : max(0, min(min(v->n_drafts, a.n_rows - 1), how->room - 1));
    struct row p = {};
    bool agreed = false;
    if (lane < a.n_rows && !done) {
        p = k->row[lane];
        const bool right = lane + 1 < STEP_ROWS && (how->trial_tokens > 0 ? lucky(how, old + lane) : p.id == v->ids[1 + lane]);
        if (right)
            p.id = v->ids[1 + lane];
        agreed = lane < n_drafts && right;
    }
    int ends = p.ended;
    if (!ends) {
        ends = how->room <= lane + 1 ? STEP_FULL : STEP_GOES_ON;
        for (int j = 0; j < how->n_stop; j++)
            ends = how->stop[j] == p.id ? STEP_STOPPED : ends;
    }
    const unsigned stops = __ballot_sync(~0u, lane < a.n_rows && !done && (!agreed || ends));
    const int last = __ffs((int)stops) - 1;     /* -1 when done: the last row agrees with nothing */
    const int ended = last < 0 ? 0 : __shfl_sync(~0u, ends, last);
    const int n = ended == STEP_BAD_LOGIT || ended == STEP_ALL_BANNED ? 0 : last + 1;
    const int32_t next = __shfl_sync(~0u, p.id, max(0, min(lane, n - 1)));
    const int mtp_pos = a.first ? old - 1 : old;
    if (lane < STEP_ROWS) {
        r->ids[lane] = lane <= last ? p.id : 0;
        r->prob[lane] = lane <= last ? p.prob : 0;
        r->drafted[lane] = lane <= last && agreed;
        if (n) {
            v->mtp_next[lane] = next;
            v->draft_pos[lane] = mtp_pos + n + lane;
        }
    }
    if (lane == max(last, 0)) {
        r->bad_id = p.bad_id;
        r->bad_logit = p.bad_logit;
    }
    if (lane < n)
        a.seen[p.id] = STEP_IN_TEXT | STEP_IN_ANSWER;
    __syncwarp();
    if (lane == 0) {
        r->n = n;
        r->n_drafts = n_drafts;
        r->ended = ended;
        k->parity = v->parity;
        k->hidden = n - 1;
        v->step++;
        v->n_apply = a.first ? 0 : n;
        v->parity ^= !a.first;
        v->done = done || ended;
        v->drafting = !v->done;
        v->mtp_rows = n;
        if (n) {
            v->pos += v->n_apply;
            v->ids[0] = r->ids[n - 1];
            v->n_drafts = 0;
            v->mtp_pos = mtp_pos;
            v->mtp_last = n - 1;
            a.sampling->room = how->room - n;
            a.sampling->rng = how->rng + (how->temperature > 0 ? (uint64_t)n * GOLDEN : 0);
        }
    }
    __syncwarp();
}

__device__ __forceinline__ void copy_outlooks(struct step_outlook *to, const struct step_outlook *from, int n)
{
    for (int i = threadIdx.x; i < n * (int)(sizeof *to / 4); i += 32)
        ((uint32_t *)to)[i] = __ldcg((const uint32_t *)from + i);
}

__device__ void finish_step(const struct step_pick_args &a, struct walk *k, const struct step_outlook *outlook)
{
    struct step_result *out = nullptr;
    if (threadIdx.x < 32) {
        walk_rows(a, k);
        out = &a.results[k->live.step % STEP_RESULTS];
        copy_words(out, &k->result, offsetof(struct step_result, outlook), threadIdx.x);
        if (k->how.n_alternatives > 0)
            copy_outlooks(out->outlook, outlook, k->result.n);
        copy_words(a.live, &k->live, sizeof k->live, threadIdx.x);
    }
    __syncthreads();
    if (threadIdx.x < 32) {             /* while the others copy */
        __threadfence_system();
        __syncwarp();
        if (threadIdx.x == 0)
            out->serial = k->live.step;
        return;
    }
    const float *from = k->hidden < 0 ? a.last_hidden + (size_t)k->parity * a.width : a.hidden + (size_t)k->hidden * a.width;
    float *to = a.last_hidden + (size_t)k->live.parity * a.width, *before = a.last_hidden + 2 * (size_t)a.width;
    for (int i = 4 * ((int)threadIdx.x - 32); i < a.width; i += 4 * (THREADS - 32)) {
        float4 was = *(const float4 *)(to + i), is = *(const float4 *)(from + i);
        *(float4 *)(before + i) = was;
        *(float4 *)(to + i) = is;
    }
}

/* Whether this block is the last of n to come here; everything that the others wrote is seen then. */
__device__ bool last_of(unsigned *counter, int n)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(counter, 1) == (unsigned)n - 1;
        if (last)
            *counter = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* Whether the mass of all ids counts. */
__device__ __forceinline__ bool needs_mass(const struct step_sampling *how, int n_ids)
{
    return how->temperature > 0 && (how->top_k <= 0 || how->top_k >= n_ids);
}

/* The arguments of a call for the rows of one slot, n of them from row `from` on. */
__device__ __forceinline__ struct step_pick_args of_slot(const struct step_pick_args &a, const struct row_run &r)
{
    const size_t from = r.from, slot = r.slot;
    struct step_pick_args one = a;
    one.logits += from * a.vocab;
    one.tile_max += from * step_maxima(a.vocab);
    one.hidden += from * a.width;
    one.live += slot;
    one.sampling += slot;
    one.seen += slot * a.vocab;
    one.bias += slot * a.vocab;
    one.results += slot * STEP_RESULTS;
    one.last_hidden += slot * 3 * a.width;
    one.n_rows = r.n;
    return one;
}

/* Blocks that have nothing to do end before they count anywhere; `done`, which the last block sets, keeps them from nothing. */
__global__ void __launch_bounds__(THREADS) step_pick_kernel(const __grid_constant__ struct step_pick_args all)
{
    __shared__ struct shared s;
    __shared__ struct walk walk;
    const int row = row_of(all.rows, blockIdx.x).index, begin = blockIdx.x - row, slice = blockIdx.y, i = threadIdx.x;
    const struct step_pick_args a = of_slot(all, run_at(all.rows, begin, all.n_rows));
    struct work *w = (struct work *)all.scratch;
    gpu_wait();
    gpu_next();
    const uint32_t *from = i < LIVE_WORDS ? (const uint32_t *)a.live + i : (const uint32_t *)a.sampling + (i - LIVE_WORDS);
    const uint32_t word = i < LIVE_WORDS + HOW_WORDS ? *from : 0;
    const float *tile_max = a.tile_max + (size_t)row * step_maxima(a.vocab);
    uint32_t own = 0;
    if (slice == 0)                     /* beside the state; tiles behind n_ids are -inf */
        own = scan_tiles(tile_max, step_maxima(a.vocab));
    if (i < LIVE_WORDS + HOW_WORDS)
        ((uint32_t *)&walk)[i] = word;
    __syncthreads();
    const struct step_sampling *how = &walk.how;
    const int n_ids = how->n_ids > 0 && how->n_ids < a.vocab ? how->n_ids : a.vocab;
    if (walk.live.done) {
        if (row || slice)
            return;
    } else {
        const bool looks = how->n_alternatives > 0;
        const struct plain_row plain = {
            a.logits + (size_t)row * a.vocab, how->biased ? a.bias : nullptr, a.seen, walk.live.ids + 1, row, n_ids, how->presence_penalty,
            how->repetition_penalty,
        };
        if (needs_mass(how, n_ids) || looks) {
            const int range = (a.vocab + SLICES - 1) / SLICES, first = slice * range;
            if (needs_mass(how, n_ids))
                scan_slice(&w->slice[begin + row][slice], plain.logits, n_ids, first, first + range, inverse(how->temperature), &s);
            if (looks)
                look_at_slice(&w->look[begin + row][slice], plain, first, first + range, &s);
            if (!last_of(&w->slices_done[begin + row], SLICES))
                return;
            if (slice)
                own = scan_tiles(tile_max, step_maxima(a.vocab));
        } else if (slice) {
            return;
        }
        pick_row(a, how, w->slice[begin + row], row, n_ids, own, &s);
        if (looks && !s.row.ended)
            look_at_row(&w->outlook[begin + row], w->look[begin + row], plain, how->n_alternatives, s.row.id, &s);
        if (i == 0)
            (a.n_rows > 1 ? w->row + begin : walk.row)[row] = s.row;
        if (a.n_rows > 1) {
            if (!last_of(&w->rows_done[begin], a.n_rows))
                return;
            if (i < ROW_WORDS * a.n_rows)
                ((uint32_t *)walk.row)[i] = __ldcg((const uint32_t *)(w->row + begin) + i);
        }
    }
    __syncthreads();                    /* everybody has read what one warp changes now */
    finish_step(a, &walk, w->outlook + begin);
}

extern "C" void step_pick_cuda(struct cuda_queue *q, const struct step_pick_args *a)
{
    launch(q, "step_pick", step_pick_kernel, dim3((unsigned)a->n_rows, SLICES), THREADS, 0, true, *a);
}

/* ---- drafts ---- */

/* A thread's part of the sum of exp(l - max).  Tiles far below the maximum are not read: all of them together are less than 2^-18. */
__device__ __forceinline__ float draft_mass(const float *logits, const float *tile_max, int n_ids, float max)
{
    constexpr float FAR = 24;
    float mass = 0;
    each_tile(tile_max, (n_ids + TILE - 1) / TILE, ordered(max - FAR), [&](int tile) {
        for (int id = tile * TILE; id < min(tile * TILE + TILE, n_ids); id++)
            mass += expf(logits[id] - max);
    });
    return mass;
}

__global__ void __launch_bounds__(THREADS, 1) step_draft_kernel(const __grid_constant__ struct step_draft_args a)
{
    __shared__ uint32_t warp_max[WARPS];
    __shared__ float by_warp[WARPS];
    __shared__ int tile;
    const int n_tiles = (a.n_ids + TILE - 1) / TILE, row = blockIdx.x, slot = row_of(a.rows, row).slot;
    const float *logits = a.logits + (size_t)row * a.n_ids, *tile_max = a.tile_max + (size_t)row * step_maxima(a.n_ids);
    if (threadIdx.x == 0)
        tile = INT32_MAX;
    gpu_wait();
    gpu_next();
    const uint32_t own = scan_tiles(tile_max, n_tiles), best = greatest(own, warp_max);
    const float max = logit_of((uint64_t)best << 32);
    const bool sound = isfinite(max);
    find_tile(tile_max, n_tiles, own, best, &tile);
    const float mass = warp_sum(sound ? draft_mass(logits, tile_max, a.n_ids, max) : 0);
    if (threadIdx.x % 32 == 0)
        by_warp[threadIdx.x / 32] = mass;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    const int id = id_in_tile(logits, a.n_ids, tile, false);
    const float all = warp_sum(by_warp[threadIdx.x]);
    if (threadIdx.x == 0) {
        struct step_live *live = a.live + slot;
        struct step_drafts *drafts = a.drafts + slot;
        live->draft_ids[a.i] = id;
        live->ids[1 + a.i] = id;
        live->n_drafts = a.i + 1;
        drafts->ids[a.i] = id;
        drafts->prob[a.i] = sound ? 1 / all : 0;
        __threadfence_system();
        drafts->serial = live->step * STEP_ROWS + a.i + 1;
    }
}

extern "C" void step_draft_cuda(struct cuda_queue *q, const struct step_draft_args *a)
{
    launch(q, "step_draft", step_draft_kernel, dim3(a->rows ? a->n_rows : 1), THREADS, 0, true, *a);
}

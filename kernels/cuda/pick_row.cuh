/* The pick of one row by a block of 1024 threads: greedy, or sampled with temperature, top-k, top-p and min-p (engine/sampler.h has the law).
 *
 * Fast: the rank-th greatest of the warps' or threads' own maxima (over tile_max) is a lower bound of the rank-th greatest
 * logit, and what reaches it is little more than rank ids: they are gathered and sorted.  That settles top-k up to TOP.
 * Without top-k it settles whatever ends within those ids: the mass of all is known from the slices.  Slow: search for the cut
 * bit by bit, each pass over the whole row. */
#pragma once

#include "kernels/cuda/mass.cuh"
#include "kernels/cuda/tile_max.cuh"
#include "kernels/splitmix.h"

enum {
    SLICES  = 16,
    RANK    = 256,              /* without top-k */
    TOP     = 512,              /* top-k for the fast way; the bound gets loose towards PICK_THREADS */
    CAND    = 2048,             /* ids that reach the bound, at most */
    TILES   = 1024,             /* tiles that they lie in, at most */
    FEW     = 256,              /* keys that are sorted by counting */
};

struct slice {
    float max;                  /* greatest logit */
    float mass;                 /* sum of exp((l - max) / temperature) */
};
struct row {
    int32_t id;
    float   prob;
    int32_t ended;              /* enum step_end: failed, or STEP_GOES_ON */
    int32_t bad_id;
    float   bad_logit;
};

/* A row under one rule. */
struct target {
    const float *logits;
    int    n_ids, top_k;        /* 0: all */
    float  max, colder, top_p, min_p;   /* colder: 1 / temperature */
    mass   all;                 /* of all ids; only when top_k is 0 */
    uint64_t u;                 /* the random number, in units of 2^-64 */
    uint64_t below;             /* the slow way picks among lesser keys: the ids from here on, */
    mass   settled;             /* which weigh so much, were looked at and are not it */
    const uint32_t *mask;       /* of a masked row */
};

/* Shared memory of a block that picks. */
struct shared {
    uint64_t key[CAND];
    mass     cum[CAND];
    int32_t  tile[TILES];
    mass     amount[3], mass_of_warp[PICK_WARPS];
    float    by_warp[3][PICK_WARPS];
    uint32_t warp_max[PICK_WARPS], reduce[PICK_WARPS], bound;
    int      n_tiles, n_cand, slow, best_tile;
    struct row row;
    struct target target;
};

__device__ __forceinline__ float inverse(float temperature) { return fminf(1 / temperature, FLT_MAX); }     /* 0 * it is 0 */

__device__ __forceinline__ float weight_of(const struct target &t, float logit)
{
    return expf((logit - t.max) * t.colder);
}

/* ---- slices ---- */

/* One slice of a row: greatest logit and mass. */
__device__ void scan_slice(struct slice *out, const float *logits, int n_ids, int from, int to, float colder, struct shared *s)
{
    uint32_t best = ORDERED_BAN;
    float mass = 0;
    to = min(to, n_ids);
    for (int id = from + (int)threadIdx.x; id < to; id += PICK_THREADS)
        best = max(best, ordered(logits[id]));
    const float max = logit_of((uint64_t)block_max(best, s->reduce) << 32);
    for (int id = from + (int)threadIdx.x; id < to && max > -INFINITY; id += PICK_THREADS)
        mass += expf((logits[id] - max) * colder);
    mass = block_sum(mass, s->by_warp[0]);
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
    while (n > PICK_THREADS / parts)
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
        each_tile(tile_max, (n_ids + PICK_TILE - 1) / PICK_TILE, bound, [&](int i) {
            int at = atomicAdd(&s->n_tiles, 1);
            if (at < TILES)
                s->tile[at] = i;
        });
    __syncthreads();
    if (s->n_tiles > TILES)
        return -1;
    for (int i = threadIdx.x; i < s->n_tiles * PICK_TILE; i += PICK_THREADS) {
        int id = s->tile[i / PICK_TILE] * PICK_TILE + i % PICK_TILE;
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
    for (int i = n + threadIdx.x; i < size; i += PICK_THREADS)
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

__device__ __forceinline__ bool admits(const struct target &t, int id) { return t.mask[id / 32] >> (id % 32) & 1; }

/* Adds up the ids from each of three keys on: their number, or their weight.  Only ids from `floor` on count, and of these with MASKED those that
 * the mask admits. */
template <bool MASKED> __device__ void measure(const struct target &t, uint64_t floor, const uint64_t from[3], bool weigh, struct shared *s)
{
    float sum[3] = {0, 0, 0};
    for (int id = threadIdx.x; id < t.n_ids; id += PICK_THREADS) {
        float l = t.logits[id];
        uint64_t k = key_of(l, id);
        if (k < floor || k < from[0] || l == -INFINITY || (MASKED && !admits(t, id)))
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
        for (int w = 0; w < PICK_WARPS; w++)
            all += mass_of(s->by_warp[threadIdx.x][w]);
        s->amount[threadIdx.x] = all;
    }
    __syncthreads();
}

/* The greatest key such that the ids from it on, down to `floor`, amount to `enough`; `floor` when all of them do not. */
template <bool MASKED> __device__ uint64_t search_cut(const struct target &t, uint64_t floor, bool weigh, mass enough, struct shared *s)
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
        measure<MASKED>(t, floor, from, weigh, s);
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
template <bool MASKED> __device__ void pick_from(const struct target &t, uint64_t floor, struct shared *s)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int range = (t.n_ids + 32 * PICK_WARPS - 1) / (32 * PICK_WARPS) * 32;
    int start = warp * range, stop = min(start + range, t.n_ids);
    auto weight = [&](int id) {
        float l = id < stop ? t.logits[id] : -INFINITY;
        float w = l > -INFINITY && key_of(l, id) >= floor && key_of(l, id) < t.below && (!MASKED || admits(t, id)) ? weight_of(t, l) : 0;
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
    for (int w = 0; w < PICK_WARPS; w++)
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
    for (int w = 0; w < PICK_WARPS; w++) {   /* the warp in whose range it falls; the last one with a weight gets what rounding leaves */
        if (s->mass_of_warp[w] > 0)
            mine = w;
        if (aim < s->mass_of_warp[w])
            break;
        aim -= w + 1 < PICK_WARPS ? s->mass_of_warp[w] : 0;
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

/* The key down to which top-k and top-p keep ids. */
template <bool MASKED> __device__ uint64_t floor_of(const struct target &t, struct shared *s)
{
    uint64_t floor = 0;
    if (t.top_k)
        floor = search_cut<MASKED>(t, floor, false, mass_of((float)t.top_k), s);
    if (t.top_p > 0 && t.top_p < 1) {
        const uint64_t from[3] = {floor, floor, floor};
        measure<MASKED>(t, floor, from, true, s);
        floor = search_cut<MASKED>(t, floor, true, share_of(t.top_p, s->amount[0]), s);
    }
    return floor;
}

__device__ void pick_slowly(const struct target &t, struct shared *s)
{
    pick_from<false>(t, floor_of<false>(t, s), s);
}

/* ---- a masked row ---- */

/* The greatest key of an admissible id from `floor` on; 0 if there is none. */
__device__ uint64_t best_admitted(const struct target &t, uint64_t floor, struct shared *s)
{
    const uint64_t best = search_cut<true>(t, floor, false, mass_of(1.0f), s), from[3] = {best, best, best};
    measure<true>(t, floor, from, false, s);
    return s->amount[0] >= mass_of(1.0f) ? best : 0;
}

/* The weights that follow are those under this best key. */
__device__ void weigh_under(uint64_t best, float min_p, struct shared *s)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        s->target.max = logit_of(best);
        s->target.min_p = min_p;
    }
    __syncthreads();
}

/* ---- a row ---- */

/* The i-th number of the stream, as engine/sampler.c draws it: 53 bits. */
__device__ uint64_t uniform(uint64_t state, int i) { return splitmix(state + (uint64_t)(i + 1) * SPLITMIX_STEP) & ~0x7ffull; }
/* The other one, of a masked row. */
__device__ uint64_t second(uint64_t state, int i) { return splitmix((state + (uint64_t)(i + 1) * SPLITMIX_STEP) ^ SPLITMIX_SECOND) & ~0x7ffull; }

/* Leaves s->row for a masked row (kernels/step.h), whose greatest logit is finite. */
__device__ void pick_masked(const struct step_pick_args &a, const struct step_sampling *how, int row, int n_ids, uint32_t best,
                            struct shared *s)
{
    struct target &t = s->target;
    const bool sampled = how->temperature > 0;
    if (threadIdx.x == 0) {
        t = {};
        t.logits = a.logits + (size_t)row * a.vocab;
        t.mask = a.mask + (size_t)row * step_mask_words(a.vocab);
        t.n_ids = n_ids;
        t.top_k = how->top_k > 0 && how->top_k < n_ids ? how->top_k : 0;
        t.max = logit_of((uint64_t)best << 32);
        t.colder = sampled ? inverse(how->temperature) : 0;
        t.top_p = how->top_p;
        t.min_p = how->min_p;
        t.u = second(how->rng, row);
        t.below = ~0ull;
        s->row = {};
    }
    __syncthreads();
    uint64_t floor = sampled ? floor_of<false>(t, s) : 0, top;
    float weight = 0;                   /* of the best admissible id */
    bool kept = false;                  /* one of the ids that are kept without a mask is admissible */
#pragma unroll 1                        /* one place: each copy of it takes registers */
    for (bool first = true;; first = false, floor = 0) {
        top = best_admitted(t, floor, s);
        weight = top && sampled ? weight_of(t, logit_of(top)) : 0;
        kept = first && top && sampled && weight >= t.min_p;
        if (kept || !floor)
            break;
    }
    if (top && sampled) {
        weigh_under(top, !kept ? how->min_p : t.min_p > 0 ? t.min_p / weight : 0, s);
        floor = kept ? floor : floor_of<true>(t, s);
        pick_from<true>(t, floor, s);
    } else if (threadIdx.x == 0) {
        s->row.ended = top ? STEP_GOES_ON : STEP_ALL_BANNED;
        s->row.id = top ? id_of(top) : 0;
        s->row.prob = top ? 1 : 0;
    }
    __syncthreads();
}

__device__ void sample_row(const struct step_pick_args &a, const struct step_sampling *how, const struct slice *slice, int row, int n_ids,
                           uint32_t own, uint32_t best, struct shared *s)
{
    struct target &t = s->target;
    const float *logits = a.logits + (size_t)row * a.vocab, *tile_max = a.tile_max + (size_t)row * step_maxima(a.vocab);
    const int top_k = how->top_k > 0 && how->top_k < n_ids ? how->top_k : 0, rank = top_k ? top_k : RANK;
    if (threadIdx.x == PICK_THREADS - 1) {
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
    for (int by_threads = rank > PICK_WARPS; n < 0 && by_threads < 2 && rank <= TOP; by_threads++) {
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

/* Leaves s->row.  MASKED: the rows of a.masked have masks. */
template <bool MASKED>
__device__ void pick_row(const struct step_pick_args &a, const struct step_sampling *how, const struct slice *slice, int row, int n_ids,
                         uint32_t own, struct shared *s)
{
    const float *tile_max = a.tile_max + (size_t)row * step_maxima(a.vocab);
    if (threadIdx.x == 0)
        s->best_tile = INT32_MAX;
    const uint32_t best = greatest(own, s->warp_max);
    const bool bad = best >= ORDERED_INFINITY;
    if (MASKED && a.masked >> row & 1 && !bad && best > ORDERED_BAN) {
        pick_masked(a, how, row, n_ids, best, s);
        return;
    }
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

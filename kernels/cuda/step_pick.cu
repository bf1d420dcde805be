/* step_pick: the next tokens from the logits of a step's rows; step_draft: the arg-max of a draft.
 * Shapes    logits [n_rows, vocab] fp32, tile_max [n_rows, vocab / 16] fp32, hidden [n_rows, width] fp32
 * Bytes     n_rows * vocab * 4 (all are looked at: one of them may be no number), twice with neither top-k nor greedy
 * Limit     latency: one launch, the logits come from the L2 cache
 * Launch    16 slices x n_rows of 1024 threads.  The last slice of a row that is done picks for the row, as if the row were
 *           reached; the last row that is done walks the rows while picks and drafts agree.  step_draft: one block
 * Layout    scratch: struct work, zero before the first call; whoever counts to the end sets the counter back
 * Numerics  weights in fp32.  The best ids are summed in fp64 from the best down; when the kept ones are more than fit into
 *           shared memory, sums over threads' strides in fp32.  Every order is fixed, so equal logits give equal picks
 *
 * Fast: the rank-th greatest of the threads' own maxima (over tile_max) is a lower bound of the rank-th greatest logit, and what
 * reaches it is little more than rank ids: they are gathered and sorted.  That settles top-k up to TOP.  Without top-k it
 * settles whatever ends within those ids: the mass of all is known from the slices.  Slow: search for the cut bit by bit, each
 * pass over the whole row. */
#include <float.h>

#include "kernels/cuda/common.cuh"

enum {
    THREADS = 1024,             /* 32 warps: reductions rely on it */
    WARPS   = THREADS / 32,
    SLICES  = 16,
    RANK    = 256,              /* without top-k */
    TOP     = 512,              /* top-k for the fast way; the bound gets loose towards THREADS */
    CAND    = 2048,             /* ids that reach the bound, at most */
    TILES   = 1024,             /* tiles that they lie in, at most */
    TILE    = 16,
};
#define GOLDEN 0x9e3779b97f4a7c15ull    /* the step of SplitMix64 */

struct slice {
    uint64_t best;              /* key of the greatest logit */
    int32_t  bad;               /* the lowest id whose logit is no number, or INT32_MAX */
    float    mass;              /* sum of exp((l - greatest of the slice) / temperature) */
};
struct row {
    int32_t id;
    float   prob;
    int32_t ended;              /* 0, 3, 4 */
    int32_t bad_id;
    float   bad_logit;
};
struct work {
    unsigned     rows_done, slices_done[STEP_ROWS];
    struct row   row[STEP_ROWS];
    struct slice slice[STEP_ROWS][SLICES];
};
static_assert(sizeof(struct work) <= 65536, "step_pick_scratch()");

/* A row under one rule. */
struct target {
    const float *logits, *tile_max;
    int    n_ids, top_k;        /* 0: all */
    float  max, temperature, top_p, min_p;
    double mass;                /* of all ids; only when top_k is 0 */
    double u;                   /* the random number, in [0, 1) */
    uint64_t below;             /* the slow way picks among lesser keys: the ids from here on, */
    double settled;             /* which weigh so much, were looked at and are not it */
};

/* Shared memory of a block that picks. */
struct shared {
    uint64_t key[CAND];
    double   cum[CAND];
    int32_t  tile[TILES];
    uint64_t reduce[WARPS];
    double   amount[3], by_warp[3][WARPS];
    int      n_tiles, n_cand, slow;
    struct row row;
    struct target target;
};

/* ---- keys: greater logit, greater key; among equals the lower id ---- */

__device__ __forceinline__ uint32_t ordered(float x)
{
    uint32_t u = __float_as_uint(x + 0.0f);     /* -0 becomes 0 */
    return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ float logit_of(uint64_t key)
{
    uint32_t u = (uint32_t)(key >> 32);
    return __uint_as_float(u ^ (u >> 31 ? 0x80000000u : 0xffffffffu));
}
__device__ __forceinline__ uint64_t key_of(float x, int id) { return (uint64_t)ordered(x) << 32 | (uint32_t)~id; }
__device__ __forceinline__ int id_of(uint64_t key) { return (int)~(uint32_t)key; }

__device__ __forceinline__ uint64_t max_key(uint64_t a, uint64_t b) { return a > b ? a : b; }
__device__ __forceinline__ uint64_t warp_max_key(uint64_t v)
{
    for (int m = 16; m; m >>= 1)
        v = max_key(v, __shfl_xor_sync(~0u, (unsigned long long)v, m));
    return v;
}
__device__ uint64_t block_max_key(uint64_t v, uint64_t *s)
{
    v = warp_max_key(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        s[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_max_key(s[threadIdx.x % 32]);
}

__device__ __forceinline__ float weight_of(const struct target &t, float logit)
{
    return expf((logit - t.max) / t.temperature);
}

/* ---- slices ---- */

/* One slice of a row: greatest logit, first bad one, and mass when `temperature` > 0. */
__device__ void scan_slice(struct slice *out, const float *logits, int n_ids, int from, int to, float temperature, struct shared *s)
{
    uint64_t best = 0;
    int bad = INT32_MAX;
    to = min(to, n_ids);
    for (int id = from + 4 * (int)threadIdx.x; id < to; id += 4 * THREADS) {
        float4 v = *(const float4 *)(logits + id);
        const float l[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (id + j < to) {
                best = max_key(best, key_of(l[j], id + j));
                if (!(l[j] <= FLT_MAX))
                    bad = min(bad, id + j);
            }
    }
    best = block_max_key(best, s->reduce);
    bad = INT32_MAX - (int)block_max_key((uint64_t)(INT32_MAX - bad), s->reduce);
    float mass = 0, max = best ? logit_of(best) : -INFINITY;
    if (temperature > 0 && max > -INFINITY) {
        for (int id = from + 4 * (int)threadIdx.x; id < to; id += 4 * THREADS) {
            float4 v = *(const float4 *)(logits + id);
            const float l[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (id + j < to)
                    mass += expf((l[j] - max) / temperature);
        }
        mass = warp_sum(mass);
        if (threadIdx.x % 32 == 0)
            s->by_warp[0][threadIdx.x / 32] = mass;
        __syncthreads();
        mass = warp_sum((float)s->by_warp[0][threadIdx.x % 32]);
    }
    if (threadIdx.x == 0) {
        out->best = best;
        out->bad = bad;
        out->mass = mass;
    }
}

/* ---- fast: the best ids, sorted ---- */

__device__ void sort_down(uint64_t *key, int n)         /* n a power of two; bitonic; one pair a thread */
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
            if (n <= 64)                /* one warp has it all */
                __syncwarp();
            else
                __syncthreads();
        }
    __syncthreads();
}

/* Gathers the ids that reach the bound into s->key, from the best down.  Returns how many, or -1 when there is no room;
 * *all: no other id has a weight. */
__device__ int gather_best(const struct target &t, int rank, struct shared *s, bool *all)
{
    int n_tiles = (t.n_ids + TILE - 1) / TILE;
    uint32_t own = 0, bound = 0;
    if (threadIdx.x == 0)
        s->n_tiles = s->n_cand = 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < n_tiles; i += THREADS)
        own = max(own, ordered(t.tile_max[i]));
    for (int bit = 31; bit >= 0; bit--) {
        uint32_t higher = bound | 1u << bit;
        int n = __syncthreads_count(own >= higher);
        if (n >= rank)
            bound = higher;
        if (n == rank)
            break;
    }
    if (own >= bound)
        for (int i = threadIdx.x; i < n_tiles; i += THREADS)
            if (ordered(t.tile_max[i]) >= bound) {
                int at = atomicAdd(&s->n_tiles, 1);
                if (at < TILES)
                    s->tile[at] = i;
            }
    __syncthreads();
    if (s->n_tiles > TILES)
        return -1;
    for (int i = threadIdx.x; i < s->n_tiles * TILE; i += THREADS) {
        int id = s->tile[i / TILE] * TILE + i % TILE;
        float l = id < t.n_ids ? t.logits[id] : -INFINITY;
        if (l > -INFINITY && ordered(l) >= bound) {
            int at = atomicAdd(&s->n_cand, 1);
            if (at < CAND)
                s->key[at] = key_of(l, id);
        }
    }
    __syncthreads();
    int n = s->n_cand, size = 32;
    if (n > CAND)
        return -1;
    while (size < n)
        size *= 2;
    for (int i = n + threadIdx.x; i < size; i += THREADS)
        s->key[i] = 0;
    __syncthreads();
    sort_down(s->key, size);
    *all = bound <= ordered(-INFINITY);
    return n;
}

/* One warp: s->cum[i] = weight of the i + 1 best ids. */
__device__ void accumulate(const struct target &t, int n, struct shared *s)
{
    int lane = threadIdx.x % 32;
    double before = 0;
    for (int from = 0; from < n; from += 32) {
        int i = from + lane;
        double sum = i < n ? (double)weight_of(t, logit_of(s->key[i])) : 0;
        for (int m = 1; m < 32; m *= 2) {
            double left = __shfl_up_sync(~0u, sum, m);
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
    accumulate(t, n, s);
    int end = all ? n : INT32_MAX;      /* where the kept ids end, as far as can be seen */
    if (by_mass) {
        double enough = (double)t.top_p * (all ? s->cum[n - 1] : t.mass);
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
    double total = seen ? s->cum[end - 1] : t.mass, aim = t.u * total;
    int i = first_of(end, [&](int k) { return s->cum[k] > aim; });
    if (i == end) {
        i = first_of(end, [&](int k) { return s->cum[k] == s->cum[end - 1]; });     /* the last that weighs anything */
        if (!seen) {                    /* else rounding left a crumb */
            t.below = s->key[i];
            t.settled = s->cum[i];
            return false;
        }
    }
    s->row.id = id_of(s->key[i]);
    s->row.prob = (float)((double)weight_of(t, logit_of(s->key[i])) / total);
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
        double all = 0;
#pragma unroll 1
        for (int w = 0; w < WARPS; w++)
            all += s->by_warp[threadIdx.x][w];
        s->amount[threadIdx.x] = all;
    }
    __syncthreads();
}

/* The greatest key such that the ids from it on, down to `floor`, amount to `enough`; `floor` when all of them do not. */
__device__ uint64_t search_cut(const struct target &t, uint64_t floor, bool weigh, double enough, struct shared *s)
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
    double sum = 0;
    for (int from = start; from < stop; from += 32)
        sum += (double)warp_sum(weight(from + lane));
    if (lane == 0)
        s->by_warp[0][warp] = sum;
    __syncthreads();
    double rest = 0, total = 0, aim = 0;
    int mine = 0;
    for (int w = 0; w < WARPS; w++)
        rest += s->by_warp[0][w];
    total = t.settled + rest;
    aim = fmax(t.u * total - t.settled, 0.0);
    if (!(rest > 0)) {                  /* a crumb */
        if (threadIdx.x == 0) {
            s->row.id = id_of(t.below);
            s->row.prob = (float)((double)weight_of(t, logit_of(t.below)) / total);
        }
        return;
    }
    for (int w = 0; w < WARPS; w++) {   /* the warp in whose range it falls; the last one with a weight gets the crumbs */
        if (s->by_warp[0][w] > 0)
            mine = w;
        if (aim < s->by_warp[0][w])
            break;
        aim -= w + 1 < WARPS ? s->by_warp[0][w] : 0;
    }
    if (warp != mine)
        return;
    int last = start;
    for (int from = start; from < stop; from += 32) {
        float w = weight(from + lane);
        double upto = w;
        for (int m = 1; m < 32; m *= 2) {
            double left = __shfl_up_sync(~0u, upto, m);
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
        s->row.prob = (float)((double)weight_of(t, t.logits[last]) / total);
    }
}

/* Not inlined: its registers would make the fast way spill. */
__device__ __noinline__ void pick_slowly(const struct target &t, struct shared *s)
{
    uint64_t floor = 0;
    if (t.top_k)
        floor = search_cut(t, floor, false, t.top_k, s);
    if (t.top_p > 0 && t.top_p < 1) {
        const uint64_t from[3] = {floor, floor, floor};
        measure(t, floor, from, true, s);
        double mass = s->amount[0];
        floor = search_cut(t, floor, true, (double)t.top_p * mass, s);
    }
    pick_from(t, floor, s);
}

/* ---- a row ---- */

/* The i-th number of the stream, as engine/sampler.c draws it. */
__device__ double uniform(uint64_t state, int i)
{
    uint64_t z = state + (uint64_t)(i + 1) * GOLDEN;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

__device__ void sample_row(const struct step_pick_args &a, const struct step_sampling *how, const struct slice *slice, int row, int n_ids,
                           uint64_t best, struct shared *s)
{
    struct target &t = s->target;
    if (threadIdx.x == 0) {
        t.logits = a.logits + (size_t)row * a.vocab;
        t.tile_max = a.tile_max + (size_t)row * (a.vocab / TILE);
        t.n_ids = n_ids;
        t.top_k = how->top_k > 0 && how->top_k < n_ids ? how->top_k : 0;
        t.max = logit_of(best);
        t.temperature = how->temperature;
        t.top_p = how->top_p;
        t.min_p = how->min_p;
        t.u = uniform(how->rng, row);
        t.mass = t.settled = 0;
        t.below = ~0ull;
        for (int i = 0; i < SLICES && !t.top_k; i++) {
            float mass = __ldcg(&slice[i].mass);
            if (mass > 0)
                t.mass += (double)mass * (double)weight_of(t, logit_of(__ldcg((const unsigned long long *)&slice[i].best)));
        }
    }
    __syncthreads();
    int rank = t.top_k ? t.top_k : RANK;
    if (rank <= TOP) {
        bool all = false;
        int n = gather_best(t, rank, s, &all);
        if (n > 0 && threadIdx.x < 32) {
            bool found = pick_best(t, n, all, s);
            if (threadIdx.x == 0)
                s->slow = !found;
        } else if (n <= 0) {
            s->slow = 1;
        }
    } else {
        s->slow = 1;
    }
    __syncthreads();
    if (s->slow)
        pick_slowly(t, s);
}

__device__ void pick_row(const struct step_pick_args &a, const struct step_sampling *how, struct work *w, int row, int n_ids, struct shared *s)
{
    const struct slice *slice = w->slice[row];
    int lane = threadIdx.x % 32;
    uint64_t best = lane < SLICES ? __ldcg((const unsigned long long *)&slice[lane].best) : 0;
    int bad = lane < SLICES ? __ldcg(&slice[lane].bad) : INT32_MAX;
    best = warp_max_key(best);
    bad = (int)__reduce_min_sync(~0u, (unsigned)bad);
    if (threadIdx.x == 0) {
        s->row = {};
        if (bad != INT32_MAX) {
            s->row.ended = 3;
            s->row.bad_id = bad;
            s->row.bad_logit = a.logits[(size_t)row * a.vocab + bad];
        } else if (logit_of(best) == -INFINITY) {
            s->row.ended = 4;
        } else {
            s->row.id = id_of(best);
            s->row.prob = 1;
        }
    }
    __syncthreads();
    if (!s->row.ended && how->temperature > 0)
        sample_row(a, how, slice, row, n_ids, best, s);
    __syncthreads();
    if (threadIdx.x == 0)
        w->row[row] = s->row;
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

__device__ void copy_words(void *dst, const void *src, int bytes, int lane)
{
    for (int i = lane; i < bytes / 4; i += 32)
        ((uint32_t *)dst)[i] = ((const uint32_t *)src)[i];
}

/* Row by row; one thread. */
__device__ void walk_rows(const struct step_pick_args &a, struct walk *k)
{
    struct step_live *v = &k->live;
    struct step_sampling *how = &k->how;
    struct step_result *r = &k->result;
    int n_drafts = a.first ? 0 : min(min(v->n_drafts, a.n_rows - 1), how->room - 1);
    bool agreed = true;
    r->n_drafts = n_drafts;
    while (agreed && !r->ended && r->n < a.n_rows) {
        int i = r->n++;
        const struct row *p = &k->row[i];
        r->ids[i] = p->id;
        r->prob[i] = p->prob;
        agreed = i < n_drafts && p->id == v->ids[1 + i];
        r->drafted[i] = agreed;
        r->ended = p->ended;
        if (p->ended) {
            r->bad_id = p->bad_id;
            r->bad_logit = p->bad_logit;
        } else if (how->room <= r->n) {
            r->ended = 2;
        }
        for (int j = 0; j < how->n_stop; j++)
            if (!p->ended && how->stop[j] == p->id)
                r->ended = 1;
    }
    if (r->ended > 2)                   /* nothing of such a step is believed */
        r->n = 0;
}

/* The state after the step's n tokens; one thread. */
__device__ void advance(const struct step_pick_args &a, struct walk *k)
{
    struct step_live *v = &k->live;
    const struct step_result *r = &k->result;
    int n = r->n, old = v->pos;
    k->parity = v->parity;
    k->hidden = n - 1;
    v->step++;
    v->n_apply = a.first ? 0 : n;
    v->parity ^= !a.first;
    if (v->done)
        return;
    v->done = r->ended != 0;
    if (!n)
        return;
    v->pos += v->n_apply;
    v->ids[0] = r->ids[n - 1];
    v->n_drafts = 0;
    v->mtp_pos = a.first ? old - 1 : old;
    v->mtp_rows = n;
    v->mtp_last = n - 1;
    for (int i = 0; i < STEP_ROWS; i++) {
        v->mtp_next[i] = r->ids[min(i, n - 1)];
        v->draft_pos[i] = v->mtp_pos + n + i;
    }
    k->how.room -= n;
    k->how.rng += k->how.temperature > 0 ? (uint64_t)n * GOLDEN : 0;
    for (int i = 0; i < n; i++)
        a.marks[r->ids[i]] = 3;
}

__device__ void finish_step(const struct step_pick_args &a, const struct work *w, struct walk *k)
{
    int lane = threadIdx.x;
    if (threadIdx.x < 32) {
        copy_words(&k->live, a.live, sizeof k->live, lane);
        copy_words(&k->how, a.sampling, sizeof k->how, lane);
        for (int i = lane; i < (int)sizeof k->result / 4; i += 32)
            ((uint32_t *)&k->result)[i] = 0;
        for (int i = lane; i < (int)sizeof k->row / 4; i += 32)
            ((uint32_t *)k->row)[i] = __ldcg((const uint32_t *)w->row + i);
        __syncwarp();
        if (lane == 0) {
            if (!k->live.done)
                walk_rows(a, k);
            advance(a, k);
        }
        __syncwarp();
        copy_words(a.live, &k->live, sizeof k->live, lane);
        copy_words(a.sampling, &k->how, sizeof k->how, lane);
        struct step_result *out = &a.results[k->live.step % STEP_SLOTS];
        copy_words(out, &k->result, offsetof(struct step_result, serial), lane);
        __threadfence_system();
        __syncwarp();
        if (lane == 0)
            out->serial = k->live.step;
    }
    __syncthreads();
    const float *from = k->hidden < 0 ? a.last_hidden + (size_t)k->parity * a.width : a.hidden + (size_t)k->hidden * a.width;
    float *to = a.last_hidden + (size_t)k->live.parity * a.width, *before = a.last_hidden + 2 * (size_t)a.width;
    for (int i = threadIdx.x; i < a.width; i += THREADS) {
        before[i] = to[i];
        to[i] = from[i];
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

__global__ void __launch_bounds__(THREADS) step_pick_kernel(const __grid_constant__ struct step_pick_args a)
{
    __shared__ union {
        struct shared pick;
        struct walk   walk;
    } s;
    struct work *w = (struct work *)a.scratch;
    int row = blockIdx.y, range = (a.vocab + 4 * SLICES - 1) / (4 * SLICES) * 4;
    gpu_wait();
    gpu_next();
    const struct step_sampling *how = a.sampling;
    int n_ids = how->n_ids > 0 && how->n_ids < a.vocab ? how->n_ids : a.vocab;
    if (!a.live->done) {                /* the last block of all sets it, after every other one has read it */
        int from = (int)blockIdx.x * range;
        bool whole = how->top_k <= 0 || how->top_k >= n_ids;
        scan_slice(&w->slice[row][blockIdx.x], a.logits + (size_t)row * a.vocab, n_ids, from, from + range, whole ? how->temperature : 0, &s.pick);
        if (!last_of(&w->slices_done[row], SLICES))
            return;
        pick_row(a, how, w, row, n_ids, &s.pick);
        if (!last_of(&w->rows_done, a.n_rows))
            return;
    } else if (row || blockIdx.x) {
        return;
    }
    finish_step(a, w, &s.walk);
}

extern "C" void step_pick_cuda(struct cuda_queue *q, const struct step_pick_args *a)
{
    launch(q, "step_pick", step_pick_kernel, dim3(SLICES, (unsigned)a->n_rows), THREADS, 0, true, *a);
}

/* ---- drafts ---- */

__global__ void __launch_bounds__(THREADS) step_draft_kernel(struct step_draft_args a)
{
    __shared__ uint64_t reduce[WARPS];
    int n_tiles = (a.n_ids + TILE - 1) / TILE;
    uint64_t best = 0;
    gpu_wait();
    gpu_next();
#pragma unroll 8
    for (int i = threadIdx.x; i < n_tiles; i += THREADS)
        best = max_key(best, key_of(fmaxf(a.tile_max[i], -INFINITY), i));       /* no number is -inf */
    best = block_max_key(best, reduce);
    if (threadIdx.x >= 32)
        return;
    int id = id_of(best) * TILE + (int)threadIdx.x;
    float l = threadIdx.x < TILE && id < a.n_ids ? a.logits[id] : -INFINITY;
    best = warp_max_key(key_of(fmaxf(l, -INFINITY), id));
    if (threadIdx.x == 0) {
        a.live->draft_ids[a.i] = id_of(best);
        a.live->ids[1 + a.i] = id_of(best);
        a.live->n_drafts = a.i + 1;
    }
}

extern "C" void step_draft_cuda(struct cuda_queue *q, const struct step_draft_args *a)
{
    launch(q, "step_draft", step_draft_kernel, dim3(1), THREADS, 0, true, *a);
}

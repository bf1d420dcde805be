/* step_pick: the next tokens from the logits of a step's rows.
 * Shapes    logits [n_rows, vocab] fp32, tile_max [n_rows, step_maxima(vocab)] fp32, hidden [n_rows, width] fp32
 * Bytes     n_rows * vocab / 4 and a few tiles; n_rows * vocab * 4 twice with neither top-k nor greedy
 * Limit     latency: one launch, everything comes from the L2 cache
 * Launch    n_rows x 16 blocks of 1024 threads.  Block (row, 0) picks for its row, as if the row were reached; the last row
 *           that is done walks the rows while picks and drafts agree.  The 15 others are for the mass of all ids: without
 *           top-k each sums up a slice, and the last one done picks; so they do for logprobs
 *           Rows of several conversations: each one's are walked by the last of them that is done
 * Layout    scratch: struct work, must be zeroed before the first call; the last block to arrive resets the counter
 * Numerics  weights in fp32, at most 1, that of the best id.  Their sums (`mass`) are in fixed point; when the kept ids are more than fit
 *           into shared memory, sums over threads' strides are in fp32.  Every order is fixed, so equal logits give equal picks
 *
 * A tile with a NaN or infinite logit has the maximum infinity, so that nobody has to look at all logits for that.
 * How a row is picked: pick_row.cuh; what else was likely: logprobs.cuh; the rows together: here. */
#include "kernels/cuda/logprobs.cuh"

struct work {
    unsigned     rows_done[STEP_ROWS];  /* of the slot whose rows begin at this one */
    unsigned     slices_done[STEP_ROWS];
    struct row   row[STEP_ROWS];
    struct slice slice[STEP_ROWS][SLICES];
    struct look  look[STEP_ROWS][SLICES];
    struct logprobs logprobs[STEP_ROWS];
};
static_assert(sizeof(struct work) <= 65536, "step_pick_scratch()");

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
static_assert(LIVE_WORDS + HOW_WORDS <= PICK_THREADS && offsetof(struct walk, how) == 4 * LIVE_WORDS, "one word a thread");

__device__ __forceinline__ void copy_words(void *dst, const void *src, int bytes, int lane)
{
    for (int i = lane; i < bytes / 4; i += 32)
        ((uint32_t *)dst)[i] = ((const uint32_t *)src)[i];
}

/* True if the draft of a position is made the token, for measurements. */
__device__ __forceinline__ bool lucky(const struct step_sampling *how, int pos)
{
    return (float)(uint32_t)(splitmix((uint64_t)(pos + 1) * SPLITMIX_STEP) >> 40) * 0x1p-24f < how->trial[pos / how->trial_tokens % 2];
}

/* Accepts drafts row by row up to a pick that differs or ends; advances the state.  A bad logit there: n = 0.  One warp, a lane per row. */
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
        const bool trial = how->trial_tokens > 0 && !(a.masked >> lane & 1);
        const bool right = lane + 1 < STEP_ROWS && (trial ? lucky(how, old + lane) : p.id == v->ids[1 + lane]);
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
            a.sampling->rng = how->rng + (how->temperature > 0 ? (uint64_t)n * SPLITMIX_STEP : 0);
        }
    }
    __syncwarp();
}

__device__ __forceinline__ void copy_logprobs(struct logprobs *to, const struct logprobs *from, int n)
{
    for (int i = threadIdx.x; i < n * (int)(sizeof *to / 4); i += 32)
        ((uint32_t *)to)[i] = __ldcg((const uint32_t *)from + i);
}

__device__ void finish_step(const struct step_pick_args &a, struct walk *k, const struct logprobs *logprobs)
{
    struct step_result *out = nullptr;
    if (threadIdx.x < 32) {
        walk_rows(a, k);
        out = &a.results[k->live.step % STEP_RESULTS];
        copy_words(out, &k->result, offsetof(struct step_result, logprobs), threadIdx.x);
        if (k->how.n_alternatives > 0)
            copy_logprobs(out->logprobs, logprobs, k->result.n);
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
    for (int i = 4 * ((int)threadIdx.x - 32); i < a.width; i += 4 * (PICK_THREADS - 32)) {
        float4 was = *(const float4 *)(to + i), is = *(const float4 *)(from + i);
        *(float4 *)(before + i) = was;
        *(float4 *)(to + i) = is;
    }
}

/* True for the last of n blocks to come here, which then sees everything that the others wrote. */
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

/* True if sampling needs the mass of all ids. */
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
template <bool MASKED> __global__ void __launch_bounds__(PICK_THREADS) step_pick_kernel(const __grid_constant__ struct step_pick_args all)
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
        pick_row<MASKED>(a, how, w->slice[begin + row], row, n_ids, own, &s);
        if (looks && !s.row.ended)
            look_at_row(&w->logprobs[begin + row], w->look[begin + row], plain, how->n_alternatives, s.row.id, &s);
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
    finish_step(a, &walk, w->logprobs + begin);
}

extern "C" void step_pick_cuda(struct cuda_queue *q, const struct step_pick_args *a)
{
    launch(q, "step_pick", a->masked ? step_pick_kernel<true> : step_pick_kernel<false>, dim3((unsigned)a->n_rows, SLICES), PICK_THREADS, 0, true,
           *a);
}

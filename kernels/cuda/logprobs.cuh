/* Logprobs: the likeliest ids of a row as it was before bias and penalties, and how likely its pick was; by a block of 1024 threads. */
#pragma once

#include "kernels/cuda/pick_row.cuh"

/* Figures of a slice for logprobs. */
struct look {
    float    mass;              /* sum of exp(l - best l), of logits before bias and penalties */
    uint64_t key[STEP_ALTERNATIVES];    /* the best ones; 0: no more */
};

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
    for (int id = from + (int)threadIdx.x; id < to; id += PICK_THREADS) {
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
    for (int id = from + (int)threadIdx.x; id < to && max > -INFINITY; id += PICK_THREADS)
        mass += expf(plain_logit(r, id) - max);
    mass = block_sum(mass, s->by_warp[0]);
    if (threadIdx.x == 0)
        out->mass = mass;
}

/* The best of all slices, and how likely `id` was. */
__device__ void look_at_row(struct logprobs *out, const struct look *slice, const struct plain_row &r, int n, int id, struct shared *s)
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

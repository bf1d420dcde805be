/* Picking from given logits by the step operations of a CPU: the penalties of step_logits, then step_pick. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/sampler.h"
#include "kernels/cpu/pool.h"

struct picker {
    int vocab;
    struct step_sampling how;
    struct step_live     live;
    struct step_result   results[STEP_RESULTS];
    float   *logits, *tile_max, *bias;
    uint8_t *seen;
    void    *scratch;
    const uint32_t *mask;               /* of the next pick, or NULL */
};

struct pick {
    int32_t id;
    float   prob;
    struct logprobs logprobs;
};

static inline void picker_run(struct cpu_pool *p, cpu_units *fn, const void *args, int n, size_t bytes)
{
    (void)p, (void)bytes;
    fn(args, 0, n);
}

static inline struct cpu_pool *picker_pool(void)
{
    static struct cpu_pool pool = {.run = picker_run};  /* nothing here wants scratch memory of it */
    return &pool;
}

static inline struct picker *picker_open(int vocab)
{
    const size_t V = (size_t)vocab;
    struct picker *p = calloc(1, sizeof *p);
    CHECK(p);
    *p = (struct picker){.vocab = vocab, .logits = calloc(V, 4), .tile_max = calloc((size_t)step_maxima(vocab), 4), .bias = calloc(V, 4),
                         .seen = calloc(V, 1), .scratch = malloc(step_pick_scratch(vocab))};
    CHECK(p->logits && p->tile_max && p->bias && p->seen && p->scratch);
    return p;
}

static inline void picker_close(struct picker *p)
{
    if (!p)
        return;
    free(p->logits), free(p->tile_max), free(p->bias), free(p->seen), free(p->scratch);
    free(p);
}

/* Starts the stream of one answer, as the engine has a device start it. */
static inline void picker_begin(struct picker *p, const struct sampling *how, const int32_t *prompt, int n_prompt)
{
    p->live = (struct step_live){0};
    p->how = (struct step_sampling){
#define SAMPLING_NUMBER(name, ...) .name = how->name,
#include "config/sampling_numbers.def"
        .top_k = how->top_k, .n_ids = sampler_n_ids(how, p->vocab), .room = 1 << 30,
        .rng = sampler_stream(how), .biased = how->n_bias > 0, .n_alternatives = how->n_alternatives,
    };
    memset(p->seen, 0, (size_t)p->vocab);
    memset(p->bias, 0, (size_t)p->vocab * sizeof *p->bias);
    for (int i = 0; i < n_prompt; i++)
        p->seen[prompt[i]] |= i < n_prompt - how->n_answer_prefix ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
    for (int i = 0; i < how->n_bias; i++)
        p->bias[how->bias_ids[i]] += how->bias[i];
}

/* The matrix of a head that gives these logits from the number one. */
static inline struct weight picker_head(const float *logits, int vocab)
{
    return (struct weight){.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = vocab, .cols = 1, .data = logits};
}

/* The next id; false when none can be picked, with the reason. */
static inline bool picker_pick(struct picker *p, const float *logits, struct pick *out, struct err *e)
{
    static const float one = 1;
    float hidden = 0, last_hidden[3] = {0};
    *out = (struct pick){.id = -1, .logprobs = {.prob = -1}};
    step_logits_cpu(picker_pool(), &(struct step_logits_args){
        .logits = p->logits, .tile_max = p->tile_max, .w = picker_head(logits, p->vocab), .hidden = &one, .sampling = &p->how, .seen = p->seen,
        .bias = p->bias, .drafts = p->live.ids + 1, .n_rows = 1});
    step_pick_cpu(picker_pool(), &(struct step_pick_args){
        .logits = p->logits, .tile_max = p->tile_max, .live = &p->live, .sampling = &p->how, .seen = p->seen, .bias = p->bias, .results = p->results,
        .hidden = &hidden, .last_hidden = last_hidden, .scratch = p->scratch, .n_rows = 1, .vocab = p->vocab, .width = 1,
        .mask = p->mask, .masked = p->mask != NULL});
    const struct step_result *r = &p->results[p->live.step % STEP_RESULTS];
    if (r->ended == STEP_BAD_LOGIT)
        return sampler_bad_logit(e, r->bad_id, r->bad_logit);
    if (r->ended == STEP_ALL_BANNED)
        return sampler_all_banned(e, p->how.n_ids);
    out->id = r->ids[0];
    out->prob = r->prob[0];
    if (p->how.n_alternatives) {
        out->logprobs = (struct logprobs){.prob = r->logprobs[0].prob, .n = r->logprobs[0].n};
        memcpy(out->logprobs.ids, r->logprobs[0].ids, sizeof out->logprobs.ids);
        memcpy(out->logprobs.probs, r->logprobs[0].probs, sizeof out->logprobs.probs);
    }
    return true;
}

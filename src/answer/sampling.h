/* How to pick the tokens of an answer.  Plain value; {0}: greedy, without any limit.  engine/sampler.h says in which order its parts apply. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/limits.h"

struct guide;
struct sampling {
    /* float temperature        0: arg-max
     * float top_p              0 or 1: all
     * float min_p              0: off; keeps p >= min_p * p_max
     * float presence_penalty   subtracted from the logit of every id generated in this answer
     * float repetition_penalty 0 or 1: off; divides positive, multiplies negative logits of ids in prompt or answer */
#define SAMPLING_NUMBER(name, ...) float name;
#include "config/sampling_numbers.def"
    int      top_k;                     /* 0: all */
    uint64_t seed;
    int      max_tokens;                /* of the answer, without a beginning that was given; 0: until the context is full */
    int      draft_depth;               /* -1: in each step as many as pay; never more than the engine's */
    bool     lookup;                    /* drafts are looked up in the text, too; with draft_depth -1 */
    int      n_alternatives;            /* likeliest ids reported with every token, at most LIMIT_ALTERNATIVES; 0: no logprobs */
    const char *const *bias_words;      /* [n_bias_words] "TOKEN=X" (option/bias.h) */
    int      n_bias_words;

    /* in ids: filled in by a responder for its engine */
    int      n_ids;                     /* ids from here on are padding of the model's vocabulary, never picked; 0: there are none */
    int32_t  stop[LIMIT_STOP_IDS];      /* ids that end the answer; the stop id is delivered as the last token */
    int      n_stop;
    const int32_t *bias_ids;            /* logit bias, n_bias pairs; copied by engine_submit(); -INFINITY bans */
    const float   *bias;
    int      n_bias;
    int      n_answer_prefix;           /* the last ids of the prompt that are the answer's beginning: the presence penalty counts them, and the
                                         * random stream begins after them, as if they had just been picked */
    struct guide *guide;                /* what the answer may be (guide/guide.h), or NULL; retained by engine_submit() */
    bool     guide_rests;               /* the answer begins with reasoning, in which the guide rests */
    uint32_t client;                    /* whose request it is, for shares of what stays in memory (engine/residency.h); 0: not known */
    int      patience_ms;               /* requests that come within this time go first (base/clock.h); 0: a person waits for it */
};

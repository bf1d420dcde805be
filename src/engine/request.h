/* What is asked of the engine and how it ended: sampling, likely tokens, reasons to end, statistics. */
#ifndef Q35_ENGINE_REQUEST_H
#define Q35_ENGINE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/limits.h"

/* Prompts that are cut at multiples of so many tokens have the same bits however they are cut. */
enum { ENGINE_BLOCK = 64 };

enum { ENGINE_MAX_DEPTH = LIMIT_DRAFTS, ENGINE_MAX_STOP = LIMIT_STOP_IDS, ENGINE_MAX_ALTERNATIVES = LIMIT_ALTERNATIVES };

/* For measurements with random weights, whose drafts are never right: a draft is accepted with probability rate[i], whatever the model
 * says.  i is 0 for `tokens` positions, then 1 for as many, and so on. */
struct draft_trial {
    float rate[2];
    int   tokens;                       /* 0: off */
};

/* How to pick tokens for one request.  {0} with max_tokens set is greedy. */
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
    int      max_tokens;                /* of the answer; 0: until the context is full */
    int      draft_depth;               /* -1: in each step as many as pay; never more than the engine's */
    bool     lookup;                    /* drafts are looked up in the text, too; with draft_depth -1 */
    int      n_ids;                     /* ids from here on are padding of the model's vocabulary, never picked; 0: there are none */
    int32_t  stop[ENGINE_MAX_STOP];     /* ids that end the answer; the stop id is delivered as the last token */
    int      n_stop;
    const int32_t *bias_ids;            /* logit bias, n_bias pairs; copied by engine_submit; -INFINITY bans */
    const float   *bias;
    int      n_bias;
    int      n_answer_prefix;           /* the last ids of the prompt that are the answer's beginning: the presence penalty counts them,
                                         * and the random stream stands behind them, as if they had just been picked */
    int      patience_ms;               /* requests that come within this time go first (base/due.h); 0: a person waits for it */
    int      n_alternatives;            /* likeliest ids told with every token, at most ENGINE_MAX_ALTERNATIVES; 0: no logprobs */
    struct draft_trial trial;
};

/* Logprobs, as probabilities: softmax(logits) at one position, before bias, penalties, temperature and cuts.  But ids that a bias bans
 * have probability 0. */
struct logprobs {
    float   prob;                       /* of the id that was picked; negative: not asked for */
    int     n;                          /* the likeliest ids, by falling probability; of equal ones the lower id first */
    int32_t ids[ENGINE_MAX_ALTERNATIVES];
    float   probs[ENGINE_MAX_ALTERNATIVES];
};

enum finish {
    FINISH_STOP,        /* a stop id */
    FINISH_LENGTH,      /* max_tokens */
    FINISH_CONTEXT,     /* the context is full */
    FINISH_INTERRUPTED,
    FINISH_ERROR,       /* refused: message says why (prompt too long, id out of range); the engine lives on */
};

/* Drafted: proposed by the MTP block and accepted.  Looked up: likewise, found in the text. */
enum token_how { TOKEN_SAMPLED, TOKEN_DRAFTED, TOKEN_LOOKED_UP };

/* Why more of a prompt is computed than what is new in it.  {0}: no more was. */
struct refill {
    bool happened;
    bool resident;                      /* the conversation was resident, but there was no snapshot near enough; else it was not resident */
    int  common;                        /* tokens that the prompt shares with what was resident */
    int  pos;                           /* the nearest snapshot below; 0: none */
    bool from_file;                     /* that snapshot came back from a checkpoint */
};

struct turn_stats {
    int    n_prompt, n_cached;          /* prompt tokens; those of them that were not computed again */
    int    n_ahead;                     /* of n_cached: tokens that were read ahead since the last answer */
    int    n_tokens;                    /* generated, stop id included */
    int    n_steps;                     /* decode steps (verification passes) */
    int    drafted[ENGINE_MAX_DEPTH], accepted[ENGINE_MAX_DEPTH];       /* drafts that were verified, by draft position */
    int    looked_up[ENGINE_MAX_DEPTH], looked_up_accepted[ENGINE_MAX_DEPTH];   /* of these: drafts found in the text */
    double prefill_ms, decode_ms;       /* submit to first token; first token to last */
    double bytes;                       /* moved by the steps, drafts included: an estimate (model/traffic.h) */
    struct refill refill;
};

/* The beginning of a prompt that may come. */
struct beginning {
    uint64_t       sequence;            /* the conversation's name; 0: none */
    const int32_t *ids;
    int            n, snapshot_pos;
};

struct outcome {
    enum finish       finish;
    struct turn_stats stats;
    struct err        why;              /* when finish is FINISH_ERROR */
};

#endif

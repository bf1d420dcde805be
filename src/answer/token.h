/* A token of an answer: how it came about, how likely it was.  Plain values, valid as {0}. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/limits.h"

enum draft_source {
#define DRAFT_SOURCE(ID, ...) DRAFT_##ID,
#include "config/draft_sources.def"
    DRAFT_SOURCES
};

/* DRAFT_SOURCE: a draft of that source, which was verified and accepted. */
enum token_source {
    TOKEN_SAMPLED,
#define DRAFT_SOURCE(ID, ...) TOKEN_##ID,
#include "config/draft_sources.def"
    TOKEN_FORCED                        /* given, as the beginning of the answer */
};
static inline enum token_source token_of_draft(enum draft_source by) { return (enum token_source)(TOKEN_SAMPLED + 1 + (int)by); }
static inline bool token_was_drafted(int source) { return source > TOKEN_SAMPLED && source < TOKEN_FORCED; }

struct token {
    int32_t  id;
    size_t   from;                      /* byte of the decoded answer at which it begins */
    size_t   at;                        /* byte of its text; not above the text's length, see tokens_place() */
    float    prob;                      /* as in struct logprobs */
    uint8_t  source;                    /* enum token_source */
    bool     reasoning;
};

/* Logprobs, as probabilities: softmax(logits) at one position, before bias, penalties, temperature and cuts.  But ids that a bias bans
 * have probability 0. */
struct logprobs {
    float   prob;                       /* of the id that was picked; negative: not known */
    int32_t n;                          /* the likeliest ids, by falling probability; of equal ones the lower id first */
    int32_t ids[LIMIT_ALTERNATIVES];
    float   probs[LIMIT_ALTERNATIVES];
};

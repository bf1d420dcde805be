/* The tables of tokenizer.json and tokenizer_config.json: tokens, merge rules, added tokens.  Used only by tokenizer.c and its
 * tests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct token {
    uint32_t at, len;                   /* range in vocab.bytes; len 0: the id is unused */
    bool     added, special;
};

struct merge { int32_t left, right, result; };

struct pair { int32_t left, right; uint32_t rank; };

struct vocab {
    struct buf    bytes;                /* of all tokens, concatenated */
    struct token *tokens;               /* [n_ids] */
    int           n_ids, cap_ids;
    int32_t       byte_id[256];
    struct merge *merges;               /* [n_merges], by rank: the lower is applied first */
    uint32_t      n_merges;
    struct pair  *pairs;                /* hash table, open addressing, left -1: free */
    uint32_t      pair_mask;
    int32_t      *added;                /* [n_added].  The first n_in_text, longest first, come from tokenizer.json and are
                                         * searched for in texts.  The others are listed only in tokenizer_config.json, which
                                         * other encoders do not read: they are known by id and name only. */
    int           n_added, n_in_text;
    bool          added_lead[256];      /* true for first bytes of added tokens */
    char         *notice;
};

/* False with the reason; the caller frees `v` (zeroed before) either way. */
bool vocab_read(struct vocab *v, const char *dir, struct err *e);
void vocab_free(struct vocab *v);

#define VOCAB_NO_RULE UINT32_MAX

static inline uint32_t vocab_pair_hash(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 51);
}

/* Rank of the rule that joins two neighbours. */
static inline uint32_t vocab_rank(const struct vocab *v, int32_t left, int32_t right)
{
    for (uint32_t i = vocab_pair_hash(left, right) & v->pair_mask;; i = (i + 1) & v->pair_mask) {
        const struct pair *p = &v->pairs[i];
        if (p->left == left && p->right == right)
            return p->rank;
        if (p->left < 0)
            return VOCAB_NO_RULE;
    }
}

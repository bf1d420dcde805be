/* The tokens of one answer, and where they stand in its texts.  Plain value, valid as {0}. */
#pragma once

#include "answer/token.h"

struct tokens {
    struct token *all;
    struct logprobs *alternatives;      /* [n]; NULL: not known, or no longer */
    int  n, cap;
    int  n_placed;
    uint64_t seed;                      /* of the request that sampled them */
    bool seeded;
    bool thinking;                      /* the prompt ended inside the think block */
};

/* Appends a token.  `alternatives` may be NULL: not known. */
void tokens_add(struct tokens *t, struct token token, const struct logprobs *alternatives);
/* Notes that n bytes of the decoded answer, from byte `from` on, are bytes `at` ... of a text.  Calls come in order.  Tokens that no call places
 * are at the text's end: markup, and white space that is left out. */
void tokens_place(struct tokens *t, bool reasoning, size_t from, size_t n, size_t at);
const struct logprobs *tokens_alternatives(const struct tokens *t, int i);    /* NULL: not known */
void tokens_copy(struct tokens *t, const struct tokens *from, int n);   /* replaces *t with the first n */
void tokens_drop_alternatives(struct tokens *t);
void tokens_reset(struct tokens *t);
void tokens_free(struct tokens *t);

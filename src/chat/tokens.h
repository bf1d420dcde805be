/* How the tokens of one answer came about, and where they stand in its texts.  Plain value, valid as {0}. */
#ifndef Q35_CHAT_TOKENS_H
#define Q35_CHAT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/chat.h"

struct token {
    int32_t  id;
    size_t   from;              /* byte of the decoded answer at which it begins */
    size_t   at;                /* byte of its text; not above the text's length, see tokens_place() */
    float    prob;              /* negative: not known */
    uint8_t  how;               /* enum chat_token_how */
    bool     reasoning;
};

struct alternatives {
    int     n;
    int32_t ids[CHAT_ALTERNATIVES];
    float   probs[CHAT_ALTERNATIVES];
};

struct tokens {
    struct token *all;
    struct alternatives *alternatives;  /* [n]; NULL: not known, or no longer */
    int  n, cap;
    int  n_placed;
    uint64_t seed;              /* of the request that sampled them */
    bool seeded;
    bool thinking;              /* the prompt ended inside the think block */
};

/* `alternatives` may be NULL: not known. */
void tokens_add(struct tokens *t, struct token token, const struct alternatives *alternatives);
/* n bytes of the decoded answer, from byte `from` on, are bytes `at` ... of a text.  Comes in order; what is never placed
 * stands at the text's end: markup, and white space that goes. */
void tokens_place(struct tokens *t, bool reasoning, size_t from, size_t n, size_t at);
const struct alternatives *tokens_alternatives(const struct tokens *t, int i);        /* NULL: not known */
void tokens_copy(struct tokens *t, const struct tokens *from, int n);   /* the first n; over what there was */
void tokens_drop_alternatives(struct tokens *t);
void tokens_reset(struct tokens *t);
void tokens_free(struct tokens *t);

#endif

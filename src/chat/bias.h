/* The option logit_bias as numbers: TEXT=X or ID=X, X added to the logit of that token, -inf never takes it. */
#ifndef Q35_CHAT_BIAS_H
#define Q35_CHAT_BIAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tokenizer.h"

struct bias {
    int32_t *ids;
    float   *values;
    int      n;
};

/* Is it written well?  Which tokens there are is the tokenizer's to know: bias_make(). */
bool bias_check(const char *item, struct err *e);
/* Fills `b` anew with the n items, which bias_check() has passed.  False if a text is not exactly one token. */
bool bias_make(struct bias *b, const char *const *items, int n, const struct tokenizer *tok, struct err *e);
void bias_free(struct bias *b);

#endif

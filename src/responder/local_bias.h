/* Items of the option logit_bias as numbers for the engine. */
#ifndef Q35_RESPONDER_LOCAL_BIAS_H
#define Q35_RESPONDER_LOCAL_BIAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tokenizer.h"

struct biases {
    int32_t *ids;
    float   *values;
    int      n;
};

/* Fills `b` anew.  False if a text is not exactly one token. */
bool biases_make(struct biases *b, const char *const *items, int n, const struct tokenizer *tok, struct err *e);
void biases_ban(struct biases *b, const char *token, const struct tokenizer *tok);      /* one more; nothing if it is not exactly one token */
void biases_free(struct biases *b);

#endif

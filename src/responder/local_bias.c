#include "responder/local_bias.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "option/flags.h"

/* Only digits are an id; quotes make any text a text, also one with blanks around it. */
static bool find_token(const char *s, size_t n, const struct tokenizer *tok, int32_t *id, struct err *e)
{
    struct ids ids = {0};
    if (strspn(s, "0123456789") >= n) {
        long v = n < 10 ? strtol(s, NULL, 10) : -1;
        if (v < 0 || v >= tokenizer_n_ids(tok))
            return err_set(e, "logit_bias for token %.*s, expected 0 to %d", (int)n, s, tokenizer_n_ids(tok) - 1);
        *id = (int32_t)v;
        return true;
    }
    if (n > 2 && s[0] == '"' && s[n - 1] == '"') {
        s++;
        n -= 2;
    }
    tokenizer_encode(tok, s, n, true, &ids);
    bool one = ids.n == 1;
    if (one)
        *id = ids.data[0];
    else
        err_set(e, "logit_bias for '%.*s': that is %d tokens, expected one", (int)n, s, ids.n);
    ids_free(&ids);
    return one;
}

bool biases_make(struct biases *b, const char *const *items, int n, const struct tokenizer *tok, struct err *e)
{
    b->n = 0;
    b->ids = memory_resized(b->ids, ((size_t)n + 1) * sizeof *b->ids);
    b->values = memory_resized(b->values, ((size_t)n + 1) * sizeof *b->values);
    for (int i = 0; i < n; i++, b->n++) {
        size_t len;
        CHECK(bias_split(items[i], &len, &b->values[i]));
        if (!find_token(items[i], len, tok, &b->ids[i], e))
            return false;
    }
    return true;
}

void biases_ban(struct biases *b, const char *token, const struct tokenizer *tok)
{
    int32_t id = -1;
    struct err e;
    if (!find_token(token, strlen(token), tok, &id, &e))
        return;
    b->ids = memory_resized(b->ids, ((size_t)b->n + 1) * sizeof *b->ids);
    b->values = memory_resized(b->values, ((size_t)b->n + 1) * sizeof *b->values);
    b->ids[b->n] = id;
    b->values[b->n++] = -INFINITY;
}

void biases_free(struct biases *b)
{
    free(b->ids);
    free(b->values);
    *b = (struct biases){0};
}

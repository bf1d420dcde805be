#include "answer/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void tokens_add(struct tokens *t, struct token token, const struct logprobs *alternatives)
{
    const int cap = t->cap;
    t->all = memory_grow(t->all, t->n, &t->cap, sizeof *t->all);
    if (t->alternatives && t->cap > cap)
        t->alternatives = memory_resized(t->alternatives, (size_t)t->cap * sizeof *t->alternatives);
    if (alternatives && alternatives->n && !t->alternatives)
        t->alternatives = memory_zeroed((size_t)t->cap, sizeof *t->alternatives);
    if (t->alternatives)
        t->alternatives[t->n] = alternatives ? *alternatives : (struct logprobs){0};
    token.at = SIZE_MAX;
    t->all[t->n++] = token;
}

void tokens_place(struct tokens *t, bool reasoning, size_t from, size_t n, size_t at)
{
    for (; t->n_placed < t->n; t->n_placed++) {
        struct token *k = &t->all[t->n_placed];
        if (k->from >= from + n)
            break;
        if (k->reasoning == reasoning)
            k->at = k->from > from ? at + k->from - from : at;
    }
}

const struct logprobs *tokens_alternatives(const struct tokens *t, int i)
{
    return t->alternatives ? &t->alternatives[i] : NULL;
}

void tokens_copy(struct tokens *t, const struct tokens *from, int n)
{
    tokens_reset(t);
    for (int i = 0; i < n; i++)
        tokens_add(t, from->all[i], tokens_alternatives(from, i));
    t->seed = from->seed;
    t->seeded = from->seeded;
    t->thinking = from->thinking;
}

void tokens_drop_alternatives(struct tokens *t)
{
    free(t->alternatives);
    t->alternatives = NULL;
}

void tokens_reset(struct tokens *t)
{
    tokens_drop_alternatives(t);
    t->n = t->n_placed = 0;
    t->seeded = t->thinking = false;
}

void tokens_free(struct tokens *t)
{
    free(t->all);
    free(t->alternatives);
    *t = (struct tokens){0};
}

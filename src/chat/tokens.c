#include "chat/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

_Static_assert((int)CHAT_ALTERNATIVES == (int)ENGINE_MAX_ALTERNATIVES, "chat tells what the engine tells");

static void grow(struct tokens *t)
{
    t->cap = t->cap ? 2 * t->cap : 64;
    t->all = memory_resized(t->all, (size_t)t->cap * sizeof *t->all);
    if (!t->near)
        return;
    t->near = memory_resized(t->near, (size_t)t->cap * sizeof *t->near);
}

static void note_alternatives(struct tokens *t, const struct outlook *o)
{
    struct alternatives a = {0};
    if (o && o->n && !t->near) {
        t->near = memory_zeroed((size_t)t->cap, sizeof *t->near);
    }
    if (!t->near)
        return;
    if (o) {
        a.n = o->n;
        memcpy(a.ids, o->ids, (size_t)o->n * sizeof *a.ids);
        memcpy(a.probs, o->probs, (size_t)o->n * sizeof *a.probs);
    }
    t->near[t->n] = a;
}

void tokens_add(struct tokens *t, struct token token, const struct outlook *o)
{
    if (t->n == t->cap)
        grow(t);
    token.at = SIZE_MAX;
    token.prob = o ? o->prob : -1;
    t->all[t->n] = token;
    note_alternatives(t, o);
    t->n++;
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

struct outlook tokens_outlook(const struct tokens *t, int i)
{
    struct outlook o = {.prob = t->all[i].prob};
    if (t->near) {
        const struct alternatives *a = &t->near[i];
        o.n = a->n;
        memcpy(o.ids, a->ids, sizeof a->ids);
        memcpy(o.probs, a->probs, sizeof a->probs);
    }
    return o;
}

void tokens_copy(struct tokens *t, const struct tokens *from, int n)
{
    tokens_reset(t);
    for (int i = 0; i < n; i++) {
        struct outlook o = tokens_outlook(from, i);
        tokens_add(t, from->all[i], &o);
    }
    t->seed = from->seed;
    t->seeded = from->seeded;
    t->thinking = from->thinking;
}

void tokens_drop_alternatives(struct tokens *t)
{
    free(t->near);
    t->near = NULL;
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
    free(t->near);
    *t = (struct tokens){0};
}

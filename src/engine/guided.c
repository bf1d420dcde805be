#include "engine/guided.h"

#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/stepper.h"

static bool is_end(const struct guided *g, int32_t id)
{
    for (int i = 0; i < g->how->n_stop; i++)
        if (g->how->stop[i] == id)
            return true;
    return false;
}

/* Advances over the id from *s.  False if it is refused. */
static bool advance(const struct guided *g, struct guide_state *s, bool *ended, int32_t id)
{
    if (*ended)
        return false;
    if (is_end(g, id))
        return *ended = guide_may_end(g->guide, s);
    return guide_advance(g->guide, s, id);
}

bool guided_begin(struct guided *g, const struct sampling *how, struct spans prompt, int vocab, struct err *e)
{
    const int32_t *given = prompt.ids + prompt.n - how->n_answer_prefix;
    *g = (struct guided){.guide = how->guide, .how = how, .n_ids = vocab};
    if (!how->guide)
        return true;
    g->at = guide_begin(how->guide, how->guide_rests);
    int fits = 0;
    guide_watch(g->guide, &g->at);
    for (bool ok = true; ok && fits < how->n_answer_prefix; fits += ok) {
        guide_settle(g->guide, GRAMMAR_TRIM);
        ok = advance(g, &g->at, &g->ended, given[fits]);
    }
    guide_unwatch(g->guide, &g->at);
    if (fits < how->n_answer_prefix && guide_is_optional(how->guide)) {
        *g = (struct guided){0};
        return true;
    }
    if (fits < how->n_answer_prefix)
        return err_set(e, "the beginning of the answer does not fit its schema or grammar: token %d of %d is refused", fits + 1,
                       how->n_answer_prefix);
    g->mask = memory_zeroed((size_t)step_mask_words(vocab), sizeof *g->mask);
    return true;
}

void guided_watch(struct guided *g)
{
    if (g->guide)
        guide_watch(guide_retain(g->guide), &g->at);
}

void guided_free(struct guided *g)
{
    if (g->guide)
        guide_unwatch(g->guide, &g->at);
    guide_release(g->guide);
    free(g->mask);
    *g = (struct guided){0};
}

int guided_admits(const struct guided *g, const int32_t *ids, int n)
{
    struct guide_state s = g->at;
    bool ended = g->ended;
    const bool rests = guided_rests(g);
    int i = 0;
    while (i < n && advance(g, &s, &ended, ids[i]) && (!rests || ended || guide_rests(g->guide, &s)) &&
           (g->how->n_stop || !guide_must_end(g->guide, &s)))
        i++;
    return i;
}

bool guided_rests(const struct guided *g)
{
    return !g->guide || guide_rests(g->guide, &g->at);
}

int guided_refuses(struct guided *g, const struct step_result *r)
{
    guide_settle(g->guide, INT_MAX);         /* what a mask found stays until the id that it admitted is accepted */
    struct guide_state s = g->at;
    bool ended = g->ended;
    for (int i = 0; i < r->n; i++)
        if (!advance(g, &s, &ended, r->ids[i]))
            return i;
    g->at = s;
    g->ended = ended;
    guide_settle(g->guide, GRAMMAR_TRIM);
    return -1;
}

bool guided_mask(struct guided *g, const struct step_result *r, int row)
{
    struct guide_state s = g->at;
    bool ended = g->ended;
    for (int i = 0; i < row; i++)
        advance(g, &s, &ended, r->ids[i]);
    int n = guide_mask(g->guide, &s, g->mask, g->n_ids);
    const bool may_end = guide_may_end(g->guide, &s);
    for (int i = 0; i < g->how->n_stop; i++) {
        const int32_t id = g->how->stop[i];
        if (id < 0 || id >= g->n_ids)
            continue;
        g->mask[id / 32] &= ~(1u << (id % 32));
        g->mask[id / 32] |= (uint32_t)may_end << (id % 32);
        n += may_end;
    }
    return n > 0;
}

bool guided_is_full(const struct guided *g)
{
    return g->guide && guide_full(g->guide);
}

bool guided_is_over(const struct guided *g)
{
    return guide_must_end(g->guide, &g->at);
}

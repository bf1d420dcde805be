/* Bias, penalties and maxima of logits, for heads in every form. */
#include "kernels/cpu/step_logits.h"

#include <math.h>

/* Applies bias and penalties in the order of engine/sampler.h. */
float step_penalised(const struct step_logits_args *a, float l, int id, struct step_row r)
{
    const size_t at = (size_t)r.slot * (size_t)a->w.rows + (size_t)id;
    const struct step_sampling *s = a->sampling + r.slot;
    int seen = a->seen[at];
    for (int i = 0; i < r.index; i++)
        if (step_live_of(a->drafts, r.slot)[i] == id)
            seen = STEP_IN_TEXT | STEP_IN_ANSWER;
    if (s->biased)
        l += a->bias[at];
    if (seen && s->repetition_penalty > 0 && s->repetition_penalty != 1)
        l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
    return seen & STEP_IN_ANSWER ? l - s->presence_penalty : l;
}

static bool has_penalties(const struct step_sampling *s)
{
    return s && (s->biased || s->presence_penalty != 0 || (s->repetition_penalty > 0 && s->repetition_penalty != 1));
}

float step_greatest(const float *l, int n)
{
    float max = -INFINITY;
    bool nan = false;
    for (int i = 0; i < n; i++) {
        nan |= l[i] != l[i];
        max = l[i] > max ? l[i] : max;
    }
    return nan ? INFINITY : max;
}

/* Finishes the logits of rows; a unit is a row. */
static void finish_rows(const void *args, int begin, int end)
{
    const struct step_logits_args *a = args;
    const int vocab = a->w.rows, n_maxima = step_maxima(vocab);
    for (int t = begin; t < end; t++) {
        const struct step_row row = step_row(a->rows, t);
        const struct step_sampling *how = step_how(a, t);
        const int n_ids = step_n_ids(a, t);
        float *l = a->logits + (size_t)t * (size_t)vocab, *max = a->tile_max + (size_t)t * (size_t)n_maxima;
        for (int id = 0; id < n_ids && has_penalties(how); id++)
            l[id] = step_penalised(a, l[id], id, row);
        for (int id = n_ids; id < vocab; id++)
            l[id] = -INFINITY;
        for (int i = 0; i < n_maxima; i++) {
            const int left = vocab - i * STEP_TILE;
            max[i] = left > 0 ? step_greatest(l + i * STEP_TILE, left < STEP_TILE ? left : STEP_TILE) : -INFINITY;
        }
    }
}

void step_finish_logits(struct cpu_pool *p, const struct step_logits_args *a, int n)
{
    p->run(p, finish_rows, a, n, (size_t)n * (size_t)a->w.rows * sizeof *a->logits);
}

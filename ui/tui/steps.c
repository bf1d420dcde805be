#include "ui/tui/steps.h"

#include <string.h>

void steps_begin(struct steps *s)
{
    *s = (struct steps){0};
}

static void push(struct steps *s, float ms)
{
    if (s->n == STEPS_KEPT)
        memmove(s->ms, s->ms + 1, (STEPS_KEPT - 1) * sizeof *s->ms);
    else
        s->n++;
    s->ms[s->n - 1] = ms;
}

void steps_add(struct steps *s, const struct stats *now)
{
    int n = now->n_steps - s->last.n_steps;
    double ms = now->decode_ms - s->last.decode_ms;
    for (int i = 0; i < n && i < STEPS_KEPT && ms > 0; i++)
        push(s, (float)(ms / n));
    s->last = *now;
}

void steps_sample(struct steps *s, const struct stats *now)
{
    s->samples[s->n_samples++ % STEPS_SAMPLES] = *now;
}

void steps_recent(const struct steps *s, struct stats *out)
{
    const struct stats *old = s->n_samples > STEPS_SAMPLES ? &s->samples[s->n_samples % STEPS_SAMPLES] : &s->samples[0];
    *out = stats_between(old, &s->last);
}

/* The decode steps of a turn, from the chat's figures for the whole turn so far: how long the last steps took, and figures of the last seconds.
 * Plain value, valid as {0}.  The engine measures the times, so they do not depend on when these functions are called. */
#ifndef Q35_UI_TUI_STEPS_H
#define Q35_UI_TUI_STEPS_H

#include "chat/chat.h"

enum { STEPS_KEPT = 32, STEPS_SAMPLES = 10 };

struct steps {
    float ms[STEPS_KEPT];               /* [n] the newest last; steps that were reported together get their mean */
    int   n;
    struct stats last;             /* figures at the newest step */
    struct stats samples[STEPS_SAMPLES];           /* a ring of figures, one for each call of steps_sample() */
    int   n_samples;
};

void steps_begin(struct steps *s);                              /* a turn begins */
void steps_add(struct steps *s, const struct stats *now);  /* whenever events have come */
void steps_sample(struct steps *s, const struct stats *now);
/* Figures since the oldest sample: tokens, steps, drafts, decode_ms. */
void steps_recent(const struct steps *s, struct stats *out);

#endif

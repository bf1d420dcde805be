/* The decode steps of a turn, from the figures that the chat gives for all of it so far: how long the last ones took, and how
 * things go of late.  Plain value, valid as {0}; the engine measures, so nothing here depends on when somebody looks. */
#ifndef Q35_UI_TUI_STEPS_H
#define Q35_UI_TUI_STEPS_H

#include "chat/chat.h"

enum { STEPS_KEPT = 32, STEPS_SAMPLES = 10 };

struct steps {
    float ms[STEPS_KEPT];               /* the newest last; steps that came together have their mean */
    int   n;
    struct chat_stats last;             /* as of the newest step */
    struct chat_stats samples[STEPS_SAMPLES];           /* a ring: so many calls of steps_sample() ago */
    int   n_samples;
};

void steps_begin(struct steps *s);                              /* a turn begins */
void steps_add(struct steps *s, const struct chat_stats *now);  /* whenever something has come */
void steps_sample(struct steps *s, const struct chat_stats *now);
/* What has come since the oldest sample: tokens, steps, drafts, decode_ms. */
void steps_recent(const struct steps *s, struct chat_stats *out);

#endif

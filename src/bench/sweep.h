/* Whole steps and whole prompts of one model, over context depth and rows. */
#pragma once

#include "bench/subject.h"
#include "model/stepper.h"

enum { SWEEP_MARGIN = 1024, SWEEP_MAX_STEPS = 64 };     /* positions after a depth that is measured */

/* One row of the table of steps: without drafts, of `rows` rows at `pos`. */
struct sweep_step {
    int    pos, rows;
    double ms, bytes;
    double distinct;                    /* experts a layer */
};

struct sweep {
    struct subject  s;
    struct report  *r;
    struct stepper *stepper;            /* NULL on the CPU */
    int      n_ctx, chunk;
    int32_t *ids;                       /* [n_ctx] arbitrary */
    struct sweep_step steps[SWEEP_MAX_STEPS];
    int      n_steps;
    struct err e;
};

/* Opens model and stepper.  False with the reason in w->e; must be closed either way.  o->n_ctx 0: the deepest context of the table. */
bool sweep_open(struct sweep *w, const struct bench_options *o, struct report *r);
void sweep_close(struct sweep *w);

/* Each measures a table, which ends early if the report is stopped or has no time left.  False when the device failed, with the reason in w->e. */
bool sweep_decode(struct sweep *w);
bool sweep_steps(struct sweep *w, int pos, int max_rows);       /* of 1 to max_rows rows at one context */
bool sweep_prompts(struct sweep *w);
/* Returns the measurement of such a step; NULL: it was not measured. */
const struct sweep_step *sweep_step_of(const struct sweep *w, int rows, int pos);

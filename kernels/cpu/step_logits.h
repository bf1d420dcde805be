/* The parts that all ways of computing logits share (kernels/step.h, step_logits). */
#pragma once

#include "kernels/cpu/pool.h"

enum { STEP_TILE = 16 };        /* ids of one maximum */

/* Returns the sampling of row t; NULL: raw logits. */
static inline const struct step_sampling *step_how(const struct step_logits_args *a, int t)
{
    return a->sampling ? a->sampling + step_row(a->rows, t).slot : NULL;
}
/* Returns the first id of row t that is never picked, as all ids after it. */
static inline int step_n_ids(const struct step_logits_args *a, int t)
{
    const int given = a->sampling ? step_how(a, t)->n_ids : a->n_ids;
    return given > 0 && given < a->w.rows ? given : a->w.rows;
}

/* Returns a logit with bias and penalties. */
float step_penalised(const struct step_logits_args *a, float l, int id, struct step_row r);
/* Returns the greatest of n <= STEP_TILE logits, as tile_max has it. */
float step_greatest(const float *l, int n);
/* Applies bias and penalties to all logits of n rows, writes -inf after the last id, and the maxima. */
void  step_finish_logits(struct cpu_pool *p, const struct step_logits_args *a, int n);

/* Writes the logits of n normed rows from a head in two planes. */
void  step_planes(struct cpu_pool *p, const struct step_logits_args *a, const float *h, int n);

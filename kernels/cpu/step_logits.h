/* What the ways of computing logits share (kernels/step.h, step_logits). */
#ifndef Q35_KERNELS_CPU_STEP_LOGITS_H
#define Q35_KERNELS_CPU_STEP_LOGITS_H

#include "kernels/cpu/pool.h"

enum { STEP_TILE = 16 };        /* ids of one maximum */

/* How row t is picked from; NULL: raw logits. */
static inline const struct step_sampling *step_how(const struct step_logits_args *a, int t)
{
    return a->sampling ? a->sampling + step_row(a->rows, t).slot : NULL;
}
/* Its ids from here on are never picked. */
static inline int step_n_ids(const struct step_logits_args *a, int t)
{
    const int given = a->sampling ? step_how(a, t)->n_ids : a->n_ids;
    return given > 0 && given < a->w.rows ? given : a->w.rows;
}

/* A logit with bias and penalties. */
float step_penalised(const struct step_logits_args *a, float l, int id, struct step_row r);
/* The greatest of n <= STEP_TILE logits, as tile_max has it. */
float step_greatest(const float *l, int n);
/* Bias and penalties to all logits of n rows, -inf behind the last id, and the maxima. */
void  step_finish_logits(struct cpu_pool *p, const struct step_logits_args *a, int n);

/* A head in two planes: logits of n normed rows. */
void  step_planes(struct cpu_pool *p, const struct step_logits_args *a, const float *h, int n);

#endif

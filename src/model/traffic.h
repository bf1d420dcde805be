/* Bytes that decode steps move: weights, states and KV rows.  A step's time follows them, since memory is its limit.
 * Plain arithmetic on the shapes of a model. */
#pragma once

#include "model/config.h"
#include "model/kv.h"
#include "model/weights.h"

/* Bytes that a model on a device moves; made by traffic_of(). */
struct traffic {
    const struct model_config *c;
    const struct kv_recipe    *kv;
    double fixed;                       /* every step: all weights but the routed experts, head included; states, read and written */
    double expert;                      /* one expert in every layer */
    double mtp, mtp_expert;             /* a run of the MTP block: without routed experts; one expert */
    double mtp_rows;                    /* a run of the MTP block that makes KV rows only */
    double draft_head;                  /* each draft */
};

/* Returns the bytes that a kernel reads of a matrix: `packed` (kernels/pack.h) or as stored. */
size_t traffic_matrix(const struct weight *w, bool packed);
/* Returns the same for one expert, shared or routed. */
size_t traffic_expert(const struct expert_weights *x, bool packed);

/* Returns the figures of steps with that head, KV rows of that recipe and weights that are packed or not.  Config and recipe must stay valid. */
struct traffic traffic_of(const struct model_config *c, const struct weights *w, enum head head, const struct kv_recipe *kv, bool packed);
/* Returns about how many experts of a layer n rows select together: 8 n^0.77 of 256, as published measurements of this shape have it. */
double traffic_distinct(const struct traffic *t, double rows);
/* Returns the bytes of a step of `rows` rows at `pos` that reads `distinct` experts a layer. */
double traffic_step(const struct traffic *t, int rows, int pos, double distinct);
/* Returns the bytes of a run of the MTP block over rows that read `distinct` experts; its KV rows are not counted. */
double traffic_mtp(const struct traffic *t, double distinct);

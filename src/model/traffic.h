/* Bytes that decode steps move: weights, states and KV rows.  A step's time follows them, since memory is its limit.
 * Plain arithmetic on the shapes of a model. */
#ifndef Q35_MODEL_TRAFFIC_H
#define Q35_MODEL_TRAFFIC_H

#include "model/config.h"
#include "model/kv.h"
#include "model/weights.h"

/* Of a model on a device, in bytes; made by traffic_of(). */
struct traffic {
    const struct model_config *c;
    const struct kv_recipe    *kv;
    double fixed;                       /* every step: all weights but the routed experts, head included; states, read and written */
    double expert;                      /* one expert in every layer */
    double mtp, mtp_expert;             /* a run of the MTP block likewise: without routed experts; one expert */
    double mtp_rows;                    /* a run of the MTP block that makes KV rows only */
    double draft_head;                  /* each draft */
};

/* What a kernel reads of a matrix: `packed` (kernels/pack.h) or as stored. */
size_t traffic_matrix(const struct weight *w, bool packed);
/* The same for one expert, shared or routed. */
size_t traffic_expert(const struct expert_weights *x, bool packed);

/* Of steps with that head, KV rows of that recipe and weights that are packed or not.  Config and recipe stay valid. */
struct traffic traffic_of(const struct model_config *c, const struct weights *w, enum head head, const struct kv_recipe *kv, bool packed);
/* About how many experts of a layer n rows select together: 8 n^0.77 of 256, as published measurements of this shape have it. */
double traffic_distinct(const struct traffic *t, double rows);
/* A step of `rows` rows at `pos` that reads `distinct` experts a layer. */
double traffic_step(const struct traffic *t, int rows, int pos, double distinct);
/* The MTP block over rows that read `distinct` experts; its KV rows are not counted. */
double traffic_mtp(const struct traffic *t, double distinct);

#endif

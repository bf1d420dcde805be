/* The recorder holds decode steps as recorded operations (kernels/step.def), one graph for each recipe, with the device memory that they work in.  A
 * recipe is recorded when it is launched for the first time.  Used by the stepper alone; one owner thread. */
#ifndef Q35_MODEL_RECORDER_H
#define Q35_MODEL_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/step.h"
#include "model/cache.h"
#include "model/forward.h"

/* Most MTP rows of a conversation that may be left out before they are run together; in a run of 256 rows each costs little. */
enum { RECORDER_BEHIND = 256 };

struct recorder;

/* For steps on any of the n caches, one for each conversation's slot, with up to max_depth drafts each.  NULL with the reason. */
struct recorder *recorder_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e);
void   recorder_close(struct recorder *r);              /* the device must have finished all launches */
size_t recorder_bytes(const struct model_config *c, int max_depth, int n_slots);        /* device memory that a recorder takes */
/* How many rows of the head, from the first on, drafts are chosen from. */
int    recorder_draft_rows(const struct weight *head);

/* Memory of one conversation that the operations use: device memory, except `results` and `made`. */
struct recorder_slot {
    struct step_live     *live;
    struct step_sampling *sampling;
    uint8_t *seen;                      /* [vocab] */
    float   *bias;                      /* [vocab] */
    float   *last_hidden;               /* [3, hidden] */
    struct step_result *results;        /* [STEP_RESULTS] host memory */
    struct step_drafts *made;           /* host memory: the newest drafts */
    float   *behind;                    /* [RECORDER_BEHIND, hidden] inputs of the MTP rows that were left out: hidden states */
    int32_t *behind_next;               /* [RECORDER_BEHIND] ... and the token after each position */
};
struct recorder_slot recorder_slot(const struct recorder *r, int slot);

/* What a graph runs, in this order and each part only if there is any: a step of step_rows rows, mtp_rows rows of the MTP block, drafts from..to. */
struct recipe {
    int  slot;                          /* of the conversation, unless `together` */
    int  step_rows, mtp_rows;           /* 0: none */
    bool first;                         /* instead of a step: the first pick of an answer */
    bool together;                      /* of several conversations: the rows of recorder_set_rows() */
    int  from, to;                      /* indices of drafts; none if to < from */
    int  n_drafting;                    /* with `together`: conversations that drafts are made for */
};
void recorder_launch(struct recorder *r, const struct recipe *what);
/* Sets the rows of the following steps of several conversations, and n of these rows, one of each conversation, that drafts are made for. */
void recorder_set_rows(struct recorder *r, const struct step_row *rows, int n_rows, const struct step_row *draft_rows, int n);
/* Records the recipe as a graph that the caller owns; NULL with the reason. */
struct dev_graph *recorder_record(struct recorder *r, const struct recipe *what, struct err *e);

#endif

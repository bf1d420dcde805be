/* Decode steps as recorded operations (kernels/step.def), with the device memory that these work in.  What a recipe says is recorded when it is
 * launched for the first time.  For the stepper only; one owner thread. */
#ifndef Q35_MODEL_RECORDER_H
#define Q35_MODEL_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/step.h"
#include "model/cache.h"
#include "model/forward.h"

enum { RECORDER_BEHIND = 256 };         /* MTP rows of a conversation that may be left out before they are run together: then each costs little */

struct recorder;

/* For steps on any of the n caches, with up to max_depth drafts each.  NULL with the reason. */
struct recorder *recorder_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e);
void   recorder_close(struct recorder *r);              /* the device has finished */
size_t recorder_bytes(const struct model_config *c, int max_depth, int n_slots);        /* of device memory */
/* Rows of the head that drafts are chosen from. */
int    recorder_draft_rows(const struct weight *head);

/* What operations need of a conversation; device memory, but for results and drafts. */
struct recorder_slot {
    struct step_live     *live;
    struct step_sampling *sampling;
    uint8_t *seen;                      /* [vocab] */
    float   *bias;                      /* [vocab] */
    float   *last_hidden;               /* [3, hidden] */
    struct step_result *results;        /* [STEP_RESULTS] host memory */
    struct step_drafts *made;           /* host memory */
    float   *behind;                    /* [RECORDER_BEHIND, hidden] hidden states before MTP rows that were left out */
    int32_t *behind_next;               /* [RECORDER_BEHIND] the tokens that follow */
};
struct recorder_slot recorder_slot(const struct recorder *r, int slot);

/* Of these, what there is in this order: a step of so many rows, their MTP rows, drafts. */
struct recipe {
    int  slot;                          /* of the conversation, unless `together` */
    int  step_rows, mtp_rows;           /* 0: none */
    bool first;                         /* of an answer: no step, but a pick */
    bool together;                      /* the rows are those of recorder_set_rows() */
    int  from, to;                      /* drafts; none if to < from */
    int  n_drafting;                    /* with `together`: conversations for which they are */
};
void recorder_launch(struct recorder *r, const struct recipe *what);
/* The rows of steps of several conversations from now on, and the n rows, one of each, that drafts are made for. */
void recorder_set_rows(struct recorder *r, const struct step_row *rows, int n_rows, const struct step_row *draft_rows, int n);
/* The same as a graph of the caller's; NULL with the reason. */
struct dev_graph *recorder_record(struct recorder *r, const struct recipe *what, struct err *e);

#endif

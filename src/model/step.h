/* A decode step through the model: the layer loop in fused operations (kernels/step.h), which the stepper makes graphs of.  All functions only
 * queue operations; nothing is read back. */
#pragma once

#include "backend/dev.h"
#include "model/forward.h"

/* The rows of a step (kernels/step.h): of one conversation, or of several whose caches were opened together. */
struct step_rows {
    struct cache     *k;                /* cache of the conversation; if there are several, of slot 0 */
    struct step_live *live;             /* its device memory; if there are several, of slot 0 */
    const struct step_row *rows;        /* [n] device memory: the slot of each row; NULL: all rows are of one conversation */
    int               n;
};
/* Runs the rows, whose tokens are live->ids, through all layers, up to the final norm, which step_run() or step_output() adds. */
void step_layers(struct forward *f, const struct step_rows *r);
/* True if the device can run steps of up to max_rows rows with these weights; else the reason.  Runs no step. */
bool step_check(struct forward *f, int max_rows, struct err *e);
/* Logits of the rows from `hidden` [n, hidden], hidden states after the final norm.  hidden NULL: from the result of step_layers(), whose final norm
 * is also written to the work space. */
struct step_head {
    const struct weight *w;
    float *logits, *tile_max;
    const struct step_sampling *sampling;
    const uint8_t *seen;
    const float   *bias;
    const int32_t *drafts;
    int n_ids;
    bool estimate;                      /* for a head in two planes: uses the upper plane alone */
    bool whole;                         /* for a head in two planes: all of its bytes */
    void *scratch;                      /* STEP_LOGITS_SCRATCH bytes */
};
void step_output(struct forward *f, const struct step_head *h, const struct step_rows *r, const float *hidden);
/* Runs the MTP layer over the rows.  All that count get keys and values; of each conversation only the last of these also its experts.  next [n]: the
 * id after each row's token; hidden [n, hidden]: the main model's hidden states; *pos: position of the first row; *n_valid: rows that count.  next,
 * pos and n_valid point into r->live. */
void step_mtp(struct forward *f, const struct step_rows *r, const int32_t *next, const float *hidden, const int32_t *pos,
              const int32_t *n_valid);
/* Runs, after step_mtp(), mtp.norm into the work space and the logits for one row of each conversation, row *row (NULL: rows 0 to n - 1). */
void step_mtp_output(struct forward *f, const struct step_head *h, const struct step_rows *r, const int32_t *row, const int32_t *n_valid);

/* Runs a step of one conversation by itself: ids[0..n-1], n <= STEP_ROWS, at positions pos..pos+n-1.  The states are those of position pos until
 * cache_accept() sets how many rows count.  The result is forward_hidden(). */
void step_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos);

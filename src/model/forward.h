/* The forward pass of the whole model; its formulas: docs/model.md.  One owner thread.
 * Rows are tokens at consecutive positions.  The bits of a row do not depend on how many rows share a call of the
 * same kind (but on a GPU short prompt calls round less than long ones), nor on the number of worker threads. */
#ifndef Q35_MODEL_FORWARD_H
#define Q35_MODEL_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/weights.h"

struct dev;
struct forward;

enum rows {
    ROWS_COMMIT,        /* prompt: all rows join the sequence at once (chunked DeltaNet) */
    ROWS_STAGE,         /* decode step of 1 to STEP_ROWS rows: states stay behind until cache_accept() says how many count */
};

/* Work space for calls of at most max_rows rows.  Nothing is allocated later. */
struct forward *forward_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_rows, struct err *e);
void   forward_close(struct forward *f);
size_t forward_bytes(const struct model_config *c, int max_rows);       /* the work space */
size_t forward_scratch_bytes(const struct model_config *c, int max_rows);       /* on a GPU, beside the work space */

/* Runs the tokens ids[0..n-1] at positions pos..pos+n-1.  Rows 0..pos-1 are in the cache, and its states stand at
 * pos (after the rows that cache_accept() took).  The result is forward_hidden(). */
void forward_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, enum rows kind);
/* [n, hidden] fp32 after the final norm, of the last forward_run(); valid until the next. */
const float *forward_hidden(const struct forward *f);
/* logits [n, vocab] fp32 of n rows of hidden states (of forward_run or forward_mtp). */
void forward_head(struct forward *f, enum head h, const float *hidden, int n, float *logits);

/* MTP block.  Row i of the MTP cache joins the main model's hidden state of position i with the token of position
 * i + 1, and predicts the token of position i + 2.  Runs rows pos..pos+n-1 with hidden[n, H] and next_ids[n]; writes
 * their KV rows (rewriting rows from pos on is allowed: drafts do that).  out [n, H] fp32: after mtp.norm, for
 * forward_head(), and the hidden input of the next chained draft.  out may not alias hidden.  NULL: only the KV rows
 * are wanted, which need neither attention nor experts. */
void forward_mtp(struct forward *f, struct cache *k, const float *hidden, const int32_t *next_ids, int n, int pos, float *out);

/* One prompt chunk for both: forward_run(ROWS_COMMIT), then, when the model has an MTP block and `mtp` is set, its rows
 * for positions pos-1..pos+n-2, for which the hidden states and following tokens are known now (the one of pos-1 is kept
 * in the cache).  Afterwards the cache's last hidden state is that of position pos+n-1. */
void forward_prefill(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, bool mtp);
/* For measurements: each row of a step takes n_experts experts of the first row and others of its own, instead of those that the router selects;
 * -1: off.  Steps that were recorded before stay as they are. */
void   forward_overlap(struct forward *f, int n_experts);
/* The last hidden state of the committed sequence, [hidden] fp32; set by forward_prefill and forward_keep_hidden. */
const float *forward_last_hidden(const struct cache *k);
void forward_keep_hidden(struct cache *k, const float *hidden);

#endif

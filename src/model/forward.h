/* The forward pass of the whole model: its memory.  What it computes: model/prompt.h and model/step.h.  One owner thread.
 * The bits of a row do not depend on how many rows share a call of the same kind (but on a GPU short prompt calls round less than long ones), nor on
 * the number of worker threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/weights.h"

struct dev;
struct forward;

/* Allocates the work space for calls of at most max_rows rows.  Nothing is allocated later. */
struct forward *forward_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_rows, struct err *e);
void   forward_close(struct forward *f);
size_t forward_bytes(const struct model_config *c, int max_rows, bool gpu);     /* the work space */
size_t forward_step_bytes(const struct model_config *c);                /* of these: memory of a step */
/* True if a GPU's operations can run a step of this geometry; else the reason. */
bool   forward_fits(const struct model_config *c, struct err *e);
size_t forward_scratch_bytes(const struct model_config *c, int max_rows);       /* on a GPU, beside the work space */

/* Returns [n, hidden] fp32 after the final norm, of the last call of model/prompt.h or step_run(); valid until the next. */
const float *forward_hidden(const struct forward *f);
/* Which products of a prompt take their activations in eight bits (kernels/int8.h): bits. */
enum prompt_math {
    PROMPT_EXACT,
    PROMPT_INT8_DELTA = 1,                      /* in_proj_qkv of DeltaNet */
    PROMPT_INT8_QKV   = 2,                      /* q, k and v */
    PROMPT_INT8_UP    = 4,                      /* gate and up of the routed experts */
    PROMPT_INT8       = 7,
    PROMPT_INT8_ANY   = 8,                      /* whatever their format; else only those with INT4 weights */
};
bool   forward_math(struct forward *f, enum prompt_math math, struct err *e);

/* For measurements: each row of a step takes n_experts experts of the first row and others of its own, instead of those that the router selects;
 * -1: off.  Steps that were recorded before stay as they are. */
void   forward_overlap(struct forward *f, int n_experts);
/* Returns the last hidden state of the committed sequence, [hidden] fp32; set by prompt_chunks() and forward_keep_hidden(). */
const float *forward_last_hidden(const struct cache *k);
void forward_keep_hidden(struct cache *k, const float *hidden);

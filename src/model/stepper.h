/* The stepper decodes: a whole step, from token ids to the next token ids, is recorded once for each number of rows and then only launched.  A GPU
 * writes results into host memory by itself, so that it need not wait for the host.  One owner thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/step.h"
#include "model/cache.h"
#include "model/forward.h"

struct stepper;

/* Returns how many rows of the head, from the first on, drafts are chosen from. */
int stepper_draft_rows(const struct weight *head);

/* Opens a stepper for steps of 1 to max_depth + 1 rows on any of the n caches, which were opened together.  `f` and the caches must stay valid until
 * stepper_close().  NULL with the reason. */
struct stepper *stepper_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e);
void   stepper_close(struct stepper *s);
size_t stepper_bytes(const struct model_config *c, int max_depth);      /* device memory of a stepper without caches */
size_t stepper_slot_bytes(const struct model_config *c, int max_depth); /* ... and for each cache besides */

/* One of the n caches, and the answer under way on it. */
struct stepper_slot;
struct stepper_slot *stepper_slot(struct stepper *s, int i);

/* Begins an answer on the slot's cache, which holds `pos` positions and the last hidden state, that of position pos - 1.  `how` is copied to the
 * device as it is, so all its members must be set.  The prompt's ids are needed for the repetition penalty, the last n_answer_prefix of them for the
 * presence penalty too.  At most `depth` drafts a step; depth <= max_depth. */
void stepper_begin(struct stepper_slot *o, const struct step_sampling *how, const int32_t *prompt, int n_prompt, int n_answer_prefix, int pos,
                   const int32_t *bias_ids, const float *bias, int n_bias, int depth);
/* For an answer whose next picks may be refused by a guide, when no result is outstanding: keeps what stepper_pick_again() needs, from the next
 * pick on until stepper_guard() with `on` false.  Such an answer has at most one result outstanding, and no drafts are queued with its steps in one
 * (stepper_launch()). */
void stepper_guard(struct stepper_slot *o, bool on);
/* Takes back the newest pick, whose result was taken, with the drafts that were queued after it, and makes it once more: its row `row` among the
 * ids of the mask, step_mask_words(vocab) words, and rows that were masked before as they were.  The result is waited for as that of any pick. */
void stepper_pick_again(struct stepper_slot *o, int row, const uint32_t *mask);
/* Queues the next pick and, after it, as many drafts as stepper_begin() allowed. The first pick of an answer uses the prompt's last hidden state;
 * each later one is a step that verifies the drafts.  Never waits.  At most STEP_RESULTS results may be outstanding. */
void stepper_launch(struct stepper_slot *o);
/* Does the same in two parts, for a caller that decides by the drafts' probabilities.  stepper_step() queues the next pick, a step that verifies rows
 * - 1 of the drafts that were made (the first pick verifies none). stepper_draft() queues n more drafts after it.  The result of a step of several
 * rows must be taken before the next step.  If no drafts are made after a pick, the MTP block's rows of its tokens are left out: they are run later,
 * many at a time, before the next drafts or within stepper_end(). */
void stepper_step(struct stepper_slot *o, int rows);
void stepper_draft(struct stepper_slot *o, int n);
/* One step for n of the answers under way, if the device can do that (dev_caps.several).  A part is an answer that had its first pick and has no
 * result outstanding; its rows verify rows - 1 of its drafts.  All parts together have at most stepper_most_rows() rows.  Each answer gets the same
 * tokens as in steps of its own. */
struct stepper_part { int slot, rows; };
void stepper_step_together(struct stepper *s, const struct stepper_part *parts, int n);
int  stepper_most_rows(const struct stepper *s);
/* Directly after such a step, in place of stepper_draft(): n more drafts for each of its first n_parts answers.  A run of the MTP block makes one
 * draft for each of them. */
void stepper_draft_together(struct stepper *s, int n_parts, int n);
/* Returns how many MTP rows are left out so far, without those of the newest pick. */
int  stepper_behind(const struct stepper_slot *o);
/* Counts of what the MTP block has run since stepper_open(). */
struct stepper_counts {
    long mtp_rows, mtp_runs;            /* rows of picked tokens, and runs over them; a run reads the block's weights once */
    long last_rows;                     /* of these: the last one of each conversation and run, which alone has its experts read */
    long late_rows, late_runs;          /* of these: rows that had been left out, of which only the KV rows are made */
    long drafts, heads;                 /* drafts, and how often the head was read to choose them */
    long chained_rows, chained_runs;    /* drafts that needed another row of the block, from the draft before, and runs over these rows */
};
struct stepper_counts stepper_counts(const struct stepper *s);
/* Replaces the drafts by these n ids, which the next step verifies.  n <= max_depth. */
void stepper_propose(struct stepper_slot *o, const int32_t *ids, int n);
/* Waits for the drafts after the newest pick.  False when the device failed. */
bool stepper_drafts(struct stepper_slot *o, struct step_drafts *out, struct err *e);
/* Waits for the oldest outstanding result.  False when the device failed. */
bool stepper_wait(struct stepper_slot *o, struct step_result *out, struct err *e);
/* Ends the answer and waits for the device.  Only the first n_delivered results count.  At most two more picks may have been queued; their tokens
 * are taken back.  Returns the position of the cache afterwards (it holds all tokens that count except the newest), or -1 when the device
 * failed. */
int  stepper_end(struct stepper_slot *o, int n_delivered, struct err *e);

/* For saving in the middle of an answer, when every result was taken and counts: stepper_pause() leaves the cache as stepper_end() does and returns
 * its position (-1: the device failed); stepper_resume() continues the answer. */
int  stepper_pause(struct stepper_slot *o, struct err *e);
void stepper_resume(struct stepper_slot *o);

/* For measurements: measures the mean time of n_steps steps of `rows` rows, without drafts, from position pos on, whatever cache 0 holds there.
 * `overlap`: experts that each row shares with the row before, -1: as routed.  *distinct: distinct experts per layer in the last step, on average.
 * False when the device failed. */
bool stepper_measure(struct stepper *s, int rows, int pos, int n_steps, int overlap, double *ms_per_step, double *distinct, struct err *e);

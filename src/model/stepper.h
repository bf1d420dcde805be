/* Decode: a whole step, from token ids to the next token ids, is recorded once per row count and then launched.  A device that works
 * beside the host never waits for it: results come by themselves.
 * One owner thread. */
#ifndef Q35_MODEL_STEPPER_H
#define Q35_MODEL_STEPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/step.h"
#include "model/cache.h"
#include "model/forward.h"

struct stepper;

/* For steps of 1 to max_depth + 1 rows on any of the n caches, which were opened together; each has recorded steps of its own.  `f` and the
 * caches stay valid until stepper_close(). */
struct stepper *stepper_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e);
void   stepper_close(struct stepper *s);
size_t stepper_bytes(const struct model_config *c, int max_depth);      /* device memory of it, */
size_t stepper_slot_bytes(const struct model_config *c, int max_depth); /* and of each cache besides */

/* Starts an answer on cache `slot`, which holds `pos` positions, and whose last hidden state is that of pos - 1.  `how` as the device
 * reads it; room, n_stop and so on filled.  The prompt's ids are for the repetition penalty, its last n_answer_prefix for the presence penalty
 * too.  depth <= max_depth. */
void stepper_begin(struct stepper *s, int slot, const struct step_sampling *how, const int32_t *prompt, int n_prompt, int n_answer_prefix, int pos,
                   const int32_t *bias_ids, const float *bias, int n_bias, int depth);
/* Each cache may have an answer under way.  The other calls are about the one that was begun or chosen last. */
void stepper_choose(struct stepper *s, int slot);
/* Queues the next pick: the first one from the prompt's last hidden state, then whole steps.  Never waits.  At most STEP_RESULTS
 * results may be outstanding. */
void stepper_launch(struct stepper *s);
/* The same in parts, for who decides by what the drafts are: the next pick, a step verifying rows - 1 of the drafts that were made; then
 * n drafts more behind it.  The first pick verifies none.  A step of several rows is heard of before the next one.
 * Where no drafts are made behind a pick its rows of the MTP block are left out: they are run, many at a time, before the next drafts and
 * before stepper_end() returns. */
void stepper_step(struct stepper *s, int rows);
void stepper_draft(struct stepper *s, int n);
/* One step of n of the answers under way, each behind its first pick and with all results taken, where the device can do that
 * (dev_caps.several): of each as many rows, which verify rows - 1 of its drafts.  At most stepper_most_rows() in all.  Each answer is what it is
 * alone. */
struct stepper_part { int slot, rows; };
void stepper_step_together(struct stepper *s, const struct stepper_part *parts, int n);
int  stepper_most_rows(const struct stepper *s);
/* Right behind such a step: n drafts more for each of its first n_parts answers, in runs of the MTP block for all of them.  stepper_draft() makes
 * none behind it. */
void stepper_draft_together(struct stepper *s, int n_parts, int n);
/* Positions before those of the newest pick whose rows were left out. */
int  stepper_behind(const struct stepper *s);
/* What the MTP block has run since stepper_open(). */
struct stepper_counts {
    long mtp_rows, mtp_runs;            /* rows of tokens; a run reads its weights once */
    long late_rows, late_runs;          /* of these: rows that were left out at first, of which only the KV rows are made */
    long drafts, heads;                 /* drafts made; times that their head was read for some */
    long chained_rows, chained_runs;    /* drafts that took a row in another run, and these */
};
struct stepper_counts stepper_counts(const struct stepper *s);
/* The next step verifies these instead.  No more than max_depth. */
void stepper_propose(struct stepper *s, const int32_t *ids, int n);
/* Waits for the drafts that were made behind the newest pick.  False when the device failed. */
bool stepper_drafts(struct stepper *s, struct step_drafts *out, struct err *e);
/* The oldest result that was not taken yet.  False when the device failed. */
bool stepper_wait(struct stepper *s, struct step_result *out, struct err *e);
/* Ends the answer: waits for what is queued.  Of the results, the first n_delivered count; at most one more may have been taken
 * or computed whose tokens nobody heard of, with one more step launched behind it.  Returns the position at which the cache
 * then stands (all heard tokens but the newest are in it), or -1 when the device failed. */
int  stepper_end(struct stepper *s, int n_delivered, struct err *e);

/* Between two steps, every result being taken and heard: stepper_pause() brings the cache to the position that it returns (-1: the device
 * failed), so that its states can be saved; stepper_resume() goes on with the answer. */
int  stepper_pause(struct stepper *s, struct err *e);
void stepper_resume(struct stepper *s);

/* For measurements: the mean time of one of n_steps steps of `rows` rows, without drafts, from position pos on, whatever
 * cache 0 holds there.  `overlap`: experts that neighbouring rows share, -1: as routed.  *distinct: mean distinct experts
 * of a layer in the last step. */
bool stepper_measure(struct stepper *s, int rows, int pos, int n_steps, int overlap, double *ms_per_step, double *distinct, struct err *e);

#endif

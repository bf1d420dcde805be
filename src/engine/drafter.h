/* The drafts of an answer: how many are made and verified in each step, and what is learnt from their fate.  Between the decode loop and the
 * stepper.  In steps of several answers engine/group.h decides for all of them. */
#ifndef Q35_ENGINE_DRAFTER_H
#define Q35_ENGINE_DRAFTER_H

#include "engine/gate.h"
#include "engine/lookup.h"
#include "engine/share.h"
#include "model/stepper.h"

enum { DRAFTER_AUTO = -1 };

struct drafter {
    struct stepper_slot *slot;
    bool        beside;                 /* the device works beside the host */
    struct price *price;                /* of all answers */
    struct gate gate;
    /* the answer under way */
    int  depth;                         /* drafts a step, or DRAFTER_AUTO */
    int  room;                          /* tokens that it may still have, beyond those whose results are known */
    bool begun;                         /* the first pick, which is no step, was launched */
    struct step_drafts made;            /* by the MTP block, for the next step */
    int  n;                             /* drafts for the next step, made or found */
    int  n_verified;                    /* drafts that the step under way verifies */
    int  n_early;                       /* drafts that were queued behind the step under way, before its result was known */
    bool looks;                         /* drafts may be looked up in the text */
    struct lookup text;
    int32_t found[ENGINE_MAX_DEPTH];    /* what followed the match in the text */
    int  found_length;                  /* ids of that match; 0: there is none */
    bool looked_up;                     /* the drafts of the step under way, or of the next one, are `found` */
    int64_t launched_ns;                /* of the step under way; 0: there is none */
    bool caught_up;                     /* since then the device did other work, too (MTP rows that earlier steps had left out, drafts that were
                                         * not used): times do not count */
};

void drafter_init(struct drafter *d, struct stepper_slot *slot, int most, bool beside, struct price *price);
void drafter_free(struct drafter *d);
/* After stepper_begin() with that depth, or 0 for DRAFTER_AUTO.  room: the most tokens of the answer.  ids: the text so far, where drafts are looked
 * up if `looks`. */
void drafter_begin(struct drafter *d, int depth, int room, bool looks, const int32_t *ids, int n);
/* How many picks may be under way, at most `most`.  With DRAFTER_AUTO one: the next step is decided by the drafts. */
static inline int drafter_ahead(const struct drafter *d, int most) { return d->depth == DRAFTER_AUTO ? 1 : most; }
/* Launches the next pick. */
void drafter_launch(struct drafter *d);
/* After a result, when the answer goes on: learns from it, makes the drafts of the next step.  False when the device failed. */
bool drafter_prepare_next(struct drafter *d, const struct step_result *r, struct err *e);

/* For steps of several answers (engine/group.h), whose drafts are made together. */
/* After a result, when the answer goes on: learns from it, and looks in the text. */
void drafter_learn(struct drafter *d, const struct step_result *r);
/* What the drafts so far may give, and whether more may be made. */
struct share drafter_share(const struct drafter *d);
/* n drafts have been launched for it; waits for them.  False when the device failed. */
bool drafter_made(struct drafter *d, int n, struct err *e);
/* Gives the stepper the drafts found in the text, if the next step verifies those. */
void drafter_propose(struct drafter *d);
/* How many drafts to launch before waiting for them, when one takes draft_ms. */
int  drafter_at_a_time(bool beside, double draft_ms);
/* The device has other work until the next launch: the time of the step under way does not count. */
static inline void drafter_disturbed(struct drafter *d) { d->caught_up = true; }

#endif

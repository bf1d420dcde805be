/* The drafts of an answer: how many of them are made and verified in each step, and with what they are learnt from.  Between the decode
 * loop and the stepper.  In steps of several answers engine/group.h decides for all of them. */
#ifndef Q35_ENGINE_DRAFTER_H
#define Q35_ENGINE_DRAFTER_H

#include "engine/gate.h"
#include "engine/lookup.h"
#include "engine/share.h"
#include "model/stepper.h"

enum { DRAFTER_AUTO = -1 };

struct drafter {
    struct stepper *s;
    bool        beside;                 /* the device works beside the host */
    struct price *price;                /* of all answers */
    struct gate gate;
    /* the answer under way */
    int  depth;                         /* drafts a step, or DRAFTER_AUTO */
    bool begun;                         /* the first pick, which is no step, was launched */
    struct step_drafts made;            /* for the next step */
    int  n, n_verified;                 /* of them; those of the step under way */
    int  n_early;                       /* drafts that were queued behind the step under way, before its result was known */
    bool looks;                         /* drafts may be looked up in the text */
    struct lookup text;
    int32_t found[ENGINE_MAX_DEPTH];    /* what followed the match of found_length ids; 0: there is none */
    int  found_length;
    bool looked_up;                     /* the drafts of the step under way, or of the next one, are these */
    int64_t launched_ns;
    bool caught_up;                     /* since then other rows ran, those that earlier steps had left out, or drafts for nothing: what things
                                         * took tells nothing */
};

void drafter_init(struct drafter *d, struct stepper *s, int most, bool beside, struct price *price);
void drafter_free(struct drafter *d);
/* stepper_begin() was called, with the depth or 0.  The text so far is where drafts are looked up, if they are. */
void drafter_begin(struct drafter *d, int depth, bool looks, const int32_t *ids, int n);
/* How many picks may be under way.  Who decides by the drafts waits for them. */
static inline int drafter_ahead(const struct drafter *d, int most) { return d->depth == DRAFTER_AUTO ? 1 : most; }
/* Launches the next pick. */
void drafter_launch(struct drafter *d);
/* A result was heard, and the answer goes on: learns from it, makes the drafts of the next step.  False when the device failed. */
bool drafter_prepare_next(struct drafter *d, const struct step_result *r, struct err *e);

/* For steps of several answers (engine/group.h), whose drafts are made for all of them. */
/* A result was heard, and the answer goes on: learns from it, and looks in the text. */
void drafter_learn(struct drafter *d, const struct step_result *r);
/* What the drafts that there are may give, and whether more may be made. */
struct share drafter_share(const struct drafter *d);
/* It has n drafts now; waits for them.  False when the device failed. */
bool drafter_made(struct drafter *d, int n, struct err *e);
/* What was found in the text, if that is to be verified, is what the next step verifies. */
void drafter_propose(struct drafter *d);
/* How many drafts are made before they are waited for, one taking so long. */
int  drafter_at_a_time(bool beside, double draft_ms);
/* The device has other work until the next launch: what the step takes tells nothing. */
static inline void drafter_disturbed(struct drafter *d) { d->caught_up = true; }

#endif

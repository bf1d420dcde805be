/* The drafts of answers: how many are made and verified in each step, and what is learnt from their fate.  Between the decode loop and the stepper.
 *
 * Drafts come from proposers, rows of a table in drafts.c: the MTP block, whose drafts are made on the device, a few at a time, at a price; and those
 * that have their drafts at once for nothing: the lookup in the text, and text that must come under a guide.  Drafts that a guide refuses are
 * cut before they are verified.  engine/gate.h decides whose drafts a step verifies, and how many. */
#pragma once

#include "engine/gate.h"
#include "engine/guided.h"
#include "engine/lookup.h"
#include "model/stepper.h"

enum { DRAFTER_AUTO = -1 };

/* ---- the drafts of one answer, which steps alone or with others */

struct drafter {
    struct stepper_slot *slot;
    bool        beside;                 /* the device works beside the host */
    struct price *price;                /* of all answers */
    struct gate gate;
    /* the answer under way */
    int  depth;                         /* drafts a step, or DRAFTER_AUTO */
    int  room;                          /* tokens that it may still have, beyond those whose results are known */
    bool begun;                         /* the first pick, which is no step, was launched */
    enum draft_source by;               /* whose drafts the step under way verifies, or the next one */
    int  n;                             /* these drafts, for the next step */
    int  n_verified;                    /* drafts that the step under way verifies */
    int  n_early;                       /* drafts that were queued after the step under way, before its result was known */
    struct step_drafts made;            /* by the MTP block, for the next step */
    bool looks;                         /* drafts may be looked up in the text */
    struct lookup text;
    int32_t found[ENGINE_MAX_DEPTH];    /* what followed the match in the text */
    int  n_found, match;                /* how many of these there are; ids of that match, 0: there is no match */
    struct guided *guided;              /* the guide of the answer, or NULL; set after drafter_begin() */
    int32_t forced[ENGINE_MAX_DEPTH];   /* [n_forced] text that must come */
    int  n_forced;
    bool cut;                           /* the guide refused a draft of the MTP block: more of them would follow that one */
    int64_t launched_ns;                /* when the step under way was launched; 0: there is no step */
    bool caught_up;                     /* since then the device did other work, too (MTP rows that earlier steps had left out, drafts that were
                                         * not used): times do not count */
};

void drafter_init(struct drafter *d, struct stepper_slot *slot, int most, bool beside, struct price *price);
void drafter_free(struct drafter *d);
/* After stepper_begin() with that depth, or 0 for DRAFTER_AUTO.  room: the most tokens of the answer.  prompt: where drafts are
 * looked up if `looks`. */
void drafter_begin(struct drafter *d, int depth, int room, bool looks, struct spans prompt);
/* How many picks may be under way, at most `most`.  With DRAFTER_AUTO one: the next step is decided by the drafts. */
static inline int drafter_ahead(const struct drafter *d, int most) { return d->depth == DRAFTER_AUTO ? 1 : most; }
/* Launches the next pick. */
void drafter_launch(struct drafter *d);
/* After a result, when the answer continues: learns from it, makes the drafts of the next step.  False when the device failed. */
bool drafter_prepare_next(struct drafter *d, const struct step_result *r, struct err *e);
/* The same for a step of several answers, whose drafts are made together: only learns, and finds drafts that are there at once. */
void drafter_learn(struct drafter *d, const struct step_result *r);
/* The drafts so far, and whether more may be made, for shares_verify(). */
struct share drafter_share(const struct drafter *d);
/* The device has other work until the next launch: the time of the step under way does not count. */
static inline void drafter_disturbed(struct drafter *d) { d->caught_up = true; }
/* The pick under way is made once more, which voids the drafts that were queued after it. */
static inline void drafter_picks_again(struct drafter *d)
{
    d->caught_up = true;
    d->n_early = 0;
}

/* ---- steps of several answers: how many rows each of them has, and which drafts are made for them */

struct group {
    struct stepper *s;
    struct price   *price;
    bool    beside;                     /* the device works beside the host */
    /* the newest step */
    int     n_rows;
    int     n_making, n_made;           /* answers for which drafts are made after it; drafts of each so far */
    int64_t launched_ns;                /* 0: its time does not count */
};

/* One of the answers, after its first pick, when all its results were taken. */
struct member {
    struct drafter    *drafter;
    int                slot;
    bool               makes;           /* drafts are made for it after the step under way */
    int                n_rows;          /* its rows in that step */
    /* set by the caller before group_prepare_next() */
    struct step_result result;          /* of that step */
    bool               continues;       /* the answer has not ended with it */
};

void group_init(struct group *g, struct stepper *s, struct price *price, bool beside);
/* Launches a step of all of them. */
void group_launch(struct group *g, struct member *m, int n);
/* After all results: learns from them, and makes drafts for the next step.  False when the device failed. */
bool group_prepare_next(struct group *g, struct member *m, int n, struct err *e);
/* The device has other work until the next launch. */
static inline void group_disturbed(struct group *g) { g->launched_ns = 0; }

/* Steps of several answers: how many rows each of them has, and which drafts are made for them.  Between the decode loop and the stepper, as
 * engine/drafter.h is for steps of one answer. */
#ifndef Q35_ENGINE_GROUP_H
#define Q35_ENGINE_GROUP_H

#include "engine/drafter.h"

struct group {
    struct stepper *s;
    struct price   *price;
    bool    beside;                     /* the device works beside the host */
    /* the newest step */
    int     n_rows;
    int     n_making, n_made;           /* answers for which drafts are made behind it; drafts of each so far */
    int64_t launched_ns;                /* 0: its time does not count */
};

/* One of the answers, behind its first pick, all of whose results were taken. */
struct member {
    struct drafter    *drafter;
    int                slot;
    bool               makes;           /* drafts are made for it behind the step under way */
    int                n_rows;          /* its rows in that step */
    /* set by the caller before group_prepare_next() */
    struct step_result result;          /* of that step */
    bool               goes_on;         /* the answer has not ended with it */
};

void group_init(struct group *g, struct stepper *s, struct price *price, bool beside);
/* Launches a step of all of them. */
void group_launch(struct group *g, struct member *m, int n);
/* After all results: learns from them, and makes drafts for the next step.  False when the device failed. */
bool group_prepare_next(struct group *g, struct member *m, int n, struct err *e);
/* The device has other work until the next launch. */
static inline void group_disturbed(struct group *g) { g->launched_ns = 0; }

#endif

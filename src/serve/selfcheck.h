/* The question that a server asks its model when it is loaded, so that a broken one does not stand behind a health that is green: a sum, without
 * sampling.  A model of config/selfcheck.def must answer as it did; of others the first distribution and the ids must be possible. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "responder/responder.h"

enum { SELFCHECK_TOKENS = 12 };

struct selfcheck {
    bool runs;
    struct err why;                     /* what is wrong with the model; empty: nothing that was seen */
    struct ids prompt;
    struct buf text;                    /* of the answer so far */
    int n;                              /* tokens of it */
};

/* Asks the responder, whose news go to selfcheck_take() from now on.  False: it could not be asked, and c->why says so. */
bool selfcheck_begin(struct selfcheck *c, struct responder *r);
/* Takes news of the answer.  True when it is over, and c->why is final. */
bool selfcheck_take(struct selfcheck *c, struct responder *r, const struct news *it);
void selfcheck_free(struct selfcheck *c);

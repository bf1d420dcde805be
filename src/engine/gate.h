/* How many drafts are worth making, and how many of them worth verifying.  A row more in a step pays when the tokens that it is expected to
 * give are more than the engine makes in the time that the row takes.  What rows and drafts take is measured (engine/price.h); what a
 * draft gives is learnt from the fate of earlier ones with about the same probability.
 * Plain arithmetic: no device, no clock.  {0} is not valid: gate_init(). */
#ifndef Q35_ENGINE_GATE_H
#define Q35_ENGINE_GATE_H

#include "engine/belief.h"
#include "engine/price.h"

enum { GATE_ROWS = PRICE_ROWS, GATE_BINS = 6, GATE_LENGTHS = 4 };

struct gate {
    int    most;                        /* drafts */
    const struct price *price;          /* of all answers */
    /* how often a draft is right when all before it were, in this answer and in answers before it */
    struct belief all;                  /* any draft of the MTP block */
    struct belief bin[GATE_BINS];       /* one that the MTP block gave a probability in this range */
    struct belief looked_up[GATE_LENGTHS];  /* one found in the text, by the length of the match */
    int    idle;                        /* steps since a draft was made */
};

/* The prices stay valid. */
void gate_init(struct gate *g, int most, const struct price *price);
/* An answer begins: drafts are expected to fare as in answers before it. */
void gate_begin(struct gate *g);

/* How many more drafts to make, when there are `n` of these probabilities; 0: enough.  At most `lot` at a time. */
int  gate_make(const struct gate *g, const float *prob, int n, int lot);
/* How many of n drafts to verify. */
int  gate_verify(const struct gate *g, const float *prob, int n);
/* A step with n drafts made has ended: of these the first n_known are known to be right or wrong, which is the last of them unless all
 * were right.  A draft that was not verified is known, too, when the token at its place is. */
void gate_learn(struct gate *g, const float *prob, int n, int n_right, int n_known);

/* Drafts found in the text (engine/lookup.h), behind a match of `length` ids, cost nothing to make: how many of them to verify; 0: those of
 * the MTP block are expected to give more. */
int  gate_look_up(const struct gate *g, int length);
/* The fate of drafts found in the text, verified or not: the first n_right of them came, and then, if n_known is more, another token did. */
void gate_learn_look_up(struct gate *g, int length, int n_right, int n_known);

/* For steps of several answers (engine/share.h).  right[i]: the chance that the first i drafts are right, of n with these probabilities, of
 * those found behind a match of `length` ids, or of those that are still to be made. */
void gate_chances(const struct gate *g, const float *prob, int n, double right[GATE_ROWS]);
void gate_chances_found(const struct gate *g, int length, double right[GATE_ROWS]);
void gate_chances_later(const struct gate *g, double right[GATE_ROWS]);
/* No draft was made for so long that one may tell how they fare now. */
bool gate_is_idle(const struct gate *g);

#endif

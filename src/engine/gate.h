/* How many drafts are worth making, and how many of them worth verifying.  A row more in a step pays when the tokens that it is expected to
 * give are more than the engine makes in the time that the row takes.  What rows and drafts take is measured; what a draft gives is learnt
 * from the fate of earlier ones with about the same probability.
 * Plain arithmetic: no device, no clock.  {0} is not valid: gate_init(). */
#ifndef Q35_ENGINE_GATE_H
#define Q35_ENGINE_GATE_H

#include "engine/request.h"

enum { GATE_ROWS = ENGINE_MAX_DEPTH + 1, GATE_BINS = 6, GATE_LENGTHS = 4, GATE_RATES = 12 };

/* What is believed of the rate at which something happens, which may change all of a sudden: a weight for each of some rates. */
struct gate_belief {
    float weight[GATE_RATES];
};

struct gate {
    int    most;                        /* drafts */
    /* prices; they stay when an answer ends */
    double one_ms;                      /* a step of one row, without making drafts */
    double ratio[GATE_ROWS];            /* a step of i + 1 rows over that; 0: not measured */
    int    timed[GATE_ROWS];            /* measurements, as far as they are counted */
    double draft_ms;                    /* making a draft */
    /* gains, of the answer under way */
    struct gate_belief all;             /* a draft is right when all before it were */
    struct gate_belief bin[GATE_BINS];  /* likewise, of drafts that the MTP block gave a probability in this range */
    struct gate_belief looked_up[GATE_LENGTHS];         /* of drafts found in the text, by how much of it was alike */
    int    idle;                        /* steps since a draft was made */
};

void gate_init(struct gate *g, int most);
/* An answer begins: what was learnt of the last one counts a little. */
void gate_begin(struct gate *g);

/* What things took. */
void gate_step_took(struct gate *g, int rows, double ms);
void gate_drafts_took(struct gate *g, int n, double ms);

/* How many more drafts to make, `n` of these probabilities being made; 0: enough.  At most `lot` at a time. */
int  gate_make(const struct gate *g, const float *prob, int n, int lot);
/* How many of n drafts to verify. */
int  gate_verify(const struct gate *g, const float *prob, int n);
/* A step with n drafts made has ended: of these the first n_known are known to be right or wrong, which is the last of them unless all
 * were right.  A draft that was not verified is known, too, when the token at its place is. */
void gate_learn(struct gate *g, const float *prob, int n, int n_right, int n_known);

/* Drafts found in the text (engine/lookup.h), behind a match of `length` ids, cost nothing to make: how many of them to verify; 0: those of
 * the MTP block are expected to give more. */
int  gate_look_up(const struct gate *g, int length);
/* What was found there, verified or not: n_right tokens came as it said, and then, if n_known is more, another one. */
void gate_learn_look_up(struct gate *g, int length, int n_right, int n_known);

#endif

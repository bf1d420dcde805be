/* How many drafts are worth making, and how many of them worth verifying.  One more row in a step pays if the tokens that it is expected to give are
 * more than the engine makes otherwise in the time that the row takes.  The times of rows and drafts are measured (engine/price.h); the chance that
 * a draft is accepted is learnt from earlier drafts to which the MTP block gave about the same probability.
 * Plain arithmetic: no device, no clock.  {0} is not valid: gate_init(). */
#ifndef Q35_ENGINE_GATE_H
#define Q35_ENGINE_GATE_H

#include "engine/belief.h"
#include "engine/price.h"

enum { GATE_ROWS = PRICE_ROWS, GATE_BINS = 6, GATE_LENGTHS = 4 };

struct gate {
    int    most;                        /* most drafts in a step */
    const struct price *price;          /* shared by all answers */
    /* The chance that a draft is right if all drafts before it in its step are, learnt in this answer and in earlier ones: */
    struct belief all;                  /* any draft of the MTP block */
    struct belief bin[GATE_BINS];       /* a draft to which the MTP block gave a probability in this range */
    struct belief looked_up[GATE_LENGTHS];  /* a draft found in the text, by the length of the match */
    int    idle;                        /* steps since a draft was made */
};

/* *price must stay valid as long as *g is used. */
void gate_init(struct gate *g, int most, const struct price *price);
/* A new answer begins, in which drafts are expected to be right as often as in earlier answers. */
void gate_begin(struct gate *g);

/* How many more drafts to make, at most `lot`, when n were made, to which the MTP block gave these probabilities.  0: no more. */
int  gate_make(const struct gate *g, const float *prob, int n, int lot);
/* How many of n drafts with these probabilities to verify. */
int  gate_verify(const struct gate *g, const float *prob, int n);
/* After a step for which n drafts were made: n_known of them could be compared with the tokens that came, verified or not, and the first n_right
 * were equal.  n_known is n_right + 1, the first wrong one included, or n_right if no wrong one was compared. */
void gate_learn(struct gate *g, const float *prob, int n, int n_right, int n_known);

/* Drafts found in the text (engine/lookup.h), after a match of `length` ids, cost nothing to make.  How many of them to verify; 0: drafts of the
 * MTP block are expected to give more. */
int  gate_look_up(const struct gate *g, int length);
/* Likewise for drafts found in the text: n_known of them were compared with the tokens that came, and the first n_right were equal. */
void gate_learn_look_up(struct gate *g, int length, int n_right, int n_known);

/* For steps of several answers (engine/share.h): right[i] becomes the chance that the first i drafts are all right.  gate_chances(): of n drafts
 * with these probabilities; gate_chances_found(): of drafts found after a match of `length` ids; gate_chances_later(): of drafts not yet made. */
void gate_chances(const struct gate *g, const float *prob, int n, double right[GATE_ROWS]);
void gate_chances_found(const struct gate *g, int length, double right[GATE_ROWS]);
void gate_chances_later(const struct gate *g, double right[GATE_ROWS]);
/* No draft was made for many steps, so one should be made to see whether drafts are right again. */
bool gate_is_idle(const struct gate *g);

#endif

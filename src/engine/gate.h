/* How many drafts are worth making, whose are worth verifying, and how many of these.  One more row in a step pays if the tokens that it is expected
 * to give are more than the engine makes otherwise in the time that the row takes.  The times of rows and drafts are measured (engine/price.h); the
 * chance that a draft is accepted is learnt from earlier drafts of the same source: by the MTP block's probability, or by the length of the match.
 * Plain arithmetic: no device, no clock.  {0} is not valid: gate_init(). */
#pragma once

#include <stdbool.h>

#include "answer/token.h"
#include "engine/price.h"

enum { GATE_ROWS = PRICE_ROWS, GATE_BINS = 6, GATE_LENGTHS = 4, GATE_RATES = 12 };

/* An estimate of the rate at which something happens, where the rate may change all of a sudden: a weight for each of GATE_RATES rates.
 * Besides the weights of this answer it keeps their average over recent answers, the usual weights.  An answer begins with them, and a change of
 * the rate is expected to lead back to them.  So if answers are alike, the first drafts of the next one pay; and if two rates alternate, a few
 * events show which of them it is. */
struct belief {
    float weight[GATE_RATES];           /* of each rate in this answer; their sum is 1 */
    float usual[GATE_RATES];            /* of each rate in recent answers; their sum is 1 */
    int   n;                            /* events over which `usual` is averaged, counted up to a limit */
    float middle;                       /* before any event, rates near this one have more weight */
};

struct gate {
    int    most;                        /* most drafts in a step */
    const struct price *price;          /* shared by all answers */
    /* The chance that a draft is right if all drafts before it in its step are, learnt in this answer and in earlier ones: */
    struct belief all;                  /* any draft of the MTP block */
    struct belief bin[GATE_BINS];       /* a draft to which the MTP block gave a probability in this range */
    struct belief found[GATE_LENGTHS];  /* a draft found in the text, by the length of the match */
    struct belief forced;               /* a draft of text that must come */
    int    idle;                        /* steps since a draft was made */
};

/* *price must stay valid as long as *g is used. */
void gate_init(struct gate *g, int most, const struct price *price);
/* Begins an answer, in which drafts are expected to be right as often as in earlier answers. */
void gate_begin(struct gate *g);

/* The drafts that a step of an answer could verify, and what else bears on the decision. */
struct offers {
    int  room;                          /* tokens that the answer may still have */
    int  n;                             /* drafts that the MTP block made, */
    const float *prob;                  /* [n] ... with these probabilities */
    int  at_a_time;                     /* most drafts that it may make before the next decision; 0: none any more */
    int  match;                         /* ENGINE_MAX_DEPTH drafts were found in the text, after a match of so many ids; 0: no drafts were found */
    int  n_forced;                      /* drafts of text that must come under a guide */
    bool together;                      /* several answers step together: then no step of one row is needed for its price */
};

struct decision {
    enum draft_source source;           /* whose drafts the step verifies */
    int make;                           /* drafts to be made first; then another decision is due */
    int rows;                           /* of the step: 1, and one for each draft to be verified */
};

/* How many of n drafts are of use to a step of an answer that may still have `room` tokens: the step itself gives one of these. */
static inline int gate_usable(int n, int room) { return room > n ? n : room > 0 ? room - 1 : 0; }
/* Decides for an answer that steps alone. */
struct decision gate_decide(const struct gate *g, const struct offers *o);

/* Learns from a step for which n drafts were made: n_known of them could be compared with the tokens that came, verified or not, and the first
 * n_right were equal.  n_known is n_right + 1, the first wrong one included, or n_right if no wrong one was compared. */
void gate_learn(struct gate *g, const float *prob, int n, int n_right, int n_known);
/* Learns from drafts that were found in the text: n_known of them were compared with the tokens that came, and the first n_right were equal. */
void gate_learn_found(struct gate *g, int match, int n_right, int n_known);
/* The same for drafts of text that must come: they are wrong where the model splits that into other tokens. */
void gate_learn_forced(struct gate *g, int n_right, int n_known);

/* For steps of several answers: right[i] becomes the chance that the first i drafts are all right.  gate_chances(): of n drafts of the MTP block;
 * gate_chances_found(): of drafts found in the text; gate_chances_forced(): of text that must come; gate_chances_later(): of drafts not yet made. */
void gate_chances(const struct gate *g, const float *prob, int n, double right[GATE_ROWS]);
void gate_chances_found(const struct gate *g, int match, double right[GATE_ROWS]);
void gate_chances_forced(const struct gate *g, double right[GATE_ROWS]);
void gate_chances_later(const struct gate *g, double right[GATE_ROWS]);
/* True if no draft was made for many steps, so that one should be made to see whether drafts are right again. */
bool gate_is_idle(const struct gate *g);

/* ---- Rows of a step that several answers share.  Each has one row; the others go where drafts are likeliest to be right, as long as the tokens
 * that a row is expected to give are more than the engine makes otherwise in the time that it takes. */

/* The part of one answer. */
struct share {
    int    most;                        /* drafts that may be verified */
    bool   makes;                       /* the MTP block makes its drafts, in one run with the others' */
    bool   idle;                        /* gate_is_idle() */
    int    n;                           /* drafts that there are */
    double right[GATE_ROWS];            /* the chance that the first i of them are right, up to n */
    double later[GATE_ROWS];            /* the same for those that would be made after them, when these are right */
    int    n_verified;                  /* set by shares_verify() */
};

/* Decides which drafts the next step verifies: n answers, at most most_rows rows. */
void shares_verify(const struct price *p, struct share *all, int n, int most_rows);
/* How many more drafts to make for each answer that `makes`, at most `lot`; 0: enough. */
int  shares_make(const struct price *p, const struct share *all, int n, int most_rows, int lot);

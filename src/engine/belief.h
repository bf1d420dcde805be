/* What is believed of the rate at which something happens, which may change all of a sudden: a weight for each of some rates.
 * It also keeps what was believed on average of late.  That is where an answer begins, and what a change is expected to lead to: where
 * answers are alike the first drafts of the next one pay, and where rates take turns a few events tell which of them it is.
 * Plain arithmetic.  {0} is not valid: belief_init(). */
#ifndef Q35_ENGINE_BELIEF_H
#define Q35_ENGINE_BELIEF_H

#include <stdbool.h>

enum { BELIEF_RATES = 12 };

struct belief {
    float weight[BELIEF_RATES];         /* these and the usual ones have the sum 1 */
    float usual[BELIEF_RATES];
    int   n;                            /* events that the usual weights are the mean of, as far as they are counted */
    float middle;                       /* rates about it are likelier before anything is known */
};

void   belief_init(struct belief *b, double middle);
/* An answer begins: it is likely to be as others were of late. */
void   belief_begin(struct belief *b);
/* It happened or not; `change` is the chance that the rate is another one now. */
void   belief_note(struct belief *b, double change, bool hit);
/* The mean rate. */
double belief_chance(const struct belief *b);
/* all[i]: the chance that the next i events happen, below n. */
void   belief_chances(const struct belief *b, double *all, int n);

#endif

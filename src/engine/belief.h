/* An estimate of the rate at which something happens, where the rate may change all of a sudden: a weight for each of BELIEF_RATES rates.
 * Besides the weights of this answer it keeps their average over recent answers, the usual weights.  An answer begins with them, and a change of
 * the rate is expected to lead back to them.  So if answers are alike, the first drafts of the next one pay; and if two rates alternate, a few
 * events show which of them it is.  Plain arithmetic.  {0} is not valid: belief_init(). */
#ifndef Q35_ENGINE_BELIEF_H
#define Q35_ENGINE_BELIEF_H

#include <stdbool.h>

enum { BELIEF_RATES = 12 };

struct belief {
    float weight[BELIEF_RATES];         /* of each rate in this answer; their sum is 1 */
    float usual[BELIEF_RATES];          /* of each rate in recent answers; their sum is 1 */
    int   n;                            /* events over which `usual` is averaged, counted up to a limit */
    float middle;                       /* before any event, rates near this one have more weight */
};

void   belief_init(struct belief *b, double middle);
/* An answer begins: the weights become the usual ones, with a little for every rate. */
void   belief_begin(struct belief *b);
/* One event: it happened (hit) or not; `change` is the chance that the rate has changed since the last one. */
void   belief_note(struct belief *b, double change, bool hit);
/* The chance that the next event happens: the mean rate. */
double belief_chance(const struct belief *b);
/* For i below n, all[i] becomes the chance that the next i events all happen. */
void   belief_chances(const struct belief *b, double *all, int n);

#endif

/* What steps and drafts take, measured while answers are under way.  A step of n rows costs the same whoever's rows they are, so there is one of
 * these for all answers.
 * Plain arithmetic: no device, no clock.  {0} is valid: nothing was measured. */
#ifndef Q35_ENGINE_PRICE_H
#define Q35_ENGINE_PRICE_H

#include "engine/request.h"

enum { PRICE_ROWS = ENGINE_MAX_DEPTH + 1 };

struct price {
    double one_ms;                      /* a step of one row, without making drafts */
    double ratio[PRICE_ROWS];           /* a step of i + 1 rows over that; 0: not measured */
    int    timed[PRICE_ROWS];           /* measurements of a step of i + 1 rows, counted up to 6 */
    double draft_ms[PRICE_ROWS];        /* making a draft for each of i + 1 answers in one run; 0: not measured */
};

void   price_step_took(struct price *p, int rows, double ms);
/* n drafts, one after the other, each for that many answers. */
void   price_drafts_took(struct price *p, int n_answers, int n, double ms);

/* False: nothing was measured, so nothing can be compared. */
static inline bool price_known(const struct price *p) { return p->one_ms > 0; }
/* What a step of so many rows costs, in steps of one row.  Between two measured numbers of rows it is interpolated, but a row never costs more
 * there than was expected at first, so that every number is tried once: with five rows a device may need other kernels than with four.  Beyond
 * the measured ones the mean slope goes on. */
double price_step(const struct price *p, int rows);
/* Milliseconds for a draft of each of so many answers.  0 as long as none was measured: then one is made. */
double price_draft_ms(const struct price *p, int n_answers);
double price_draft(const struct price *p, int n_answers);       /* in steps of one row */

#endif

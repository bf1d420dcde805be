/* How the rows of a step are shared out among several answers.  Each has one row; what is left goes where drafts are likeliest to be right, as
 * long as the tokens that a row is expected to give are more than the engine makes in the time that it takes.
 * Plain arithmetic, as engine/gate.h, which says what a draft is worth. */
#ifndef Q35_ENGINE_SHARE_H
#define Q35_ENGINE_SHARE_H

#include <stdbool.h>

#include "engine/gate.h"

/* Of one answer. */
struct share {
    int    most;                        /* drafts that may be verified */
    bool   makes;                       /* the MTP block makes its drafts, in one run with the others' */
    bool   idle;                        /* and made none for so long that one may tell how they fare now */
    int    n;                           /* drafts that there are */
    double right[GATE_ROWS];            /* the chance that the first i of them are right, up to n */
    double later[GATE_ROWS];            /* likewise of those that would be made behind them, when these are right */
    int    n_verified;                  /* set by shares_verify() */
};

/* For the next step: n answers, at most most_rows rows. */
void shares_verify(const struct price *p, struct share *all, int n, int most_rows);
/* How many more drafts to make for each answer that `makes`; 0: enough.  At most `lot` at a time. */
int  shares_make(const struct price *p, const struct share *all, int n, int most_rows, int lot);

#endif

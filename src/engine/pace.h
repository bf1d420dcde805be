/* How many rows a chunk of a prompt has.  A chunk costs a call and then its rows: on a GPU the call is the bytes of the weights, of which a
 * few hundred rows read as much as thousands do, so chunks are as long as the next request may wait.  What both cost is measured.
 * Plain arithmetic: no device, no clock.  {0} is not valid: pace_init(). */
#ifndef Q35_ENGINE_PACE_H
#define Q35_ENGINE_PACE_H

#include <stdbool.h>

/* Whom a chunk may keep waiting, and how long. */
enum pace_wait {
    PACE_NEXT,                          /* the request after the one whose prompt it is; an interrupt waits for nothing */
    PACE_AHEAD,                         /* a submit, for what is read before anybody has asked for it */
    PACE_OTHERS,                        /* answers under way, which go on between two chunks */
};

struct pace {
    double most_ms[3];                  /* a chunk, by enum pace_wait */
    int    least_rows;                  /* it has all the same */
    int    telling_rows;                /* from so many on a chunk tells what a row costs */
    double call_ms, row_ms;
};

/* beside_host: the device works while the host goes on, as a GPU. */
void pace_init(struct pace *p, bool beside_host);
/* Two calls when nothing is known yet; few < many. */
void pace_begin(struct pace *p, int few, double few_ms, int many, double many_ms);
/* A chunk of `rows` took so long. */
void pace_took(struct pace *p, int rows, double ms);
/* Rows of the next chunk, 1 to most. */
int  pace_rows(const struct pace *p, enum pace_wait wait, int most);

#endif

/* How many rows a chunk of a prompt has.  A chunk takes the time of a call, call_ms, and for each row row_ms more.  On a GPU call_ms is the time of
 * reading the weights, which a few hundred rows read as often as thousands do; so long chunks are cheap, and a chunk may be as long as others may
 * wait for its end.  Both times are measured.  Plain arithmetic: no device, no clock.  {0} is not valid: pace_init(). */
#ifndef Q35_ENGINE_PACE_H
#define Q35_ENGINE_PACE_H

#include <stdbool.h>

/* Who waits for the end of a chunk. */
enum pace_wait {
    PACE_NEXT,                          /* the request after this prompt's; an interrupt never waits for a chunk */
    PACE_AHEAD,                         /* a submit, while a prompt is read ahead */
    PACE_OTHERS,                        /* other answers under way, which take steps between two chunks */
};

struct pace {
    double most_ms[3];                  /* longest time of a chunk, by enum pace_wait */
    int    least_rows;                  /* rows that a chunk has even if they take longer */
    int    telling_rows;                /* chunks of at least so many rows correct row_ms */
    double call_ms, row_ms;
};

/* beside_host: the device works while the host goes on, as a GPU does. */
void pace_init(struct pace *p, bool beside_host);
/* The first measurement: a chunk of `few` rows and one of `many` (few < many). */
void pace_begin(struct pace *p, int few, double few_ms, int many, double many_ms);
/* A chunk of `rows` took `ms`. */
void pace_took(struct pace *p, int rows, double ms);
/* Rows of the next chunk, 1 to most. */
int  pace_rows(const struct pace *p, enum pace_wait wait, int most);

#endif

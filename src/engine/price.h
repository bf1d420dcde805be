/* The time that steps and drafts take, measured while answers are under way.  A step of n rows takes the same time for the rows of any answers, so
 * all answers share one struct price.
 * Plain arithmetic: no device, no clock.  {0} is valid: nothing was measured. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "engine/request.h"

enum { PRICE_ROWS = ENGINE_MAX_DEPTH + 1 };

struct price {
    double one_ms;                      /* a step of one row, without making drafts */
    double ratio[PRICE_ROWS];           /* [i] time of a step of i + 1 rows over one_ms; 0: not measured */
    int    timed[PRICE_ROWS];           /* [i] measurements of steps of i + 1 rows, counted up to 6 */
    double draft_ms[PRICE_ROWS];        /* [i] one run of the MTP block that makes a draft for each of i + 1 answers; 0: not measured */
    int    since_one;                   /* steps of several rows since the last one of one row */
};

void   price_step_took(struct price *p, int rows, double ms);
/* n runs of the MTP block, each of which made a draft for each of n_answers answers, took `ms` together. */
void   price_drafts_took(struct price *p, int n_answers, int n, double ms);

/* True if the next step of an answer that steps alone should have one row, so that its time is known; all others are compared with it. */
bool   price_one_is_due(const struct price *p);
/* For prices that an earlier start measured: true if they can have been measured at all. */
bool   price_is_likely(const struct price *p);
/* Forgets rows that cost nearly a step of their own: where no draft pays no draft is verified, so if the machine was only busy, the wrong price would
 * stay for long. */
void   price_doubt(struct price *p);

/* True if anything was measured, so that there is something to compare with. */
static inline bool price_known(const struct price *p) { return p->one_ms > 0; }
/* Time of a step of `rows` rows, in steps of one row.  Numbers of rows that were not measured are interpolated between their neighbours, with at most
 * the time per row that is assumed before any measurement, so that each number is tried once: with five rows a device may use other kernels than
 * with four.  Beyond the largest measured number the mean slope continues.  A number that was measured once has the interpolated time where that is
 * less, so that it is tried twice: something may have disturbed the first time. */
double price_step(const struct price *p, int rows);
/* Milliseconds of one run that makes a draft for each of n_answers answers.  0 if none was measured, so that one is made, or if
 * n_answers is 0: there is no run. */
double price_draft_ms(const struct price *p, int n_answers);
double price_draft(const struct price *p, int n_answers);       /* in steps of one row */

/* ---- Prices that an earlier start measured, so that the first answer of the next one begins with them: a file with a line for each `key`, which
 * describes what they depend on: device, model and how it is stored.  A key has no line end. */

/* Loads the prices for `key`, except those that price_doubt() rejects.  False: no usable line; *p is unchanged. */
bool price_recall(struct price *p, const char *path, const char *key);
/* Replaces the file by one with this line as its newest; its other lines stay, but for the oldest of many and those that are no prices.  Readers see
 * all of the old file or of the new one.  False with the reason. */
bool price_remember(const struct price *p, const char *path, const char *key, struct err *e);

/* ---- How many rows a chunk of a prompt has.  A chunk takes the time of a call, call_ms, and for each row row_ms more.  On a GPU call_ms is the time
 * of reading the weights, which a few hundred rows read as often as thousands do; so long chunks are cheap, and a chunk may be as long as others may
 * wait for its end.  Both times are measured.  {0} is not valid: pace_init().
 *
 * A page of 3,600 tokens would be one chunk, for which other answers wait 240 ms on an H200; in chunks of some 60 ms it takes 0.5 s instead of
 * 0.28 s.  A text keeps its 350 ms: long prompts would be read at 7,400 tokens a second instead of 14,200 whenever somebody has an answer.  A GB10
 * reads 62 GB at 240 GB/s for a chunk of any length, 260 ms: where 60 ms leave too few rows, pictures are read as text is. */

/* Who waits for the end of a chunk. */
enum pace_wait {
    PACE_NEXT,                          /* the request after this prompt's; an interrupt never waits for a chunk */
    PACE_AHEAD,                         /* a submit, while a prompt is read ahead */
    PACE_OTHERS,                        /* other answers under way, which take steps between two chunks */
    PACE_SEEN,                          /* the same, and the chunk has rows of pictures */
};

struct pace {
    double most_ms[4];                  /* longest time of a chunk, by enum pace_wait */
    int    least_rows;                  /* rows that a chunk has even if they take longer */
    int    telling_rows;                /* chunks of at least so many rows correct row_ms */
    double call_ms, row_ms;
    double short_ms;                    /* time of a row of PACE_SEEN, in chunks of fewer than telling_rows */
};

/* beside_host: the device works beside the host, as a GPU does. */
void pace_init(struct pace *p, bool beside_host);
/* The first measurement: a chunk of `few` rows and one of `many` (few < many). */
void pace_begin(struct pace *p, int few, double few_ms, int many, double many_ms);
/* A chunk of `rows` took `ms`. */
void pace_took(struct pace *p, int rows, double ms);
/* Rows of the next chunk, 1 to most. */
int  pace_rows(const struct pace *p, enum pace_wait wait, int most);
/* True if a chunk of so many rows should be part of another prompt's call: it has no more than least_rows, or its rows take at most as long as the
 * call that it saves.  Then all who wait are served sooner on average: k chunks of n rows end after call_ms + k n row_ms, and one after the other
 * on average after (k + 1) / 2 times call_ms + n row_ms.  On a GB10 that is up to some 1,040 rows, on a CPU, where a call costs nothing, none. */
bool pace_joins(const struct pace *p, int rows);

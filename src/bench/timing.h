/* The clock, the table and the memory of `bench kernels`. */
#ifndef Q35_BENCH_TIMING_H
#define Q35_BENCH_TIMING_H

#include <stddef.h>

#include "bench/subject.h"

enum { TIMING_CALLS = 48 };             /* of one measurement, each with another layer's weights where there are so many */

struct timing {
    struct subject *s;
    struct report  *r;
    struct dev     *d;
    struct err     *e;
    bool            failed;             /* e says why; what follows does nothing */
    int             rows;               /* of a step, or tokens of a prompt chunk */
    double          distinct;           /* experts of the next row of the table; 0: does not matter */
    void           *memory[40];
    int             n_memory;
};

/* Call i of n, queued. */
typedef void timing_call(struct timing *k, void *arg, int i);

/* Mean time of one call in µs: the best of a few times n calls in a row.  With `graph` they are recorded once and replayed. */
double timing_measure(struct timing *k, bool graph, int n, timing_call *call, void *arg);
/* Opens a table of operations. */
void timing_table(struct timing *k, const char *title);
/* A row of the table; `flops` 0: not counted. */
void timing_row(struct timing *k, const char *name, double us, double bytes, double flops);
/* Device memory until the end; random numbers in -1..1, or zeros. */
void  *timing_alloc(struct timing *k, size_t bytes);
float *timing_random(struct timing *k, size_t n);
void   timing_release(struct timing *k);        /* what was allocated */

#endif

/* The clock, the table and the memory of `bench kernels`. */
#pragma once

#include <stddef.h>

#include "bench/subject.h"

enum { TIMING_CALLS = 48 };             /* of one measurement, each with the weights of another layer if the model has that many */

struct timing {
    struct subject *s;
    struct report  *r;
    struct dev     *d;
    struct err     *e;
    bool            failed;             /* e has the reason; later calls do nothing */
    int             rows;               /* of a step, or tokens of a prompt chunk */
    double          distinct;           /* experts of the next row of the table; 0: not shown */
    void           *memory[40];
    int             n_memory;
};

/* Queues call i of n. */
typedef void timing_call(struct timing *k, void *arg, int i);

/* Mean time of one call in µs: the best of a few times n calls in a row.  With `graph` they are recorded once and replayed. */
double timing_measure(struct timing *k, bool graph, int n, timing_call *call, void *arg);
/* Opens a table of operations. */
void timing_table(struct timing *k, const char *title);
/* A row of the table; `flops` 0: not counted. */
void timing_row(struct timing *k, const char *name, double us, double bytes, double flops);
/* Allocate device memory until timing_release(): zeros; random numbers in -1..1. */
void  *timing_alloc(struct timing *k, size_t bytes);
float *timing_random(struct timing *k, size_t n);
void   timing_release(struct timing *k);        /* frees it */

void kernels_step(struct timing *k);     /* in bench/kernels_step.c: measures the operations of a decode step alone, of 1 to 8 rows */

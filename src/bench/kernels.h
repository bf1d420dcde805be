/* Inside of `bench kernels`: the clock and the table that its two halves share. */
#ifndef Q35_BENCH_KERNELS_H
#define Q35_BENCH_KERNELS_H

#include <stddef.h>

#include "bench/subject.h"

enum { KERNEL_CALLS = 48 };             /* of one measurement, each with another layer's weights where there are so many */

struct kernels {
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
typedef void kernel_call(struct kernels *k, void *arg, int i);

/* Mean time of one call in µs: the best of a few times n calls in a row.  With `graph` they are recorded once and replayed. */
double kernels_time(struct kernels *k, bool graph, int n, kernel_call *call, void *arg);
/* A row of the table; `flops` 0: not counted. */
void kernels_row(struct kernels *k, const char *name, double us, double bytes, double flops);
/* Device memory until the end; random numbers in -1..1, or zeros. */
void  *kernels_alloc(struct kernels *k, size_t bytes);
float *kernels_random(struct kernels *k, size_t n);

void kernels_step(struct kernels *k);           /* operations of a decode step, 1 to 8 rows */
void kernels_prompt(struct kernels *k, int n_tokens);

#endif

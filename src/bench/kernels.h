/* The two halves of `bench kernels`. */
#ifndef Q35_BENCH_KERNELS_H
#define Q35_BENCH_KERNELS_H

#include "bench/timing.h"

void kernels_step(struct timing *k);           /* operations of a decode step, 1 to 8 rows */
void kernels_prompt(struct timing *k, int n_tokens);

#endif

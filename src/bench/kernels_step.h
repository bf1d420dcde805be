/* The operations of a decode step alone, of 1 to 8 rows, for `bench kernels`. */
#ifndef Q35_BENCH_KERNELS_STEP_H
#define Q35_BENCH_KERNELS_STEP_H

#include "bench/timing.h"

void kernels_step(struct timing *k);

#endif

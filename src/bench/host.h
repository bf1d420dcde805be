/* What the machine is: nothing that names it, its user or a place on it. */
#ifndef Q35_BENCH_HOST_H
#define Q35_BENCH_HOST_H

#include "bench/report.h"

void report_host(struct report *r);     /* system, kernel, product, processors, memory, the GPU's driver */

#endif

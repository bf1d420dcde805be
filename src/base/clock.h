/* Monotonic time. */
#ifndef Q35_BASE_CLOCK_H
#define Q35_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void);
double  clock_ms_since(int64_t start_ns);

#endif

/* Monotonic time, and time without a processor. */
#ifndef Q35_BASE_CLOCK_H
#define Q35_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void);
double  clock_ms_since(int64_t start_ns);
int64_t clock_waited_ns(void);          /* in which this thread was ready to run and had no processor, since it began; 0 where the kernel does not
                                         * tell */

#endif

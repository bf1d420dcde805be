/* `q35chat bench health`: whether this machine reads its memory as fast as it did, and as others of its kind do.  A GB10 can fall into a
 * state where reads lose a third and nothing else tells. */
#ifndef Q35_BENCH_HEALTH_H
#define Q35_BENCH_HEALTH_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* In GB/s; 0: not known. */
struct health {
    double now, best;                   /* best: of this machine before */
    double usual;                       /* of such devices, config/devices.def */
};

double health_usual(const char *device);
/* The best that a file remembers of a device; 0 when it does not exist, or remembers none. */
double health_best(const char *path, const char *device);
/* Writes `now` there if it is better than what is there.  False with the reason. */
bool   health_remember(const char *path, const char *device, double now, struct err *e);
/* Whether reads are slow; one line that says so, and what to do. */
bool   health_slow(const struct health *h, struct buf *line);

#endif

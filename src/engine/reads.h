/* How fast a machine reads its memory: what it reached before, what such devices reach, and a word when it is slow now.  A GB10 can fall
 * into a state where reads lose a third and nothing else tells. */
#ifndef Q35_ENGINE_READS_H
#define Q35_ENGINE_READS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* In GB/s; 0: not known. */
struct reads {
    double now, best;                   /* best: of this machine before */
    double usual;                       /* of such devices, config/devices.def */
};

double reads_usual(const char *device);
/* The best that a file remembers of a device; 0 when it does not exist, or remembers none. */
double reads_best(const char *path, const char *device);
/* Writes `now` there if it is better than what is there.  False with the reason. */
bool   reads_remember(const char *path, const char *device, double now, struct err *e);
/* Whether reads are slow; one line that says so, and what to do. */
bool   reads_slow(const struct reads *r, struct buf *line);

#endif

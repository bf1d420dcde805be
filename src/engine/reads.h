/* How fast a machine reads its memory now, compared with its own best and with other machines that have the same device, and a warning if that is
 * slow.  A GB10 can fall into a state in which reads are a third slower, and nothing else shows it. */
#ifndef Q35_ENGINE_READS_H
#define Q35_ENGINE_READS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* In GB/s; 0: not known. */
struct reads {
    double now, best;                   /* now: measured in this run; best: in earlier runs on this machine */
    double usual;                       /* what this device reaches on other machines (config/devices.def) */
};

double reads_usual(const char *device);
/* The best rate of the device that the file has; 0 if there is no file, or no rate in it. */
double reads_best(const char *path, const char *device);
/* Writes `now` to the file if it is better than the rate there.  False with the reason. */
bool   reads_remember(const char *path, const char *device, double now, struct err *e);
/* Whether reads are slow.  Appends a line that compares `now` with what was expected, and if they are slow says what to do. */
bool   reads_slow(const struct reads *r, struct buf *line);

#endif

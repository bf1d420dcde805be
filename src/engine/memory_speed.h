/* How fast a GPU reads memory, measured and remembered in files:
 *   reads      its memory now, compared with its own best and with other machines that have the same device.  A GB10 can fall into a state in which
 *              reads are a third slower, and nothing else shows it.
 *   placement  on a GPU that shares the host's memory: device memory against pinned memory of the host, which some GPUs read faster. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct dev;

/* In GB/s; 0: not known. */
struct reads {
    double now, best;                   /* now: measured in this run; best: in earlier runs on this machine */
    double usual;                       /* what this device reaches on other machines (config/devices.def) */
};

double reads_usual(const char *device);                 /* what the device reaches on other machines; 0: not known */
/* The best rate of the device that the file has; 0 if there is no file, or no rate in it. */
double reads_best(const char *path, const char *device);
/* Writes `now` to the file if it is better than the rate there.  False with the reason. */
bool   reads_remember(const char *path, const char *device, double now, struct err *e);
/* True if reads are slow.  Appends a line that compares `now` with what was expected, and, if they are slow, advice. */
bool   reads_slow(const struct reads *r, struct buf *line);

/* In GB/s; all 0: nothing was measured. */
struct placement {
    double device, host;                /* plain reads of either memory */
    double again;                       /* of a few MB of pinned memory, over and over: faster than `host` if a cache holds them */
};

/* Steps read each weight once, but prompts read a tile of weights several times in a row.  So the host's memory wins only when it is faster
 * by more than readings differ, and a cache of the GPU holds it. */
bool placement_prefers_host(const struct placement *p);
/* Finds the figures of the device that `key` names: reads them from `file`, or measures them and appends them to it.  file: NULL for none.
 * Measuring takes a quarter of a second and 256 MiB of device and of host memory, one after the other. */
void placement_find(struct placement *p, struct dev *d, const char *key, const char *file);
/* Appends a line about where weights lie and why; nothing when nothing was measured. */
void placement_say(const struct placement *p, struct buf *out);

/* Where weights lie on a GPU that shares the host's memory: in device memory, or in pinned memory of the host, which some GPUs read faster.
 * Measured once for each device and driver, and remembered in a file. */
#ifndef Q35_ENGINE_PLACEMENT_H
#define Q35_ENGINE_PLACEMENT_H

#include <stdbool.h>

#include "base/buf.h"

struct dev;

/* In GB/s; all 0: nothing was measured. */
struct placement {
    double device, host;                /* plain reads of either memory */
    double again;                       /* of a few MB of pinned memory, over and over: faster than `host` if a cache holds them */
};

/* Steps read each weight once, but prompts read a tile of weights several times in a row.  So the host's memory wins only when it is faster
 * by more than readings differ, and a cache of the GPU holds it. */
bool placement_prefers_host(const struct placement *p);
/* The figures of the device that `key` names: read from `file`, or measured and appended to it.  file: NULL for none.  Measuring takes a quarter
 * of a second and 256 MiB of device and of host memory, one after the other. */
void placement_find(struct placement *p, struct dev *d, const char *key, const char *file);
/* A line: where they lie and why; nothing when nothing was measured. */
void placement_say(const struct placement *p, struct buf *out);

#endif

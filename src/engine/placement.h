/* Where the weights of a GPU lie that shares the host's memory: in device memory, or in pinned memory of the host, which some read faster.
 * Measured once for each device and driver, and remembered. */
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
/* Of the device that `key` names, from the file or measured; what was measured goes to the file.  NULL: no file.  Takes a quarter of a
 * second and some memory, and leaves d->weights_in_host as it was. */
void placement_find(struct placement *p, struct dev *d, const char *key, const char *file);
/* A line: where they lie and why; nothing when nothing was measured. */
void placement_say(const struct placement *p, struct buf *out);

#endif

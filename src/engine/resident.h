/* A sequence and its place in memory, for modules that copy it. */
#ifndef Q35_ENGINE_RESIDENT_H
#define Q35_ENGINE_RESIDENT_H

#include <stdbool.h>

#include "engine/snapshot.h"
#include "engine/timeline.h"
#include "model/cache.h"

struct dev;

struct resident {
    struct dev       *dev;
    int               slot;             /* its place: index of the sequence, whose snapshots have this number */
    struct timeline  *tl;
    struct snapshots *snaps;
    struct cache     *cache;
    int rejoins;                        /* position where the next turn rejoins if this answer is not continued; 0: not known */
    bool finished;                      /* the answer will not be continued */
};

#endif

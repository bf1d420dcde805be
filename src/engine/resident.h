/* A sequence and where it lies, for those who copy it. */
#ifndef Q35_ENGINE_RESIDENT_H
#define Q35_ENGINE_RESIDENT_H

#include <stdbool.h>

#include "engine/snapshot.h"
#include "engine/timeline.h"
#include "model/cache.h"

struct dev;

struct resident {
    struct dev       *dev;
    int               sequence;         /* whose the snapshots are */
    struct timeline  *tl;
    struct snapshots *snaps;
    struct cache     *cache;
    int rejoins;                        /* where the next turn rejoins if nothing more comes of this one; 0: not known */
    bool finished;                      /* nothing more comes of it */
};

#endif

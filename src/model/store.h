/* Inside of struct weights_store: what the views of a struct weights point into.  For weights.c, upload_plan.c and upload.c only. */
#ifndef Q35_MODEL_STORE_H
#define Q35_MODEL_STORE_H

#include "backend/dev.h"
#include "base/arena.h"
#include "model/shards.h"

/* Bytes of one file that bound tensors occupy. */
struct range {
    int      file;
    uint64_t offset, bytes;
};

struct weights_store {
    struct shards shards;               /* the mappings; none any more when the weights lie on a device */
    struct arena  copies;
    struct range *ranges;
    int           n_ranges, cap;
    struct dev   *dev;                  /* owns the slabs */
    void        **slabs;
    int           n_slabs;
};

#endif

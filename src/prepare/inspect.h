/* What a checkpoint holds, layer by layer, what a step reads of it, how fast that can be, and what memory it takes. */
#ifndef Q35_PREPARE_INSPECT_H
#define Q35_PREPARE_INSPECT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct inspect_options {
    bool   json;
    double bandwidth_gb_s;              /* of the memory; 0: as the device of this machine reads it, which takes a moment */
};

/* Appends tables, or one JSON object. */
bool inspect_run(const char *dir, const struct inspect_options *o, struct buf *out, struct err *e);

#endif

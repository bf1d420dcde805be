/* The contents of a checkpoint by layer, the bytes that a step reads, the speed limit that follows, and the memory that it needs. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct inspect_options {
    bool   json;
    double bandwidth_gb_s;              /* memory bandwidth; 0: measure the device of this machine, which takes a moment */
};

/* Appends tables, or one JSON object. */
bool inspect_run(const char *dir, const struct inspect_options *o, struct buf *out, struct err *e);

/* A sequence out of its checkpoint file.  Engine thread. */
#ifndef Q35_ENGINE_RESTORE_H
#define Q35_ENGINE_RESTORE_H

#include <stdbool.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/resident.h"

/* What came of it. */
struct restored {
    int n_tokens;                       /* that are there now; 0: none, or they were there already */
    struct err refused;                 /* why the file is of no use */
    bool deleted;                       /* so it is gone; else another program has it, or it cannot be read now */
};
/* Makes the sequence that of the file.  False when the device failed. */
bool restore_sequence(const char *path, struct fingerprint identity, const struct resident *r, struct restored *out, struct err *fault);

#endif

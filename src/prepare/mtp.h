/* Repairs a checkpoint whose index lost the MTP block, which makes the drafts. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "prepare/source.h"

struct mtp_report {
    enum { MTP_ADDED, MTP_INDEXED, MTP_THERE } state;  /* copied and listed; listed; nothing to do */
    int n_tensors;                      /* of the block */
};

/* If DIR lacks the tensors, they are copied from `from` (NULL: not possible) to model_extra_tensors.safetensors.  The index then lists
 * them.  On failure DIR is unchanged. */
bool mtp_add(const char *dir, struct source *from, struct mtp_report *r, struct err *e);

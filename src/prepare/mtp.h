/* Mends a checkpoint whose index lost the MTP block: the tensors that draft. */
#ifndef Q35_PREPARE_MTP_H
#define Q35_PREPARE_MTP_H

#include <stdbool.h>

#include "base/err.h"
#include "prepare/source.h"

struct mtp_report {
    enum { MTP_ADDED, MTP_INDEXED, MTP_THERE } state;  /* copied from elsewhere and listed; listed; nothing to do */
    int n_tensors;                      /* of the block */
};

/* `from` (NULL: only DIR itself) has the tensors when DIR has not.  They go to model_extra_tensors.safetensors, and the index lists them.
 * DIR stays as it was when this is false. */
bool mtp_add(const char *dir, struct source *from, struct mtp_report *r, struct err *e);

#endif

/* The values of tensors: NaN and infinity, values of impossible size, missing parts. */
#ifndef Q35_PREPARE_SCAN_H
#define Q35_PREPARE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "model/config.h"
#include "model/shards.h"
#include "prepare/verify.h"

/* Statistics of the values of one or several float tensors. */
struct scan_stats {
    uint64_t n, n_nan, n_inf, n_zero, n_negative;
    uint64_t first_bad;                 /* index of the first NaN or inf */
    double   min, max;                  /* of the magnitudes, without 0, NaN and inf */
};
void scan_add(struct scan_stats *sum, const struct scan_stats *s);
/* Reads the values of a tensor, and no bytes around them.  A hole of a sparse file counts as zeros and is not read.  False if reading
 * fails. */
bool scan_tensor(struct scan_stats *s, const struct safetensors *f, const struct tensor *t);

/* Checks every used tensor.  Scales, zero points and vectors are read completely; matrices in samples, or with `full` completely. */
void scan_shards(const struct shards *s, const struct model_config *c, bool full, struct verify_report *r);

#endif

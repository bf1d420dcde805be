/* The numbers of tensors: what is no number, what is absurd, what is missing in them. */
#ifndef Q35_PREPARE_SCAN_H
#define Q35_PREPARE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "model/config.h"
#include "model/shards.h"
#include "prepare/verify.h"

/* Of the values of one tensor, or several, that are floats. */
struct scan_stats {
    uint64_t n, n_nan, n_inf, n_zero, n_negative;
    uint64_t first_bad;                 /* index of the first NaN or inf */
    double   min, max;                  /* of the magnitudes that are finite and not 0 */
};
void scan_floats(struct scan_stats *s, const void *data, enum dtype dtype, uint64_t n);
void scan_add(struct scan_stats *sum, const struct scan_stats *s);
/* A tensor's values, read from its file and from nowhere around it.  A hole of a sparse file counts as zeros and is not read.  False when
 * reading fails. */
bool scan_tensor(struct scan_stats *s, const struct safetensors *f, const struct tensor *t);

/* Looks at every tensor that counts.  Scales, zeros and vectors are read in whole, matrices at a few places, or with `full` in whole. */
void scan_shards(const struct shards *s, const struct model_config *c, bool full, struct verify_report *r);

#endif

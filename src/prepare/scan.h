/* The values of float tensors: how many, NaN and infinity, the range of magnitudes; and a pass over all tensors by several threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/shards.h"

/* Statistics of the values of one or several float tensors. */
struct scan_stats {
    uint64_t n, n_nan, n_inf, n_zero, n_negative;
    uint64_t first_bad;                 /* index of the first NaN or inf */
    double   min, max;                  /* of the magnitudes, without 0, NaN and inf */
};
void scan_add(struct scan_stats *sum, const struct scan_stats *s);
void scan_numbers(struct scan_stats *s, const void *data, enum dtype dtype, uint64_t n);
/* Reads the values of a tensor, and no bytes around them.  A hole of a sparse file counts as zeros and is not read.  False if reading
 * fails. */
bool scan_tensor(struct scan_stats *s, const struct safetensors *f, const struct tensor *t);

bool   scan_is_float(enum dtype t);
float  scan_value(const void *data, enum dtype t, uint64_t i);
double scan_mean(const void *data, enum dtype dtype, uint64_t n);       /* mean magnitude of a sample of the values */

/* Calls `each` for every tensor i of the shards, on several threads at once. */
void scan_each_tensor(const struct shards *s, void (*each)(void *arg, int i), void *arg);

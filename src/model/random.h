/* What random weights look like, on a device or in a file: for synthetic.c and tests/bench/synthetic_write.c. */
#ifndef Q35_MODEL_RANDOM_H
#define Q35_MODEL_RANDOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/fill.h"

#define RANDOM_WIDTH  1.7320508f        /* half the range of a flat distribution of root mean square 1 */
#define RANDOM_ROUTER 2.0f              /* of router logits: the 8 of 256 that win do so clearly, each token has others */
#define RANDOM_HEAD   2.0f              /* of logits */

enum random_vector {
    RANDOM_NORM,                        /* the 1 + w kind: around 0 */
    RANDOM_GATED_NORM,                  /* around 1 */
    RANDOM_CONV,
    RANDOM_A_LOG,                       /* log of 1 to 16 */
    RANDOM_DT_BIAS,                     /* softplus gives 0.001 to 0.1, evenly in its logarithm */
};

/* The key of piece `i` of whatever `seed` stands for. */
static inline uint64_t random_key(uint64_t seed, uint64_t i) { return fill_hash(seed ^ 0x71333563u, i); }

static inline void random_floats(float *dst, enum random_vector kind, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        float u = (float)(fill_hash(key, i) >> 40) * (1.0f / 16777216);
        switch (kind) {
        case RANDOM_NORM:       dst[i] = (u - 0.5f) * 0.2f; break;
        case RANDOM_GATED_NORM: dst[i] = 1 + (u - 0.5f) * 0.2f; break;
        case RANDOM_CONV:       dst[i] = u - 0.5f; break;
        case RANDOM_A_LOG:      dst[i] = logf(1 + 15 * u); break;
        case RANDOM_DT_BIAS:    dst[i] = logf(expm1f(0.001f * powf(100, u))); break;
        }
    }
}

#endif

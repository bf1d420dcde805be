/* Models of random weights in a real geometry: speed can be measured without a checkpoint.  Weights are scaled so that activations keep their
 * usual size through all layers, and each token's experts win clearly while tokens choose different ones. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/fill.h"
#include "model/config.h"
#include "model/weights.h"

struct buf;
struct dev;
struct synthetic;

/* Looks up the geometry of config/models.def that `name` is a part of ("122b", "35b", "demo"), with its first n_layers layers (0: all). */
bool synthetic_config(struct model_config *c, const char *name, int n_layers, struct err *e);
/* Writes the same as the text of a config.json. */
bool synthetic_config_json(struct buf *out, const char *name, int n_layers, struct err *e);

struct synthetic_form {
    unsigned      heads;                /* bits of enum head */
    enum mtp_form mtp;
    bool          quality;              /* attention and out projections in FP8, as `build-hybrid --quality` has them */
};

/* Makes weights in device memory, in the layout of kernels/pack.h: INT4 with FP8 shared experts.  Fills *w, whose memory the result owns; the same
 * seed gives the same weights.  NULL with the reason: no GPU behind `d`, or no room. */
struct synthetic *synthetic_open(struct weights *w, const struct model_config *c, struct dev *d, const struct synthetic_form *form, uint64_t seed,
                                 struct err *e);
/* Enters the published vision tower in *c, whose text model has all else.  The last id of the vocabulary stands for a picture's tokens. */
void synthetic_vision(struct model_config *c);
/* Adds that tower, with random weights, and enters it in *c. */
bool synthetic_add_vision(struct synthetic *s, struct weights *w, struct model_config *c, uint64_t seed, struct err *e);
void synthetic_close(struct synthetic *s);
/* Returns the device memory that the weights will take. */
size_t synthetic_bytes(const struct model_config *c, const struct synthetic_form *form);

/* ---- what random weights look like, on a device or in a file ---- */

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

/* Returns the key of piece `i` for a seed. */
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

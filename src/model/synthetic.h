/* Models of random weights in a real geometry: speed can be measured without a checkpoint.  Weights are scaled so that activations keep their
 * usual size through all layers, and each token's experts win clearly while tokens choose different ones. */
#ifndef Q35_MODEL_SYNTHETIC_H
#define Q35_MODEL_SYNTHETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/config.h"
#include "model/weights.h"

struct buf;
struct dev;
struct synthetic;

/* The geometry of config/models.def that `name` is a part of ("122b", "35b", "demo"), with its first n_layers layers (0: all). */
bool synthetic_config(struct model_config *c, const char *name, int n_layers, struct err *e);
/* The same as the text of a config.json. */
bool synthetic_config_json(struct buf *out, const char *name, int n_layers, struct err *e);

/* Device memory in the layout of kernels/pack.h: INT4 with FP8 shared experts, the MTP block in that form.  Fills *w, whose memory the
 * result owns; `heads` are bits of enum head; the same seed gives the same weights.  NULL with the reason: no GPU behind `d`, or no room. */
struct synthetic *synthetic_open(struct weights *w, const struct model_config *c, struct dev *d, unsigned heads, enum mtp_form mtp, uint64_t seed,
                                 struct err *e);
void synthetic_close(struct synthetic *s);
/* Device memory that the weights will take. */
size_t synthetic_bytes(const struct model_config *c, unsigned heads, enum mtp_form mtp);

#endif

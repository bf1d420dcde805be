/* Rotary frequencies of a checkpoint: plain, or stretched by YaRN for contexts beyond the trained one. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "model/config.h"

enum { ROPE_MAX_HALF = 256 };

/* Writes freq[rotary_dim / 2], in radians per position. The factor on cos and sin is config's yarn_attention_factor. */
void rope_frequencies(float *freq, const struct model_config *c);

/* Makes room for n_ctx positions where the model was trained on fewer: YaRN with a factor of 2, or else 4, which is the most that its
 * publisher gives.  Changes nothing where its own positions are enough.  False with what would be possible. */
bool rope_stretch(struct model_config *c, int n_ctx, struct err *e);

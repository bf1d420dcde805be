/* Rotary frequencies of a checkpoint: plain, or stretched by YaRN for contexts beyond the trained one. */
#ifndef Q35_MODEL_ROPE_H
#define Q35_MODEL_ROPE_H

#include "model/config.h"

enum { ROPE_MAX_HALF = 256 };

/* freq[rotary_dim / 2], radians per position.  The factor on cos and sin is config's yarn_attention_factor. */
void rope_frequencies(float *freq, const struct model_config *c);

#endif

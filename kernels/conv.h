/* Causal depthwise convolution over time, then SiLU:
 *   y[t,c] = silu(sum_{j<taps} w[c,j] * m[t-taps+1+j, c])
 * where m at negative times is the window: the last taps-1 raw inputs, oldest first.  The new rows are appended to the window.
 *                                                                                            tolerance: 1e-6 relative
 * Source: transformers, models/qwen3_5_moe (torch_causal_conv1d_update). */
#pragma once

#include <stddef.h>

enum { CONV_MAX_TAPS = 8, CONV_CHANNELS = 64 };         /* channels of one unit */

struct conv_args {
    float       *y;             /* [n_tokens, n_channels] */
    const float *x;             /* [n_tokens, n_channels] raw */
    const float *w;             /* [n_channels, taps] */
    float       *window;        /* [taps - 1, n_channels], updated */
    int          n_tokens, n_channels, taps;
};
static inline size_t conv_bytes(const struct conv_args *a)
{
    return (size_t)(3 * a->n_tokens + 2 * (a->taps - 1) + a->taps) * (size_t)a->n_channels * sizeof(float);
}
/* The definition, for channels [begin, end). */
void conv_channels(const struct conv_args *a, int begin, int end);
static inline int conv_units(const struct conv_args *a) { return (a->n_channels + CONV_CHANNELS - 1) / CONV_CHANNELS; }

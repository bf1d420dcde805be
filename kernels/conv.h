/* Causal depthwise convolution over time, then SiLU:
 *   y[t,c] = silu(sum_{j<taps} w[c,j] * m[t-taps+1+j, c])
 * where m at negative times is the window: the last taps-1 raw inputs of the committed sequence, oldest first.
 * First the n_accepted rows of `staged` are appended to the window.  Then the new rows are stored in `staged` and the window is
 * kept (`stage`), or they are appended to the window.                                        tolerance: 1e-6 relative
 * Source: transformers, models/qwen3_5_moe (torch_causal_conv1d_update). */
#ifndef Q35_KERNELS_CONV_H
#define Q35_KERNELS_CONV_H

#include <stddef.h>

enum { CONV_MAX_TAPS = 8, CONV_CHANNELS = 64 };         /* channels of one unit */

struct conv_args {
    float       *y;             /* [n_tokens, n_channels] */
    const float *x;             /* [n_tokens, n_channels] raw */
    const float *w;             /* [n_channels, taps] */
    float       *window;        /* [taps - 1, n_channels], updated */
    float       *staged;        /* [max_step, n_channels], raw inputs of the last step; read, then rewritten if `stage` */
    int          n_accepted;    /* rows of `staged` that were accepted */
    int          stage;         /* store the new rows in `staged` instead of the window */
    int          n_tokens, n_channels, taps;
};
static inline size_t conv_bytes(const struct conv_args *a)
{
    return (size_t)(3 * a->n_tokens + 2 * (a->taps - 1) + a->taps + a->n_accepted) * (size_t)a->n_channels * sizeof(float);
}
static inline int conv_units(const struct conv_args *a) { return (a->n_channels + CONV_CHANNELS - 1) / CONV_CHANNELS; }

#endif

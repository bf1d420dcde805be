#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

/* window <- the last `keep` rows of (window, n rows of x), for channels [c0, c1) */
static void slide(float *window, const float *x, int n, int keep, size_t stride, size_t c0, size_t c1)
{
    for (int r = 0; r < keep; r++) {
        int from = r + n;               /* row of the concatenation; rows only move down, so copying in order is safe */
        const float *src = from < keep ? window + (size_t)from * stride : x + (size_t)(from - keep) * stride;
        if (src != window + (size_t)r * stride)
            memcpy(window + (size_t)r * stride + c0, src + c0, (c1 - c0) * sizeof *x);
    }
}

void conv_channels(const struct conv_args *a, int begin, int end)
{
    const size_t stride = (size_t)a->n_channels, c0 = (size_t)begin, c1 = (size_t)end;
    const int keep = a->taps - 1;
    for (int t = 0; t < a->n_tokens; t++)
        for (size_t c = c0; c < c1; c++) {
            float sum = 0;
            for (int j = 0; j < a->taps; j++) {
                int from = t + j;       /* row of (window, x) */
                float m = from < keep ? a->window[(size_t)from * stride + c] : a->x[(size_t)(from - keep) * stride + c];
                sum += a->w[c * (size_t)a->taps + (size_t)j] * m;
            }
            a->y[(size_t)t * stride + c] = silu(sum);
        }
    slide(a->window, a->x, a->n_tokens, keep, stride, c0, c1);
}

/* A unit is CONV_CHANNELS channels of all tokens. */
void conv_cpu(const struct conv_args *a, int begin, int end)
{
    for (int u = begin; u < end; u++) {
        const int c0 = u * CONV_CHANNELS, c1 = c0 + CONV_CHANNELS;
        conv_channels(a, c0, c1 < a->n_channels ? c1 : a->n_channels);
    }
}

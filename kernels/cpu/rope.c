#include <math.h>

#include "kernels/ops.h"

void rope_cpu(const struct rope_args *a, int begin, int end)
{
    for (int t = begin; t < end; t++)
        for (int i = 0; i < a->half; i++) {
            float angle = (float)(a->pos + t) * a->freq[i];
            float c = cosf(angle) * a->scale, s = sinf(angle) * a->scale;
            for (int h = 0; h < a->n_heads; h++) {
                float *x = a->x + (size_t)t * a->token_stride + (size_t)h * a->head_stride + i;
                float p = x[0], q = x[a->half];
                x[0] = p * c - q * s;
                x[a->half] = q * c + p * s;
            }
        }
}

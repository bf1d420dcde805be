#include <math.h>

#include "kernels/ops.h"

void rope_cpu(const struct rope_args *a, int begin, int end)
{
    for (int t = begin; t < end; t++) {
        const int same = a->first + t;
        const struct rope_position at = a->at ? a->at[t] : (struct rope_position){same, same, same};
        for (int i = 0; i < a->half; i++) {
            float angle = (float)rope_coordinate(at, i) * a->freq[i];
            float c = cosf(angle) * a->scale, s = sinf(angle) * a->scale;
            for (int h = 0; h < a->n_heads; h++) {
                float *x = a->x + (size_t)t * a->token_stride + (size_t)h * a->head_stride + i;
                float p = x[0], q = x[a->half];
                x[0] = p * c - q * s;
                x[a->half] = q * c + p * s;
            }
        }
    }
}

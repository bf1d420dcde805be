#include <math.h>

#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

static float inverse_rms(const float *x, int dim, float eps)
{
    double sum = 0;
    for (int i = 0; i < dim; i++)
        sum += (double)x[i] * x[i];
    return (float)(1.0 / sqrt(sum / dim + eps));
}

void rmsnorm_cpu(const struct rmsnorm_args *a, int begin, int end)
{
    size_t dim = (size_t)a->dim;
    for (int r = begin; r < end; r++) {
        size_t group = (size_t)(a->per_group ? r / a->per_group : r), in = (size_t)(a->per_group ? r % a->per_group : 0);
        const float *x = a->x + group * (a->x_group ? a->x_group : dim) + in * a->x_row;
        float *y = a->y + group * (a->y_group ? a->y_group : dim) + in * a->y_row;
        float s = inverse_rms(x, a->dim, a->eps);
        for (int i = 0; i < a->dim; i++)
            y[i] = x[i] * s * (1.0f + a->w[i]);
    }
}

void rmsnorm_gated_cpu(const struct rmsnorm_gated_args *a, int begin, int end)
{
    for (int r = begin; r < end; r++) {
        size_t at = (size_t)r * (size_t)a->dim;
        float s = inverse_rms(a->x + at, a->dim, a->eps);
        for (int i = 0; i < a->dim; i++)
            a->y[at + i] = a->x[at + i] * s * a->w[i] * silu(a->z[at + i]);
    }
}

void layernorm_cpu(const struct layernorm_args *a, int begin, int end)
{
    for (int r = begin; r < end; r++) {
        const float *x = a->x + (size_t)r * (size_t)a->dim;
        float *y = a->y + (size_t)r * (size_t)a->dim;
        double sum = 0, squares = 0;
        for (int i = 0; i < a->dim; i++)
            sum += (double)x[i];
        const double mean = sum / a->dim;
        for (int i = 0; i < a->dim; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const float s = (float)(1.0 / sqrt(squares / a->dim + (double)a->eps));
        for (int i = 0; i < a->dim; i++)
            y[i] = (x[i] - (float)mean) * s * a->w[i] + a->b[i];
    }
}

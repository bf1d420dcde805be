#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

void embed_cpu(const struct embed_args *a, int begin, int end)
{
    size_t dim = (size_t)a->table.cols;
    for (int t = begin; t < end; t++) {
        float *y = a->y + (size_t)t * dim;
        size_t at = (size_t)a->ids[t] * dim;
        const uint16_t *h = (const uint16_t *)a->table.data + at;
        switch (a->table.dtype) {
        case DT_F32: memcpy(y, (const float *)a->table.data + at, dim * sizeof *y); break;
        case DT_F16: for (size_t i = 0; i < dim; i++) y[i] = f16_f32(h[i]); break;
        default:     for (size_t i = 0; i < dim; i++) y[i] = bf16_f32(h[i]); break;
        }
    }
}

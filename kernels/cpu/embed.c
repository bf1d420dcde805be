#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

void embed_cpu(const struct embed_args *a, int begin, int end)
{
    size_t dim = (size_t)a->table.cols, size = a->table.dtype == DT_F32 ? 4 : 2;
    for (int t = begin; t < end; t++)
        floats_f32(a->y + (size_t)t * dim, (const char *)a->table.data + (size_t)a->ids[t] * dim * size, a->table.dtype, dim);
}

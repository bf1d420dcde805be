#include <math.h>

#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

enum { BLOCK = 64, MAX_DIM = 512 };

void kv_store_cpu(const struct kv_store_args *a, int begin, int end)
{
    size_t row = (size_t)a->kv.n_kv_heads * (size_t)a->kv.head_dim;
    for (int t = begin; t < end; t++) {
        size_t from = (size_t)t * row, to = (size_t)(a->pos + t) * row;
        for (int which = 0; which < 2; which++) {
            const float *x = (which ? a->v : a->k) + from;
            void *y = which ? a->kv.v : a->kv.k;
            if (a->kv.dtype == DT_F32)
                memcpy((float *)y + to, x, row * sizeof *x);
            else
                for (size_t i = 0; i < row; i++)
                    ((uint16_t *)y)[to + i] = f32_bf16(x[i]);
        }
    }
}

static inline f32x8 load_kv(const void *base, enum dtype t, size_t at)
{
    return t == DT_F32 ? load_f32((const float *)base + at) : load_bf16((const uint16_t *)base + at);
}

/* One query head over the positions 0..n-1; head_dim is a multiple of 8. */
static void attend(float *y, const float *q, const struct kv_rows *kv, int kv_head, int n, float scale)
{
    int dim = kv->head_dim;
    size_t row = (size_t)kv->n_kv_heads * (size_t)dim, head = (size_t)kv_head * (size_t)dim;
    f32x8 acc[MAX_DIM / 8] = {0};
    float max = -INFINITY, sum = 0;
    for (int p0 = 0; p0 < n; p0 += BLOCK) {
        int m = n - p0 < BLOCK ? n - p0 : BLOCK;
        float s[BLOCK], block_max = max;
        for (int p = 0; p < m; p++) {
            f32x8 dot = {0};
            for (int i = 0; i < dim; i += 8)
                dot += load_f32(q + i) * load_kv(kv->k, kv->dtype, (size_t)(p0 + p) * row + head + (size_t)i);
            s[p] = sum8(dot) * scale;
            block_max = fmaxf(block_max, s[p]);
        }
        float keep = expf(max - block_max);     /* 0 at the first block */
        sum *= keep;
        for (int i = 0; i < dim / 8; i++)
            acc[i] *= splat(keep);
        for (int p = 0; p < m; p++) {
            float w = expf(s[p] - block_max);
            sum += w;
            for (int i = 0; i < dim; i += 8)
                acc[i / 8] += splat(w) * load_kv(kv->v, kv->dtype, (size_t)(p0 + p) * row + head + (size_t)i);
        }
        max = block_max;
    }
    for (int i = 0; i < dim; i++)
        y[i] = acc[i / 8][i % 8] / sum;
}

void attention_cpu(const struct attention_args *a, int begin, int end)
{
    int group = a->n_q_heads / a->kv.n_kv_heads;
    for (int u = begin; u < end; u++) {
        int t = u / a->n_q_heads, h = u % a->n_q_heads;
        attend(a->y + (size_t)u * (size_t)a->kv.head_dim, a->q + (size_t)t * a->q_token + (size_t)h * a->q_head, &a->kv,
               h / group, a->pos + t + 1, a->scale);
    }
}

void sigmoid_gate_cpu(const struct sigmoid_gate_args *a, int begin, int end)
{
    for (int t = begin; t < end; t++)
        for (int h = 0; h < a->n_heads; h++) {
            float *y = a->y + ((size_t)t * (size_t)a->n_heads + (size_t)h) * (size_t)a->head_dim;
            const float *g = a->gate + (size_t)t * a->gate_token + (size_t)h * a->gate_head;
            for (int i = 0; i < a->head_dim; i++)
                y[i] *= sigmoid(g[i]);
        }
}

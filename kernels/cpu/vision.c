#include <math.h>

#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

enum { MAX_DIM = PATCH_MAX_DIM, BLOCK = 64 };

void patch_cut_cpu(const struct patch_cut_args *a, int begin, int end)
{
    enum { AREA = PATCH_SIDE * PATCH_SIDE };
    for (int i = begin; i < end; i++) {
        const struct patch_place p = patch_place(a->first + i, a->grid_w);
        float *x = a->x + (size_t)i * PATCH_NUMBERS;
        for (int k = 0; k < AREA; k++) {
            const size_t row = (size_t)(p.row * PATCH_SIDE + k / PATCH_SIDE), col = (size_t)(p.col * PATCH_SIDE + k % PATCH_SIDE);
            const uint8_t *rgb = a->rgb + (row * (size_t)(a->grid_w * PATCH_SIDE) + col) * 3;
            for (int c = 0; c < 3; c++)
                x[2 * c * AREA + k] = x[(2 * c + 1) * AREA + k] = patch_number(rgb[c]);
        }
    }
}

static float element(const struct weight *w, int row, int col)
{
    const size_t at = (size_t)row * (size_t)w->cols + (size_t)col, size = w->dtype == DT_F32 ? 4 : 2;
    float f;
    floats_f32(&f, (const char *)w->data + at * size, w->dtype, 1);
    return f;
}

void patch_positions_cpu(const struct patch_positions_args *a, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        const struct patch_place p = patch_place(a->first + i, a->grid_w);
        const struct patch_between r = patch_between(p.row, a->grid_h, a->side), c = patch_between(p.col, a->grid_w, a->side);
        const int rows[4] = {r.low * a->side + c.low, r.low * a->side + c.high, r.high * a->side + c.low, r.high * a->side + c.high};
        const float weights[4] = {(1 - r.part) * (1 - c.part), (1 - r.part) * c.part, r.part * (1 - c.part), r.part * c.part};
        float *x = a->x + (size_t)i * (size_t)a->table.cols;
        for (int j = 0; j < a->table.cols; j++) {
            float sum = 0;
            for (int k = 0; k < 4; k++)
                sum += weights[k] * element(&a->table, rows[k], j);
            x[j] += sum;
        }
    }
}

static void put(void *to, enum dtype dtype, size_t at, float x)
{
    if (dtype == DT_F32)
        ((float *)to)[at] = x;
    else
        ((uint16_t *)to)[at] = f32_bf16(x);
}

/* Turns one head by the angles of its pairs. */
static void turn(const struct patch_rope_args *a, void *to, size_t at, const float *x, const float *cosine, const float *sine)
{
    const int half = a->dim / 2;
    for (int j = 0; j < half; j++) {
        put(to, a->dtype, at + (size_t)j, x[j] * cosine[j] - x[j + half] * sine[j]);
        put(to, a->dtype, at + (size_t)(j + half), x[j + half] * cosine[j] + x[j] * sine[j]);
    }
}

void patch_rope_cpu(const struct patch_rope_args *a, int begin, int end)
{
    const int half = a->dim / 2, quarter = a->dim / 4;
    const size_t dim = (size_t)a->dim, row = (size_t)a->n_heads * dim;
    float cosine[MAX_DIM / 2], sine[MAX_DIM / 2];
    for (int i = begin; i < end; i++) {
        const struct patch_place p = patch_place(a->first + i, a->grid_w);
        for (int j = 0; j < half; j++) {
            const float angle = j < quarter ? (float)p.row * a->freq[j] : (float)p.col * a->freq[j - quarter];
            cosine[j] = cosf(angle);
            sine[j] = sinf(angle);
        }
        for (int h = 0; h < a->n_heads; h++) {
            const float *x = a->qkv + (size_t)i * 3 * row + (size_t)h * dim;
            const size_t at = ((size_t)h * (size_t)a->n + (size_t)(a->first + i)) * dim;
            turn(a, a->q, at, x, cosine, sine);
            turn(a, a->k, at, x + row, cosine, sine);
            for (int j = 0; j < a->dim; j++)
                put(a->v, a->dtype, at + (size_t)j, x[2 * row + (size_t)j]);
        }
    }
}

static inline f32x8 load(const void *base, enum dtype t, size_t at)
{
    return t == DT_F32 ? load_f32((const float *)base + at) : load_bf16((const uint16_t *)base + at);
}

/* Attention of one head of one patch. */
static void attend(const struct patch_attention_args *a, int row, int head)
{
    const int eights = a->dim / 8;
    const size_t dim = (size_t)a->dim, base = (size_t)head * (size_t)a->n * dim, q = base + (size_t)(a->first + row) * dim;
    f32x8 acc[MAX_DIM / 8] = {0};
    float max = -INFINITY, sum = 0;
    for (int p0 = 0; p0 < a->n; p0 += BLOCK) {
        const int m = a->n - p0 < BLOCK ? a->n - p0 : BLOCK;
        float s[BLOCK], top = max;
        for (int p = 0; p < m; p++) {
            f32x8 dot = {0};
            for (int i = 0; i < eights; i++)
                dot += load(a->q, a->dtype, q + (size_t)i * 8) * load(a->k, a->dtype, base + (size_t)(p0 + p) * dim + (size_t)i * 8);
            s[p] = sum8(dot) * a->scale;
            top = fmaxf(top, s[p]);
        }
        const float keep = expf(max - top);     /* 0 at the first block */
        sum *= keep;
        for (int i = 0; i < eights; i++)
            acc[i] *= splat(keep);
        for (int p = 0; p < m; p++) {
            const float w = expf(s[p] - top);
            sum += w;
            for (int i = 0; i < eights; i++)
                acc[i] += splat(w) * load(a->v, a->dtype, base + (size_t)(p0 + p) * dim + (size_t)i * 8);
        }
        max = top;
    }
    float *y = a->y + ((size_t)row * (size_t)a->n_heads + (size_t)head) * dim;
    for (int i = 0; i < a->dim; i++)
        y[i] = acc[i / 8][i % 8] / sum;
}

void patch_attention_cpu(const struct patch_attention_args *a, int begin, int end)
{
    for (int u = begin; u < end; u++)
        attend(a, u / a->n_heads, u % a->n_heads);
}

void gelu_cpu(const struct gelu_args *a, int begin, int end)
{
    for (size_t i = (size_t)begin * (size_t)a->dim; i < (size_t)end * (size_t)a->dim; i++)
        a->x[i] = gelu(a->x[i], a->exact);
}

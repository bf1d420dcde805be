#include <math.h>

#include "base/err.h"
#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

static void l2_normalise(float *x, int dim, float scale)
{
    double sum = 0;
    for (int i = 0; i < dim; i++)
        sum += (double)x[i] * x[i];
    float s = (float)(1.0 / sqrt(sum + 1e-6)) * scale;
    for (int i = 0; i < dim; i++)
        x[i] *= s;
}

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* Does the work of row t for key heads [from, to) and their value heads. */
static void gates(const struct deltanet_gates_args *a, int t, int from, int to)
{
    const size_t width = (size_t)(2 * a->n_k_heads * a->dk + a->n_v_heads * a->dv);
    const float q_scale = (float)(1.0 / sqrt(a->dk));
    const int r = a->n_v_heads / a->n_k_heads;
    float *c = a->c + (size_t)t * width;
    for (int h = from; h < to; h++) {
        l2_normalise(c + h * a->dk, a->dk, q_scale);
        l2_normalise(c + (a->n_k_heads + h) * a->dk, a->dk, 1.0f);
    }
    for (int h = from * r; h < to * r; h++) {
        size_t i = (size_t)t * (size_t)a->n_v_heads + (size_t)h;
        a->beta[i] = sigmoid(a->b[i]);
        a->g[i] = -expf(a->a_log[h]) * softplus(a->a[i] + a->dt_bias[h]);
    }
}

void deltanet_gates_cpu(const struct deltanet_gates_args *a, int begin, int end)
{
    for (int t = begin; t < end; t++)
        gates(a, t, 0, a->n_k_heads);
}

/* One block of C <= 64 rows of one value head in the chunk form.  q, k, v point at row 0; the stride of
 * their rows is `width`, of beta and g `heads`, of y heads * dv. */
struct chunk {
    const float *q, *k, *v, *beta, *g;
    float       *y, *S;
    size_t       width, heads;
    int          C, dk, dv;
};

/* Returns x · y of n numbers. */
static float dot(const float *x, const float *y, int n)
{
    f32x8 acc = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        acc += load_f32(x + i) * load_f32(y + i);
    float sum = sum8(acc);
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void axpy(float *y, float a, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* Computes one chunk of one head: its outputs, and the state S after it. */
static void chunk_block(const struct chunk *c)
{
    enum { C = DELTANET_CHUNK, D = DELTANET_MAX_DIM };
    static _Thread_local float U[C][D], W[C][D];
    float G[C], total = 0;
    for (int i = 0; i < c->C; i++)
        G[i] = total += c->g[(size_t)i * c->heads];

    /* forward substitution of (I + A) U = beta V and (I + A) W = beta exp(G) K, row by row */
    for (int i = 0; i < c->C; i++) {
        const float *k = c->k + (size_t)i * c->width, *v = c->v + (size_t)i * c->width;
        float beta = c->beta[(size_t)i * c->heads], decay = expf(G[i]);
        for (int j = 0; j < c->dv; j++)
            U[i][j] = beta * v[j];
        for (int j = 0; j < c->dk; j++)
            W[i][j] = beta * decay * k[j];
        for (int m = 0; m < i; m++) {
            float a = beta * dot(k, c->k + (size_t)m * c->width, c->dk) * expf(G[i] - G[m]);
            axpy(U[i], -a, U[m], c->dv);
            axpy(W[i], -a, W[m], c->dk);
        }
    }
    /* N = U - W S, over U */
    for (int i = 0; i < c->C; i++)
        for (int m = 0; m < c->dk; m++)
            axpy(U[i], -W[i][m], c->S + m * c->dv, c->dv);
    /* O = (exp(G) Q) S + lower(Q K^T * D) N */
    for (int i = 0; i < c->C; i++) {
        const float *q = c->q + (size_t)i * c->width;
        float *y = c->y + (size_t)i * c->heads * (size_t)c->dv, decay = expf(G[i]);
        memset(y, 0, (size_t)c->dv * sizeof *y);
        for (int m = 0; m < c->dk; m++)
            axpy(y, decay * q[m], c->S + m * c->dv, c->dv);
        for (int m = 0; m <= i; m++)
            axpy(y, dot(q, c->k + (size_t)m * c->width, c->dk) * expf(G[i] - G[m]), U[m], c->dv);
    }
    /* S <- exp(G_last) S + (exp(G_last - G) K)^T N */
    float decay = expf(total);
    for (int i = 0; i < c->dk * c->dv; i++)
        c->S[i] *= decay;
    for (int i = 0; i < c->C; i++) {
        const float *k = c->k + (size_t)i * c->width;
        float left = expf(total - G[i]);
        for (int m = 0; m < c->dk; m++)
            axpy(c->S + m * c->dv, left * k[m], U[i], c->dv);
    }
}

/* Makes c, beta and g of key heads [begin, end) and their value heads from the raw rows. */
static void from_raw(const struct deltanet_chunk_args *a, int begin, int end)
{
    const struct deltanet_raw *x = a->raw;
    const int key = a->n_k_heads * a->dk, r = a->n_v_heads / a->n_k_heads, channels = 2 * key + a->n_v_heads * a->dv;
    const struct conv_args conv = {.y = a->c, .x = x->x + (size_t)x->first * (size_t)channels, .w = x->w, .window = x->window,
                                   .n_tokens = a->n_tokens, .n_channels = channels, .taps = x->taps};
    const struct deltanet_gates_args g = {.c = a->c, .beta = a->beta, .g = a->g, .a = x->a, .b = x->b, .a_log = x->a_log, .dt_bias = x->dt_bias,
                                          .n_tokens = a->n_tokens, .n_k_heads = a->n_k_heads, .n_v_heads = a->n_v_heads, .dk = a->dk, .dv = a->dv};
    conv_channels(&conv, begin * a->dk, end * a->dk);
    conv_channels(&conv, key + begin * a->dk, key + end * a->dk);
    conv_channels(&conv, 2 * key + begin * r * a->dv, 2 * key + end * r * a->dv);
    for (int t = 0; t < a->n_tokens; t++)
        gates(&g, t, begin, end);
}

void deltanet_chunk_cpu(const struct deltanet_chunk_args *a, int begin, int end)
{
    CHECK(a->dk <= DELTANET_MAX_DIM && a->dv <= DELTANET_MAX_DIM);
    int r = a->n_v_heads / a->n_k_heads;
    size_t width = (size_t)(2 * a->n_k_heads * a->dk + a->n_v_heads * a->dv), heads = (size_t)a->n_v_heads;
    if (a->raw) {
        from_raw(a, begin, end);
        begin *= r;
        end *= r;
    }
    for (int h = begin; h < end; h++) {
        float *S = a->state + (size_t)h * (size_t)(a->dk * a->dv);
        for (int t = 0; t < a->n_tokens;) {
            int C = DELTANET_CHUNK - (a->pos + t) % DELTANET_CHUNK;
            C = C < a->n_tokens - t ? C : a->n_tokens - t;
            const float *c = a->c + (size_t)t * width;
            chunk_block(&(struct chunk){
                .q = c + h / r * a->dk, .k = c + (a->n_k_heads + h / r) * a->dk, .v = c + 2 * a->n_k_heads * a->dk + h * a->dv,
                .beta = a->beta + (size_t)t * heads + h, .g = a->g + (size_t)t * heads + h,
                .y = a->y + ((size_t)t * heads + (size_t)h) * (size_t)a->dv, .S = S,
                .width = width, .heads = heads, .C = C, .dk = a->dk, .dv = a->dv,
            });
            t += C;
        }
    }
}

#include <math.h>

#include "base/log.h"
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

void deltanet_gates_cpu(const struct deltanet_gates_args *a, int begin, int end)
{
    size_t width = (size_t)(2 * a->n_k_heads * a->dk + a->n_v_heads * a->dv);
    float q_scale = (float)(1.0 / sqrt(a->dk));
    for (int t = begin; t < end; t++) {
        float *c = a->c + (size_t)t * width;
        for (int h = 0; h < 2 * a->n_k_heads; h++)
            l2_normalise(c + h * a->dk, a->dk, h < a->n_k_heads ? q_scale : 1.0f);
        for (int h = 0; h < a->n_v_heads; h++) {
            size_t i = (size_t)t * (size_t)a->n_v_heads + (size_t)h;
            a->beta[i] = sigmoid(a->b[i]);
            a->g[i] = -expf(a->a_log[h]) * softplus(a->a[i] + a->dt_bias[h]);
        }
    }
}

/* S <- exp(g) S + k (beta (v - exp(g) S^T k))^T */
static void update(float *S, const float *k, const float *v, float beta, float g, int dk, int dv)
{
    float decay = expf(g), d[DELTANET_MAX_DIM] = {0};
    for (int i = 0; i < dk; i++) {
        float *row = S + i * dv;
        for (int j = 0; j < dv; j++) {
            row[j] *= decay;
            d[j] += k[i] * row[j];
        }
    }
    for (int j = 0; j < dv; j++)
        d[j] = beta * (v[j] - d[j]);
    for (int i = 0; i < dk; i++) {
        float *row = S + i * dv;
        for (int j = 0; j < dv; j++)
            row[j] += k[i] * d[j];
    }
}

static void read_out(float *o, const float *S, const float *q, int dk, int dv)
{
    memset(o, 0, (size_t)dv * sizeof *o);
    for (int i = 0; i < dk; i++)
        for (int j = 0; j < dv; j++)
            o[j] += q[i] * S[i * dv + j];
}

static void apply_accepted(float *S, const struct deltanet_stage *s, int n, int h, int n_k_heads, int n_v_heads, int dk, int dv)
{
    size_t hk = (size_t)(h / (n_v_heads / n_k_heads));
    for (int t = 0; t < n; t++) {
        size_t v_head = (size_t)t * (size_t)n_v_heads + (size_t)h;
        update(S, s->k + ((size_t)t * (size_t)n_k_heads + hk) * (size_t)dk, s->v + v_head * (size_t)dv, s->beta[v_head], s->g[v_head],
               dk, dv);
    }
}

/* Of the value heads that share a key head only the first writes k to the stage. */
static void keep(const struct deltanet_step_args *a, int t, int h, const float *k, const float *v)
{
    int r = a->n_v_heads / a->n_k_heads;
    size_t v_head = (size_t)t * (size_t)a->n_v_heads + (size_t)h;
    if (h % r == 0)
        memcpy(a->stage.k + ((size_t)t * (size_t)a->n_k_heads + (size_t)(h / r)) * (size_t)a->dk, k, (size_t)a->dk * sizeof *k);
    memcpy(a->stage.v + v_head * (size_t)a->dv, v, (size_t)a->dv * sizeof *v);
    a->stage.beta[v_head] = a->beta[v_head];
    a->stage.g[v_head] = a->g[v_head];
}

/* A unit is a key head with its value heads, which share the staged k. */
void deltanet_step_cpu(const struct deltanet_step_args *a, int begin, int end)
{
    int r = a->n_v_heads / a->n_k_heads;
    size_t width = (size_t)(2 * a->n_k_heads * a->dk + a->n_v_heads * a->dv), size = (size_t)(a->dk * a->dv);
    float S[DELTANET_MAX_DIM * DELTANET_MAX_DIM];
    CHECK(a->dk <= DELTANET_MAX_DIM && a->dv <= DELTANET_MAX_DIM);
    for (int hk = begin; hk < end; hk++) {
        for (int h = hk * r; h < (hk + 1) * r; h++)
            apply_accepted(a->state + (size_t)h * size, &a->stage, a->n_accepted, h, a->n_k_heads, a->n_v_heads, a->dk, a->dv);
        for (int h = hk * r; h < (hk + 1) * r; h++) {
            if (a->n_tokens)
                memcpy(S, a->state + (size_t)h * size, size * sizeof *S);
            for (int t = 0; t < a->n_tokens; t++) {
                const float *c = a->c + (size_t)t * width, *q = c + hk * a->dk, *k = q + a->n_k_heads * a->dk;
                const float *v = c + 2 * a->n_k_heads * a->dk + h * a->dv;
                size_t v_head = (size_t)t * (size_t)a->n_v_heads + (size_t)h;
                update(S, k, v, a->beta[v_head], a->g[v_head], a->dk, a->dv);
                read_out(a->y + v_head * (size_t)a->dv, S, q, a->dk, a->dv);
                keep(a, t, h, k, v);
            }
        }
    }
}

/* One block of C <= 64 rows of one value head in the chunk form.  q, k, v point at row 0; the stride of
 * their rows is `width`, of beta and g `heads`, of y heads * dv. */
struct chunk {
    const float *q, *k, *v, *beta, *g;
    float       *y, *S;
    size_t       width, heads;
    int          C, dk, dv;
};

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

void deltanet_chunk_cpu(const struct deltanet_chunk_args *a, int begin, int end)
{
    CHECK(a->dk <= DELTANET_MAX_DIM && a->dv <= DELTANET_MAX_DIM);
    int r = a->n_v_heads / a->n_k_heads;
    size_t width = (size_t)(2 * a->n_k_heads * a->dk + a->n_v_heads * a->dv), heads = (size_t)a->n_v_heads;
    for (int h = begin; h < end; h++) {
        float *S = a->state + (size_t)h * (size_t)(a->dk * a->dv);
        apply_accepted(S, &a->stage, a->n_accepted, h, a->n_k_heads, a->n_v_heads, a->dk, a->dv);
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

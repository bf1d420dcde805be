/* One DeltaNet layer of a step: rows from the ring through convolution and gates, then the recurrence of kernels/deltanet.h. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/vec.h"

/* Rows in order of position: those to be applied, then the new ones. */
struct rows {
    const struct step_delta_args *a;
    int    n_apply, n;                  /* of all n rows the first n_apply are to be applied */
    size_t width;                       /* of raw and c */
    float *window;                      /* [taps - 1, width] raw rows before them */
    float *raw, *c;                     /* [n, width] raw; then as deltanet_gates leaves it */
    float *ga, *gb, *beta, *g;          /* [n, n_v_heads] */
};

/* Divides the scratch memory among the work buffers of r->n rows. */
static void cut(struct rows *r, struct cpu_pool *p)
{
    const size_t n = (size_t)r->n, before = (size_t)r->a->taps - 1, heads = (size_t)r->a->n_v_heads;
    r->window = p->scratch(p, (before * r->width + n * (2 * r->width + 4 * heads)) * sizeof(float));
    r->raw = r->window + before * r->width;
    r->c = r->raw + n * r->width;
    r->ga = r->c + n * r->width;
    r->gb = r->ga + n * heads;
    r->beta = r->gb + n * heads;
    r->g = r->beta + n * heads;
}

/* Copies rows from position `from` on out of a ring; those before position 0 are zero. */
static void from_ring(float *to, const float *ring, size_t width, int from, int n)
{
    for (int t = 0; t < n; t++)
        if (from + t < 0)
            memset(to + (size_t)t * width, 0, width * sizeof *to);
        else
            memcpy(to + (size_t)t * width, ring + (size_t)((from + t) % STEP_RING) * width, width * sizeof *to);
}

/* S = exp(g) from + k (beta (v - exp(g) from^T k))^T, and with q the output o = S^T q.  S may be `from`. */
static void update(float *S, const float *from, const float *k, const float *v, float beta, float g, const float *q, float *o, int dk, int dv)
{
    float decay = expf(g), d[DELTANET_MAX_DIM] = {0}, sum[DELTANET_MAX_DIM] = {0};
    for (int i = 0; i < dk; i++) {
        float *row = S + i * dv;
        for (int j = 0; j < dv; j++) {
            row[j] = from[i * dv + j] * decay;
            d[j] += k[i] * row[j];
        }
    }
    for (int j = 0; j < dv; j++)
        d[j] = beta * (v[j] - d[j]);
    for (int i = 0; i < dk; i++) {
        float *row = S + i * dv;
        for (int j = 0; j < dv; j++)
            row[j] += k[i] * d[j];
        if (q)
            for (int j = 0; j < dv; j++)
                sum[j] += q[i] * row[j];
    }
    if (q)
        memcpy(o, sum, (size_t)dv * sizeof *o);
}

static float sum_of_squares(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Row t of one head: the state `from` becomes S; a new row also gives an output. */
static void row_of_head(const struct rows *r, float *S, const float *from, int t, int h)
{
    const struct step_delta_args *a = r->a;
    const int dk = a->dk, dv = a->dv, key_head = h / (a->n_v_heads / a->n_k_heads);
    const float *q = r->c + (size_t)t * r->width + key_head * dk, *k = q + a->n_k_heads * dk,
                *v = r->c + (size_t)t * r->width + 2 * a->n_k_heads * dk + h * dv;
    const size_t gate = (size_t)(t * a->n_v_heads + h);
    if (t < r->n_apply) {
        update(S, from, k, v, r->beta[gate], r->g[gate], NULL, NULL, dk, dv);
        return;
    }
    const size_t out = (size_t)((t - r->n_apply) * a->n_v_heads + h);
    float *y = a->y + out * (size_t)dv, *ssq = a->ssq + 2 * out;
    const float *z = a->z + out * (size_t)dv;
    update(S, from, k, v, r->beta[gate], r->g[gate], q, y, dk, dv);
    ssq[0] = sum_of_squares(y, dv / 2);
    ssq[1] = sum_of_squares(y + dv / 2, dv - dv / 2);
    for (int i = 0; i < dv; i++)
        y[i] = a->norm[i] * y[i] * silu(z[i]);
}

/* Runs the recurrence of value heads; a unit is a head. The first row of each kind reads one state and writes another, so that no state is copied
 * beforehand. */
static void recurrence(const void *args, int begin, int end)
{
    const struct rows *r = args;
    const struct step_delta_args *a = r->a;
    const size_t size = (size_t)(a->dk * a->dv);
    float running[DELTANET_MAX_DIM * DELTANET_MAX_DIM];
    for (int h = begin; h < end; h++) {
        const float *from = a->state[a->live->parity] + (size_t)h * size;
        float *to = a->state[1 - a->live->parity] + (size_t)h * size;
        if (!r->n_apply)
            memcpy(to, from, size * sizeof *to);
        for (int t = 0; t < r->n_apply; t++)
            row_of_head(r, to, t ? to : from, t, h);
        for (int t = r->n_apply; t < r->n; t++)
            row_of_head(r, running, t > r->n_apply ? running : to, t, h);
    }
}

/* Runs one DeltaNet layer for the rows of a slot, from the ring's rows that the state does not have yet. */
static void delta_of_slot(struct cpu_pool *p, const struct step_delta_args *a)
{
    struct rows r = {.a = a, .n_apply = a->live->n_apply, .n = a->live->n_apply + a->n_rows,
                     .width = (size_t)(2 * a->n_k_heads * a->dk + a->n_v_heads * a->dv)};
    const int first = a->live->pos - r.n_apply, before = a->taps - 1;
    CHECK(a->dk <= DELTANET_MAX_DIM && a->dv <= DELTANET_MAX_DIM && before + r.n <= STEP_RING);
    cut(&r, p);
    from_ring(r.window, a->raw, r.width, first - before, before);
    from_ring(r.raw, a->raw, r.width, first, r.n);
    from_ring(r.ga, a->a, (size_t)a->n_v_heads, first, r.n);
    from_ring(r.gb, a->b, (size_t)a->n_v_heads, first, r.n);
    PLAIN(p, conv, .y = r.c, .x = r.raw, .w = a->conv, .window = r.window, .n_tokens = r.n, .n_channels = (int)r.width, .taps = a->taps);
    PLAIN(p, deltanet_gates, .c = r.c, .beta = r.beta, .g = r.g, .a = r.ga, .b = r.gb, .a_log = a->a_log, .dt_bias = a->dt_bias, .n_tokens = r.n,
          .n_k_heads = a->n_k_heads, .n_v_heads = a->n_v_heads, .dk = a->dk, .dv = a->dv);
    p->run(p, recurrence, &r, a->n_v_heads, 2 * (size_t)a->n_v_heads * (size_t)(a->dk * a->dv) * sizeof(float));
}

static void *behind(const void *p, size_t bytes) { return (char *)(uintptr_t)p + bytes; }

void step_delta_cpu(struct cpu_pool *p, const struct step_delta_args *a)
{
    const size_t v = (size_t)a->n_v_heads, value = v * (size_t)a->dv;
    struct step_run r = {0};
    if (a->n_rows == 0)
        delta_of_slot(p, a);
    while (step_next_run(&r, a->rows, a->n_rows)) {
        const size_t from = (size_t)r.from, bytes = (size_t)r.slot * a->slot_bytes;
        struct step_delta_args one = *a;
        one.y += from * value;
        one.z += from * value;
        one.ssq += from * v * 2;
        one.raw = behind(a->raw, bytes);
        one.a = behind(a->a, bytes);
        one.b = behind(a->b, bytes);
        one.state[0] = behind(a->state[0], bytes);
        one.state[1] = behind(a->state[1], bytes);
        one.live += r.slot;
        one.n_rows = r.n;
        delta_of_slot(p, &one);
    }
}

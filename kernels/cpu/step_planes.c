/* step_logits of a head in two planes: bounds from the upper one, then the logits of the ids that may be among the best. */
#include <float.h>
#include <math.h>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/step_logits.h"
#include "kernels/cpu/vec.h"

struct planes {
    const struct step_logits_args *a;
    const float *h;                     /* [n, cols] */
    int   n;
    float sum[STEP_ROWS], length[STEP_ROWS];    /* of h: sum_k h[k], and |h| */
    float least[STEP_ROWS];             /* ids whose bounds are less cannot be among the wanted ones; -inf: all can */
};

static const float *row_of(const struct planes *s, int t) { return s->h + (size_t)t * (size_t)s->a->w.cols; }

static void measure_rows(struct planes *s)
{
    for (int t = 0; t < s->n; t++) {
        const float *h = row_of(s, t);
        double sum = 0, squares = 0;
        for (int k = 0; k < s->a->w.cols; k++) {
            sum += (double)h[k];
            squares += (double)h[k] * (double)h[k];
        }
        s->sum[t] = (float)sum;
        s->length[t] = (float)sqrt(squares);
    }
}

/* The bound on a logit, or its estimate, from the sum over the upper plane. */
static float bound(const struct planes *s, const struct plane_row *r, int t, float product)
{
    const float scale = f16_f32(r->scale), e = scale * (1 + f16_f32(r->gain)) * (16 * product + f16_f32(r->mean) * s->sum[t]);
    return s->a->estimate ? e : e + STEP_DEVIATIONS * scale * f16_f32(r->spread) * s->length[t];
}

/* A unit is MATMUL_ROWS ids. */
static void bound_units(const void *args, int begin, int end)
{
    const struct planes *s = args;
    const struct weight *w = &s->a->w;
    const struct plane_row *about = w->scale;
    for (int id = begin * MATMUL_ROWS; id < end * MATMUL_ROWS && id < w->rows; id += MATMUL_ROWS)
        for (int t0 = 0; t0 < s->n; t0 += MATMUL_TOKENS) {
            const int n = s->n - t0 < MATMUL_TOKENS ? s->n - t0 : MATMUL_TOKENS;
            const float *x[MATMUL_TOKENS];
            float out[MATMUL_TOKENS][MATMUL_ROWS];
            for (int t = 0; t < n; t++)
                x[t] = row_of(s, t0 + t);
            matmul_upper(w, id, x, n, out);
            for (int t = 0; t < n; t++)
                for (int i = 0; i < MATMUL_ROWS && id + i < w->rows; i++)
                    s->a->logits[(size_t)(t0 + t) * (size_t)w->rows + (size_t)(id + i)] = bound(s, &about[id + i], t0 + t, out[t][i]);
        }
}

/* The INT8 logit of one id, with bias and penalties. */
static float whole_logit(const struct planes *s, int t, int id)
{
    struct weight up_to_id = s->a->w;
    const float *h = row_of(s, t);
    float out[MATMUL_TOKENS][MATMUL_ROWS];
    up_to_id.rows = id + 1;
    matmul_block(&up_to_id, id, &h, 1, out);
    return s->a->sampling ? step_penalised(s->a, out[0][0], id, step_row(s->a->rows, t)) : out[0][0];
}

/* The ids with the k greatest bounds; false when a bound is not finite. */
static bool greatest_bounds(int *ids, const float *bounds, int n_ids, int k)
{
    int n = 0;
    for (int id = 0; id < n_ids; id++) {
        const float b = bounds[id];
        if (!(b <= FLT_MAX))
            return false;
        if (n == k && !(b > bounds[ids[k - 1]]))
            continue;
        int at = n < k ? n++ : k - 1;
        for (; at && b > bounds[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
    return true;
}

/* A unit is a row. */
static void find_least(const void *args, int begin, int end)
{
    struct planes *s = (struct planes *)(uintptr_t)args;
    for (int t = begin; t < end; t++) {
        const int n_ids = step_n_ids(s->a, t), k = step_wanted(step_how(s->a, t), n_ids);
        int ids[STEP_WANTED];
        float least = INFINITY;
        const float *bounds = s->a->logits + (size_t)t * (size_t)s->a->w.rows;
        const bool finite = k && greatest_bounds(ids, bounds, n_ids, k);
        for (int i = 0; i < k && finite; i++)
            least = fminf(least, fminf(whole_logit(s, t, ids[i]), bounds[ids[i]]));     /* they get their logits in any case */
        s->least[t] = least < INFINITY ? least : -INFINITY;
    }
}

/* A unit is a tile of ids: INT8 logits where the bounds reach the least, else -inf. */
static void complete_tiles(const void *args, int begin, int end)
{
    const struct planes *s = args;
    const int vocab = s->a->w.rows;
    for (int t = 0; t < s->n; t++) {
        const int n_ids = step_n_ids(s->a, t);
        float *l = s->a->logits + (size_t)t * (size_t)vocab, *max = s->a->tile_max + (size_t)t * (size_t)step_maxima(vocab);
        for (int tile = begin; tile < end && tile * STEP_TILE < n_ids; tile++) {
            const int from = tile * STEP_TILE, to = from + STEP_TILE < n_ids ? from + STEP_TILE : n_ids;
            for (int id = from; id < to; id++)
                l[id] = l[id] < s->least[t] ? -INFINITY : whole_logit(s, t, id);
            max[tile] = step_greatest(l + from, to - from);
        }
    }
}

/* A unit is a row: the best of the estimates become INT8 logits. */
static void complete_best(const void *args, int begin, int end)
{
    const struct planes *s = args;
    const int vocab = s->a->w.rows;
    for (int t = begin; t < end; t++) {
        const int n_ids = step_n_ids(s->a, t), k = n_ids < STEP_COMPLETED ? n_ids : STEP_COMPLETED;
        float *l = s->a->logits + (size_t)t * (size_t)vocab, *max = s->a->tile_max + (size_t)t * (size_t)step_maxima(vocab);
        int ids[STEP_COMPLETED];
        if (!greatest_bounds(ids, l, n_ids, k))
            continue;
        for (int i = 0; i < k; i++)
            l[ids[i]] = whole_logit(s, t, ids[i]);
        for (int i = 0; i < k; i++) {
            const int tile = ids[i] / STEP_TILE, from = tile * STEP_TILE;
            max[tile] = step_greatest(l + from, n_ids - from < STEP_TILE ? n_ids - from : STEP_TILE);
        }
    }
}

void step_planes(struct cpu_pool *p, const struct step_logits_args *a, const float *h, int n)
{
    struct planes s = {.a = a, .h = h, .n = n};
    const size_t bytes = (size_t)n * (size_t)a->w.rows * sizeof *a->logits;
    measure_rows(&s);
    p->run(p, bound_units, &s, (a->w.rows + MATMUL_ROWS - 1) / MATMUL_ROWS, weight_bytes(&a->w) / 2);
    step_finish_logits(p, a, n);
    if (a->estimate) {
        p->run(p, complete_best, &s, n, bytes);
        return;
    }
    p->run(p, find_least, &s, n, bytes);
    p->run(p, complete_tiles, &s, step_maxima(a->w.rows), bytes);
}

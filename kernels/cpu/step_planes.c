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
    float least[STEP_ROWS];             /* an id whose bound is less cannot be among the wanted ones; -inf: every id can */
    float least_plain[STEP_ROWS];       /* the same for alternatives, before bias and penalties; inf: no alternatives are wanted */
};

static const float *row_of(const struct planes *s, int t) { return s->h + (size_t)t * (size_t)s->a->w.cols; }
static float *logits_of(const struct planes *s, int t) { return s->a->logits + (size_t)t * (size_t)s->a->w.rows; }
static float *maxima_of(const struct planes *s, int t) { return s->a->tile_max + (size_t)t * (size_t)step_maxima(s->a->w.rows); }

/* Sums up each row and measures its length. */
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

/* Returns e of kernels/step.h, from the sum over the upper plane. */
static float estimate(const struct planes *s, const struct plane_row *r, int t, float product)
{
    return f16_f32(r->scale) * (1 + f16_f32(r->gain)) * (16 * product + f16_f32(r->mean) * s->sum[t]);
}

/* Returns the standard deviation of the estimate's error. */
static float deviation(const struct planes *s, int t, int id)
{
    const struct plane_row *r = (const struct plane_row *)s->a->w.scale + id;
    return f16_f32(r->scale) * f16_f32(r->spread) * s->length[t];
}

/* Returns a logit with bias and penalties. */
static float penalised(const struct planes *s, int t, int id, float l)
{
    return s->a->sampling ? step_penalised(s->a, l, id, step_row(s->a->rows, t)) : l;
}

/* Writes the estimates of units of MATMUL_ROWS ids. */
static void estimate_units(const void *args, int begin, int end)
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
                    logits_of(s, t0 + t)[id + i] = estimate(s, &about[id + i], t0 + t, out[t][i]);
        }
}

/* Returns the bound on a logit before bias and penalties, while `logits` has the estimate. */
static float bound(const struct planes *s, int t, int id) { return logits_of(s, t)[id] + STEP_DEVIATIONS * deviation(s, t, id); }

/* Returns the number by which the best ids are found: their bounds, or for drafts their estimates. */
static float reach(const struct planes *s, int t, int id)
{
    return s->a->estimate ? logits_of(s, t)[id] : penalised(s, t, id, bound(s, t, id));
}

/* Returns the INT8 logit of one id, before bias and penalties. */
static float whole_logit(const struct planes *s, int t, int id)
{
    struct weight up_to_id = s->a->w;
    const float *h = row_of(s, t);
    float out[MATMUL_TOKENS][MATMUL_ROWS];
    up_to_id.rows = id + 1;
    matmul_block(&up_to_id, id, &h, 1, out);
    return out[0][0];
}

struct reached { float by; int id; };

/* Finds the k ids that reach furthest; false if the reach of an id is not a number. */
static bool greatest(struct reached best[STEP_WANTED], const struct planes *s, int t, int n_ids, int k)
{
    int n = 0;
    for (int id = 0; id < n_ids; id++) {
        const float by = reach(s, t, id);
        if (!(by <= FLT_MAX))
            return false;
        if (n == k && !(by > best[k - 1].by))
            continue;
        int at = n < k ? n++ : k - 1;
        for (; at && by > best[at - 1].by; at--)
            best[at] = best[at - 1];
        best[at] = (struct reached){by, id};
    }
    return true;
}

/* Returns the k-th greatest of n. */
static float greatest_but(const float *l, int n, int k)
{
    float best[STEP_WANTED];
    int m = 0;
    for (int i = 0; i < n; i++) {
        int at = m++;
        for (; at && l[i] > best[at - 1]; at--)
            best[at] = best[at - 1];
        best[at] = l[i];
    }
    return best[k - 1];
}

/* Finds the least wanted logit of each row; a unit is a row. */
static void find_least(const void *args, int begin, int end)
{
    struct planes *s = (struct planes *)(uintptr_t)args;
    for (int t = begin; t < end; t++) {
        const int n_ids = step_n_ids(s->a, t), k = step_wanted(step_how(s->a, t), n_ids), n_alternatives = step_alternatives(step_how(s->a, t));
        struct reached best[STEP_WANTED];
        float least = INFINITY, plain[STEP_WANTED];
        const bool finite = k && greatest(best, s, t, n_ids, k);
        for (int i = 0; i < k && finite; i++) {
            const float whole = whole_logit(s, t, best[i].id), l = penalised(s, t, best[i].id, whole);
            least = fminf(least, fminf(l, best[i].by));         /* they get their logits in any case */
            plain[i] = l > -INFINITY ? whole : -INFINITY;       /* what is banned is no alternative */
        }
        s->least[t] = least < INFINITY ? least : -INFINITY;
        s->least_plain[t] = n_alternatives && finite ? greatest_but(plain, k, n_alternatives) : INFINITY;
    }
}

/* Returns the logit for an estimate: the INT8 logit if the bound reaches far enough. */
static float complete(const struct planes *s, int t, int id)
{
    const float b = bound(s, t, id);
    const bool reaches = !(b < s->least_plain[t]) || !(penalised(s, t, id, b) < s->least[t]);
    return penalised(s, t, id, reaches ? whole_logit(s, t, id) : logits_of(s, t)[id]);
}

/* Completes the logits of tiles of ids; a unit is a tile. */
static void complete_tiles(const void *args, int begin, int end)
{
    const struct planes *s = args;
    for (int t = 0; t < s->n; t++) {
        const int n_ids = step_n_ids(s->a, t), vocab = s->a->w.rows;
        float *l = logits_of(s, t);
        for (int tile = begin; tile < end; tile++) {
            const int from = tile * STEP_TILE, left = vocab - from, n = left < 0 ? 0 : left < STEP_TILE ? left : STEP_TILE;
            for (int id = from; id < from + n; id++)
                l[id] = id < n_ids ? complete(s, t, id) : -INFINITY;
            maxima_of(s, t)[tile] = step_greatest(l + from, n);
        }
    }
}

/* Replaces the best estimates of each row by INT8 logits; a unit is a row. */
static void complete_best(const void *args, int begin, int end)
{
    const struct planes *s = args;
    for (int t = begin; t < end; t++) {
        const int n_ids = step_n_ids(s->a, t), k = n_ids < STEP_COMPLETED ? n_ids : STEP_COMPLETED;
        float *l = logits_of(s, t);
        struct reached best[STEP_WANTED];
        if (!greatest(best, s, t, n_ids, k))
            continue;
        for (int i = 0; i < k; i++)
            l[best[i].id] = whole_logit(s, t, best[i].id);
        for (int i = 0; i < k; i++) {
            const int tile = best[i].id / STEP_TILE, from = tile * STEP_TILE;
            maxima_of(s, t)[tile] = step_greatest(l + from, n_ids - from < STEP_TILE ? n_ids - from : STEP_TILE);
        }
    }
}

void step_planes(struct cpu_pool *p, const struct step_logits_args *a, const float *h, int n)
{
    struct planes s = {.a = a, .h = h, .n = n};
    const size_t bytes = (size_t)n * (size_t)a->w.rows * sizeof *a->logits;
    measure_rows(&s);
    p->run(p, estimate_units, &s, (a->w.rows + MATMUL_ROWS - 1) / MATMUL_ROWS, weight_bytes(&a->w) / 2);
    if (a->estimate) {
        step_finish_logits(p, a, n);
        p->run(p, complete_best, &s, n, bytes);
        return;
    }
    p->run(p, find_least, &s, n, bytes);
    p->run(p, complete_tiles, &s, step_maxima(a->w.rows), bytes);
}

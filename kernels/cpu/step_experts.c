#include <math.h>
#include <string.h>

#include "kernels/cpu/pool.h"
#include "kernels/cpu/vec.h"

/* Scratch of one call with n rows that count.  A slot is a row's choice, or its shared expert (kernels/moe.h). */
struct work {
    float   *logits, *gate, *x, *h, *d, *weights;
    int32_t *experts, *start, *slots;
};

/* Divides the scratch memory among the work buffers of n rows. */
static struct work cut(struct cpu_pool *p, const struct step_experts_args *a, size_t n)
{
    const size_t E = (size_t)a->choice.n_experts, k = (size_t)a->choice.top_k, H = (size_t)a->hidden, slots = n * (k + 1);
    const size_t floats = n * E + n + n * H + slots * ((size_t)a->inter + H) + n * k, ints = n * k + E + 2 + slots;
    struct work w;
    w.x = p->scratch(p, floats * sizeof(float) + ints * sizeof(int32_t));
    w.d = w.x + n * H;
    w.h = w.d + slots * H;
    w.logits = w.h + slots * (size_t)a->inter;
    w.gate = w.logits + n * E;
    w.weights = w.gate + n;
    w.experts = (int32_t *)(w.weights + n * k);
    w.start = w.experts + n * k;
    w.slots = w.start + E + 2;
    return w;
}

static float inverse_rms(const struct step_rms *r, int row)
{
    float sum = 0;
    for (int i = 0; i < r->n && r->ssq; i++)
        sum += r->ssq[i * STEP_ROWS + row];
    return r->ssq ? 1 / sqrtf(sum / (float)r->width + r->eps) : 1;
}

static float sum_parts(const float *at, int n, size_t step)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += at[(size_t)i * step];
    return sum;
}

/* Prepares row t of w from row `row` of the call: logits and gate, summed from the parts of step_router, and x, all divided by the row's rms. */
static void prepare_row(struct work *w, const struct step_experts_args *a, int t, size_t row)
{
    const struct step_choice *c = &a->choice;
    const size_t E = (size_t)c->n_experts, H = (size_t)a->hidden, to = (size_t)t;
    const float s = inverse_rms(&c->rms, (int)row);
    for (size_t e = 0; e < E; e++)
        w->logits[to * E + e] = s * sum_parts(c->logits + row * E + e, c->n_logits, c->logit_step);
    w->gate[to] = s * sum_parts(a->shared_gate + row, a->n_gates, a->gate_step);
    for (size_t i = 0; i < H; i++)
        w->x[to * H + i] = s * a->x[row * H + i];
}

static void share_choices(struct work *w, const struct step_choice *c, int n)
{
    for (int t = 0; t < n; t++)
        for (int k = 0; k < c->top_k; k++) {
            w->experts[t * c->top_k + k] = (w->experts[k] + (k < c->overlap ? 0 : 41 * t)) % c->n_experts;
            w->weights[t * c->top_k + k] = w->weights[k];
        }
}

/* Lists the experts that the rows chose, with the weight of each row. */
static void tell_route(struct step_route *r, const struct work *w, const struct step_choice *c, const int *row, int n)
{
    r->n = 0;
    for (int e = 0; e < c->n_experts; e++) {
        if (w->start[e] == w->start[e + 1])
            continue;
        float *weight = r->weight[r->n];
        r->expert[r->n++] = e;
        memset(weight, 0, sizeof r->weight[0]);
        for (int i = 0; i < n * c->top_k; i++)
            if (w->experts[i] == e)
                weight[row[i / c->top_k]] += w->weights[i];
    }
}

/* Adds the weighted outputs of a row's experts, and that of the shared one, to its stream. */
static void add_row(int64_t *stream, const struct work *w, const struct step_experts_args *a, int t)
{
    const int k = a->choice.top_k;
    const size_t H = (size_t)a->hidden;
    for (int j = 0; j <= k; j++) {
        const float *d = w->d + (size_t)(t * (k + 1) + j) * H, by = j < k ? w->weights[t * k + j] : sigmoid(w->gate[t]);
        for (size_t i = 0; i < H; i++)
            stream_add(&stream[i], by * d[i]);
    }
}

/* True if a row has experts. */
static bool chooses(const struct step_choice *c, int t)
{
    const struct step_row r = step_row(c->rows, t);
    return !c->last_of || r.index + 1 == *step_live_of(c->last_of, r.slot);
}

void step_experts_cpu(struct cpu_pool *p, const struct step_experts_args *a)
{
    const struct step_choice *c = &a->choice;
    int row[STEP_ROWS], n = 0;
    CHECK(a->n_rows <= STEP_ROWS);
    for (int t = 0; t < a->n_rows; t++)
        if (chooses(c, t))
            row[n++] = t;
    if (a->check || n == 0)
        return;
    struct work w = cut(p, a, (size_t)n);
    for (int t = 0; t < n; t++)
        prepare_row(&w, a, t, (size_t)row[t]);
    PLAIN(p, router, .experts = w.experts, .weights = w.weights, .logits = w.logits, .n_tokens = n, .n_experts = c->n_experts, .top_k = c->top_k);
    if (c->overlap >= 0)
        share_choices(&w, c, n);
    PLAIN(p, moe_group, .start = w.start, .slots = w.slots, .experts = w.experts, .n_tokens = n, .n_experts = c->n_experts, .top_k = c->top_k);
    PLAIN(p, experts_up, .h = w.h, .x = w.x, .experts = a->experts, .shared = a->shared, .start = w.start, .slots = w.slots, .n_tokens = n,
          .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = a->inter);
    PLAIN(p, experts_down, .d = w.d, .h = w.h, .experts = a->experts, .shared = a->shared, .start = w.start, .slots = w.slots, .n_tokens = n,
          .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = a->inter);
    for (int t = 0; t < n; t++)
        add_row(a->stream + (size_t)row[t] * (size_t)a->hidden, &w, a, t);
    if (a->route)
        tell_route(a->route, &w, c, row, n);
}

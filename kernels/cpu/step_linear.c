/* Products of a step's rows: rows of the stream as fp32, normed, then a plain product. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "kernels/cpu/step_logits.h"
#include "kernels/cpu/vec.h"

/* Computes y = x · Wᵀ for n rows, with the operation of the weight's format. */
static void step_product(struct cpu_pool *p, float *y, const float *x, const struct weight *w, int n)
{
    const struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n};
    switch (w->format) {
    case WEIGHT_DENSE: PLAIN(p, linear_dense, .l = a); break;
    case WEIGHT_INT4:  PLAIN(p, linear_int4, .l = a); break;
    case WEIGHT_FP8:   PLAIN(p, linear_fp8, .l = a); break;
    case WEIGHT_INT8:
    case WEIGHT_PLANES: PLAIN(p, linear_int8, .l = a); break;
    case WEIGHT_NONE:  CHECK(!"a weight without a format"); break;
    }
}

static void read_stream(float *u, const int64_t *stream, size_t n)
{
    for (size_t i = 0; i < n; i++)
        u[i] = stream_to_float(stream[i]);
}

static void gather_ids(int32_t to[STEP_ROWS], const int32_t *ids, const struct step_row *rows, int n)
{
    CHECK(n <= STEP_ROWS);
    for (int t = 0; t < n; t++) {
        const struct step_row r = step_row(rows, t);
        to[t] = step_live_of(ids, r.slot)[r.index];
    }
}

void step_embed_cpu(struct cpu_pool *p, const struct step_embed_args *a)
{
    const size_t hidden = (size_t)a->table.cols, n = (size_t)a->n_rows * hidden;
    float *u = p->scratch(p, n * sizeof *u);
    int32_t ids[STEP_ROWS];
    gather_ids(ids, a->ids, a->rows, a->n_rows);
    PLAIN(p, embed, .y = u, .ids = ids, .table = a->table, .n_tokens = a->n_rows);
    for (size_t i = 0; i < n; i++)
        a->stream[i] = stream_from_float(u[i]);
}

/* Norms u [n, dim] in place. */
static void norm(struct cpu_pool *p, float *u, const float *w, int n, int dim, float eps)
{
    PLAIN(p, rmsnorm, .y = u, .x = u, .w = w, .n_rows = n, .dim = dim, .eps = eps);
}

void step_norm_cpu(struct cpu_pool *p, const struct step_norm_args *a)
{
    read_stream(a->h, a->stream, (size_t)a->n_rows * (size_t)a->hidden);
    norm(p, a->h, a->norm, a->n_rows, a->hidden, a->eps);
}

/* Projects rows into the ring of a slot, where they are contiguous except where the ring wraps. */
static void project_to_ring(struct cpu_pool *p, const struct step_project_args *a, const struct step_part *part, const float *h,
                            const struct step_run *r)
{
    const size_t rows = (size_t)part->w.rows, cols = (size_t)part->w.cols;
    float *ring = (float *)(void *)((char *)part->y + (size_t)r->slot * a->slot_bytes);
    const int pos = *step_live_of(a->pos, r->slot);
    for (int t = 0, n; t < r->n; t += n) {
        const int at = (pos + t) % STEP_RING;
        n = r->n - t < STEP_RING - at ? r->n - t : STEP_RING - at;
        step_product(p, ring + (size_t)at * rows, h + (size_t)(r->from + t) * cols, &part->w, n);
    }
}

static void project(struct cpu_pool *p, const struct step_project_args *a, const struct step_part *part, const float *h, int n)
{
    struct step_run r = {0};
    if (!part->ring)
        step_product(p, part->y, h, &part->w, n);
    while (part->ring && step_next_run(&r, a->rows, n))
        project_to_ring(p, a, part, h, &r);
}

void step_project_cpu(struct cpu_pool *p, const struct step_project_args *a)
{
    const int n = step_rows(a->rows, a->n_valid, a->n_rows), dim = a->part[0].w.cols;
    const size_t all = (size_t)n * (size_t)dim, half = (size_t)a->n_rows * (size_t)dim;
    float *h = p->scratch(p, all * sizeof *h);
    if (a->stream)
        read_stream(h, a->stream, all);
    for (size_t i = 0; i < all && a->halves; i++) {
        h[i] = a->halves[i] + a->halves[half + i];
        a->stream_out[i] = stream_from_float(h[i]);
    }
    norm(p, h, a->norm, n, dim, a->eps);
    for (int i = 0; i < a->n_parts; i++)
        project(p, a, &a->part[i], h, n);
}

static void divide_heads(float *y, const float *x, const struct step_add_args *a, int n)
{
    const int dim = a->head_dim, heads = a->w.cols / dim;
    for (int i = 0; i < n * heads; i++) {
        const float s = 1 / sqrtf((a->ssq[2 * i] + a->ssq[2 * i + 1]) / (float)dim + a->eps);
        for (int k = i * dim; k < (i + 1) * dim; k++)
            y[k] = x[k] * s;
    }
}

void step_add_cpu(struct cpu_pool *p, const struct step_add_args *a)
{
    const int n = step_rows(a->rows, a->n_valid, a->n_rows);
    const size_t rows = (size_t)n * (size_t)a->w.rows, cols = (size_t)n * (size_t)a->w.cols;
    float *y = p->scratch(p, (rows + cols) * sizeof *y), *x = y + rows;
    if (a->ssq)
        divide_heads(x, a->x, a, n);
    step_product(p, y, a->ssq ? x : a->x, &a->w, n);
    for (size_t i = 0; i < rows; i++)
        stream_add(&a->stream[i], y[i]);
}

static float sum_of_squares(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return (float)sum;
}

/* Zeroes the parts after the first one, which is the whole product. */
static void clear_parts(float *at, size_t step, int n_parts, size_t n)
{
    for (int i = 1; i < n_parts; i++)
        memset(at + (size_t)i * step, 0, n * sizeof *at);
}

void step_router_cpu(struct cpu_pool *p, const struct step_router_args *a)
{
    const int n = step_rows(a->rows, a->n_valid, a->n_rows), dim = a->router.cols, parts = step_router_parts(dim);
    read_stream(a->h, a->stream, (size_t)n * (size_t)dim);
    for (int t = 0; t < n; t++) {
        float *h = a->h + (size_t)t * (size_t)dim;
        a->ssq[t] = sum_of_squares(h, dim);
        for (int i = 0; i < dim; i++)
            h[i] *= 1 + a->norm[i];
    }
    step_product(p, a->logits, a->h, &a->router, n);
    step_product(p, a->gate, a->h, &a->shared_gate, n);
    clear_parts(a->logits, a->part_step, parts, (size_t)n * (size_t)a->router.rows);
    clear_parts(a->gate, a->part_step, parts, (size_t)n);
    clear_parts(a->ssq, STEP_ROWS, parts, (size_t)n);
}

static int row_of_stream(const struct step_logits_args *a, int t)
{
    const struct step_row r = step_row(a->rows, t);
    return a->row ? r.first + *step_live_of(a->row, r.slot) : t;
}

void step_logits_cpu(struct cpu_pool *p, const struct step_logits_args *a)
{
    const int n = step_rows(a->rows, a->n_valid, a->n_rows), dim = a->w.cols;
    const size_t all = (size_t)n * (size_t)dim;
    const float *h = a->hidden;
    if (a->stream) {
        float *u = a->hidden_out ? a->hidden_out : p->scratch(p, all * sizeof *u);
        for (int t = 0; t < n; t++)
            read_stream(u + (size_t)t * (size_t)dim, a->stream + (size_t)row_of_stream(a, t) * (size_t)dim, (size_t)dim);
        norm(p, u, a->norm, n, dim, a->eps);
        h = u;
    }
    bool narrows = a->estimate;
    for (int t = 0; t < n; t++)
        narrows |= step_wanted(step_how(a, t), step_n_ids(a, t)) > 0;
    if (a->w.format == WEIGHT_PLANES && narrows && !a->whole) {
        step_planes(p, a, h, n);
        return;
    }
    step_product(p, a->logits, h, &a->w, n);
    step_finish_logits(p, a, n);
}

void step_mtp_join_cpu(struct cpu_pool *p, const struct step_mtp_join_args *a)
{
    const int n = step_rows(a->rows, a->n_valid, a->n_rows), dim = a->w.cols / 2;
    const size_t D = (size_t)dim, rows = (size_t)a->w.rows;
    float *both = p->scratch(p, (size_t)n * 3 * D * sizeof *both), *embedding = both + (size_t)n * 2 * D;
    int32_t ids[STEP_ROWS];
    gather_ids(ids, a->ids, a->rows, n);
    PLAIN(p, embed, .y = embedding, .ids = ids, .table = a->table, .n_tokens = n);
    PLAIN(p, rmsnorm, .y = both, .x = embedding, .w = a->norm_embedding, .n_rows = n, .dim = dim, .eps = a->eps, .y_group = 2 * D);
    PLAIN(p, rmsnorm, .y = both + D, .x = a->hidden, .w = a->norm_hidden, .n_rows = n, .dim = dim, .eps = a->eps, .y_group = 2 * D);
    step_product(p, a->halves, both, &a->w, n);
    memset(a->halves + (size_t)a->n_rows * rows, 0, (size_t)n * rows * sizeof *a->halves);
}

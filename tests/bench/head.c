/* whether a head in two planes ever misses one of the best ids, how many ids it completes, and how far its estimates are
 * off. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/load.h"
#include "kernels/fill.h"
#include "kernels/number.h"
#include "model/prompt.h"
#include "model/quantize.h"
#include "tests/bench/measure.h"
#include "tests/kth.h"

enum {
    ROWS = 512, COLS = 128,             /* of a head of random numbers */
    PER_HEAD = 2000,                    /* positions that meet one */
    ESTIMATED = 8,                      /* at every so many positions all estimates are compared */
    CHUNK = 64,
};
static const int wanted[] = {1, 20, 64};
enum { N_WANTED = sizeof wanted / sizeof *wanted };

/* Counts over some positions. */
struct counts {
    struct { double n, missed, ids, off; int most; } by[N_WANTED];      /* off: the greatest difference of a probability */
    double n_estimates, squares, worst; /* in deviations */
};

/* ---- one position */

struct work {
    struct dev *dev;
    float *whole, *logits, *tile_max;
    uint8_t *seen;
};

static struct work open_work(struct dev *d, int vocab)
{
    const size_t V = (size_t)vocab;
    return (struct work){.dev = d, .whole = memory_alloc(V * sizeof(float)), .logits = memory_alloc(V * sizeof(float)),
                         .tile_max = memory_alloc((size_t)step_maxima(vocab) * sizeof(float)), .seen = memory_zeroed(V, 1)};
}

static void close_work(struct work *w) { free(w->whole), free(w->logits), free(w->tile_max), free(w->seen); }

/* softmax(l) of the best id. */
static double best_share(const float *l, int n_ids)
{
    float max = l[0];
    double sum = 0;
    for (int i = 1; i < n_ids; i++)
        max = fmaxf(max, l[i]);
    for (int i = 0; i < n_ids; i++)
        sum += (double)expf(l[i] - max);
    return 1 / sum;
}

static void compare_best(struct counts *c, struct work *w, const struct weight *planes, const float *h, int k)
{
    const struct step_sampling how = {.temperature = 1, .top_k = wanted[k], .n_ids = planes->rows};
    const float least = kth_greatest(w->whole, planes->rows, wanted[k]);
    int ids = 0, missed = 0;
    STEP(w->dev, step_logits, .logits = w->logits, .tile_max = w->tile_max, .w = *planes, .hidden = h, .sampling = &how, .seen = w->seen,
         .n_rows = 1);
    for (int i = 0; i < planes->rows; i++) {
        ids += w->logits[i] == w->whole[i];
        missed += w->whole[i] >= least ? w->logits[i] != w->whole[i] : w->logits[i] >= least;
    }
    c->by[k].off = fmax(c->by[k].off, fabs(best_share(w->logits, planes->rows) - best_share(w->whole, planes->rows)));
    c->by[k].n++;
    c->by[k].ids += ids;
    c->by[k].missed += missed > 0;
    c->by[k].most = ids > c->by[k].most ? ids : c->by[k].most;
}

static void compare_estimates(struct counts *c, struct work *w, const struct weight *planes, const float *h)
{
    const struct plane_row *about = planes->scale;
    double squares = 0;
    for (int i = 0; i < planes->cols; i++)
        squares += (double)h[i] * (double)h[i];
    STEP(w->dev, step_logits, .logits = w->logits, .tile_max = w->tile_max, .w = *planes, .hidden = h, .n_ids = planes->rows, .estimate = true,
         .n_rows = 1);
    for (int i = 0; i < planes->rows; i++) {
        const double deviation = (double)f16_f32(about[i].scale) * (double)f16_f32(about[i].spread) * sqrt(squares);
        const double off = deviation > 0 ? ((double)w->whole[i] - (double)w->logits[i]) / deviation : 0;
        c->squares += off * off;
        c->worst = fmax(c->worst, fabs(off));
        c->n_estimates++;
    }
}

/* The i-th position, with the hidden state h. */
static void count_position(struct counts *c, struct work *w, const struct weight *planes, const float *h, int i)
{
    RUN(w->dev, linear_int8, .l = {.y = w->whole, .x = h, .w = *planes, .n_tokens = 1});
    compare_best(c, w, planes, h, i % N_WANTED);
    if (i % ESTIMATED == 0)
        compare_estimates(c, w, planes, h);
}

static void report_counts(struct report *r, const char *name, const struct weight *head, const struct counts *c)
{
    for (int k = 0; k < N_WANTED; k++) {
        const double n = c->by[k].n > 0 ? c->by[k].n : 1;
        const double cells[] = {head->rows, head->cols, wanted[k], c->by[k].n, c->by[k].missed, c->by[k].ids / n, c->by[k].most, c->by[k].off,
                                k ? NAN : sqrt(c->squares / c->n_estimates), k ? NAN : c->worst};
        report_text(r, name);
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
            report_number(r, cells[i]);
    }
}

/* ---- random heads */

/* How the numbers of a head, and of the hidden states that meet it, are distributed. */
enum kind { NORMAL, HEAVY, OUTLIERS, SMALL, ONE_SIGN, ALONG, HEAVY_ALONG, N_KINDS };
static const char *const names[N_KINDS] = {
    "normal", "heavy tails", "outlier columns", "small but for one", "states of one sign", "states along a row", "heavy, along a row",
};

struct stream { uint64_t key, i; };

static double flat(struct stream *s) { return ((double)(fill_hash(s->key, s->i++) >> 11) + 0.5) / 9007199254740992.0; }
static float  normal(struct stream *s) { return (float)(sqrt(-2 * log(flat(s))) * cos(2 * M_PI * flat(s))); }
/* Student's t with 4 degrees of freedom: its fourth moment is infinite. */
static float heavy(struct stream *s) { return normal(s) / (float)sqrt(-log(flat(s) * flat(s)) / 2); }

static float number(struct stream *s, enum kind kind, int column, float outlier)
{
    switch (kind) {
    case HEAVY:
    case HEAVY_ALONG: return heavy(s);
    case OUTLIERS:    return normal(s) * (column % 97 == 5 ? outlier : 1);
    default:          return normal(s);
    }
}

static void make_head(struct weight *int8, struct weight *planes, struct stream *s, enum kind kind, struct arena *a)
{
    float *data = arena_array(a, ROWS * COLS, sizeof *data);
    for (int i = 0; i < ROWS * COLS; i++) {
        data[i] = number(s, kind, i % COLS, 40);
        data[i] = kind == SMALL && i % COLS != 17 ? data[i] / 30 : data[i];
    }
    const struct weight dense = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = ROWS, .cols = COLS, .data = data};
    *int8 = quantize_int8(&dense, a);
    *planes = quantize_planes(&dense, a);
}

/* A state along a row has a cosine of about one half with it. */
static void make_state(float h[COLS], struct stream *s, enum kind kind, const struct weight *int8)
{
    const int8_t *row = (const int8_t *)int8->data + (size_t)(flat(s) * ROWS) * COLS;
    double h_squares = 0, row_squares = 0;
    for (int k = 0; k < COLS; k++) {
        h[k] = number(s, kind, k, 30);
        h[k] = kind == ONE_SIGN ? fabsf(h[k]) : h[k];
        h_squares += (double)h[k] * (double)h[k];
        row_squares += (double)row[k] * (double)row[k];
    }
    const float by = 0.6f * (float)sqrt(h_squares / row_squares);
    for (int k = 0; k < COLS && (kind == ALONG || kind == HEAVY_ALONG); k++)
        h[k] += by * row[k];
}

static bool random_heads(struct report *r, struct dev *d, enum kind kind, int n, uint64_t seed)
{
    struct stream s = {.key = seed * N_KINDS + (uint64_t)kind + 1};
    struct work w = open_work(d, ROWS);
    struct counts c = {.worst = 0};
    struct weight int8 = {WEIGHT_NONE}, planes = {WEIGHT_NONE};
    for (int i = 0; i < n && !report_stopped(r); i += PER_HEAD) {
        struct arena a = {0};
        make_head(&int8, &planes, &s, kind, &a);
        for (int k = i; k < i + PER_HEAD && k < n; k++) {
            float h[COLS];
            make_state(h, &s, kind, &int8);
            count_position(&c, &w, &planes, h, k);
        }
        arena_free(&a);
    }
    report_counts(r, names[kind], &planes, &c);
    close_work(&w);
    return !report_stopped(r);
}

/* ---- a model's own */

static bool own_head(struct report *r, const struct measure_options *o, struct err *e)
{
    struct model m;
    struct ids ids = {0};
    struct counts c = {.worst = 0};
    bool ok = load_open(&m, &(struct load_options){.dir = o->b.model_dir, .backend = o->b.backend, .head = "planes", .n_threads = o->b.n_threads,
                                                   .n_ctx = o->b.n_ctx, .chunk = CHUNK, .n_snapshots = LOAD_NO_SNAPSHOTS}, e)
           && text_ids(&m, o->text_file, 1, m.n_ctx, &ids, e);
    if (ok) {
        struct work w = open_work(m.dev, m.cfg.vocab);
        for (int pos = 0; pos < ids.n && !report_stopped(r); pos += CHUNK) {
            const int n = ids.n - pos < CHUNK ? ids.n - pos : CHUNK;
            prompt_run(m.forward, m.cache, ids.data + pos, n, pos);
            for (int t = 0; t < n; t++)
                count_position(&c, &w, &m.weights.head_planes, forward_hidden(m.forward) + (size_t)t * (size_t)m.cfg.hidden, pos + t);
        }
        report_counts(r, m.cfg.name, &m.weights.head_planes, &c);
        close_work(&w);
    }
    ids_free(&ids);
    load_close(&m);
    return ok;
}

/* Results are read as soon as an operation returns. */
static struct dev *open_device(const struct measure_options *o, struct err *e)
{
    const char *backend = dev_backend(o->b.backend, e);
    if (backend && dev_caps(backend)->packs_weights)
        err_set(e, "the heads are compared by their definitions, on a CPU, and the backend is '%s': take --backend cpu", backend);
    return backend && !dev_caps(backend)->packs_weights ? dev_open(backend, o->b.n_threads, e) : NULL;
}

int measure_head(const struct measure_options *o)
{
    static const struct column columns[] = {
        {"numbers", "numbers", -20, 0}, {"rows", "ids", 8, 0}, {"columns", "columns", 8, 0}, {"wanted", "best", 6, 0},
        {"positions", "positions", 10, 0},
        {"missed", "missed", 8, 0}, {"ids", "completed", 10, 1}, {"most", "at most", 8, 0}, {"off", "p off", 8, 5},
        {"rms", "rms error", 10, 2}, {"worst", "greatest", 9, 2},
    };
    struct report r;
    struct err e = {0};
    report_open(&r, "head", &o->b);
    struct dev *d = open_device(o, &e);
    bool ok = d;
    if (ok) {
        report_device(&r, d);
        report_table(&r, "two planes against the INT8 head; errors of estimates in deviations", columns, sizeof columns / sizeof *columns);
        for (enum kind kind = 0; kind < N_KINDS && random_heads(&r, d, kind, o->n_positions, (uint64_t)o->b.seed); kind++)
            ;
        ok = !o->b.model_dir || own_head(&r, o, &e);
        dev_close(d);
    }
    return report_close(&r, ok ? NULL : &e);
}

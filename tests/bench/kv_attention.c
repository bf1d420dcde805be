/* One layer with the heads of Qwen3.5-122B over rows of known kinds.  The queries are those of one row behind all of them. */
#include "tests/bench/measure.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "kernels/fill.h"

enum { HEADS = 32, KV_HEADS = 2, GROUP = HEADS / KV_HEADS, ROW = KV_HEADS * KV_DIM, CHUNK = 1024, ERROR_CTX = 8192, SINKS = 4, RIVALS = 8,
       LONG_SEEDS = 3 };

static const float SCALE = 0.0625f;     /* of logits: 1 / sqrt(KV_DIM) */

/* How numbers of a key are distributed, before the key is normed as the model norms it.  In all of them the first SINKS keys have one channel that is
 * far greater than the others, which every query looks at, and next to no value. */
enum kind { GAUSS, HEAVY, OUTLIERS, N_KINDS };

struct sample {
    int    n;
    float *k, *v;                       /* [n, KV_HEADS, KV_DIM] */
    float  q[HEADS * KV_DIM];
    int    needle[HEADS];
    int    rival[HEADS][RIVALS];
};

/* ---- numbers */

struct stream {
    uint64_t key, i;
};

static double flat(struct stream *s) { return ((double)(fill_hash(s->key, s->i++) >> 11) + 0.5) / 9007199254740992.0; }
static double normal(struct stream *s) { return sqrt(-2 * log(flat(s))) * cos(2 * M_PI * flat(s)); }

/* Student's t with 3 degrees of freedom, of variance 1. */
static double heavy(struct stream *s)
{
    double a = normal(s), b = normal(s), c = normal(s), x = normal(s);
    return x / sqrt(a * a + b * b + c * c);
}

static double number(struct stream *s, enum kind kind, int j)
{
    return kind == HEAVY ? heavy(s) : normal(s) * (kind == OUTLIERS && j % 32 == 5 ? 20 : 1);
}

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (int j = 0; j < KV_DIM; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

/* ---- rows */

enum { SINK_CHANNEL = 200, SINK_KEY = 60 };

static float *key_of(const struct sample *r, int pos, int head) { return r->k + ((size_t)pos * KV_HEADS + (size_t)(head / GROUP)) * KV_DIM; }
static float *value_of(const struct sample *r, int pos, int head) { return r->v + ((size_t)pos * KV_HEADS + (size_t)(head / GROUP)) * KV_DIM; }

/* The logits of a direction over all keys of a head, into `out`. */
static void logits_of(const struct sample *r, int head, const float *direction, double *out)
{
    for (int p = 0; p < r->n; p++)
        out[p] = dot(direction, key_of(r, p, head)) * (double)SCALE;
}

/* log of the sum of exp(a + by * b), without entry `but`. */
static double log_sum(const double *a, const double *b, double by, int n, int but)
{
    double max = -INFINITY, sum = 0;
    for (int p = 0; p < n; p++)
        max = p != but ? fmax(max, a[p] + by * b[p]) : max;
    for (int p = 0; p < n; p++)
        sum += p == but ? 0 : exp(a[p] + by * b[p] - max);
    return max + log(sum);
}

/* A query in a random direction, whose logits over ordinary keys have the deviation `sigma`, and which gives the sinks about a third. */
static void ordinary_query(struct sample *r, int head, double sigma, struct stream *s)
{
    float *q = r->q + head * KV_DIM;
    double sum = 0, squares = 0, *logit = memory_alloc((size_t)r->n * sizeof *logit);
    for (int j = 0; j < KV_DIM; j++)
        q[j] = j == SINK_CHANNEL ? 0 : (float)normal(s);
    logits_of(r, head, q, logit);
    for (int p = SINKS; p < r->n; p++) {
        sum += logit[p];
        squares += logit[p] * logit[p];
    }
    const double mean = sum / (r->n - SINKS), by = sigma / sqrt(squares / (r->n - SINKS) - mean * mean);
    for (int j = 0; j < KV_DIM; j++)
        q[j] *= (float)by;
    for (int p = 0; p < r->n; p++)
        logit[p] *= by;
    const double others = log_sum(logit, logit, 0, r->n, -1);
    q[SINK_CHANNEL] = (float)((others - log(2 * SINKS) - logit[0]) / ((double)SCALE * (double)SINK_KEY));
    free(logit);
}

/* Adds so much of the needle's key to the query that the needle gets half of the weight. */
static void look_for_needle(struct sample *r, int head)
{
    const int needle = r->needle[head];
    float *q = r->q + head * KV_DIM;
    const float *k = key_of(r, needle, head);
    double low = 0, high = 64, *a = memory_alloc(2 * (size_t)r->n * sizeof *a), *b = a + r->n;
    logits_of(r, head, q, a);
    logits_of(r, head, k, b);
    for (int i = 0; i < 30; i++) {
        const double mid = (low + high) / 2;
        *(a[needle] + mid * b[needle] < log_sum(a, b, mid, r->n, needle) ? &low : &high) = mid;
    }
    for (int j = 0; j < KV_DIM; j++)
        q[j] += (float)high * k[j];
    free(a);
}

static bool is_needle(const struct sample *r, int pos, int head)
{
    for (int other = head / GROUP * GROUP; other < (head / GROUP + 1) * GROUP; other++)
        if (r->needle[other] == pos)
            return true;
    return false;
}

/* Rivals have keys of the needle's size whose cosine with it is 0.8, and values of their own.  The needle of a KV head's first query head is right
 * behind the exact positions at the beginning, the others are at even distances. */
static void plant(struct sample *r, enum kind kind, struct stream *s)
{
    for (int head = 0; head < HEADS; head++)
        r->needle[head] = head % GROUP ? (int)((double)r->n * (head % GROUP) / GROUP) : 16;
    for (int head = 0; head < HEADS; head++) {
        const float *k = key_of(r, r->needle[head], head);
        const double square = dot(k, k);
        for (int c = 0; c < RIVALS; c++) {
            float other[KV_DIM];
            do
                r->rival[head][c] = SINKS + (int)(flat(s) * (r->n - SINKS));
            while (is_needle(r, r->rival[head][c], head));
            for (int j = 0; j < KV_DIM; j++)
                other[j] = j == SINK_CHANNEL ? 0 : (float)number(s, kind, j);
            const double along = dot(other, k) / square, size = sqrt(square / (dot(other, other) - along * along * square));
            float *near = key_of(r, r->rival[head][c], head);
            for (int j = 0; j < KV_DIM; j++)
                near[j] = 0.8f * k[j] + 0.6f * (float)(size * ((double)other[j] - along * (double)k[j]));
        }
    }
}

/* Mean square 1. */
static void norm_key(float *k)
{
    const float by = (float)(16 / sqrt(dot(k, k)));
    for (int j = 0; j < KV_DIM; j++)
        k[j] *= by;
}

/* Every `every`th head looks for its needle, the others for nothing. */
static void make_rows(struct sample *r, int n, enum kind kind, double sigma, int every, uint64_t seed)
{
    struct stream s = {.key = seed};
    *r = (struct sample){.n = n, .k = memory_alloc((size_t)n * ROW * sizeof(float)), .v = memory_alloc((size_t)n * ROW * sizeof(float))};
    for (int p = 0; p < n; p++)
        for (int i = 0; i < ROW; i++) {
            const bool channel = i % KV_DIM == SINK_CHANNEL;
            r->k[(size_t)p * ROW + (size_t)i] = p < SINKS ? (channel ? SINK_KEY : (float)normal(&s)) 
                                                          : channel ? 0 : (float)number(&s, kind, i % KV_DIM);
            r->v[(size_t)p * ROW + (size_t)i] = (float)normal(&s) * (p < SINKS ? 0.02f : 1);
        }
    for (int p = SINKS; p < n; p++)
        for (int head = 0; head < HEADS; head += GROUP)
            norm_key(key_of(r, p, head));
    plant(r, kind, &s);
    for (int head = 0; head < HEADS; head++) {
        ordinary_query(r, head, sigma, &s);
        if (head % every == 0)
            look_for_needle(r, head);
    }
}

static void free_rows(struct sample *r)
{
    free(r->k);
    free(r->v);
}

/* ---- attention as a device does it */

/* y[HEADS * KV_DIM] for the queries, with rows stored by a recipe. */
static bool attend(struct dev *d, const struct kv_recipe *recipe, const struct sample *r, float *y, struct err *e)
{
    const struct model_config one = {.n_full = 1, .n_kv_heads = KV_HEADS, .head_dim = KV_DIM};
    const size_t chunk = (size_t)CHUNK * ROW * sizeof(float), heads = HEADS * KV_DIM * sizeof(float);
    struct kv *kv = kv_open(d, &(struct kv_shape){.cfg = &one, .recipe = recipe, .n_ctx = r->n, .max_rows = CHUNK, .n_slots = 1}, e);
    char *memory = kv ? d->alloc(d, 2 * chunk + 2 * heads) : NULL;
    float *k = (float *)(void *)memory, *v = (float *)(void *)(memory + chunk), *q = (float *)(void *)(memory + 2 * chunk), *out = q + HEADS * KV_DIM;
    if (!memory) {
        kv_close(kv);
        return err_set(e, "no memory for %d positions of one layer", r->n);
    }
    const struct kv_rows *rows = kv_slot(kv, 0);
    for (int pos = 0; pos < r->n; pos += CHUNK) {
        const int n = r->n - pos < CHUNK ? r->n - pos : CHUNK, from = kv_sealed(rows, pos - 1), to = kv_sealed(rows, pos + n - 1);
        d->copy(d, k, r->k + (size_t)pos * ROW, (size_t)n * ROW * sizeof(float));
        d->copy(d, v, r->v + (size_t)pos * ROW, (size_t)n * ROW * sizeof(float));
        RUN(d, kv_store, .kv = *rows, .k = k, .v = v, .n_tokens = n, .pos = pos);
        if (to > from)
            RUN(d, kv_seal, .kv = *rows, .from = from, .to = to);
    }
    d->copy(d, q, r->q, heads);
    RUN(d, attention, .y = out, .q = q, .q_token = HEADS * KV_DIM, .q_head = KV_DIM, .kv = *rows, .n_tokens = 1, .n_q_heads = HEADS, .pos = r->n - 1,
        .scale = SCALE);
    d->copy(d, y, out, heads);
    bool ok = d->finish(d, e);
    d->free(d, memory);
    kv_close(kv);
    return ok;
}

/* ---- tables */

static const struct model_config geometry = {.n_full = 1, .n_kv_heads = KV_HEADS, .head_dim = KV_DIM};

/* |y - exact| / |exact| over all heads: adds both squares. */
static void add_error(double sums[2], const float *y, const float *exact)
{
    for (int i = 0; i < HEADS * KV_DIM; i++) {
        double diff = (double)y[i] - (double)exact[i];
        sums[0] += diff * diff;
        sums[1] += (double)exact[i] * (double)exact[i];
    }
}

static bool report_errors(struct report *r, struct dev *d, uint64_t n_seeds, struct err *e)
{
    static const struct column columns[] = {
        {"recipe", "recipe", -8, 0}, {"gauss", "normal", 9, 5}, {"heavy", "heavy tails", 12, 5}, {"outliers", "outlier channels", 17, 5},
    };
    const struct kv_recipe *recipes[KV_MOST_RECIPES];
    const int n = kv_recipes_of(d, &geometry, recipes, KV_MOST_RECIPES);
    double sums[KV_MOST_RECIPES][N_KINDS][2] = {{{0}}};
    float *exact = memory_alloc(HEADS * KV_DIM * sizeof *exact), *y = memory_alloc(HEADS * KV_DIM * sizeof *y);
    bool ok = true;
    for (int kind = 0; kind < N_KINDS && ok; kind++)
        for (uint64_t seed = 0; seed < n_seeds && ok; seed++) {
            struct sample rows;
            make_rows(&rows, ERROR_CTX, (enum kind)kind, 2, 2, 1 + seed);
            for (int i = 0; i < n && ok; i++) {
                ok = attend(d, recipes[i], &rows, i ? y : exact, e);
                add_error(sums[i][kind], i ? y : exact, exact);
            }
            free_rows(&rows);
        }
    report_table(r, "relative error of attention's output over 8,192 positions, against the first recipe; every second head has a needle", columns,
                 sizeof columns / sizeof *columns);
    for (int i = 0; i < n && ok; i++) {
        report_text(r, recipes[i]->name);
        for (int kind = 0; kind < N_KINDS; kind++)
            report_number(r, sqrt(sums[i][kind][0] / sums[i][kind][1]));
    }
    free(exact);
    free(y);
    return ok;
}

/* Heads whose output has more of the needle's value than of any rival's. */
static int n_found(const struct sample *r, const float *y)
{
    int found = 0;
    for (int head = 0; head < HEADS; head++) {
        const float *out = y + head * KV_DIM;
        double needle = dot(out, value_of(r, r->needle[head], head));
        bool best = true;
        for (int c = 0; c < RIVALS; c++)
            best = best && needle > dot(out, value_of(r, r->rival[head][c], head));
        found += best;
    }
    return found;
}

static bool report_retrieval(struct report *r, struct dev *d, uint64_t n_seeds, struct err *e)
{
    static const int lengths[] = {1024, 4096, 8192, 16384, 32768};
    enum { N_LENGTHS = sizeof lengths / sizeof *lengths, N_SHORT = 3 };
    static const struct column columns[] = {
        {"recipe", "recipe", -8, 0}, {"1k", "1K", 7, 1}, {"4k", "4K", 7, 1}, {"8k", "8K", 7, 1}, {"16k", "16K", 7, 1}, {"32k", "32K", 7, 1},
    };
    const struct kv_recipe *recipes[KV_MOST_RECIPES];
    const int n = kv_recipes_of(d, &geometry, recipes, KV_MOST_RECIPES), n_lengths = r->o->full ? N_LENGTHS : N_SHORT;
    int found[KV_MOST_RECIPES][N_LENGTHS] = {{0}};
    float *y = memory_alloc(HEADS * KV_DIM * sizeof *y);
    bool ok = true;
    for (int l = 0; l < n_lengths && ok; l++)
        for (uint64_t seed = 0; seed < n_seeds && ok; seed++) {
            struct sample rows;
            make_rows(&rows, lengths[l], HEAVY, 1, 1, 100 + 10 * (uint64_t)l + seed);
            for (int i = 0; i < n && ok; i++) {
                ok = attend(d, recipes[i], &rows, y, e);
                found[i][l] += n_found(&rows, y);
            }
            free_rows(&rows);
        }
    report_table(r, "percent of planted keys found among keys that are nearly the same; heavy tails, one needle right behind the sinks", columns,
                 sizeof columns / sizeof *columns);
    for (int i = 0; i < n && ok; i++) {
        report_text(r, recipes[i]->name);
        for (int l = 0; l < N_LENGTHS; l++)
            report_number(r, l < n_lengths ? 100.0 * found[i][l] / (double)(HEADS * n_seeds) : NAN);
    }
    free(y);
    return ok;
}

bool kv_attention(struct report *r, struct dev *d, struct err *e)
{
    const uint64_t n_seeds = r->o->full ? LONG_SEEDS : 1;
    return report_errors(r, d, n_seeds, e) && report_retrieval(r, d, n_seeds, e);
}

/* Recipes on a real text: all read the same tokens chunk by chunk, beside the exact one. */
#include "bench/kv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "bench/text.h"
#include "model/prompt.h"

enum { CHUNK = 64, HEAD_ROWS = 16, MIN_TOKENS = 1025 };

/* How far the distributions of one recipe are from the exact ones. */
struct distance {
    const struct kv_recipe *recipe;
    struct cache *cache;
    double *kl;                         /* [n] of positions that read codes, in nats */
    int     n, n_same;                  /* n_same: with the same likeliest token */
    double  surprise;                   /* sum of -log p of the tokens that follow */
};

/* Log-probabilities in place; the likeliest. */
static int log_softmax(float *x, int n)
{
    int best = 0;
    double sum = 0;
    for (int i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)x[best]);
    const double shift = (double)x[best] + log(sum);
    for (int i = 0; i < n; i++)
        x[i] = (float)((double)x[i] - shift);
    return best;
}

static double divergence(const float *p, const float *q, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)p[i]) * ((double)p[i] - (double)q[i]);
    return sum;
}

/* Logits of the rows of a chunk, [n, vocab], in host memory. */
static bool run_chunk(struct model *m, struct cache *k, const int32_t *ids, int n, int pos, float *device, float *out, struct err *e)
{
    const size_t vocab = (size_t)m->cfg.vocab;
    prompt_run(m->forward, k, ids, n, pos);
    for (int i = 0, rows; i < n; i += rows) {
        rows = n - i < HEAD_ROWS ? n - i : HEAD_ROWS;
        prompt_head(m->forward, m->head, forward_hidden(m->forward) + (size_t)i * (size_t)m->cfg.hidden, rows, device);
        m->dev->copy(m->dev, out + (size_t)i * vocab, device, (size_t)rows * vocab * sizeof *out);
    }
    return m->dev->finish(m->dev, e);
}

/* One chunk with every recipe; d[0] is the exact one. */
static bool compare_chunk(struct model *m, struct distance *d, int n_recipes, const struct ids *ids, int pos, int n, float *device, float *exact,
                          float *other, struct err *e)
{
    const size_t vocab = (size_t)m->cfg.vocab;
    int likeliest[CHUNK];
    for (int i = 0; i < n_recipes; i++) {
        float *x = i ? other : exact;
        if (!run_chunk(m, d[i].cache, ids->data + pos, n, pos, device, x, e))
            return false;
        for (int t = 0; t < n; t++) {
            const int best = log_softmax(x + (size_t)t * vocab, (int)vocab), p = pos + t;
            likeliest[t] = i ? likeliest[t] : best;
            if (p < 256 || p + 1 >= ids->n)     /* before that, no row reads codes */
                continue;
            d[i].kl[d[i].n++] = i ? divergence(exact + (size_t)t * vocab, x + (size_t)t * vocab, (int)vocab) : 0;
            d[i].n_same += best == likeliest[t];
            d[i].surprise -= (double)x[(size_t)t * vocab + (size_t)ids->data[p + 1]];
        }
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_distances(struct report *r, struct distance *d, int n_recipes)
{
    static const struct column columns[] = {
        {"recipe", "recipe", -8, 0}, {"tokens", "tokens", 8, 0}, {"kl", "mean KL", 11, 7}, {"kl_median", "median", 11, 7}, {"kl_999", "99.9 %", 9, 5},
        {"kl_max", "max", 9, 5}, {"same", "% same top", 11, 2}, {"perplexity", "perplexity", 11, 4}, {"change", "change %", 9, 3},
    };
    report_table(r, "next tokens: KL against the first recipe, in nats", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < n_recipes; i++) {
        double sum = 0;
        qsort(d[i].kl, (size_t)d[i].n, sizeof *d[i].kl, by_size);
        for (int k = 0; k < d[i].n; k++)
            sum += d[i].kl[k];
        const double perplexity = exp(d[i].surprise / d[i].n), exact = exp(d[0].surprise / d[0].n);
        const double cells[] = {d[i].n, sum / d[i].n, d[i].kl[d[i].n / 2], d[i].kl[(int)(0.999 * d[i].n)], d[i].kl[d[i].n - 1],
                                100.0 * d[i].n_same / d[i].n, perplexity, 100 * (perplexity / exact - 1)};
        report_text(r, d[i].recipe->name);
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(r, cells[c]);
    }
}

bool kv_text(struct report *r, struct model *m, const char *path, int n_ctx, struct err *e)
{
    const struct kv_recipe *recipes[KV_MOST_RECIPES];
    const int n = kv_recipes_of(m->dev, &m->cfg, recipes, KV_MOST_RECIPES);
    const size_t row = (size_t)m->cfg.vocab * sizeof(float);
    struct distance d[KV_MOST_RECIPES] = {{0}};
    struct ids ids = {0};
    float *device = m->dev->alloc(m->dev, HEAD_ROWS * row), *exact = memory_alloc(CHUNK * row), *other = memory_alloc(CHUNK * row);
    bool ok = device ? text_ids(m, path, MIN_TOKENS, n_ctx, &ids, e) : err_set(e, "no memory for the logits of %d rows", HEAD_ROWS);
    for (int i = 0; i < n && ok; i++) {
        d[i] = (struct distance){.recipe = recipes[i], .kl = memory_alloc((size_t)ids.n * sizeof(double))};
        d[i].cache = cache_open(m->dev, &(struct kv_shape){.cfg = &m->cfg, .recipe = recipes[i], .n_ctx = ids.n, .max_rows = CHUNK, .n_slots = 1}, e);
        ok = d[i].cache;
    }
    for (int pos = 0; pos < ids.n && ok && !report_stopped(r); pos += CHUNK)
        ok = compare_chunk(m, d, n, &ids, pos, ids.n - pos < CHUNK ? ids.n - pos : CHUNK, device, exact, other, e);
    if (ok && d[0].n)
        report_distances(r, d, n);
    ok = ok && (report_stopped(r) || kv_calls(r, m, &ids, e));
    for (int i = 0; i < n; i++) {
        cache_close(d[i].cache);
        free(d[i].kl);
    }
    if (device)
        m->dev->free(m->dev, device);
    free(exact);
    free(other);
    ids_free(&ids);
    return ok;
}

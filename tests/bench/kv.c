/* Recipes of the KV cache: their bytes, their errors, the next tokens of a text, and tool calls after it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "base/memory.h"
#include "engine/load.h"
#include "model/prompt.h"
#include "model/synthetic.h"
#include "tests/bench/measure.h"
#include "text/stream.h"
#include "text/template.h"

int kv_recipes_of(const struct dev *d, const struct model_config *c, const struct kv_recipe **out, int most)
{
    int n = 0;
    for (int i = 0; kv_recipe_at(i) && n < most; i++)
        if (load_takes(d->caps, kv_recipe_at(i)) && kv_recipe_fits(kv_recipe_at(i), c, NULL))
            out[n++] = kv_recipe_at(i);
    return n;
}

/* ---- bytes */

static double bits(const struct kv_recipe *r)
{
    const struct model_config one = {.n_full = 1, .n_kv_heads = 1, .head_dim = KV_DIM};
    return 8.0 * (double)kv_token_bytes(&one, r) / (2 * KV_DIM);
}

/* Returns the size of 262,144 positions, the MTP block's rows included. */
static double gigabytes(const struct model_config *c, const struct kv_recipe *r)
{
    return 1e-9 * (double)kv_bytes(&(struct kv_shape){.cfg = c, .recipe = r, .n_ctx = 262144, .max_rows = 4096, .n_slots = 1});
}

static bool report_bytes(struct report *r, const struct model_config *own, struct err *e)
{
    static const struct column columns[] = {
        {"recipe", "recipe", -8, 0}, {"bits", "bits", 8, 4}, {"sinks", "sinks", 6, 0}, {"recent", "recent", 7, 0},
        {"bytes_122b", "122B B/token", 13, 0},
        {"to_bf16", "x bf16", 7, 2}, {"gb_256k", "GB at 256K", 11, 2}, {"bytes", "this B/token", 13, 0},
    };
    struct model_config large;
    if (!synthetic_config(&large, "122b", 0, e))
        return false;
    const double bf16 = (double)(4 * large.n_full * large.n_kv_heads * large.head_dim);
    report_table(r, "bytes of a position", columns, sizeof columns / sizeof *columns);
    for (int i = 0; kv_recipe_at(i); i++) {
        const struct kv_recipe *k = kv_recipe_at(i);
        const double bytes = (double)kv_token_bytes(&large, k);
        const double cells[] = {bits(k), k->sinks, k->recent, bytes, bf16 / bytes, gigabytes(&large, k),
                                own && kv_recipe_fits(k, own, NULL) ? (double)kv_token_bytes(own, k) : NAN};
        report_text(r, k->name);
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(r, cells[c]);
    }
    return true;
}

/* ---- tool calls */

enum { CHUNK = 64 };

enum { SAID = 96, N_QUESTIONS = 4, N_LENGTHS = 3 };

static const int lengths[N_LENGTHS] = {512, 2048, 8192};
static const char *const questions[N_QUESTIONS] = {"What is 17 * 23?", "Calculate 45 + 391", "Compute 900 - 77", "How much is 12 * 12?"};
static const char tool[] =
    "{\"type\": \"function\", \"function\": {\"name\": \"calculator\", \"description\": \"Evaluates an arithmetic expression.\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"expression\": {\"type\": \"string\", \"description\": \"for example (3 + 4) * 12\"}}, "
    "\"required\": [\"expression\"]}}}";

/* The questions, and the answers with each recipe. */
struct trial {
    struct model     *m;
    struct tokenizer *tok;
    struct ids        head, tail[N_QUESTIONS];          /* system prompt with the tool; a question, and where its answer begins */
    int32_t           end;
    float            *device, *logits;                  /* [vocab] */
    struct ids        exact[N_LENGTHS][N_QUESTIONS];    /* answers of the first recipe */
};

/* Makes the prompt of each question, cut before the user's message. */
static bool make_prompts(struct trial *t, struct err *e)
{
    struct text tools[] = {text_of(tool)};
    bool ok = true;
    for (int i = 0; ok && i < N_QUESTIONS; i++) {
        struct message messages[] = {{.role = ROLE_USER, .content = text_of(questions[i])}};
        const struct conversation c = {.messages = messages, .n_messages = 1, .tools = tools, .n_tools = 1, .generation_prompt = true};
        struct arena mem = {0};
        struct segments all = {0};
        struct ids ids = {0};
        ok = template_render(&c, &all, &mem, e) && segments_encode(&all, t->tok, &ids, NULL, e);
        const int32_t start = tokenizer_special(t->tok, "<|im_start|>");
        int from = 1;
        while (from < ids.n && ids.data[from] != start)
            from++;
        if (ok && !i)
            ids_append(&t->head, ids.data, from);
        if (ok)
            ids_append(&t->tail[i], ids.data + from, ids.n - from);
        ids_free(&ids);
        arena_free(&mem);
    }
    t->end = tokenizer_special(t->tok, "<|im_end|>");
    return ok;
}

static bool read_on(struct trial *t, struct cache *k, const int32_t *ids, int n, int pos, struct err *e)
{
    for (int i = 0, rows; i < n; i += rows) {
        rows = n - i < CHUNK ? n - i : CHUNK;
        prompt_run(t->m->forward, k, ids + i, rows, pos + i);
        if (i + rows == n)
            prompt_head(t->m->forward, t->m->head, forward_hidden(t->m->forward) + (size_t)(rows - 1) * (size_t)t->m->cfg.hidden, 1, t->device);
        if (!t->m->dev->finish(t->m->dev, e))
            return false;
    }
    return true;
}

/* The likeliest token behind what was read. */
static bool pick(struct trial *t, int32_t *id, struct err *e)
{
    t->m->dev->copy(t->m->dev, t->logits, t->device, (size_t)t->m->cfg.vocab * sizeof *t->logits);
    *id = 0;
    if (!t->m->dev->finish(t->m->dev, e))
        return false;
    for (int i = 1; i < t->m->cfg.vocab; i++)
        *id = t->logits[i] > t->logits[*id] ? i : *id;
    return true;
}

/* The greedy answer, up to its end. */
static bool answer(struct trial *t, struct cache *k, int question, int pos, struct ids *out, struct err *e)
{
    const struct ids *tail = &t->tail[question];
    bool ok = read_on(t, k, tail->data, tail->n, pos, e);
    pos += tail->n;
    for (int32_t id = -1; ok && out->n < SAID && id != t->end; pos++) {
        ok = pick(t, &id, e);
        ids_add(out, id);
        ok = ok && (id == t->end || read_on(t, k, &id, 1, pos, e));
    }
    return ok;
}

static void count_call(const struct delta *d, void *n)
{
    *(int *)n += d->kind == DELTA_CALL_END && !d->truncated && d->text.n > 2;
}

/* One whole call of the tool, with arguments that are JSON. */
static bool calls(const struct trial *t, const struct ids *ids)
{
    struct text tools[] = {text_of(tool)};
    struct buf text = {0};
    struct detok d = {0};
    int n = 0;
    for (int i = 0; i < ids->n && ids->data[i] != t->end; i++)
        detok_push(&d, t->tok, ids->data[i], false, &text);
    detok_flush(&d, &text);
    struct stream *s = stream_open(tools, 1, false, count_call, &n);
    stream_push(s, buf_str(&text), text.len);
    stream_finish(s, !ids->n || ids->data[ids->n - 1] != t->end);
    stream_close(s);
    buf_free(&text);
    return n == 1;
}

/* One recipe, one length: how many answers are calls, and how many are those of the exact rows. */
static bool try_length(struct trial *t, const struct kv_recipe *recipe, bool first, int length, const struct ids *filler, int *n_calls, int *n_same,
                       struct err *e)
{
    struct model *m = t->m;
    const int fill = lengths[length] - t->head.n;
    const struct kv_shape shape = {.cfg = &m->cfg, .recipe = recipe, .n_ctx = lengths[length] + 64 + SAID, .max_rows = CHUNK, .n_slots = 1};
    struct cache *k = cache_open(m->dev, &shape, e);
    void *saved = memory_alloc(cache_saved_bytes(&m->cfg, recipe));
    bool ok = k && read_on(t, k, t->head.data, t->head.n, 0, e) && read_on(t, k, filler->data, fill, t->head.n, e);
    if (ok) {
        cache_state_save(k, saved);
        ok = m->dev->finish(m->dev, e);
    }
    for (int i = 0; ok && i < N_QUESTIONS; i++) {
        struct ids said = {0}, *exact = &t->exact[length][i];
        cache_state_load(k, saved);
        ok = answer(t, k, i, lengths[length], &said, e);
        if (first)
            ids_append(exact, said.data, said.n);
        *n_calls += ok && calls(t, &said);
        *n_same += ok && said.n == exact->n && !memcmp(said.data, exact->data, (size_t)said.n * sizeof *said.data);
        ids_free(&said);
    }
    cache_close(k);
    free(saved);
    return ok;
}

static bool try_recipes(struct report *r, struct trial *t, const struct ids *filler, struct err *e)
{
    static const struct column columns[] = {
        {"recipe", "recipe", -8, 0}, {"calls_512", "calls at 512", 13, 0}, {"same_512", "as exact", 9, 0}, {"calls_2k", "at 2K", 6, 0},
        {"same_2k", "as exact", 9, 0}, {"calls_8k", "at 8K", 6, 0}, {"same_8k", "as exact", 9, 0},
    };
    const struct kv_recipe *recipes[KV_MOST_RECIPES];
    const int n = kv_recipes_of(t->m->dev, &t->m->cfg, recipes, KV_MOST_RECIPES);
    bool ok = true;
    report_table(r, "tool calls behind a text, of 4 questions: whole calls, and answers as with the first recipe", columns,
                 sizeof columns / sizeof *columns);
    for (int i = 0; ok && i < n && !report_stopped(r); i++) {
        report_text(r, recipes[i]->name);
        for (int k = 0; ok && k < N_LENGTHS; k++) {
            int n_calls = 0, n_same = 0;
            const bool fits = lengths[k] - t->head.n <= filler->n && lengths[k] > t->head.n;
            ok = !fits || try_length(t, recipes[i], !i, k, filler, &n_calls, &n_same, e);
            report_number(r, fits ? n_calls : NAN);
            report_number(r, fits ? n_same : NAN);
        }
    }
    return ok;
}

/* Counts tool calls after the beginning of the text, at several lengths. */
static bool kv_calls(struct report *r, struct model *m, const struct ids *text, struct err *e)
{
    const size_t row = (size_t)m->cfg.vocab * sizeof(float);
    struct trial t = {.m = m, .tok = tokenizer_open(m->dir, e)};
    bool ok = t.tok;
    t.device = m->dev->alloc(m->dev, row);
    t.logits = memory_alloc(row);
    ok = ok && (t.device || err_set(e, "no memory for the logits of a row")) && make_prompts(&t, e) && try_recipes(r, &t, text, e);
    if (t.device)
        m->dev->free(m->dev, t.device);
    free(t.logits);
    ids_free(&t.head);
    for (int i = 0; i < N_QUESTIONS; i++) {
        ids_free(&t.tail[i]);
        for (int k = 0; k < N_LENGTHS; k++)
            ids_free(&t.exact[k][i]);
    }
    tokenizer_close(t.tok);
    return ok;
}

/* ---- next tokens of a text */

enum { TEXT_CTX = 8192, HEAD_ROWS = 16, MIN_TOKENS = 1025 };

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

/* Compares distributions of the next token over a text with those of the exact recipe of the model, which is open with it. */
static bool kv_text(struct report *r, struct model *m, const char *path, int n_ctx, struct err *e)
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

/* ---- the command */

static bool with_model(const struct measure_options *o, struct report *r, struct err *e)
{
    struct model m;
    const int n_ctx = o->b.n_ctx ? o->b.n_ctx : TEXT_CTX;
    const struct load_options l = {.dir = o->b.model_dir, .backend = o->b.backend, .head = o->b.head ? o->b.head : "bf16",
                                   .n_threads = o->b.n_threads, .n_ctx = n_ctx, .chunk = o->b.chunk, .n_snapshots = LOAD_NO_SNAPSHOTS};
    bool ok = load_open(&m, &l, e);
    if (ok) {
        report_device(r, m.dev);
        report_fact(r, "model", "%s", m.cfg.name);
        ok = report_bytes(r, &m.cfg, e) && kv_attention(r, m.dev, e);
    }
    if (ok && o->text_file)
        ok = kv_text(r, &m, o->text_file, n_ctx, e);
    else if (ok)
        report_note(r, "next tokens were not compared: --text FILE names a text");
    load_close(&m);
    return ok;
}

static bool without_model(const struct measure_options *o, struct report *r, struct err *e)
{
    struct dev *d = dev_open(o->b.backend, o->b.n_threads, e);
    if (!d)
        return false;
    report_device(r, d);
    bool ok = report_bytes(r, NULL, e) && kv_attention(r, d, e);
    report_note(r, "next tokens were not compared: --model DIR --text FILE name a model and a text");
    dev_close(d);
    return ok;
}

int measure_kv(const struct measure_options *o)
{
    struct report r;
    struct err e = {0};
    report_open(&r, "kv", &o->b);
    bool ok = o->b.model_dir ? with_model(o, &r, &e) : without_model(o, &r, &e);
    return report_close(&r, ok ? NULL : &e);
}

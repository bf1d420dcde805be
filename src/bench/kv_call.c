/* Recipes and a tool call at the end of a long context: tools are offered at its beginning, a question that needs one stands at its end. */
#include "bench/kv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "base/memory.h"
#include "model/prompt.h"
#include "text/stream.h"
#include "text/template.h"

enum { CHUNK = 64, SAID = 96, N_QUESTIONS = 4, N_LENGTHS = 3 };

static const int lengths[N_LENGTHS] = {512, 2048, 8192};
static const char *const questions[N_QUESTIONS] = {"What is 17 * 23?", "Calculate 45 + 391", "Compute 900 - 77", "How much is 12 * 12?"};
static const char tool[] =
    "{\"type\": \"function\", \"function\": {\"name\": \"calculator\", \"description\": \"Evaluates an arithmetic expression.\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"expression\": {\"type\": \"string\", \"description\": \"for example (3 + 4) * 12\"}}, "
    "\"required\": [\"expression\"]}}}";

/* What is asked, and what the recipes made of it. */
struct trial {
    struct model     *m;
    struct tokenizer *tok;
    struct ids        head, tail[N_QUESTIONS];          /* system prompt with the tool; a question, and where its answer begins */
    int32_t           end;
    float            *device, *logits;                  /* [vocab] */
    struct ids        exact[N_LENGTHS][N_QUESTIONS];    /* answers of the first recipe */
};

/* Of each question the prompt, cut before the user's message. */
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

bool kv_calls(struct report *r, struct model *m, const struct ids *text, struct err *e)
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

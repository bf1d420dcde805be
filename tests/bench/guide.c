#include "tests/bench/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/answering.h"
#include "guide/guide.h"
#include "tests/golden/vocabulary.h"
#include "text/tokenizer.h"

enum { PROMPT = 64, TOKENS = 160, REPEATS = 2 };

static const char tools[] = "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"string\"}}, \"required\": [\"a\"]}}]";
static const char begun[] = "<tool_call>\n<function=f>\n<parameter=a>\n";
static const char json[] =
    "{\"type\": \"array\", \"minItems\": 99, \"items\": {\"type\": \"object\", \"properties\": {\"customer_identifier\": {\"enum\": [\"a\", \"b\"]}, "
    "\"delivery_address\": {\"type\": \"object\", \"properties\": {\"street_name\": {\"enum\": [\"x\", \"y\"]}, "
    "\"postal_code\": {\"type\": \"integer\", "
    "\"minimum\": 10000, \"maximum\": 99999}}, \"required\": [\"street_name\", \"postal_code\"]}, \"is_confirmed\": {\"type\": \"boolean\"}}, "
    "\"required\": [\"customer_identifier\", \"delivery_address\", \"is_confirmed\"], \"additionalProperties\": false}}";

/* The answers: without a guide, with tools none of which is called, in a string of a call where nothing is forced, and JSON whose keys are. */
static const struct kind { const char *name; enum guide_kind guide; const char *schema, *prefix; } kinds[] = {
    {"no guide", GUIDE_TEXT, NULL, NULL}, {"tools, at rest", GUIDE_TALK, NULL, ""}, {"a string of a call", GUIDE_TALK, NULL, begun},
    {"compact JSON", GUIDE_TEXT, json, NULL},
};

struct answer { struct report *r; int64_t start; double ms; int n; };

static bool stop(void *arg) { return report_stopped(((struct answer *)arg)->r); }
static void prefill(void *arg, int done, int total, int cached) { (void)arg, (void)done, (void)total, (void)cached; }

/* Times the tokens behind the first step. */
static bool tokens(void *arg, const struct picks *p)
{
    struct answer *a = arg;
    if (a->start)
        a->n += p->n;
    else
        a->start = clock_ns();
    a->ms = clock_ms_since(a->start);
    return true;
}

static struct guide *guide_of(const struct kind *k, struct guide_vocabulary *v, struct err *e)
{
    if (!k->schema && !k->prefix)
        return NULL;
    struct grammar *g = k->schema ? grammar_of_schema(text_of(k->schema), &(struct grammar_options){.ordered = true, .plain = true}, e)
                                  : grammar_of_calls(&(struct grammar_calls){.tools = text_of(tools)}, e);
    CHECK(g);
    struct guide *guide = guide_new(g, v, k->guide);
    grammar_release(g);
    return guide;
}

/* One answer; chance: that a draft is right, 0: no drafts. */
static bool ask(struct decoder *d, struct report *r, const struct kind *k, struct guide_vocabulary *v, const struct tokenizer *t, float chance,
                struct answer *a, struct stats *stats, struct err *e)
{
    struct ids prompt = {0};
    struct outcome out;
    struct guide *guide = guide_of(k, v, e);
    for (uint32_t i = 0; i < PROMPT; i++)
        ids_add(&prompt, (int32_t)((i + 1) * 2654435761u % (uint32_t)(tokenizer_n_ids(t) - 300)));     /* no control tokens */
    tokenizer_encode(t, k->prefix ? k->prefix : "", k->prefix ? strlen(k->prefix) : 0, true, &prompt);
    struct sampling how = {.max_tokens = TOKENS, .n_ids = tokenizer_n_ids(t), .draft_depth = chance > 0 ? -1 : 0, .guide = guide,
                           .n_answer_prefix = prompt.n - PROMPT};
    const struct decoder_hooks h = {stop, prefill, tokens, NULL, a};
    struct prompt p = {.spans = spans_text(prompt.data, prompt.n), .how = &how};
    if (chance > 0)
        p.trial = (struct draft_trial){.rate = {chance, chance}, .tokens = 1 << 20};
    *a = (struct answer){.r = r};
    const bool ok = decoder_answer(d, &p, &h, &out, e);
    *stats = out.stats;
    if (ok && out.finish == END_FAILED)
        *e = out.why;
    guide_release(guide);
    ids_free(&prompt);
    return ok && out.finish != END_FAILED;
}

static bool measure_all(struct decoder *d, struct report *r, struct guide_vocabulary *v, const struct tokenizer *t, bool drafts, struct err *e)
{
    static const struct column columns[] = {
        {"answer", "answer", -20, 0}, {"right", "% right", 7, 0}, {"tok_s", "tok/s", 9, 1}, {"of_none", "x no guide", 10, 3},
        {"tokens_step", "tokens/step", 11, 2}, {"forced", "forced", 7, 0},
    };
    const float chances[] = {0, 1};     /* a wrong draft is replaced by any id, also by one that the guide refuses */
    report_table(r, "answers under guides, the best of two, by the chance that a draft is right; in JSON text that is forced, alone", columns,
                 sizeof columns / sizeof *columns);
    for (int c = 0; c < (drafts ? 2 : 1); c++) {
        double none = 0;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !report_stopped(r); i++) {
            double best = 0;
            struct stats s = {0};
            if (c && kinds[i].schema)
                continue;
            for (int k = 0; k < REPEATS + 1; k++) {     /* the first one warms up */
                struct answer a;
                if (!ask(d, r, &kinds[i], v, t, kinds[i].schema && drafts ? 1 : chances[c], &a, &s, e))
                    return false;
                best = k && a.ms > 0 ? fmax(best, a.n * 1e3 / a.ms) : best;
            }
            none = i ? none : best;
            report_text(r, kinds[i].name);
            const double cells[] = {100.0 * (double)chances[c], best, best / none, s.n_steps ? (double)s.n_tokens / s.n_steps : NAN,
                                    stats_drafts(&s, DRAFT_GUIDE).accepted};
            for (size_t j = 0; j < sizeof cells / sizeof *cells; j++)
                report_number(r, cells[j]);
        }
    }
    return true;
}

bool guide_report(struct subject *s, struct report *r, const struct measure_options *m, struct err *e)
{
    const struct decoder_options o = {.n_ctx = s->m.n_ctx, .chunk = s->m.chunk, .depth = s->m.depth, .n_sequences = 1, .n_snapshots = 1,
                                      .head = s->m.head, .traffic = s->traffic};
    const char *dir = m->b.model_dir ? m->b.model_dir : vocabulary_dir(e);
    struct tokenizer *t = dir ? tokenizer_open(dir, e) : NULL;
    struct decoder *d = t ? decoder_open(s->m.dev, &s->m.cfg, s->m.forward, s->m.caches, &o, e) : NULL;
    struct guide_vocabulary *v = d ? guide_vocabulary_of(t) : NULL;
    const bool ok = v && measure_all(d, r, v, t, s->m.weights.mtp.present && s->m.depth, e);
    guide_vocabulary_release(v);
    decoder_close(d);
    tokenizer_close(t);
    return ok;
}

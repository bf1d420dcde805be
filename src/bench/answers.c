#include "bench/answers.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "text/template.h"

enum { WAIT_MS = 100 };

const struct question answers_report[ANSWERS_QUESTIONS] = {
#define REPORT(name, max_tokens, text) {name, text, max_tokens},
#include "config/bench_prompts.def"
};
const struct question answers_five[ANSWERS_QUESTIONS] = {
#define FIVE(name, max_tokens, text) {name, text, max_tokens},
#include "config/bench_prompts.def"
};

/* ---- loading */

/* Waits until the model is loaded.  False when the report was stopped meanwhile, or, with the reason, when loading failed. */
static bool wait_ready(struct answers *x, struct err *e)
{
    while (!engine_info(x->g)) {
        if (report_stopped(x->r))
            return false;
        engine_wait(x->g, WAIT_MS);
        struct event_list l = engine_drain(x->g);
        for (int i = 0; i < l.n; i++)
            if (l.events[i].kind == EV_FATAL)
                return err_set(e, "%s", l.events[i].message);
    }
    return true;
}

/* Reports the facts about the loaded model. */
static void report_engine(struct report *r, const struct model_info *i)
{
    report_fact(r, "model", "%s, %d layers", i->model, i->n_layers);
    report_fact(r, "formats", "%s", i->formats);
    if (*i->weights_in)
        report_fact(r, "weights", "%s", i->weights_in);
    report_fact(r, "engine", "%s, context of %d tokens, at most %d drafts a step", i->backend, i->n_ctx, i->draft_depth);
    report_fact(r, "loading", "%.2f GB in %.1f s, %.2f GB/s", (double)i->weight_bytes * 1e-9, i->load_ms * 1e-3,
                (double)i->weight_bytes / i->load_ms * 1e-6);
}

/* ---- an answer */

/* Encodes a question as a prompt. */
static bool encode(const struct answers *x, const char *text, struct ids *ids, struct err *e)
{
    struct message user = {.role = ROLE_USER, .content = text_of(text)};
    struct conversation c = {.messages = &user, .n_messages = 1, .generation_prompt = true};
    struct segments s = {0};
    struct arena a = {0};
    bool ok = template_render(&c, &s, &a, e) && segments_encode(&s, x->tokenizer, ids, NULL, e);
    arena_free(&a);
    return ok;
}

/* Takes the events of an answer up to the last one.  An answer that takes too long, or whose report was stopped, is interrupted. */
static bool await(struct answers *x, uint32_t serial, struct event *done, const char **ended, struct err *e)
{
    int64_t start = clock_ns();
    *ended = NULL;
    for (;;) {
        if (!*ended && report_stopped(x->r))
            *ended = "stopped";
        if (!*ended && ((x->limit_s > 0 && clock_ms_since(start) > x->limit_s * 1e3) || !report_has_time(x->r, 0)))
            *ended = "time";
        if (*ended)
            engine_interrupt(x->g, serial);
        engine_wait(x->g, WAIT_MS);
        struct event_list l = engine_drain(x->g);
        for (int i = 0; i < l.n; i++) {
            if (l.events[i].kind == EV_FATAL)
                return err_set(e, "%s", l.events[i].message);
            if (l.events[i].kind == EV_DONE && l.events[i].serial == serial) {
                *done = l.events[i];
                return !end_failed(done->finish) || err_set(e, "%s", done->message);
            }
        }
    }
}

/* Adds the figures of an answer to the sums. */
static void add(struct asked *sum, int question, const struct stats *t)
{
    const double ms = t->prefill_ms + t->decode_ms;
    stats_add(&sum->stats, t, false);
    stats_add(&sum->each[question], t, false);
    sum->n_answers++;
    sum->sum_tok_s += ms > 0 ? t->n_tokens * 1e3 / ms : 0;
    sum->sum_decode_tok_s += stats_tok_s(t);
    sum->sum_pos += t->n_prompt + 0.5 * t->n_tokens;
}

int asked_steps(const struct asked *a, enum draft_source by, int n)
{
    const struct draft_count *d = a->stats.drafts[by];
    int at_least = n ? d[n - 1].drafted : by == DRAFT_MTP ? a->stats.n_steps : d[0].drafted;
    if (!n && by == DRAFT_MTP)
        for (int i = 0; i < DRAFT_SOURCES; i++)
            at_least -= i != DRAFT_MTP ? a->stats.drafts[i][0].drafted : 0;
    return at_least - (n < LIMIT_DRAFTS ? d[n].drafted : 0);
}

/* Reports a row of the table of answers. */
static void tell(struct answers *x, const struct question *q, const struct stats *t, const char *ended, const struct machine_figures *before)
{
    struct machine_figures m;
    const double ms = t->prefill_ms + t->decode_ms;
    engine_machine(x->g, &m);
    report_text(x->r, q->name);
    report_number(x->r, t->n_prompt);
    report_number(x->r, t->n_cached);
    report_number(x->r, t->prefill_ms);
    report_number(x->r, t->n_tokens);
    report_number(x->r, ms > 0 ? t->n_tokens * 1e3 / ms : NAN);
    report_number(x->r, t->n_timed && t->decode_ms > 0 ? stats_tok_s(t) : NAN);
    report_number(x->r, t->n_steps ? (double)t->n_timed / t->n_steps : NAN);
    report_number(x->r, m.joules > before->joules && t->n_tokens ? (m.joules - before->joules) / t->n_tokens : NAN);
    report_number(x->r, m.celsius ? m.celsius : NAN);
    report_text(x->r, m.throttled);
    report_text(x->r, ended);
}

/* Asks one question, waits for the answer and reports it. */
static bool ask(struct answers *x, const struct question *q, int i, struct asked *sum, struct err *e)
{
    const struct model_info *info = engine_info(x->g);
    struct sampling how = {
        .max_tokens = q->max_tokens, .draft_depth = x->depth, .n_alternatives = x->n_alternatives, .lookup = true,
        .n_ids = tokenizer_n_ids(x->tokenizer), .n_stop = info->n_ends,
    };
    struct ids ids = {0};
    struct machine_figures before;
    struct event done;
    const char *ended;
    memcpy(how.stop, info->ends, sizeof info->ends);
    engine_machine(x->g, &before);
    bool ok = encode(x, q->text, &ids, e) && await(x, engine_submit(x->g, 0, spans_text(ids.data, ids.n), 0, &how), &done, &ended, e);
    if (ok) {
        add(sum, i, &done.stats);
        tell(x, q, &done.stats, ended ? ended : end_word(done.finish), &before);
    }
    ids_free(&ids);
    return ok;
}

bool answers_ask(struct answers *x, const char *title, const struct question *q, int n, struct asked *sum, struct err *e)
{
    static const struct column columns[] = {
        {"prompt", "prompt", -10, 0}, {"prompt_tokens", "tokens", 6, 0}, {"cached", "cached", 6, 0}, {"prefill_ms", "read, ms", 8, 1},
        {"tokens", "answer", 6, 0}, {"all_tok_s", "tok/s all", 9, 1}, {"tok_s", "tok/s", 8, 1}, {"tokens_step", "tokens/step", 11, 2},
        {"j_token", "J/token", 7, 2}, {"celsius", "C", 4, 0}, {"throttled", "throttled", -9, 0}, {"ended", "ended", -7, 0},
    };
    report_table(x->r, title, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < n && !report_stopped(x->r); i++)
        if (!report_has_time(x->r, 0))
            return report_note(x->r, "prompts from \"%s\" on: they would have taken too long", q[i].name), true;
        else if (!ask(x, &q[i], i, sum, e))
            return false;
    return true;
}

/* Reports drafts and acceptance by source and position. */
static void report_drafts(struct report *r, const char *prompt, const struct stats *s)
{
    static const char *const sources[] = {
#define DRAFT_SOURCE(ID, key, ...) key,
#include "config/draft_sources.def"
    };
    for (int by = 0; by < DRAFT_SOURCES; by++)
        for (int i = 0; i < LIMIT_DRAFTS && s->drafts[by][i].drafted; i++) {
            report_text(r, prompt);
            report_text(r, sources[by]);
            report_number(r, i + 1);
            report_number(r, s->drafts[by][i].drafted);
            report_number(r, s->drafts[by][i].accepted);
            report_number(r, 100 * drafts_share(s->drafts[by][i]));
        }
}

void answers_drafts(struct answers *x, const struct question *q, const struct asked *sum)
{
    static const struct column columns[] = {
        {"prompt", "prompt", -10, 0}, {"source", "source", -8, 0}, {"position", "position", 8, 0}, {"drafted", "drafted", 8, 0},
        {"accepted", "accepted", 8, 0}, {"percent", "%", 7, 1},
    };
    report_table(x->r, "drafts by source and position", columns, sizeof columns / sizeof *columns);
    report_drafts(x->r, "all", &sum->stats);
    for (int i = 0; i < ANSWERS_QUESTIONS; i++)
        report_drafts(x->r, q[i].name, &sum->each[i]);
}

bool answers_open(struct answers *x, struct report *r, const struct engine_options *o, struct err *e)
{
    *x = (struct answers){.r = r, .depth = o->draft_depth};
    x->tokenizer = tokenizer_open(o->model_dir, e);
    x->g = x->tokenizer ? engine_open(o, e) : NULL;
    if (!x->g || !wait_ready(x, e))
        return false;
    report_engine(r, engine_info(x->g));
    return true;
}

void answers_close(struct answers *x)
{
    engine_close(x->g);
    tokenizer_close(x->tokenizer);
}

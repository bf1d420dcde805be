/* `q35chat bench five`: five prompts of the kinds and lengths that others publish figures of, asked twice.
 * The model is loaded twice, first as a chat loads it, then with the stepper alone, which counts the bytes of a step; never both at a time. */
#include <math.h>

#include "base/err.h"
#include "bench/answers.h"
#include "bench/sweep.h"

enum { CTX = 16384, RUNS = 2 };

/* Returns the bytes read after the first token of each answer: the steps as they were, by rows, each with the drafts that it made; drafts found in
 * the text read nothing. */
static double bytes_of(const struct sweep *w, const struct asked *a)
{
    const int pos = (int)(a->sum_pos / a->n_answers);
    double bytes = 0;
    for (int n = 0; n <= ENGINE_MAX_DEPTH; n++) {
        const int found = asked_steps(a, DRAFT_LOOKUP, n), steps = asked_steps(a, DRAFT_MTP, n) + found;
        const struct sweep_step *s = sweep_step_of(w, n + 1, 0);
        if (steps && !s)
            return NAN;
        if (steps)
            bytes += steps * traffic_step(&w->s.traffic, n + 1, pos, s->distinct)
                   + (steps - found) * subject_draft_bytes(&w->s, n);
    }
    return bytes;
}

/* Reports the means of each run. */
static void report_means(const struct sweep *w, const struct asked *runs, int n)
{
    static const struct column columns[] = {
        {"run", "run", 4, 0}, {"answers", "answers", 8, 0}, {"all_tok_s", "tok/s all", 9, 1}, {"tok_s", "tok/s", 8, 1},
        {"tokens_step", "tokens/step", 11, 2},
        {"accepted", "% accepted", 10, 1}, {"gb_token", "GB/token", 9, 3}, {"gb_s", "GB/s", 7, 0}, {"of_read", "% read", 7, 1},
    };
    report_table(w->r, "means over the answers of a run", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < n && runs[i].n_answers; i++) {
        const struct asked *a = &runs[i];
        const struct stats *t = &a->stats;
        const struct draft_count d = stats_all_drafts(t);
        const double bytes = bytes_of(w, a), gb_s = bytes / t->decode_ms * 1e-6,
            cells[] = {i + 1, a->n_answers, a->sum_tok_s / a->n_answers, a->sum_decode_tok_s / a->n_answers, (double)t->n_timed / t->n_steps,
                       d.drafted ? 100 * drafts_share(d) : NAN, bytes / t->n_timed * 1e-9, gb_s,
                       100 * gb_s / w->s.read_gb_s};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(w->r, cells[c]);
    }
}

/* Measures steps up to the largest that the answers had, and reports means with their bytes. */
static bool report_bytes(struct report *r, const struct bench_options *given, const struct asked *runs, int n, struct err *e)
{
    struct bench_options o = *given;
    struct sweep w;
    int rows = 1;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < LIMIT_DRAFTS; d++)
            for (int by = 0; by < DRAFT_SOURCES; by++)
                rows = runs[i].stats.drafts[by][d].drafted && d + 2 > rows ? d + 2 : rows;
    o.rows = rows;
    o.n_ctx = 2 * SWEEP_MARGIN;
    bool ok = sweep_open(&w, &o, r);
    if (ok)
        report_fact(r, "plain read", "%.1f GB/s", w.s.read_gb_s);
    ok = ok && sweep_steps(&w, 0, rows);
    if (ok)
        report_means(&w, runs, n);
    else
        *e = w.e;
    sweep_close(&w);
    return ok;
}

/* Asks the five prompts twice and reports answers, drafts and bytes. */
static bool measure(struct report *r, const struct bench_options *o, struct err *e)
{
    static const char *const titles[RUNS] = {"first run, greedy", "second run, greedy"};
    struct engine_options eo = {
        .model_dir = o->model_dir, .backend = o->backend, .kv = o->kv, .head = o->head, .mtp = o->mtp,
        .weights_in = o->weights_in, .n_threads = o->n_threads,
        .n_ctx = o->n_ctx ? o->n_ctx : CTX, .chunk = o->chunk, .draft_depth = o->draft ? o->draft : -1,
    };
    struct asked runs[RUNS] = {0}, all = {0};
    struct answers x;
    bool ok = answers_open(&x, r, &eo, e);
    x.n_alternatives = o->n_alternatives;
    for (int i = 0; ok && i < RUNS && !report_stopped(r); i++)
        ok = answers_ask(&x, titles[i], answers_five, ANSWERS_QUESTIONS, &runs[i], e);
    for (int i = 0; i < RUNS; i++) {
        stats_add(&all.stats, &runs[i].stats, false);
        for (int k = 0; k < ANSWERS_QUESTIONS; k++)
            stats_add(&all.each[k], &runs[i].each[k], false);
    }
    if (ok)
        answers_drafts(&x, answers_five, &all);
    answers_close(&x);
    return report_stopped(r) || (ok && report_bytes(r, o, runs, RUNS, e));
}

int bench_five(const struct bench_options *o)
{
    struct report r;
    struct err e = {0};
    report_open(&r, "five", o);
    if (o->model_note)
        report_note(&r, "%s", o->model_note);
    bool ok = measure(&r, o, &e);
    if (report_stopped(&r))
        report_cut(&r, "stopped before its end");
    else if (ok)
        report_note(&r, "tok/s all: tokens over the time from the question to the last token; tok/s: those after the first one, over their time");
    return report_close(&r, ok ? NULL : &e);
}

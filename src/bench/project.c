#include <math.h>

#include "bench/cost.h"
#include "bench/sweep.h"

/* `q35chat bench project`: the speed of this model on a machine with another memory.  Steps are measured here and their bytes
 * counted; there a step takes its bytes over (the bandwidth there times the share of the plain read that the step reaches here). */

static const double acceptances[] = {0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
static const int contexts[] = {0, 4096, 32768};
enum { N_CONTEXTS = sizeof contexts / sizeof *contexts };

/* Returns the bandwidth of the step as a fraction of the plain read. */
static double read_share(const struct sweep *w, const struct sweep_step *s)
{
    return s->bytes / s->ms * 1e-6 / w->s.read_gb_s;
}

/* Returns the time there of a step that verifies rows - 1 drafts and makes as many. */
static double projected_ms(const struct sweep *w, const struct sweep_step *s, double *bytes)
{
    *bytes = s->bytes + subject_draft_bytes(&w->s, s->rows - 1);
    return *bytes / (w->s.o->bandwidth * 1e6 * read_share(w, s));
}

static void report_projected_steps(const struct sweep *w)
{
    static const struct column columns[] = {
        {"context", "context", 8, 0}, {"rows", "rows", 5, 0}, {"gb", "GB", 8, 3}, {"ms", "ms here", 9, 3}, {"of_read", "% read", 7, 1},
        {"gb_drafts", "GB + drafts", 11, 3}, {"projected_ms", "ms there", 9, 3},
    };
    report_table(w->r, "steps: here without drafts, there with the drafts that they make", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < w->n_steps; i++) {
        const struct sweep_step *s = &w->steps[i];
        double bytes, ms = projected_ms(w, s, &bytes);
        const double cells[] = {s->pos, s->rows, s->bytes * 1e-9, s->ms, 100 * read_share(w, s), bytes * 1e-9, ms};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(w->r, cells[c]);
    }
}

/* Returns the mean tokens of a step with n drafts, each accepted with probability p if all before it are. */
static double mean_tokens(double p, int n)
{
    double tokens = 1, all = 1;
    for (int i = 0; i < n; i++)
        tokens += all *= p;
    return tokens;
}

/* Adds a row with the number of drafts that gives the most tokens a second. */
static void report_best(const struct sweep *w, int pos, double p)
{
    const struct sweep_step *best = NULL;
    double best_rate = 0, best_bytes = 0, none = NAN;
    for (int rows = 1; rows <= STEP_ROWS; rows++) {
        const struct sweep_step *s = sweep_step_of(w, rows, pos);
        double bytes = 0, rate = s ? mean_tokens(p, rows - 1) * 1e3 / projected_ms(w, s, &bytes) : 0;
        if (rows == 1 && s)
            none = rate;
        if (rate > best_rate) {
            best = s;
            best_rate = rate;
            best_bytes = bytes;
        }
    }
    if (!best)
        return;
    const double tokens = mean_tokens(p, best->rows - 1),
        cells[] = {pos, p, best->rows - 1, tokens, best_bytes / tokens * 1e-9, best_rate, best_rate / none};
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
        report_number(w->r, cells[c]);
}

static void report_rates(const struct sweep *w)
{
    static const struct column columns[] = {
        {"context", "context", 8, 0}, {"acceptance", "acceptance", 10, 2}, {"drafts", "drafts", 6, 0}, {"tokens_step", "tokens/step", 11, 2},
        {"gb_token", "GB/token", 9, 3}, {"tok_s", "tok/s there", 11, 1}, {"gain", "x no drafts", 11, 2},
    };
    report_table(w->r, "tokens a second there, by the share of drafts that are accepted, at the best number of drafts", columns,
                 sizeof columns / sizeof *columns);
    for (int i = 0; i < N_CONTEXTS; i++)
        for (size_t a = 0; a < sizeof acceptances / sizeof *acceptances; a++)
            report_best(w, contexts[i], acceptances[a]);
}

/* Calculates prompts; nothing is measured. */
static void report_prompts(const struct sweep *w)
{
    static const struct column columns[] = {
        {"tokens", "tokens", 8, 0}, {"gb", "GB", 9, 1}, {"tflop", "TFLOP", 9, 1}, {"ms", "ms there", 10, 1}, {"tok_s", "tok/s there", 11, 0},
    };
    static const int tokens[] = {128, 2048, 8192, 32768};
    const struct model *m = &w->s.m;
    const struct prompt_machine there = {w->s.o->bandwidth, w->s.o->tflops};
    report_table(w->r, "prompts there, by calculation", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const struct prompt_cost p = prompt_cost(&m->cfg, &m->weights, m->kv, tokens[i], w->chunk, m->math & PROMPT_INT8, &there);
        const double cells[] = {tokens[i], p.bytes * 1e-9, p.flops * 1e-12, p.ms, 1e3 * tokens[i] / p.ms};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(w->r, cells[c]);
    }
    report_note(w->r, "prompts: each operation takes its bytes over %g GB/s or its arithmetic over %g TFLOP/s, whichever is longer%s; nothing of it "
                      "is measured, and no kernel reaches both rates in full", there.gb_s, there.tflop_s,
                m->math & PROMPT_INT8 ? ", operations in eight bits twice as fast" : "");
}

static bool measure(struct sweep *w)
{
    const int most = w->s.o->rows;
    for (int i = 0; i < N_CONTEXTS; i++)
        if (contexts[i] + SWEEP_MARGIN <= w->n_ctx && !sweep_steps(w, contexts[i], most))
            return false;
    report_projected_steps(w);
    report_rates(w);
    report_note(w->r, "the rule: time there = bytes / (%g GB/s x share of the plain read that the step reaches here). Bytes of drafting are counted, "
                "the work between the steps is not", w->s.o->bandwidth);
    report_note(w->r, "acceptance is conditional: of a draft when all before it were accepted");
    report_prompts(w);
    return true;
}

int bench_project(const struct bench_options *given)
{
    struct bench_options o = *given;
    struct sweep w;
    struct report r;
    o.rows = o.rows ? o.rows : STEP_ROWS;
    report_open(&r, "project", &o);
    bool ok = sweep_open(&w, &o, &r);
    if (ok) {
        subject_report(&w.s, &r);
        report_fact(&r, "there", "%g GB/s", o.bandwidth);
    }
    ok = ok && measure(&w);
    int status = report_close(&r, ok ? NULL : &w.e);
    sweep_close(&w);
    return status;
}

#include "bench/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/prompt.h"

enum { CPU_CTX = 2048, STEPS = 64, CPU_STEPS = 4, ANSWER = 256, MAX_DEPTH = STEP_ROWS - 1 };

enum { FAR = 131072, LONGEST = 262144 };        /* context without and with --long */

static const int depths[] = {0, 4096, 32768, FAR, LONGEST - SWEEP_MARGIN}, prompts[] = {128, 512, 2048, 8192, 32768, 131072};
enum { N_DEPTHS = sizeof depths / sizeof *depths, N_PROMPTS = sizeof prompts / sizeof *prompts };

/* ---- decode */

/* True if the rest of `what` is not measured: the report is stopped, or has no time left and gets a note about it. */
static bool ends_here(struct sweep *w, const char *what, double ms)
{
    bool stopped = report_stopped(w->r);
    if (!stopped && report_has_time(w->r, ms))
        return false;
    if (!stopped)
        report_note(w->r, "%s: the rest would have taken too long", what);
    return true;
}

const struct sweep_step *sweep_step_of(const struct sweep *w, int rows, int pos)
{
    for (int i = 0; i < w->n_steps; i++)
        if (w->steps[i].rows == rows && w->steps[i].pos == pos)
            return &w->steps[i];
    return NULL;
}

static void open_step_table(struct sweep *w)
{
    static const struct column columns[] = {
        {"context", "context", 8, 0}, {"rows", "rows", 5, 0}, {"ms", "ms a step", 10, 3}, {"tok_s", "rows/s", 9, 1}, {"experts", "experts", 8, 2},
        {"gb", "GB", 8, 3}, {"gb_s", "GB/s", 7, 0}, {"of_read", "% read", 7, 1}, {"of_one_row", "x one row", 9, 2}, {"byte_ratio", "x bytes", 8, 2},
    };
    report_table(w->r, "decode steps without drafts", columns, sizeof columns / sizeof *columns);
}

/* Measures a row of the table and keeps it. */
static bool measure_step(struct sweep *w, int rows, int pos)
{
    const int n = w->s.m.dev->caps->beside_host ? STEPS : CPU_STEPS;
    struct sweep_step s = {.pos = pos, .rows = rows};
    if (!stepper_measure(w->stepper, rows, pos, n, w->s.o->overlap - 1, &s.ms, &s.distinct, &w->e))
        return false;
    CHECK(w->n_steps < SWEEP_MAX_STEPS);
    s.bytes = traffic_step(&w->s.traffic, rows, pos, s.distinct);
    w->steps[w->n_steps++] = s;
    const struct sweep_step *one = sweep_step_of(w, 1, pos);
    const double gb_s = s.bytes / s.ms * 1e-6, ms_ratio = one ? s.ms / one->ms : NAN, byte_ratio = one ? s.bytes / one->bytes : NAN,
        cells[] = {pos, rows, s.ms, 1e3 * rows / s.ms, s.distinct, s.bytes * 1e-9, gb_s, 100 * gb_s / w->s.read_gb_s, ms_ratio, byte_ratio};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        report_number(w->r, cells[i]);
    return true;
}

bool sweep_steps(struct sweep *w, int pos, int max_rows)
{
    double took_ms = 0;
    open_step_table(w);
    for (int rows = 1; rows <= max_rows && !ends_here(w, "decode steps", took_ms); rows++) {
        int64_t start = clock_ns();
        if (!measure_step(w, rows, pos))
            return false;
        took_ms = clock_ms_since(start);
    }
    return true;
}

bool sweep_decode(struct sweep *w)
{
    double took_ms = 0;
    open_step_table(w);
    for (int i = 0; i < N_DEPTHS; i++) {
        if (depths[i] + SWEEP_MARGIN > w->n_ctx)
            continue;
        for (int rows = 1; rows <= STEP_ROWS; rows++) {
            if (w->s.o->rows ? rows != w->s.o->rows : rows > 4 && (rows < STEP_ROWS || (i && !w->s.o->full)))
                continue;
            if (ends_here(w, "decode steps", took_ms))
                return true;
            int64_t start = clock_ns();
            if (!measure_step(w, rows, depths[i]))
                return false;
            took_ms = clock_ms_since(start);
        }
    }
    return true;
}

/* ---- prompts */

static bool fill_cache(struct sweep *w, int n, bool mtp)
{
    struct model *m = &w->s.m;
    cache_reset(m->cache);
    for (int pos = 0; pos < n; pos += w->chunk)
        prompt_chunk(m->forward, m->cache, w->ids + pos, n - pos < w->chunk ? n - pos : w->chunk, pos, mtp);
    return m->dev->finish(m->dev, &w->e);
}

bool sweep_prompts(struct sweep *w)
{
    static const struct column columns[] = {
        {"tokens", "tokens", 8, 0}, {"ms", "ms", 10, 2}, {"tok_s", "tok/s", 10, 0}, {"ms_mtp", "ms + MTP", 10, 2}, {"tok_s_mtp", "tok/s", 10, 0},
    };
    double took_ms = 0;                 /* by the last row, a token */
    report_table(w->r, "prompts", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < N_PROMPTS; i++) {
        int n = prompts[i];
        double ms[2] = {NAN, NAN};
        int runs = n > 8192 ? 1 : 3;
        if (n > w->n_ctx || (n > 32768 && !w->s.o->full))
            continue;
        if (ends_here(w, "prompts", took_ms * n * runs))
            return true;
        int64_t begin = clock_ns();
        for (int mtp = 0; mtp < (w->s.m.weights.mtp.present ? 2 : 1); mtp++)
            for (int run = 0; run < runs; run++) {
                int64_t start = clock_ns();
                if (!fill_cache(w, n, mtp))
                    return false;
                ms[mtp] = fmin(isnan(ms[mtp]) ? INFINITY : ms[mtp], clock_ms_since(start));
            }
        took_ms = clock_ms_since(begin) / n / runs;
        const double cells[] = {n, ms[0], n / ms[0] * 1e3, ms[1], n / ms[1] * 1e3};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(w->r, cells[c]);
    }
    return true;
}

/* ---- answers, as the engine makes them: the host takes results one step late */

/* Measures one answer of ANSWER tokens.  False when the device failed. */
static bool answer(struct sweep *w, int n_prompt, int depth, double *ms, int *n_tokens, int *n_steps, int *n_drafts)
{
    struct step_sampling how = {.n_ids = w->s.m.cfg.vocab, .room = ANSWER};
    struct step_result res = {0};
    struct stepper_slot *slot = stepper_slot(w->stepper, 0);
    if (!fill_cache(w, n_prompt, true))
        return false;
    stepper_begin(slot, &how, w->ids, n_prompt, 0, n_prompt, NULL, NULL, 0, depth);
    *n_tokens = *n_steps = *n_drafts = 0;
    stepper_launch(slot);
    int64_t start = clock_ns();
    while (!res.ended && *n_tokens < ANSWER) {
        stepper_launch(slot);
        if (!stepper_wait(slot, &res, &w->e))
            return false;
        if (*n_steps == 0)              /* the first pick belongs to the prompt */
            start = clock_ns();
        *n_tokens += res.n;
        *n_drafts += res.n_drafts;
        ++*n_steps;
    }
    *ms = clock_ms_since(start);
    return stepper_end(slot, *n_steps, &w->e) >= 0;
}

/* Measures greedy answers by context and number of drafts. */
static bool measure_answers(struct sweep *w)
{
    static const struct column columns[] = {
        {"context", "context", 8, 0}, {"drafts", "drafts", 7, 0}, {"tok_s", "tok/s", 9, 1}, {"ms_step", "ms a step", 10, 3},
        {"tokens_step", "tokens/step", 12, 2}, {"accepted", "% accepted", 11, 1},
    };
    report_table(w->r, "answers of 256 tokens, greedy", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < N_DEPTHS && depths[i] <= 4096; i++)
        for (int draft = 0; draft <= (w->s.m.weights.mtp.present ? w->s.o->draft : 0); draft++) {
            int n_prompt = depths[i] ? depths[i] : 128, n_tokens, n_steps, n_drafts;
            double ms;
            if (n_prompt + SWEEP_MARGIN > w->n_ctx)
                continue;
            if (!answer(w, n_prompt, draft, &ms, &n_tokens, &n_steps, &n_drafts))
                return false;
            double steps = n_steps - 1, tokens = n_tokens - 1;
            const double cells[] = {n_prompt, draft, 1e3 * tokens / ms, ms / steps, tokens / steps,
                                    n_drafts ? 100 * (tokens - steps) / n_drafts : NAN};
            for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
                report_number(w->r, cells[c]);
        }
    return true;
}

bool sweep_open(struct sweep *w, const struct bench_options *o, struct report *r)
{
    struct load_options l = {.n_ctx = o->n_ctx, .chunk = o->chunk};
    *w = (struct sweep){.r = r};
    const char *backend = dev_backend(o->backend, &w->e);
    if (!backend)
        return false;
    if (!l.n_ctx)
        l.n_ctx = !dev_caps(backend)->packs_weights ? CPU_CTX : o->full ? LONGEST : FAR + SWEEP_MARGIN;
    if (!subject_open(&w->s, o, &l, &w->e))
        return false;
    w->n_ctx = w->s.m.n_ctx;
    if (w->n_ctx < SWEEP_MARGIN)
        return err_set(&w->e, "the context has %d tokens, steps are measured in %d: take a larger --ctx", w->n_ctx, SWEEP_MARGIN);
    w->chunk = w->s.m.chunk;
    const struct model *m = &w->s.m;
    w->stepper = stepper_open(m->forward, &m->cache, 1, w->s.m.head, MAX_DEPTH, &w->e);
    if (!w->stepper)
        return false;
    w->ids = memory_alloc((size_t)w->n_ctx * sizeof *w->ids);
    for (int i = 0; i < w->n_ctx; i++)
        w->ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)m->cfg.vocab);
    return true;
}

void sweep_close(struct sweep *w)
{
    stepper_close(w->stepper);
    subject_close(&w->s);
    free(w->ids);
}

int bench_sweep(const struct bench_options *o)
{
    struct sweep w;
    struct report r;
    report_open(&r, "sweep", o);
    bool ok = sweep_open(&w, o, &r);
    if (ok)
        subject_report(&w.s, &r);
    ok = ok && sweep_decode(&w) && measure_answers(&w) && sweep_prompts(&w);
    int status = report_close(&r, ok ? NULL : &w.e);
    sweep_close(&w);
    return status;
}

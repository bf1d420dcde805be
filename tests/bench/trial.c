#include "tests/bench/measure.h"

#include <math.h>
#include <stdio.h>

#include "engine/answering.h"

enum {
    PROMPT       = 64,
    FIXED_TOKENS = 48,                  /* to see what a step with so many drafts takes */
    BEST_TOKENS  = 96,                  /* ... with the number that is best for a chance */
    WARM_TOKENS  = 4, WARM_AUTO = 128,
    TOKENS       = 256,
    TURN         = 200,                 /* tokens, where the chance changes */
    TURNS        = 4,
};

struct chance {
    const char *name;
    float rate[2];
};
static const struct chance chances[] = {
    {"0.3", {0.3f, 0.3f}}, {"0.7", {0.7f, 0.7f}}, {"0.8", {0.8f, 0.8f}}, {"0.9", {0.9f, 0.9f}}, {"0.95", {0.95f, 0.95f}},
    {"0.4, 0.95", {0.4f, 0.95f}},
};

struct trial {
    struct subject *s;
    struct report  *r;
    const struct measure_options *o;
    struct decoder *d;
    int32_t prompt[PROMPT];
    int     depth;                      /* drafts at most */
    double  ms[ENGINE_MAX_DEPTH + 1];   /* a step with so many drafts; 0: not measured */
    double  there;
};

static bool stop(void *arg) { return report_stopped(arg); }
static void prefill(void *arg, int done, int total, int cached) { (void)arg, (void)done, (void)total, (void)cached; }
static bool tokens(void *arg, const struct picks *p) { return (void)arg, (void)p, true; }

/* One answer at so many drafts, or DRAFTER_AUTO. */
static bool answer(struct trial *t, int depth, const float rate[2], int n_tokens, struct stats *out, struct err *e)
{
    const struct sampling how = {
        .max_tokens = n_tokens, .draft_depth = depth, .n_alternatives = t->s->o->n_alternatives, .n_ids = t->s->m.cfg.vocab,
    };
    const struct prompt p = {.spans = spans_text(t->prompt, PROMPT), .how = &how, .trial = {.rate = {rate[0], rate[1]}, .tokens = TURN}};
    const struct decoder_hooks h = {.stop = stop, .prefill = prefill, .tokens = tokens, .arg = t->r};
    struct outcome o;
    if (!decoder_answer(t->d, &p, &h, &o, e))
        return false;
    *out = o.stats;
    return o.finish != END_FAILED || err_set(e, "%s", o.why.msg);
}

static bool changes(const struct chance *c) { return c->rate[0] < c->rate[1] || c->rate[0] > c->rate[1]; }

/* Tokens behind the first one that the drafts of the answer give on average: a lot as short as an answer would add some percent of its own.
 * Where the chance changes it is what they gave. */
static double tokens_of(const struct stats *a, const struct chance *c)
{
    double tokens = a->n_steps, all = 1;
    for (int i = 0; i < ENGINE_MAX_DEPTH; i++)
        tokens += a->drafts[DRAFT_MTP][i].drafted * (all *= (double)c->rate[0]);
    return changes(c) ? a->n_tokens - 1 : tokens;
}

/* Milliseconds of a step with n drafts that are right with this chance. */
static bool measure_step(struct trial *t, int n, float rate, int n_tokens, double *ms, struct err *e)
{
    const float same[2] = {rate, rate};
    struct stats a;
    if (!answer(t, n, same, WARM_TOKENS, &a, e) || !answer(t, n, same, n_tokens, &a, e))
        return false;
    *ms = a.n_steps ? a.decode_ms / a.n_steps : 0;
    return true;
}

static bool measure_fixed(struct trial *t, struct err *e)
{
    static const struct column columns[] = {{"drafts", "drafts", 6, 0}, {"ms_step", "ms a step", 10, 3}, {"of_none", "x no drafts", 11, 2}};
    report_table(t->r, "steps by their number of drafts", columns, sizeof columns / sizeof *columns);
    for (int n = 0; n <= t->depth && !report_stopped(t->r); n++) {
        if (!measure_step(t, n, 0.5f, FIXED_TOKENS, &t->ms[n], e))
            return false;
        report_number(t->r, n);
        report_number(t->r, t->ms[n]);
        report_number(t->r, t->ms[n] / t->ms[0]);
    }
    return true;
}

/* The best fixed number of drafts for a chance. */
struct fixed {
    int    n;
    double tok_s;
};

/* The number follows from the table.  What a step with it takes is measured again with this chance, since the rows that were accepted are applied to
 * the states in the next step. */
static bool measure_best(struct trial *t, float rate, struct fixed *out, struct err *e)
{
    double best = 0, best_tokens = 0, tokens = 0, all = 1, ms = 0;
    for (int i = 0; i <= t->depth && t->ms[i] > 0; i++, all *= (double)rate) {
        tokens += all;
        if (tokens / t->ms[i] > best) {
            best = tokens / t->ms[i];
            best_tokens = tokens;
            out->n = i;
        }
    }
    const bool ok = measure_step(t, out->n, rate, BEST_TOKENS, &ms, e);
    out->tok_s = ms > 0 ? best_tokens * 1e3 / ms : NAN;
    return ok;
}

/* before: the answers before it; best: for either chance. */
static void report_answer(struct trial *t, const struct chance *c, const char *before, const struct stats *a, const struct fixed best[2])
{
    const double none = 1e3 / t->ms[0], both = 2 / (1 / best[0].tok_s + 1 / best[1].tok_s), tokens = tokens_of(a, c),
        rate = a->decode_ms > 0 ? tokens * 1e3 / a->decode_ms : NAN;
    report_text(t->r, c->name);
    report_text(t->r, before);
    const double cells[] = {none, best[0].n, best[1].n, both, rate, tokens / a->n_steps, rate / none, rate / both, a->bytes * 1e-9 / tokens,
                            t->there > 0 ? rate * t->there / t->s->read_gb_s : NAN};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        report_number(t->r, cells[i]);
}

/* An answer begins with what those before it taught: so the same once more tells what that is worth.  Answers with a fixed number teach nothing. */
static bool measure_chance(struct trial *t, const struct chance *c, struct err *e)
{
    static const char *const before[] = {"others", "alike"};
    struct fixed best[2] = {{0}, {0}};
    if (!measure_best(t, c->rate[0], &best[0], e))
        return false;
    best[1] = best[0];
    if (changes(c) && !measure_best(t, c->rate[1], &best[1], e))
        return false;
    for (int i = 0; i < 2 && !report_stopped(t->r); i++) {
        struct stats a;
        if (!answer(t, -1, c->rate, changes(c) ? TURN * TURNS : TOKENS, &a, e))
            return false;
        if (a.n_steps)
            report_answer(t, c, before[i], &a, best);
    }
    return true;
}

static bool measure_auto(struct trial *t, struct err *e)
{
    static const struct column columns[] = {
        {"chance", "chance", -10, 0}, {"after", "after", -6, 0}, {"none_tok_s", "none", 8, 1}, {"best_drafts", "best", 5, 0},
        {"best_drafts_2", "then", 5, 0},
        {"best_tok_s", "tok/s", 8, 1}, {"auto_tok_s", "auto", 8, 1}, {"tokens_step", "tokens/step", 11, 2}, {"of_none", "x none", 7, 2},
        {"of_best", "x best", 7, 3}, {"gb_token", "GB/token", 9, 3}, {"there_tok_s", "there", 8, 1},
    };
    struct stats a;
    const struct measure_options *o = t->o;
    const double then = o->then > 0 ? o->then : o->chance;
    char name[32];
    snprintf(name, sizeof name, o->then > 0 ? "%g, %g" : "%g", o->chance, then);
    const struct chance given = {name, {(float)o->chance, (float)then}}, *list = o->chance > 0 ? &given : chances;
    const size_t n = o->chance > 0 ? 1 : sizeof chances / sizeof *chances;
    if (!answer(t, -1, chances[3].rate, WARM_AUTO, &a, e))
        return false;
    report_table(t->r, "tokens a second by the chance that a draft is right: without drafts, at the best fixed number, auto", columns,
                 sizeof columns / sizeof *columns);
    for (size_t i = 0; i < n && !report_stopped(t->r); i++)
        if (!measure_chance(t, &list[i], e))
            return false;
    report_note(t->r, "after: the answers before it had other chances, or the one before it had the same");
    report_note(t->r, "simulated drafts are right with that chance, each when all before it were, and count as many tokens as they give on average; "
                      "two chances alternate every %d tokens, each with its best number of drafts", TURN);
    if (t->there > 0)
        report_note(t->r, "there: the tokens a second of auto here, times %g GB/s over the plain read here; only where memory is the limit",
                    t->there);
    return true;
}

bool trial_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e)
{
    struct trial t = {.s = s, .r = r, .o = o, .there = o->b.bandwidth,
                      .depth = !s->m.weights.mtp.present ? 0 : s->o->draft ? s->o->draft : ENGINE_MAX_DEPTH};
    const struct decoder_options d = {.n_ctx = s->m.n_ctx, .chunk = s->m.chunk, .depth = t.depth, .n_sequences = 1, .n_snapshots = 1,
                                      .head = s->m.head, .traffic = s->traffic};
    for (int i = 0; i < PROMPT; i++)
        t.prompt[i] = (int32_t)((uint32_t)(i + 1) * 2654435761u % (uint32_t)s->m.cfg.vocab);
    forward_overlap(s->m.forward, s->o->overlap - 1);
    t.d = decoder_open(s->m.dev, &s->m.cfg, s->m.forward, s->m.caches, &d, e);
    const bool ok = t.d && measure_fixed(&t, e) && (report_stopped(r) || !t.depth || measure_auto(&t, e));
    decoder_close(t.d);
    forward_overlap(s->m.forward, -1);
    return ok;
}

/* Opens what is measured, and reports on it. */
static int measure(const struct measure_options *o, const char *what,
                   bool (*report)(struct subject *, struct report *, const struct measure_options *, struct err *))
{
    const struct load_options l = {.n_ctx = o->b.n_ctx ? o->b.n_ctx : 16384, .chunk = o->b.chunk, .depth = -1, .n_sequences = o->answers};
    struct report r;
    struct subject s;
    struct err e = {0};
    report_open(&r, what, &o->b);
    bool ok = subject_open(&s, &o->b, &l, &e);
    if (ok) {
        subject_report(&s, &r);
        ok = report(&s, &r, o, &e);
    }
    if (report_stopped(&r))
        report_cut(&r, "stopped before its end");
    int status = report_close(&r, ok || report_stopped(&r) ? NULL : &e);
    subject_close(&s);
    return status;
}

int measure_drafts(const struct measure_options *o) { return measure(o, "drafts", o->answers ? crowd_report : trial_report); }
int measure_prompts(const struct measure_options *o)
{
    struct measure_options two = *o;
    two.answers = o->answers ? o->answers : 2;
    return measure(&two, "prompts", prompts_report);
}
int measure_guide(const struct measure_options *o) { return measure(o, "guide", guide_report); }

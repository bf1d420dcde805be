#include "tests/bench/measure.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/answering.h"

enum { PROMPT = 64, WARM_TOKENS = 8, TOKENS = 64 };

struct kind {
    const char *name;
    float rate;                         /* that a draft is right; negative: none are made */
};
static const struct kind kinds[] = {{"off", -1}, {"0.7", 0.7f}, {"0.9", 0.9f}};

/* Answers at once, as measured. */
struct rates {
    double tok_s, drafts, right;        /* tokens a second of all; drafts verified in a step, of one answer; of these were right */
};

struct crowd {
    struct subject *s;
    struct report  *r;
    const struct measure_options *o;
    struct decoder *d;
    bool enough;                        /* nothing more of the answers under way is wanted */
};

/* One of the answers. */
struct guest {
    struct crowd *c;
    int32_t prompt[PROMPT];
    struct sampling how;
    struct outcome  out;
    int  n;                             /* tokens so far */
    bool over;
};

static bool stop(void *arg) { const struct crowd *c = ((struct guest *)arg)->c; return c->enough || report_stopped(c->r); }
static void prefill(void *arg, int done, int total, int cached) { (void)arg, (void)done, (void)total, (void)cached; }
static bool tokens(void *arg, const struct picks *p) { ((struct guest *)arg)->n += p->n; return true; }
static void done(void *arg) { ((struct guest *)arg)->over = true; }

static int sum(const struct guest *all, int n)
{
    int tokens_of_all = 0;
    for (int i = 0; i < n; i++)
        tokens_of_all += all[i].n;
    return tokens_of_all;
}

static bool all_speak(const struct guest *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].n < WARM_TOKENS && !all[i].over)
            return false;
    return true;
}

static bool any_over(const struct guest *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].over)
            return true;
    return false;
}

/* Other words for each, so that they choose other experts. */
static void begin(struct crowd *c, struct guest *m, int i, const struct kind *k)
{
    const int vocab = c->s->m.cfg.vocab;
    *m = (struct guest){.c = c, .how = {.draft_depth = k->rate < 0 ? 0 : -1, .n_ids = vocab}};
    for (int j = 0; j < PROMPT; j++)
        m->prompt[j] = (int32_t)((uint32_t)(i * PROMPT + j + 1) * 2654435761u % (uint32_t)vocab);
    m->how.max_tokens = (WARM_TOKENS + TOKENS) * (ENGINE_MAX_DEPTH + 1);
    const struct decoder_hooks h = {stop, prefill, tokens, done, m};
    struct prompt p = {.sequence = (uint64_t)i + 1, .spans = spans_text(m->prompt, PROMPT), .how = &m->how};
    if (k->rate >= 0)
        p.trial = (struct draft_trial){.rate = {k->rate, k->rate}, .tokens = 1 << 20};
    decoder_begin(c->d, &p, &h, &m->out);
}

/* Over the answers from their first token on. */
static void add_drafts(const struct guest *all, int n, struct rates *r)
{
    struct stats sum = {0};
    for (int i = 0; i < n; i++)
        stats_add(&sum, &all[i].out.stats, false);
    const struct draft_count d = stats_all_drafts(&sum);
    r->drafts = sum.n_steps ? (double)d.drafted / sum.n_steps : NAN;
    r->right = d.drafted ? 100 * drafts_share(d) : NAN;
}

/* Until the first of n answers has ended or all have said enough, from the moment on when all of them speak.  0: stopped, or not at once. */
static bool measure(struct crowd *c, int n, const struct kind *k, struct rates *r, struct err *e)
{
    struct guest all[LIMIT_SEQUENCES];
    int64_t start = 0;
    int before = 0;
    for (int i = 0; i < n; i++)
        begin(c, &all[i], i, k);
    while (!any_over(all, n) && (!start || sum(all, n) - before < n * TOKENS)) {
        if (!decoder_turn(c->d, e))
            return false;
        if (!start && all_speak(all, n)) {
            start = clock_ns();
            before = sum(all, n);
        }
    }
    r->tok_s = start ? (sum(all, n) - before) * 1e3 / clock_ms_since(start) : 0;
    c->enough = true;
    bool ok = decoder_turn(c->d, e);
    c->enough = false;
    add_drafts(all, n, r);
    return ok;
}

static bool measure_all(struct crowd *c, int most, double there, struct err *e)
{
    static const struct column columns[] = {
        {"right", "drafts", -7, 0}, {"answers", "answers", 7, 0}, {"tok_s", "tok/s", 9, 1}, {"tok_s_each", "each", 9, 1}, {"of_one", "x one", 7, 3},
        {"of_one_without", "x one off", 9, 3}, {"drafts_step", "drafts/step", 11, 2}, {"accepted", "% accepted", 10, 1},
        {"there_tok_s", "there", 8, 1},
    };
    const double chance = c->o->chance;
    char name[32];
    snprintf(name, sizeof name, "%g", chance);
    const struct kind given[] = {kinds[0], {name, (float)chance}}, *list = chance > 0 ? given : kinds;
    const size_t n_kinds = !c->s->m.weights.mtp.present ? 1 : chance > 0 ? 2 : sizeof kinds / sizeof *kinds;
    double without = 0;
    report_table(c->r, "answers at once: tokens a second of all, by the chance that a draft is right", columns, sizeof columns / sizeof *columns);
    for (size_t k = 0; k < n_kinds; k++) {
        double one = 0;
        for (int n = 1; n <= most && !report_stopped(c->r); n++) {
            struct rates r;
            if (!measure(c, n, &list[k], &r, e))
                return false;
            const double rate = r.tok_s;
            one = n == 1 ? rate : one;
            without = n == 1 && !k ? rate : without;
            const double cells[] = {n, rate, rate / n, rate / one, rate / without, r.drafts, r.right,
                                    there > 0 ? rate * there / c->s->read_gb_s : NAN};
            report_text(c->r, list[k].name);
            for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
                report_number(c->r, cells[i]);
        }
    }
    return true;
}

bool crowd_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e)
{
    struct crowd c = {.s = s, .r = r, .o = o};
    const struct decoder_options d = {.n_ctx = s->m.n_ctx, .chunk = s->m.chunk, .depth = s->m.depth, .n_sequences = s->m.n_sequences,
                                      .n_snapshots = 1, .head = s->m.head, .traffic = s->traffic};
    forward_overlap(s->m.forward, s->o->overlap - 1);
    c.d = decoder_open(s->m.dev, &s->m.cfg, s->m.forward, s->m.caches, &d, e);
    const int most = c.d ? c.d->most_runs : 0;
    if (c.d && most < o->answers)
        report_note(r, "%s answers %d at once here", s->m.dev->name, most);
    const bool ok = c.d && measure_all(&c, most, o->b.bandwidth, e);
    decoder_close(c.d);
    forward_overlap(s->m.forward, -1);
    return ok;
}

#include "tests/bench/measure.h"

#include <math.h>

#include "base/clock.h"
#include "base/least.h"
#include "engine/answering.h"

enum { MOST_TOKENS = 2000, TRIES = 3 };
static const int lengths[] = {60, 400, 800, MOST_TOKENS};

/* Somebody who waits for the first token of an answer. */
struct asker {
    struct report *r;
    int32_t prompt[MOST_TOKENS];
    struct sampling how;
    struct outcome  out;
};

static bool stop(void *arg) { return report_stopped(((struct asker *)arg)->r); }
static void prefill(void *arg, int done, int total, int cached) { (void)arg, (void)done, (void)total, (void)cached; }
static bool tokens(void *arg, const struct picks *p) { return (void)arg, (void)p, true; }

/* Milliseconds until the first and the last of n answers to prompts of `length` tokens begin. */
struct waits { double first_ms, last_ms; };

static bool ask(struct decoder *d, struct asker *all, int n, int length, uint64_t name, struct waits *w, struct err *e)
{
    const int64_t start = clock_ns();
    for (int i = 0; i < n; i++) {
        struct asker *a = &all[i];
        for (int j = 0; j < length; j++)
            a->prompt[j] = (int32_t)((uint32_t)(name * 7919 + (uint64_t)(i * length + j) + 1) * 2654435761u % (uint32_t)d->c->vocab);
        a->how = (struct sampling){.max_tokens = 1, .n_ids = d->c->vocab};
        const struct decoder_hooks h = {.stop = stop, .prefill = prefill, .tokens = tokens, .arg = a};
        const struct prompt p = {.sequence = name + (uint64_t)i, .spans = spans_text(a->prompt, length), .how = &a->how, .submitted_ns = start};
        decoder_begin(d, &p, &h, &a->out);
    }
    while (d->n_runs)
        if (!decoder_turn(d, e))
            return false;
    *w = (struct waits){INFINITY, 0};
    for (int i = 0; i < n; i++) {
        if (all[i].out.finish == END_FAILED)
            return err_set(e, "%s", all[i].out.why.msg);
        w->first_ms = fmin(w->first_ms, all[i].out.stats.prefill_ms);
        w->last_ms = fmax(w->last_ms, all[i].out.stats.prefill_ms);
    }
    return true;
}

/* The quickest of some tries, each with other prompts. */
static bool best_of(struct decoder *d, struct asker *all, int n, int length, uint64_t *name, struct waits *best, struct err *e)
{
    *best = (struct waits){INFINITY, INFINITY};
    for (int i = 0; i < TRIES; i++, *name += (uint64_t)n) {
        struct waits w;
        if (!ask(d, all, n, length, *name, &w, e))
            return false;
        if (w.last_ms < best->last_ms)
            *best = w;
    }
    return true;
}

static bool measure_all(struct decoder *d, struct report *r, struct asker *all, int most, struct err *e)
{
    static const struct column columns[] = {
        {"tokens", "tokens", 6, 0}, {"prompts", "prompts", 7, 0}, {"first_ms", "first ms", 9, 1}, {"last_ms", "last ms", 9, 1},
        {"of_one", "x one", 7, 2},
    };
    uint64_t name = 1;
    report_table(r, "prompts that come together: time until the first and the last answer begins", columns, sizeof columns / sizeof *columns);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths && lengths[k] < d->o.n_ctx; k++) {
        double one = 0;
        for (int n = 1; n <= most && !report_stopped(r); n++) {
            struct waits w;
            if (!best_of(d, all, n, lengths[k], &name, &w, e))
                return false;
            if (report_stopped(r))
                return true;
            one = n == 1 ? w.last_ms : one;
            const double cells[] = {lengths[k], n, w.first_ms, w.last_ms, w.last_ms / one};
            for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
                report_number(r, cells[i]);
        }
    }
    report_note(r, "a call takes %.1f ms and %.3f ms for each of its rows", d->pace.call_ms, d->pace.row_ms);
    return true;
}

bool prompts_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e)
{
    static struct asker all[LIMIT_SEQUENCES];
    const struct decoder_options options = {.n_ctx = s->m.n_ctx, .chunk = s->m.chunk, .depth = s->m.depth, .n_sequences = s->m.n_sequences,
                                            .n_snapshots = 1, .head = s->m.head, .traffic = s->traffic};
    struct decoder *d = decoder_open(s->m.dev, &s->m.cfg, s->m.forward, s->m.caches, &options, e);
    for (int i = 0; i < LIMIT_SEQUENCES; i++)
        all[i].r = r;
    const bool ok = d && measure_all(d, r, all, least(o->answers, d->most_runs), e);
    decoder_close(d);
    return ok;
}

/* The answers under way: which of them goes on next.
 *
 * In a turn one prompt goes on by a chunk, then all answers that are past theirs by a step: so a long prompt keeps the others waiting no longer
 * than a chunk takes. */
#include <stdlib.h>

#include "backend/dev.h"
#include "base/due.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/decode_state.h"

bool decoder_may_begin(const struct decoder *d, uint64_t sequence)
{
    const struct sequence *q = sequences_named(&d->sequences, sequence);
    return d->n_runs < d->most_runs && (q ? !q->busy : sequences_have_place(&d->sequences));
}

int decoder_n_answers(const struct decoder *d)
{
    return d->n_runs;
}

int decoder_most_answers(const struct decoder *d)
{
    return d->most_runs;
}

static void tell_done(const struct decoder_hooks *h)
{
    if (h->done)
        h->done(h->arg);
}

void decoder_begin(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out)
{
    *out = (struct outcome){0};
    if (!run_check(d, p, &out->why)) {
        out->finish = END_FAILED;
        tell_done(h);
        return;
    }
    CHECK(decoder_may_begin(d, p->sequence));
    struct run *r = d->runs[d->n_runs++] = memory_zeroed(1, sizeof *r);
    *r = (struct run){.d = d, .p = *p, .h = *h, .out = out, .due = due_ns(p->submitted_ns, p->how->patience_ms)};
    run_begin(r);
}

/* ---- the end of some ---- */

static void take_out(struct decoder *d, int i)
{
    free(d->runs[i]);
    for (d->n_runs--; i < d->n_runs; i++)
        d->runs[i] = d->runs[i + 1];
}

/* The snapshot is taken after the end was reported, so that nobody waits for it. */
static bool end_one(struct decoder *d, int i, struct err *fault)
{
    struct run *r = d->runs[i];
    struct sequence *q = r->q;
    group_disturbed(&d->group);
    if (!run_finish(r, fault))
        return false;
    tell_done(&r->h);
    take_out(d, i);
    sequence_keep(&d->sequences, q, false);
    return d->dev->finish(d->dev, fault);
}

static bool end_ended(struct decoder *d, struct err *fault)
{
    for (int i = d->n_runs - 1; i >= 0; i--)
        if (d->runs[i]->ended && !end_one(d, i, fault))
            return false;
    return true;
}

static bool end_stopped(struct decoder *d, struct err *fault)
{
    for (int i = 0; i < d->n_runs; i++)
        if (d->runs[i]->h.stop(d->runs[i]->h.arg))
            run_stop(d->runs[i]);
    return end_ended(d, fault);
}

void decoder_fail(struct decoder *d, const struct err *fault)
{
    while (d->n_runs) {
        struct run *r = d->runs[0];
        r->out->finish = END_FAILED;
        r->out->why = *fault;
        tell_done(&r->h);
        take_out(d, 0);
    }
}

/* ---- a turn ---- */

/* Since when its next chunk is waited for: when its last one began, or when it was due, whichever is later. */
static int64_t waits_since(const struct run *r)
{
    return r->due > r->moved_ns ? r->due : r->moved_ns;
}

/* The prompt that goes on: the one that waits longest.  So those that are due take turns. */
static struct run *next_to_read(const struct decoder *d)
{
    struct run *best = NULL;
    for (int i = 0; i < d->n_runs; i++)
        if (d->runs[i]->stage == RUN_READS && (!best || waits_since(d->runs[i]) < waits_since(best)))
            best = d->runs[i];
    return best;
}

/* A chunk of that prompt; NULL: there is none to read. */
static bool read_some(struct decoder *d, struct run *r, struct err *fault)
{
    if (!r)
        return true;
    for (int i = 0; i < d->n_runs; i++)
        if (d->runs[i]->begun)
            drafter_disturbed(d->runs[i]->drafter);
    group_disturbed(&d->group);
    return run_read(r, fault);
}

/* The answers that take part in the next step: as many as it has rows, those that waited longest first.  Returns how many. */
static int next_to_step(const struct decoder *d, struct run *in[STEP_ROWS])
{
    int n = 0;
    for (int i = 0; i < d->n_runs; i++) {
        struct run *r = d->runs[i];
        int at = n;
        if (r->stage != RUN_STEPS)
            continue;
        while (at > 0 && in[at - 1]->moved_ns > r->moved_ns)
            at--;
        for (int j = n < STEP_ROWS ? n : STEP_ROWS - 1; j > at; j--)
            in[j] = in[j - 1];
        if (at < STEP_ROWS)
            in[at] = r;
        n += n < STEP_ROWS;
    }
    return n;
}

static bool step_some(struct decoder *d, struct run *const *in, int n, struct err *fault)
{
    return n > 1 ? runs_step(in, n, fault) : n ? run_step(in[0], d->n_runs == 1, fault) : true;
}

bool decoder_turn(struct decoder *d, struct err *fault)
{
    struct run *in[STEP_ROWS];
    bool ok = end_stopped(d, fault);
    const int n = ok ? next_to_step(d, in) : 0;
    ok = ok && read_some(d, next_to_read(d), fault) && step_some(d, in, n, fault) && end_ended(d, fault);
    if (!ok)
        decoder_fail(d, fault);
    return ok;
}

bool decoder_answer(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out, struct err *fault)
{
    bool ok = true;
    decoder_begin(d, p, h, out);
    while (ok && d->n_runs)
        ok = decoder_turn(d, fault);
    return ok;
}

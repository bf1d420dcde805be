#include "engine/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/drafter.h"
#include "engine/pace.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "model/stepper.h"

enum {
    SNAPSHOT_EVERY = 4096,              /* prompt tokens: refilling them takes seconds, a copy of the states milliseconds */
    SNAPSHOT_ON_WAY = 512,              /* tokens of an answer, where the device works while the host waits: they take a second and more */
    BLOCK = 64,                         /* DeltaNet's: chunks that end on its multiples have the same bits however they are cut */
    WARM_UP_ROWS = 8,
    WARM_UP_ROWS_BESIDE = 512,
    WARM_UP_TOKENS = 3,
    AHEAD = 2,                          /* picks queued on a device that works beside the host */
};
_Static_assert((int)ENGINE_MAX_STOP <= (int)STEP_STOPS && (int)ENGINE_MAX_DEPTH < (int)STEP_ROWS, "a step holds what a request may ask for");

struct decoder {
    struct dev *dev;
    const struct model_config *c;
    struct decoder_options o;
    struct forward  *f;
    struct sequences sequences;
    struct sequence *last;              /* that was used last */
    struct stepper  *stepper;
    struct drafter   drafter;
    struct pace      pace;              /* of prompt chunks */
};

/* One answer under way. */
struct run {
    struct decoder *d;
    struct sequence *q;
    const struct prompt *p;
    const struct decoder_hooks *h;
    struct outcome *out;
    struct err     *fault;
    int     depth;                      /* of this request, or DRAFTER_AUTO */
    int     room;                       /* tokens that may come: max_tokens and context */
    bool    ended;
    int64_t first_ns;                   /* when the first token came */
    struct stepper_counts counted;      /* of the MTP block: what is in the statistics */
};

/* How long `n` prompt rows take, all the same token or, as in a prompt, many: these choose many experts.  0 when the device failed. */
static double warm_up_rows(struct decoder *d, struct cache *k, int n, bool many, struct err *e)
{
    int32_t *ids = memory_zeroed((size_t)n, sizeof *ids);
    for (int i = 0; many && i < n; i++)
        ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)d->c->vocab);
    int64_t t = clock_ns();
    cache_reset(k);
    forward_prefill(d->f, k, ids, n, 0, d->o.depth > 0);
    bool ok = d->dev->finish(d->dev, e);
    double ms = clock_ms_since(t);
    free(ids);
    return ok ? fmax(ms, 1e-6) : 0;
}

/* What a call and its rows cost.  Beside the host the second calls tell; the first ones may load code. */
static bool warm_up_pace(struct decoder *d, struct cache *k, int rows, struct err *e)
{
    const bool beside = d->dev->caps->beside_host;
    const int few = beside && rows >= 4 * BLOCK ? BLOCK : 0;
    double few_ms = 0, rows_ms = 0;
    for (int i = !beside; i < 2; i++) {
        if (few && !(few_ms = warm_up_rows(d, k, few, i, e)))
            return false;
        if (!(rows_ms = warm_up_rows(d, k, rows, i, e)))
            return false;
    }
    pace_begin(&d->pace, few, few_ms, rows, rows_ms);
    return true;
}

/* A few steps of every row count, so that they are recorded; the sequence's cache holds `pos` positions and is of no use afterwards. */
static bool warm_up_steps(struct decoder *d, int sequence, int pos, struct err *e)
{
    const int32_t prompt = 0;
    for (int depth = 0; depth <= d->o.depth && pos > 0 && pos < d->o.n_ctx; depth++) {
        const struct step_sampling how = {.repetition_penalty = 1, .n_ids = d->c->vocab, .room = d->o.n_ctx - pos};
        struct step_result r;
        stepper_begin(d->stepper, sequence, &how, &prompt, 1, 0, pos, NULL, NULL, 0, 0);
        for (int i = 0; i < WARM_UP_TOKENS; i++) {
            stepper_step(d->stepper, 1 + depth);
            if (!stepper_wait(d->stepper, &r, e))
                return false;
            if (depth)
                stepper_draft(d->stepper, depth);
        }
        for (int i = depth; i && i < d->o.depth; i++)   /* one by one, too */
            stepper_draft(d->stepper, 1);
        pos = stepper_end(d->stepper, WARM_UP_TOKENS, e);
    }
    return pos > 0;
}

/* The first calls pay for page faults, or for code that a device loads when it is first used. */
static bool warm_up(struct decoder *d, struct err *e)
{
    const bool beside = d->dev->caps->beside_host;
    int rows = beside ? WARM_UP_ROWS_BESIDE : WARM_UP_ROWS, most = d->o.n_ctx < d->o.chunk ? d->o.n_ctx : d->o.chunk;
    rows = rows < most ? rows : most;
    bool ok = warm_up_pace(d, d->sequences.all[0].k, rows, e);
    for (int i = 0; ok && i < d->sequences.n; i++) {
        struct cache *k = d->sequences.all[i].k;
        if (beside)
            ok = (!i || warm_up_rows(d, k, rows, false, e)) && (rows == d->o.n_ctx || warm_up_steps(d, i, rows, e));
        cache_reset(k);
    }
    return ok;
}

struct decoder *decoder_open(struct dev *dev, const struct model_config *c, struct forward *f, struct cache *const *caches,
                             const struct decoder_options *o, struct err *e)
{
    struct decoder *d = memory_zeroed(1, sizeof *d);
    *d = (struct decoder){.dev = dev, .c = c, .f = f, .o = *o};
    CHECK(o->depth >= 0 && o->depth <= ENGINE_MAX_DEPTH && o->n_sequences > 0);
    if (!sequences_open(&d->sequences, dev, c, caches, o->n_sequences, o->n_ctx, o->n_snapshots, e))
        goto fail;
    d->last = &d->sequences.all[0];
    pace_init(&d->pace, dev->caps->beside_host);
    d->stepper = stepper_open(f, caches, o->n_sequences, o->head, o->depth, e);
    drafter_init(&d->drafter, d->stepper, o->depth, dev->caps->beside_host);
    if (!d->stepper || !warm_up(d, e))
        goto fail;
    return d;
fail:
    decoder_close(d);
    return NULL;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    stepper_close(d->stepper);
    drafter_free(&d->drafter);
    sequences_close(&d->sequences);
    free(d);
}

static struct resident resident(struct decoder *d, struct sequence *q)
{
    return (struct resident){.dev = d->dev, .sequence = q->slot, .tl = &q->tl, .snaps = &d->sequences.snaps, .cache = q->k, .rejoins = q->rejoins, .finished = q->finished};
}

bool decoder_resident(struct decoder *d, uint64_t sequence, struct resident *r)
{
    struct sequence *q = sequence ? sequences_named(&d->sequences, sequence) : d->last;
    if (q)
        *r = resident(d, q);
    return q;
}

struct resident decoder_place(struct decoder *d, uint64_t sequence)
{
    return resident(d, sequences_choose(&d->sequences, sequence, NULL, 0));
}

void decoder_restored(struct decoder *d, uint64_t sequence, const struct resident *r)
{
    d->last = &d->sequences.all[r->sequence];
    sequence_use(&d->sequences, d->last, sequence, r->tl->n, 1);
}

const struct timeline *decoder_timeline(const struct decoder *d)
{
    return &d->last->tl;
}

int decoder_n_snapshots(const struct decoder *d)
{
    return snapshots_in_use(&d->sequences.snaps);
}

int decoder_n_resident(const struct decoder *d)
{
    return sequences_resident(&d->sequences);
}

bool decoder_settle(struct decoder *d, struct err *fault)
{
    sequence_keep(&d->sequences, d->last, false);
    return d->dev->finish(d->dev, fault);
}

static void end(struct run *r, enum finish why)
{
    r->ended = true;
    r->out->finish = why;
}

static bool interrupted(struct run *r)
{
    if (!r->h->stop(r->h->arg))
        return false;
    end(r, FINISH_INTERRUPTED);
    return true;
}

/* ---- prompt ---- */

static bool check_ids(const struct decoder *d, const int32_t *ids, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= d->c->vocab)
            return err_set(e, "token %d of the prompt is id %d, expected 0 to %d", i, ids[i], d->c->vocab - 1);
    return true;
}

static bool check(const struct decoder *d, const struct prompt *p, struct err *e)
{
    if (p->n < 1)
        return err_set(e, "the prompt is empty, expected at least one token");
    if (p->n >= d->o.n_ctx)
        return err_set(e, "the prompt has %d tokens, the context holds %d with the answer: take a larger --ctx", p->n, d->o.n_ctx);
    if (!check_ids(d, p->ids, p->n, e))
        return false;
    if (p->how->n_begun < 0 || p->how->n_begun > p->n)
        return err_set(e, "the answer's beginning has %d tokens, the whole prompt %d", p->how->n_begun, p->n);
    return sampler_check(p->how, d->c->vocab, e);
}

/* The sequence that the prompt goes to, which becomes it. */
static void rejoin(struct run *r)
{
    struct decoder *d = r->d;
    const struct prompt *p = r->p;
    struct sequence *q = r->q = d->last = sequences_choose(&d->sequences, p->sequence, p->ids, p->n);
    struct rejoin j = sequence_rejoin(&d->sequences, q, p->ids, p->n);
    sequence_note_refill(&d->sequences, q, p->sequence, &j);
    sequence_use(&d->sequences, q, p->sequence, p->n, p->keep_at);
    sequence_adopt(&d->sequences, q, &j, p->ids, p->n);
    r->out->stats.n_prompt = p->n;
    r->out->stats.n_cached = j.pos;
    r->out->stats.n_ahead = sequence_take_ahead(q, j.pos);
    r->out->stats.refill = sequence_take_refill(q);
}

/* Rows of the next chunk of a sequence of `end` tokens: as many as the time allows, ending where a snapshot is wanted. */
static int chunk_rows(const struct decoder *d, int pos, int end, int keep_at, enum pace_wait wait)
{
    int n = d->o.fixed_chunk ? d->o.chunk : pace_rows(&d->pace, wait, d->o.chunk);
    if (n >= BLOCK)
        n = (pos + n) / BLOCK * BLOCK - pos;
    int stops[] = {end, (pos / SNAPSHOT_EVERY + 1) * SNAPSHOT_EVERY, keep_at > pos ? keep_at : end};
    for (int i = 0; i < 3; i++)
        n = n < stops[i] - pos ? n : stops[i] - pos;
    return n;
}

static bool read_chunk(struct decoder *d, struct sequence *q, int rows, struct err *fault)
{
    struct timeline *t = &q->tl;
    int64_t start = clock_ns(), waited = clock_waited_ns();
    forward_prefill(d->f, q->k, t->ids + t->n_run, rows, t->n_run, d->o.depth > 0);
    if (!d->dev->finish(d->dev, fault))
        return false;
    /* Waiting for a processor takes as long for few rows as for many: it does not count. */
    pace_took(&d->pace, rows, clock_ms_since(start) - (double)(clock_waited_ns() - waited) * 1e-6);
    timeline_ran(t, rows);
    return true;
}

static bool prefill(struct run *r)
{
    struct decoder *d = r->d;
    struct sequence *q = r->q;
    struct timeline *t = &q->tl;
    int cached = t->n_run;
    r->h->prefill(r->h->arg, t->n_run, t->n, cached);
    if (t->n_run == r->p->keep_at)
        sequence_keep(&d->sequences, q, false);
    while (t->n_run < t->n) {
        if (interrupted(r)) {
            timeline_cut(t);
            return true;
        }
        if (!read_chunk(d, q, chunk_rows(d, t->n_run, t->n, r->p->keep_at, PACE_NEXT), r->fault))
            return false;
        if (t->n_run == r->p->keep_at || t->n_run % SNAPSHOT_EVERY == 0)
            sequence_keep(&d->sequences, q, false);
        r->h->prefill(r->h->arg, t->n_run, t->n, cached);
    }
    return true;
}

/* ---- reading ahead ---- */

/* Rows of the next chunk, 0 when there is none: it ends where a chunk of any longer prompt ends, too, so that an answer's bits
 * do not tell what was read ahead.  Where the device works while the host waits it is short, because a submit waits for its end. */
static int ahead_rows(const struct decoder *d, int pos, int end)
{
    int n = chunk_rows(d, pos, end, 0, PACE_AHEAD);
    if (d->o.chunk < BLOCK)
        return pos + n == end && n < d->o.chunk ? 0 : n;
    if (!d->dev->caps->beside_host || n < BLOCK)
        n = BLOCK;
    n = (pos + n) / BLOCK * BLOCK - pos;
    return pos + n <= end ? n : 0;
}

bool decoder_read_ahead(struct decoder *d, const struct beginning *b, bool (*stop)(void *arg), void *arg, struct err *fault)
{
    struct err ignored;                 /* the prompt itself will be refused, and told why */
    if (b->n < 1 || b->n >= d->o.n_ctx || !check_ids(d, b->ids, b->n, &ignored) || stop(arg))
        return true;
    struct sequence *q = sequences_choose(&d->sequences, b->sequence, b->ids, b->n);
    struct timeline *t = &q->tl;
    struct rejoin j = sequence_rejoin(&d->sequences, q, b->ids, b->n);
    int rows = ahead_rows(d, j.pos, b->n);
    if (!rows)                          /* then nothing is given up, either */
        return true;
    d->last = q;
    sequence_note_refill(&d->sequences, q, b->sequence, &j);
    sequence_use(&d->sequences, q, b->sequence, b->n, b->keep_at);
    sequence_adopt(&d->sequences, q, &j, b->ids, b->n);
    while (rows && !stop(arg)) {
        sequence_note_ahead(q, t->n_run, rows);
        if (!read_chunk(d, q, rows, fault))
            return false;
        rows = ahead_rows(d, t->n_run, b->n);
        bool last = t->n_run <= b->keep_at && (!rows || t->n_run + rows > b->keep_at);
        if (last || t->n_run % SNAPSHOT_EVERY == 0)
            sequence_keep(&d->sequences, q, last);
    }
    timeline_cut(t);
    return d->dev->finish(d->dev, fault);
}

/* ---- answer ---- */

static enum finish no_room(const struct run *r, int n_new)
{
    return r->q->tl.n + n_new == r->d->o.n_ctx ? FINISH_CONTEXT : FINISH_LENGTH;
}

/* Reports the picks and appends them to the timeline.  Returns how many; 0 when nobody listens any more: what was not heard
 * must not be in the timeline, or the next prompt would have to rewind.  `before` are the statistics without them. */
static int take_tokens(struct run *r, const struct picks *p, const struct turn_stats *before)
{
    struct turn_stats *s = &r->out->stats;
    s->n_tokens += p->n;
    if (!r->first_ns) {
        r->first_ns = clock_ns();
        s->prefill_ms = (double)(r->first_ns - r->p->submitted_ns) * 1e-6;
    } else {
        s->n_steps++;
        s->decode_ms = clock_ms_since(r->first_ns);
    }
    if (!r->h->tokens(r->h->arg, p)) {
        *s = *before;
        end(r, FINISH_INTERRUPTED);
        return 0;
    }
    for (int i = 0; i < p->n; i++)
        timeline_add(&r->q->tl, p->ids[i]);
    return p->n;
}

/* ---- answer: steps ---- */

static struct step_sampling for_device(const struct run *r)
{
    const struct sampling *how = r->p->how;
    struct step_sampling s = {
        .temperature = how->temperature, .top_p = how->top_p, .min_p = how->min_p, .presence_penalty = how->presence_penalty,
        .repetition_penalty = how->repetition_penalty > 0 ? how->repetition_penalty : 1, .top_k = how->top_k,
        .n_ids = sampler_n_ids(how, r->d->c->vocab), .room = r->room, .rng = sampler_stream(how), .n_stop = how->n_stop, .biased = how->n_bias > 0,
        .n_alternatives = how->n_alternatives, .trial = {how->trial.rate[0], how->trial.rate[1]}, .trial_tokens = how->trial.tokens,
    };
    memcpy(s.stop, how->stop, (size_t)how->n_stop * sizeof *s.stop);
    return s;
}

static struct outlook outlook_of(const struct sampling *how, const struct step_outlook *in)
{
    struct outlook o = {.prob = -1};
    if (!how->n_alternatives)
        return o;
    o.prob = in->prob;
    o.n = in->n;
    memcpy(o.ids, in->ids, sizeof o.ids);
    memcpy(o.probs, in->probs, sizeof o.probs);
    return o;
}

/* False after an error. */
static bool picks_of(struct run *r, const struct step_result *in, struct picks *p)
{
    struct turn_stats *s = &r->out->stats;
    const bool looked_up = r->d->drafter.looked_up;
    *p = (struct picks){.n = in->n};
    for (int i = 0; i < in->n_drafts && i < ENGINE_MAX_DEPTH; i++) {
        s->drafted[i]++;
        s->accepted[i] += i < in->n && in->drafted[i];
        s->looked_up[i] += looked_up;
        s->looked_up_accepted[i] += looked_up && i < in->n && in->drafted[i];
    }
    for (int i = 0; i < in->n; i++) {
        p->ids[i] = in->ids[i];
        p->prob[i] = in->prob[i];
        p->how[i] = !in->drafted[i] ? TOKEN_SAMPLED : looked_up ? TOKEN_LOOKED_UP : TOKEN_DRAFTED;
        p->outlook[i] = outlook_of(r->p->how, &in->outlook[i]);
    }
    switch ((enum step_end)in->ended) {
    case STEP_STOPPED: end(r, FINISH_STOP); break;
    case STEP_FULL: end(r, no_room(r, in->n)); break;
    case STEP_BAD_LOGIT: end(r, FINISH_ERROR); return sampler_bad_logit(&r->out->why, in->bad_id, in->bad_logit);
    case STEP_ALL_BANNED: end(r, FINISH_ERROR); return sampler_all_banned(&r->out->why, sampler_n_ids(r->p->how, r->d->c->vocab));
    case STEP_GOES_ON: break;
    }
    return true;
}

/* What the MTP block has moved since the last call. */
static double drafting_bytes(struct run *r)
{
    const struct traffic *t = &r->d->o.traffic;
    const struct stepper_counts now = stepper_counts(r->d->stepper), old = r->counted;
    const long runs = now.mtp_runs - old.mtp_runs, rows = now.mtp_rows - old.mtp_rows;
    r->counted = now;
    return (double)runs * traffic_mtp(t, traffic_distinct(t, runs ? (double)rows / (double)runs : 1))
         + (double)(now.chained - old.chained) * traffic_mtp(t, traffic_distinct(t, 1)) + (double)(now.drafts - old.drafts) * t->draft_head;
}

/* Of a result's step; the first pick is none. */
static double step_bytes(const struct run *r, const struct step_result *in)
{
    const struct traffic *t = &r->d->o.traffic;
    const int rows = in->n_drafts + 1;
    return r->first_ns ? traffic_step(t, rows, r->q->tl.n_run, traffic_distinct(t, rows)) : 0;
}

/* With a result, or what was made up for at the end. */
static void count_bytes(struct run *r, const struct step_result *in)
{
    if (r->d->o.traffic.c)
        r->out->stats.bytes += (in ? step_bytes(r, in) : 0) + drafting_bytes(r);
}

/* One result.  The rows of its tokens but the newest have run; the first one ran none.  Returns whether it was heard. */
static bool hear(struct run *r, const struct step_result *in)
{
    struct turn_stats before = r->out->stats;
    struct picks p;
    bool first = !r->first_ns;
    count_bytes(r, in);
    int n = picks_of(r, in, &p) ? take_tokens(r, &p, &before) : 0;
    if (n && !first)
        timeline_ran(&r->q->tl, n);
    return n > 0;
}

/* States on the way of a long answer: after an interrupted one, less is to be computed again. */
static bool keep_on_way(struct run *r, int *kept)
{
    struct decoder *d = r->d;
    if (r->q->tl.n_run < *kept + SNAPSHOT_ON_WAY)
        return true;
    if (stepper_settle(d->stepper, r->fault) < 0)
        return false;
    sequence_keep(&d->sequences, r->q, true);
    stepper_resume(d->stepper);
    *kept = r->q->tl.n_run;
    return true;
}

/* With a fixed number of drafts a device that works beside the host is always a pick ahead: it starts on the next one before the host has
 * read this one.  What it did beyond the last one heard is taken back. */
static bool run_steps(struct run *r)
{
    struct decoder *d = r->d;
    const struct sampling *how = r->p->how;
    const bool beside = d->dev->caps->beside_host;
    struct step_sampling s = for_device(r);
    struct step_result result;
    int n_heard = 0, kept = r->q->tl.n_run;
    if (interrupted(r))
        return true;
    stepper_begin(d->stepper, r->q->slot, &s, r->p->ids, r->p->n, how->n_begun, r->q->tl.n, how->bias_ids, how->bias, how->n_bias,
                  r->depth == DRAFTER_AUTO ? 0 : r->depth);
    r->counted = stepper_counts(d->stepper);
    drafter_begin(&d->drafter, r->depth, how->lookup, r->p->ids, r->p->n);
    for (int i = 0; i < drafter_ahead(&d->drafter, beside ? AHEAD : 1); i++)
        drafter_launch(&d->drafter);
    while (!r->ended) {
        if (!stepper_wait(d->stepper, &result, r->fault))
            return false;
        n_heard += hear(r, &result);
        if (r->ended)
            break;
        if (!drafter_heard(&d->drafter, &result, r->fault) || (!beside && !keep_on_way(r, &kept)))
            return false;
        if (!interrupted(r))
            drafter_launch(&d->drafter);
    }
    int pos = stepper_end(d->stepper, n_heard, r->fault);
    count_bytes(r, NULL);
    CHECK(pos < 0 || pos == r->q->tl.n_run || r->out->finish == FINISH_ERROR);
    return pos >= 0;
}

static bool answer(struct run *r)
{
    struct decoder *d = r->d;
    const struct sampling *how = r->p->how;
    rejoin(r);
    if (!prefill(r))
        return false;
    if (r->ended)
        return true;
    r->room = d->o.n_ctx - r->q->tl.n;
    if (how->max_tokens && how->max_tokens < r->room)
        r->room = how->max_tokens;
    r->depth = how->draft_depth < 0 && d->o.depth ? DRAFTER_AUTO : how->draft_depth < d->o.depth ? how->draft_depth : d->o.depth;
    return run_steps(r);
}

bool decoder_answer(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out, struct err *fault)
{
    struct run r = {.d = d, .p = p, .h = h, .out = out, .fault = fault};
    *out = (struct outcome){0};
    if (!check(d, p, &out->why)) {
        out->finish = FINISH_ERROR;
        return true;
    }
    if (!answer(&r))
        return false;
    r.q->finished = out->finish == FINISH_STOP;
    if (out->finish == FINISH_ERROR)    /* numbers that are none: nothing in the cache can be trusted */
        sequence_forget(&d->sequences, r.q);
    return true;
}

#include "engine/decode.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/sampler.h"
#include "engine/snapshot.h"

enum {
    SNAPSHOT_EVERY = 4096,              /* prompt tokens: refilling them takes seconds, a copy of the states milliseconds */
    BLOCK = 64,                         /* DeltaNet's: chunks that end on its multiples have the same bits however they are cut */
    WARM_UP_ROWS = 8,
};
/* An interrupt must be noticed within 100 ms; the rest is for a busy machine. */
static const double CHUNK_MS = 60;

struct decoder {
    struct dev *dev;
    const struct model_config *c;
    struct decoder_options o;
    struct forward  *f;
    struct cache    *k;
    struct timeline  tl;
    struct snapshots snaps;
    struct sampler  *sampler;
    int    max_step;                    /* depth + 1 */
    float *logits;                      /* [max_step, vocab] */
    float *mtp;                         /* [max_step, hidden]: MTP outputs of a catch-up */
    float *chain[2];                    /* [hidden] each: of chained drafts, in turns */
    double row_ms;                      /* of the last prompt chunk */
};

/* One answer under way. */
struct run {
    struct decoder *d;
    const struct prompt *p;
    const struct decoder_hooks *h;
    struct outcome *out;
    struct err     *fault;
    int     depth;                      /* of this request */
    int     room;                       /* tokens that may still come: max_tokens and context */
    int32_t drafts[ENGINE_MAX_DEPTH];   /* for the positions after the newest token */
    int     n_drafts;
    bool    ended;
    int64_t first_ns;                   /* when the first token came */
};

static float *alloc_rows(struct decoder *d, int rows, int width)
{
    return d->dev->alloc(d->dev, (size_t)rows * (size_t)width * sizeof(float));
}

/* The first call pays for page faults and tells how long a row takes. */
static bool warm_up(struct decoder *d, struct err *e)
{
    int32_t ids[WARM_UP_ROWS] = {0};
    int n = d->o.n_ctx < WARM_UP_ROWS ? d->o.n_ctx : WARM_UP_ROWS;
    int64_t t = clock_ns();
    n = n < d->o.chunk ? n : d->o.chunk;
    forward_prefill(d->f, d->k, ids, n, 0, d->o.depth > 0);
    bool ok = d->dev->finish(d->dev, e);
    d->row_ms = clock_ms_since(t) / n;
    cache_reset(d->k);
    return ok;
}

struct decoder *decoder_open(struct dev *dev, const struct model_config *c, const struct weights *w, const struct kv_recipe *r,
                             const struct decoder_options *o, struct err *e)
{
    struct decoder *d = calloc(1, sizeof *d);
    CHECK(d);
    *d = (struct decoder){.dev = dev, .c = c, .o = *o, .max_step = o->depth + 1};
    CHECK(o->depth >= 0 && o->depth <= ENGINE_MAX_DEPTH);
    d->k = cache_open(dev, c, r, o->n_ctx, d->max_step, e);
    if (!d->k)
        goto fail;
    d->f = forward_open(dev, c, w, o->chunk > d->max_step ? o->chunk : d->max_step, e);
    if (!d->f)
        goto fail;
    d->logits = alloc_rows(d, d->max_step, c->vocab);
    d->mtp = alloc_rows(d, d->max_step, c->hidden);
    d->chain[0] = alloc_rows(d, 1, c->hidden);
    d->chain[1] = alloc_rows(d, 1, c->hidden);
    if (!d->logits || !d->mtp || !d->chain[0] || !d->chain[1] || !timeline_init(&d->tl, o->n_ctx)
        || !snapshots_init(&d->snaps, o->n_snapshots, cache_state_bytes(c))) {
        err_set(e, "no memory for %d snapshots and %d rows of %d logits", o->n_snapshots, d->max_step, c->vocab);
        goto fail;
    }
    d->sampler = sampler_open(c->vocab);
    if (!warm_up(d, e))
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
    sampler_close(d->sampler);
    snapshots_free(&d->snaps);
    timeline_free(&d->tl);
    float *rows[] = {d->logits, d->mtp, d->chain[0], d->chain[1]};
    for (int i = 0; i < 4; i++)
        if (rows[i])
            d->dev->free(d->dev, rows[i]);
    forward_close(d->f);
    cache_close(d->k);
    free(d);
}

const struct timeline *decoder_timeline(const struct decoder *d)
{
    return &d->tl;
}

static void keep_states(struct decoder *d)
{
    void *mem = snapshots_claim(&d->snaps, d->tl.n_run);
    if (mem)
        cache_state_save(d->k, mem);
}

bool decoder_settle(struct decoder *d, struct err *fault)
{
    keep_states(d);
    return d->dev->finish(d->dev, fault);
}

/* After numbers that are none, nothing in the cache can be trusted. */
static void forget(struct decoder *d)
{
    timeline_adopt(&d->tl, NULL, 0, 0);
    snapshots_drop_after(&d->snaps, 0);
    cache_reset(d->k);
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

static bool check(const struct decoder *d, const struct prompt *p, struct err *e)
{
    if (p->n < 1)
        return err_set(e, "the prompt is empty, expected at least one token");
    if (p->n >= d->o.n_ctx)
        return err_set(e, "the prompt has %d tokens, the context holds %d with the answer: take a larger --ctx", p->n, d->o.n_ctx);
    for (int i = 0; i < p->n; i++)
        if (p->ids[i] < 0 || p->ids[i] >= d->c->vocab)
            return err_set(e, "token %d of the prompt is id %d, expected 0 to %d", i, p->ids[i], d->c->vocab - 1);
    return sampler_check(p->how, d->c->vocab, e);
}

/* Makes the prompt the sequence and brings the states to the position from which it must be run. */
static void rejoin(struct run *r)
{
    struct decoder *d = r->d;
    struct rejoin j = timeline_rejoin(&d->tl, &d->snaps, r->p->ids, r->p->n);
    if (j.slot >= 0)
        cache_state_load(d->k, snapshots_at(&d->snaps, j.slot));
    else if (!j.stay)
        cache_reset(d->k);
    snapshots_drop_after(&d->snaps, j.common);
    timeline_adopt(&d->tl, r->p->ids, r->p->n, j.pos);
    r->out->stats.n_prompt = r->p->n;
    r->out->stats.n_cached = j.pos;
}

/* Rows of the next chunk: as many as the time allows, ending where a snapshot is wanted. */
static int chunk_rows(const struct decoder *d, int keep_at)
{
    int pos = d->tl.n_run, n = d->o.chunk;
    if (!d->o.fixed_chunk && d->row_ms * n > CHUNK_MS)
        n = (int)(CHUNK_MS / d->row_ms);
    n = n > 1 ? n : 1;
    if (n >= BLOCK)
        n = (pos + n) / BLOCK * BLOCK - pos;
    int stops[] = {d->tl.n, (pos / SNAPSHOT_EVERY + 1) * SNAPSHOT_EVERY, keep_at > pos ? keep_at : d->tl.n};
    for (int i = 0; i < 3; i++)
        n = n < stops[i] - pos ? n : stops[i] - pos;
    return n;
}

/* Few rows cost more each: what they took is a bound for many, taken only if it is lower than what was known.  Otherwise one
 * hiccup of the machine would leave chunks of a few rows for ever. */
static void note_speed(struct decoder *d, int rows, double ms)
{
    if (rows >= BLOCK / 2 || ms > CHUNK_MS || ms / rows < d->row_ms)
        d->row_ms = ms / rows;
}

static bool prefill(struct run *r)
{
    struct decoder *d = r->d;
    struct timeline *t = &d->tl;
    int cached = t->n_run;
    r->h->prefill(r->h->arg, t->n_run, t->n, cached);
    if (t->n_run == r->p->keep_at)
        keep_states(d);
    while (t->n_run < t->n) {
        if (interrupted(r)) {
            timeline_cut(t);
            return true;
        }
        int rows = chunk_rows(d, r->p->keep_at);
        int64_t start = clock_ns();
        forward_prefill(d->f, d->k, t->ids + t->n_run, rows, t->n_run, d->o.depth > 0);
        if (!d->dev->finish(d->dev, r->fault))
            return false;
        note_speed(d, rows, clock_ms_since(start));
        timeline_ran(t, rows);
        if (t->n_run == r->p->keep_at || t->n_run % SNAPSHOT_EVERY == 0)
            keep_states(d);
        r->h->prefill(r->h->arg, t->n_run, t->n, cached);
    }
    return true;
}

/* ---- answer ---- */

static bool is_stop(const struct sampling *how, int32_t id)
{
    for (int i = 0; i < how->n_stop; i++)
        if (how->stop[i] == id)
            return true;
    return false;
}

struct picks {
    int     n;
    int32_t ids[ENGINE_MAX_DEPTH + 1];
    uint8_t how[ENGINE_MAX_DEPTH + 1];
    float   prob[ENGINE_MAX_DEPTH + 1];
};

/* Row by row: row j of the logits is the target for the j-th token from here on, given that all drafts before it were picked
 * too.  False after an error. */
static bool pick_rows(struct run *r, struct picks *p)
{
    struct decoder *d = r->d;
    struct turn_stats *s = &r->out->stats;
    bool agreed = true;
    p->n = 0;
    for (int i = 0; i < r->n_drafts; i++)
        s->drafted[i]++;
    while (agreed && !r->ended) {
        struct pick pick;
        int i = p->n++;
        if (!sampler_pick(d->sampler, d->logits + (size_t)i * (size_t)d->c->vocab, &pick, &r->out->why)) {
            end(r, FINISH_ERROR);
            return false;
        }
        agreed = i < r->n_drafts && pick.id == r->drafts[i];
        if (agreed)
            s->accepted[i]++;
        p->ids[i] = pick.id;
        p->how[i] = agreed ? TOKEN_DRAFTED : TOKEN_SAMPLED;
        p->prob[i] = pick.prob;
        r->room--;
        if (is_stop(r->p->how, pick.id))
            end(r, FINISH_STOP);
        else if (!r->room)
            end(r, d->tl.n + p->n == d->o.n_ctx ? FINISH_CONTEXT : FINISH_LENGTH);
    }
    s->n_tokens += p->n;
    return true;
}

/* Picks tokens, reports them and appends them to the timeline.  Returns how many; 0 after an error, or when nobody listens any
 * more: what was not heard must not be in the timeline, or the next prompt would have to rewind. */
static int take_tokens(struct run *r)
{
    struct turn_stats *s = &r->out->stats, before = *s;
    struct picks p;
    if (!pick_rows(r, &p))
        return 0;
    if (!r->first_ns) {
        r->first_ns = clock_ns();
        s->prefill_ms = (double)(r->first_ns - r->p->submitted_ns) * 1e-6;
    } else {
        s->n_steps++;
        s->decode_ms = clock_ms_since(r->first_ns);
    }
    if (!r->h->tokens(r->h->arg, p.ids, p.how, p.prob, p.n)) {
        *s = before;
        end(r, FINISH_INTERRUPTED);
        return 0;
    }
    for (int i = 0; i < p.n; i++)
        timeline_add(&r->d->tl, p.ids[i]);
    return p.n;
}

/* MTP rows of the newest n positions that were run, from their real hidden states; the tokens after them are all known.  Then
 * the drafts for the next step, each from the output of the one before it; their rows are overwritten by the next catch-up.
 * Rows are written even when this request drafts nothing, so that a later one can. */
static bool draft(struct run *r, const float *hidden, int n)
{
    struct decoder *d = r->d;
    const struct timeline *t = &d->tl;
    int want = r->depth < r->room - 1 ? r->depth : r->room - 1;     /* a step yields one token more than drafts */
    int from = t->n_run - n;
    r->n_drafts = 0;
    if (!d->o.depth)
        return true;
    forward_mtp(d->f, d->k, hidden, t->ids + from + 1, n, from, d->mtp);
    const float *out = d->mtp + (size_t)(n - 1) * (size_t)d->c->hidden;
    while (!r->ended && r->n_drafts < want) {
        int i = r->n_drafts++;
        forward_head(d->f, d->o.head, out, 1, d->logits);
        if (!d->dev->finish(d->dev, r->fault))
            return false;
        r->drafts[i] = sampler_argmax(d->logits, sampler_n_ids(r->p->how, d->c->vocab));
        if (i + 1 < want) {
            forward_mtp(d->f, d->k, out, &r->drafts[i], 1, t->n_run + i, d->chain[i % 2]);
            out = d->chain[i % 2];
        }
    }
    return d->dev->finish(d->dev, r->fault);
}

/* The first token comes from the prompt's last hidden state. */
static bool first_token(struct run *r)
{
    struct decoder *d = r->d;
    const float *hidden = forward_last_hidden(d->k);
    forward_head(d->f, d->o.head, hidden, 1, d->logits);
    if (!d->dev->finish(d->dev, r->fault))
        return false;
    if (!take_tokens(r))
        return true;
    return draft(r, hidden, 1);
}

/* Runs the newest token and the drafts after it, picks, and commits the rows of the tokens that were picked: all but the
 * newest, which no row has run yet. */
static bool step(struct run *r)
{
    struct decoder *d = r->d;
    struct timeline *t = &d->tl;
    int32_t ids[ENGINE_MAX_DEPTH + 1] = {t->ids[t->n_run]};
    int rows = 1 + r->n_drafts, pos = t->n_run;
    memcpy(ids + 1, r->drafts, (size_t)r->n_drafts * sizeof *ids);

    forward_run(d->f, d->k, ids, rows, pos, ROWS_STAGE);
    const float *hidden = forward_hidden(d->f);
    forward_head(d->f, d->o.head, hidden, rows, d->logits);
    if (!d->dev->finish(d->dev, r->fault))
        return false;
    int n = take_tokens(r);
    cache_accept(d->k, n);
    if (!n)
        return true;
    timeline_ran(t, n);
    forward_keep_hidden(d->k, hidden + (size_t)(n - 1) * (size_t)d->c->hidden);
    return draft(r, hidden, n);
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
    r->room = d->o.n_ctx - d->tl.n;
    if (how->max_tokens && how->max_tokens < r->room)
        r->room = how->max_tokens;
    r->depth = how->draft_depth < 0 || how->draft_depth > d->o.depth ? d->o.depth : how->draft_depth;
    sampler_begin(d->sampler, how, r->p->ids, r->p->n);
    bool ok = true;
    for (bool first = true; ok && !r->ended && !interrupted(r); first = false)
        ok = first ? first_token(r) : step(r);
    return ok;
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
    if (out->finish == FINISH_ERROR)
        forget(d);
    return true;
}

#include "engine/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/least.h"
#include "base/memory.h"
#include "model/prompt.h"

enum {
    BLOCK = ENGINE_BLOCK,               /* DeltaNet's: chunks that end on its multiples have the same bits however they are cut */
    WARM_UP_ROWS = 8,
    WARM_UP_ROWS_BESIDE = 512,
    WARM_UP_TOKENS = 3,
};

/* Returns the milliseconds that n prompt rows take.  many: of different tokens, which choose many experts, as in a prompt; else all of the same.  0
 * when the device failed. */
static double warm_up_rows(struct decoder *d, struct cache *k, int n, bool many, struct err *e)
{
    int32_t *ids = memory_zeroed((size_t)n, sizeof *ids);
    for (int i = 0; many && i < n; i++)
        ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)d->c->vocab);
    int64_t t = clock_ns();
    cache_reset(k);
    prompt_chunk(d->f, k, ids, n, 0, d->o.depth > 0);
    bool ok = d->dev->finish(d->dev, e);
    double ms = clock_ms_since(t);
    free(ids);
    return ok ? fmax(ms, 1e-6) : 0;
}

/* Measures what a call and its rows cost.  On a device that works beside the host the second calls count: the first ones may load code. */
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
    struct stepper_slot *o = stepper_slot(d->stepper, sequence);
    for (int depth = 0; depth <= d->o.depth && pos > 0 && pos < d->o.n_ctx; depth++) {
        const struct step_sampling how = {.repetition_penalty = 1, .n_ids = d->c->vocab, .room = d->o.n_ctx - pos};
        struct step_result r;
        stepper_begin(o, &how, &prompt, 1, 0, pos, NULL, NULL, 0, 0);
        for (int i = 0; i < WARM_UP_TOKENS; i++) {
            stepper_step(o, 1 + depth);
            if (!stepper_wait(o, &r, e))
                return false;
            if (depth)
                stepper_draft(o, depth);
        }
        for (int i = depth; i && i < d->o.depth; i++)   /* one by one, too */
            stepper_draft(o, 1);
        pos = stepper_end(o, WARM_UP_TOKENS, e);
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
    if (o->vision && !(d->gallery = gallery_open(dev, o->vision, c->hidden, o->picture_tokens, e)))
        goto fail;
    d->most_runs = dev->caps->several ? o->n_sequences : 1;
    d->stepper = stepper_open(f, caches, o->n_sequences, o->head, o->depth, e);
    if (!d->stepper)
        goto fail;
    gate_init(&d->gate, o->depth, &d->price);
    group_init(&d->group, d->stepper, &d->price, dev->caps->beside_host);
    for (int i = 0; i < o->n_sequences; i++)
        drafter_init(&d->drafters[i], stepper_slot(d->stepper, i), o->depth, dev->caps->beside_host, &d->price);
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
    stepper_close(d->stepper);
    for (int i = 0; i < d->o.n_sequences; i++)
        drafter_free(&d->drafters[i]);
    sequences_close(&d->sequences);
    gallery_close(d->gallery);
    free(d);
}

static struct resident resident(struct decoder *d, struct sequence *q)
{
    return (struct resident){
        .dev = d->dev, .slot = q->slot, .tl = &q->tl, .snaps = &d->sequences.snaps, .cache = q->k, .rejoins = q->rejoins,
        .finished = q->finished,
    };
}

bool decoder_resident(struct decoder *d, uint64_t sequence, struct resident *r)
{
    struct sequence *q = sequence ? sequences_named(&d->sequences, sequence) : d->last;
    if (q)
        *r = resident(d, q);
    return q;
}

bool decoder_is_there(const struct decoder *d, const struct arrival *a)
{
    const struct sequence *q = sequences_continued_by(&d->sequences, a);
    return q && q->tl.n;
}

struct resident decoder_place(struct decoder *d, const struct arrival *a, uint64_t *holder)
{
    struct sequence *q = sequences_choose(&d->sequences, a);
    *holder = q->tl.n ? q->name : 0;
    return resident(d, q);
}

void decoder_restored(struct decoder *d, uint64_t sequence, const struct resident *r)
{
    const int rejoins = 1;              /* not known: any prompt that begins as this one may continue it */
    d->last = &d->sequences.all[r->slot];
    sequence_use(&d->sequences, d->last, &(struct arrival){.name = sequence}, rejoins);
    d->last->finished = false;
}

/* ---- prompt ---- */

bool decoder_check_prompt(const struct decoder *d, struct spans prompt, struct err *e)
{
    for (int i = 0; i < prompt.n; i++)
        if (prompt.ids[i] < 0 || prompt.ids[i] >= d->c->vocab)
            return err_set(e, "token %d of the prompt is id %d, expected 0 to %d", i, prompt.ids[i], d->c->vocab - 1);
    if (!spans_valid(prompt))
        return err_set(e, "the pictures of the prompt overlap, or have other numbers of tokens than rows and columns");
    if (d->gallery)
        return gallery_check(d->gallery, prompt, e);
    for (int i = 0; i < prompt.n_pictures; i++)
        if (spans_pixels(prompt, i))
            return err_set(e, "the model sees no pictures here: it has no vision tower, or was loaded with --no-vision");
    return true;
}

int decoder_most_rows(const struct decoder *d, enum pace_wait wait)
{
    return d->o.fixed_chunk ? d->o.chunk : pace_rows(&d->pace, wait, d->o.chunk);
}

int decoder_snapshot_every(const struct decoder *d)
{
    return (d->o.chunk + SNAPSHOT_EVERY - 1) / SNAPSHOT_EVERY * SNAPSHOT_EVERY;
}

int decoder_chunk_rows(const struct decoder *d, int pos, int end, int snapshot_pos, enum pace_wait wait)
{
    const int every = decoder_snapshot_every(d);
    int n = decoder_most_rows(d, wait);
    if (n >= BLOCK)
        n = (pos + n) / BLOCK * BLOCK - pos;
    const int stops[] = {end, (pos / every + 1) * every, snapshot_pos > pos ? snapshot_pos : end};
    const int most = least(least(stops[0], stops[1]), stops[2]) - pos;
    /* a short rest costs as much as a call of pace.least_rows; it makes this one little longer */
    const bool takes_rest = wait == PACE_NEXT && !d->o.fixed_chunk && most - n < d->pace.least_rows && most <= d->o.chunk;
    return takes_rest ? most : least(n, most);
}

enum read decoder_look(struct decoder *d, struct sequence *q, struct spans prompt, int *rows, int *n_computed, struct err *why, struct err *fault)
{
    const struct picture_rows *seen = NULL;
    int n_seen = 0, to = q->tl.n_run + *rows;
    if (!d->gallery)
        return READ_CHUNK;
    switch (gallery_fetch(d->gallery, prompt, q->tl.n_run, &to, &seen, &n_seen, n_computed, why, fault)) {
    case GALLERY_THERE:  break;
    case GALLERY_WORKS:  return READ_SLICE;
    case GALLERY_LACKS:  return READ_REFUSED;
    case GALLERY_FAILED: return READ_FAULT;
    }
    *rows = to - q->tl.n_run;
    cache_set_pictures(q->k, seen, n_seen);
    return READ_CHUNK;
}

bool decoder_read(struct decoder *d, const struct portion *all, int n, struct err *fault)
{
    struct prompt_part parts[PROMPT_PARTS];
    const int64_t start = clock_ns(), waited = clock_waited_ns();
    int rows = 0;
    for (int i = 0; i < n; i++) {
        const struct timeline *t = &all[i].q->tl;
        parts[i] = (struct prompt_part){.k = all[i].q->k, .ids = t->ids + t->n_run, .n = all[i].rows, .pos = t->n_run};
        rows += all[i].rows;
    }
    prompt_chunks(d->f, parts, n, d->o.depth > 0);
    cache_set_pictures(all[0].q->k, NULL, 0);
    if (!d->dev->finish(d->dev, fault))
        return false;
    /* Waiting for a processor takes as long for few rows as for many: it does not count. */
    pace_took(&d->pace, rows, clock_ms_since(start) - (double)(clock_waited_ns() - waited) * 1e-6);
    for (int i = 0; i < n; i++)
        timeline_ran(&all[i].q->tl, all[i].rows);
    return true;
}

/* ---- reading ahead ---- */

/* Returns the rows of the next chunk, 0 when there is none: it ends where a chunk of any longer prompt ends, too, so that an answer's bits do not
 * tell what was read ahead.  Where the device works while the host waits it is short, because a submit waits for its end. */
static int ahead_rows(const struct decoder *d, int pos, int end)
{
    int n = decoder_chunk_rows(d, pos, end, 0, PACE_AHEAD);
    if (d->o.chunk < BLOCK)
        return pos + n == end && n < d->o.chunk ? 0 : n;
    if (!d->dev->caps->beside_host || n < BLOCK)
        n = BLOCK;
    n = (pos + n) / BLOCK * BLOCK - pos;
    return pos + n <= end ? n : 0;
}

bool decoder_reads_ahead(const struct decoder *d, const struct beginning *b)
{
    struct err ignored;                 /* the prompt itself will be refused, with the reason */
    if (b->spans.n < 1 || b->spans.n >= d->o.n_ctx || !decoder_check_prompt(d, b->spans, &ignored))
        return false;
    const struct sequence *q = sequences_choose(&d->sequences, &(struct arrival){.name = b->sequence, .prompt = b->spans});
    return ahead_rows(d, sequence_rejoin(&d->sequences, q, b->spans).pos, b->spans.n) > 0;
}

bool decoder_read_ahead(struct decoder *d, const struct beginning *b, bool (*stop)(void *arg), void *arg, struct err *fault)
{
    if (!decoder_reads_ahead(d, b) || stop(arg))        /* then nothing is given up, either */
        return true;
    const struct arrival a = {.name = b->sequence, .prompt = b->spans};
    struct sequence *q = sequences_choose(&d->sequences, &a);
    struct timeline *t = &q->tl;
    struct rejoin j = sequence_rejoin(&d->sequences, q, b->spans);
    int rows = ahead_rows(d, j.pos, b->spans.n);
    d->last = q;
    sequence_note_refill(&d->sequences, q, b->sequence, &j);
    sequence_use(&d->sequences, q, &a, b->snapshot_pos);
    sequence_set_prompt(&d->sequences, q, &j, b->spans);
    while (rows && !stop(arg)) {
        struct err why;
        int pos = t->n_run, n_computed = 0;
        enum read r = decoder_look(d, q, b->spans, &rows, &n_computed, &why, fault);
        if (r == READ_SLICE)
            continue;
        if (r == READ_REFUSED)          /* the prompt itself will be refused, with the reason */
            break;
        if (r == READ_FAULT || !decoder_read(d, &(struct portion){q, rows}, 1, fault))
            return false;
        sequence_note_ahead(q, pos, t->n_run - pos);
        rows = ahead_rows(d, t->n_run, b->spans.n);
        bool last = t->n_run <= b->snapshot_pos && (!rows || t->n_run + rows > b->snapshot_pos);
        if (last || t->n_run % decoder_snapshot_every(d) == 0)
            sequence_keep(&d->sequences, q, last);
    }
    timeline_cut(t);
    return d->dev->finish(d->dev, fault);
}

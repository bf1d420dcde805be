#include "model/recorder.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "model/step.h"
#include "model/workspace.h"
#include "model/layout.h"

enum {
    MAX_DEPTH  = STEP_ROWS - 1,
    DRAFT_HEAD = 65536,                 /* rows of the head that drafts are chosen from: the byte-pair vocabulary is ordered by
                                         * merge rank, and a draft that is not there is only a draft less */
};

/* The graphs of one conversation; NULL: not recorded yet. */
struct slot_graphs {
    struct dev_graph *first, *step[STEP_ROWS];          /* step: [rows - 1] */
    struct dev_graph *mtp[STEP_ROWS];                   /* [rows - 1] */
    struct dev_graph *drafts[MAX_DEPTH][MAX_DEPTH];     /* [first draft][last draft] */
    struct dev_graph *whole[MAX_DEPTH];                 /* [drafts - 1]: step, MTP rows and drafts in one */
};

struct recorder {
    struct forward *f;
    struct dev     *dev;
    struct cache  **caches;
    struct slot_graphs *slots;
    int    n_slots;
    const struct weight *head;
    int    vocab, hidden;
    void  *memory;
    float *logits, *tile_max, *draft_logits, *draft_max;
    void  *pick_scratch, *head_scratch;
    struct step_row *rows, *draft_rows; /* [STEP_ROWS] device memory: recorder_set_rows() */
    struct recorder_slot of;            /* memory of slot 0; that of slot i is i times as far behind each pointer */
    struct dev_graph *together[STEP_ROWS];              /* [rows - 1] steps of several conversations */
    struct dev_graph *mtp_together[STEP_ROWS];          /* [rows - 1] the MTP block over the first rows of such a step */
    struct dev_graph *draft_together[MAX_DEPTH][STEP_ROWS];             /* [i][n - 1] the i-th draft of n conversations */
};

/* ---- memory ---- */

/* Sets the recorder's pointers into `memory`, for n conversations; returns the bytes that this takes.  memory NULL: only counts them. */
static size_t share_out(struct recorder *rec, char *memory, const struct model_config *c, int max_depth, size_t n)
{
    const size_t rows = STEP_ROWS, vocab = (size_t)c->vocab, drafts = vocab < DRAFT_HEAD ? vocab : DRAFT_HEAD,
        hidden = (size_t)c->hidden, behind = max_depth ? RECORDER_BEHIND : 0;
    const struct { void *at; size_t bytes; } list[] = {
        {&rec->logits, rows * vocab * 4}, {&rec->tile_max, rows * (size_t)step_maxima(c->vocab) * 4}, {&rec->draft_logits, rows * drafts * 4},
        {&rec->draft_max, rows * (size_t)step_maxima((int)drafts) * 4}, {&rec->pick_scratch, step_pick_scratch(c->vocab)},
        {&rec->head_scratch, STEP_LOGITS_SCRATCH},
        {&rec->rows, rows * sizeof *rec->rows}, {&rec->draft_rows, rows * sizeof *rec->rows},
        {&rec->of.live, n * sizeof *rec->of.live}, {&rec->of.sampling, n * sizeof *rec->of.sampling},
        {&rec->of.seen, n * vocab}, {&rec->of.bias, n * vocab * 4}, {&rec->of.last_hidden, n * 3 * hidden * 4},
        {&rec->of.behind, n * behind * hidden * 4}, {&rec->of.behind_next, n * behind * 4},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + 255) / 256 * 256;
    }
    return at;
}

size_t recorder_bytes(const struct model_config *c, int max_depth, int n_slots)
{
    struct recorder r;
    return share_out(&r, NULL, c, max_depth, (size_t)n_slots);
}

struct recorder_slot recorder_slot(const struct recorder *r, int slot)
{
    const size_t i = (size_t)slot, vocab = (size_t)r->vocab, hidden = (size_t)r->hidden;
    const struct recorder_slot *o = &r->of;
    return (struct recorder_slot){o->live + i, o->sampling + i, o->seen + i * vocab, o->bias + i * vocab, o->last_hidden + i * 3 * hidden,
                                  o->results + i * STEP_RESULTS, o->made + i, o->behind + i * RECORDER_BEHIND * hidden,
                                  o->behind_next + i * RECORDER_BEHIND};
}

struct recorder *recorder_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e)
{
    const struct model_config *c = f->cfg;
    const size_t slots = (size_t)n;
    struct recorder *r = memory_zeroed(1, sizeof *r);
    const size_t bytes = share_out(r, NULL, c, max_depth, slots);
    *r = (struct recorder){.f = f, .dev = f->dev, .n_slots = n, .slots = memory_zeroed(slots, sizeof *r->slots),
                           .caches = memory_zeroed(slots, sizeof *r->caches), .head = weights_head(f->w, h), .vocab = c->vocab, .hidden = c->hidden};
    for (int i = 0; i < n; i++)
        r->caches[i] = caches[i];
    r->memory = f->dev->alloc(f->dev, bytes);
    r->of.results = f->dev->alloc_host(f->dev, slots * STEP_RESULTS * sizeof *r->of.results);
    r->of.made = f->dev->alloc_host(f->dev, slots * sizeof *r->of.made);
    if (!r->memory || !r->of.results || !r->of.made) {
        err_set(e, "no memory for the logits of %d rows: %zu MiB asked for; end other programs", STEP_ROWS, bytes >> 20);
        recorder_close(r);
        return NULL;
    }
    share_out(r, r->memory, c, max_depth, slots);
    return r;
}

static void slot_free(struct dev *d, struct slot_graphs *o)
{
    d->graph_free(d, o->first);
    for (int i = 0; i < STEP_ROWS; i++) {
        d->graph_free(d, o->step[i]);
        d->graph_free(d, o->mtp[i]);
    }
    for (int i = 0; i < MAX_DEPTH; i++) {
        for (int j = 0; j < MAX_DEPTH; j++)
            d->graph_free(d, o->drafts[i][j]);
        d->graph_free(d, o->whole[i]);
    }
}

void recorder_close(struct recorder *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_slots; i++)
        slot_free(r->dev, &r->slots[i]);
    for (int i = 0; i < STEP_ROWS; i++) {
        r->dev->graph_free(r->dev, r->together[i]);
        r->dev->graph_free(r->dev, r->mtp_together[i]);
        for (int j = 0; j < MAX_DEPTH; j++)
            r->dev->graph_free(r->dev, r->draft_together[j][i]);
    }
    if (r->memory)
        r->dev->free(r->dev, r->memory);
    r->dev->free_host(r->dev, r->of.results);
    r->dev->free_host(r->dev, r->of.made);
    free(r->caches);
    free(r->slots);
    free(r);
}

/* ---- the parts of a recipe ---- */

int recorder_draft_rows(const struct weight *head)
{
    /* The first rows of an INT4 matrix are no matrix by themselves. */
    const bool whole = head->rows < DRAFT_HEAD || head->format == WEIGHT_INT4;
    return whole ? head->rows : DRAFT_HEAD;
}

static struct step_head target_head(const struct recorder *rec, const struct recorder_slot *o)
{
    return (struct step_head){.w = rec->head, .logits = rec->logits, .tile_max = rec->tile_max, .sampling = o->sampling, .seen = o->seen,
                               .bias = o->bias, .drafts = o->live->ids + 1, .scratch = rec->head_scratch};
}

/* A whole step; or, if `first`, only head and pick, from the prompt's last hidden state.  o: memory of the conversation of r->k and r->live. */
static void queue_step(struct recorder *rec, const struct recorder_slot *o, const struct step_rows *r, bool first)
{
    const struct step_head h = target_head(rec, o);
    const float *given = first ? o->last_hidden : NULL;
    if (!first)
        step_layers(rec->f, r);
    step_output(rec->f, &h, r, given);
    STEP(rec->dev, step_pick, .logits = rec->logits, .tile_max = rec->tile_max, .live = o->live, .sampling = o->sampling, .seen = o->seen,
         .bias = o->bias, .results = o->results, .hidden = first ? given : rec->f->step.hidden, .last_hidden = o->last_hidden,
         .scratch = rec->pick_scratch, .rows = r->rows, .n_rows = r->n, .vocab = rec->vocab, .width = rec->hidden, .first = first);
}

/* The MTP rows of the tokens that were just picked, from the hidden states of the step.  Drafts start from these. */
static void queue_mtp(struct recorder *rec, const struct step_rows *r)
{
    step_mtp(rec->f, r, r->live->mtp_next, rec->f->step.hidden, &r->live->mtp_pos, &r->live->mtp_rows);
}

/* The i-th draft of each conversation, from its draft before; r has one row of each conversation. */
static void queue_draft(struct recorder *rec, const struct recorder_slot *o, const struct step_rows *r, int i)
{
    struct step_live *live = r->live;
    struct weight slice = *rec->head;
    slice.rows = recorder_draft_rows(rec->head);
    const struct step_head h = {.w = &slice, .logits = rec->draft_logits, .tile_max = rec->draft_max, .n_ids = slice.rows,
                                 .estimate = slice.format == WEIGHT_PLANES, .scratch = rec->head_scratch};
    if (i)
        step_mtp(rec->f, r, &live->draft_ids[i - 1], rec->f->step.mtp_h, &live->draft_pos[i - 1], &live->drafting);
    step_mtp_output(rec->f, &h, r, i ? NULL : &live->mtp_last, &live->drafting);
    STEP(rec->dev, step_draft, .logits = rec->draft_logits, .tile_max = rec->draft_max, .live = live, .drafts = o->made, .rows = r->rows,
         .n_rows = r->n, .i = i, .n_ids = slice.rows);
}

static struct step_rows rows_of(const struct recorder *r, const struct recipe *what, const struct step_row *rows, int n)
{
    return what->together ? (struct step_rows){r->caches[0], r->of.live, rows, n}
                          : (struct step_rows){.k = r->caches[what->slot], .live = recorder_slot(r, what->slot).live, .n = n};
}

static void queue_recipe(struct recorder *r, const struct recipe *what)
{
    const struct recorder_slot o = what->together ? r->of : recorder_slot(r, what->slot);
    const struct step_rows step = rows_of(r, what, r->rows, what->step_rows), mtp = rows_of(r, what, r->rows, what->mtp_rows),
        drafts = rows_of(r, what, r->draft_rows, what->together ? what->n_drafting : 1);
    if (what->step_rows)
        queue_step(r, &o, &step, what->first);
    if (what->mtp_rows)
        queue_mtp(r, &mtp);
    for (int i = what->from; i <= what->to; i++)
        queue_draft(r, &o, &drafts, i);
}

struct dev_graph *recorder_record(struct recorder *r, const struct recipe *what, struct err *e)
{
    r->dev->graph_begin(r->dev);
    queue_recipe(r, what);
    return r->dev->graph_end(r->dev, e);
}

/* ---- the graph of a recipe ---- */

static struct dev_graph **graph_together(struct recorder *r, const struct recipe *what)
{
    if (what->step_rows)
        return &r->together[what->step_rows - 1];
    if (what->mtp_rows)
        return &r->mtp_together[what->mtp_rows - 1];
    CHECK(what->from == what->to);
    return &r->draft_together[what->from][what->n_drafting - 1];
}

static struct dev_graph **graph_of_slot(struct slot_graphs *o, const struct recipe *what)
{
    if (what->first)
        return &o->first;
    if (what->step_rows && what->mtp_rows)
        return &o->whole[what->to];
    if (what->step_rows)
        return &o->step[what->step_rows - 1];
    if (what->mtp_rows)
        return &o->mtp[what->mtp_rows - 1];
    return &o->drafts[what->from][what->to];
}

void recorder_launch(struct recorder *r, const struct recipe *what)
{
    struct err ignored;                 /* recording fails only when the device does, which the next wait reports */
    struct dev_graph **g = what->together ? graph_together(r, what) : graph_of_slot(&r->slots[what->slot], what);
    if (!*g)
        *g = recorder_record(r, what, &ignored);
    if (*g)
        r->dev->graph_launch(r->dev, *g);
}

void recorder_set_rows(struct recorder *r, const struct step_row *rows, int n_rows, const struct step_row *draft_rows, int n)
{
    r->dev->copy(r->dev, r->rows, rows, (size_t)n_rows * sizeof *rows);
    r->dev->copy(r->dev, r->draft_rows, draft_rows, (size_t)n * sizeof *draft_rows);
}

#include "model/stepper.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/prompt.h"
#include "model/state.h"
#include "model/step.h"
#include "model/workspace.h"

enum {
    MAX_DEPTH  = STEP_ROWS - 1,
    MTP_BEHIND = 256,                   /* most MTP rows of a conversation that may be left out before they are run together; in a run of 256
                                         * rows each costs little */
    DRAFT_HEAD = 65536,                 /* rows of the head that drafts are chosen from: the byte-pair vocabulary is ordered by
                                         * merge rank, and a draft that is not there is only a draft less */
    DOUBT_MS   = 2000,                  /* after so long without a result the device is asked whether it has failed */
};

/* Memory of one conversation that the operations use: device memory, except `results` and `made`. */
struct slot_memory {
    struct step_live     *live;
    struct step_sampling *sampling;
    uint8_t *seen;                      /* [vocab] */
    float   *bias;                      /* [vocab] */
    float   *last_hidden;               /* [3, hidden] */
    struct step_result *results;        /* [STEP_RESULTS] host memory */
    struct step_drafts *made;           /* host memory: the newest drafts */
    float   *behind;                    /* [MTP_BEHIND, hidden] inputs of the MTP rows that were left out: hidden states */
    int32_t *behind_next;               /* [MTP_BEHIND] ... and the token after each position */
    /* as they were before the newest pick, of an answer under a guide */
    struct step_live     *live_before;
    struct step_sampling *sampling_before;
};

/* The graphs of one conversation; NULL: not recorded yet. */
struct slot_graphs {
    struct dev_graph *first, *step[STEP_ROWS];          /* step: [rows - 1] */
    struct dev_graph *mtp[STEP_ROWS];                   /* [rows - 1] */
    struct dev_graph *drafts[MAX_DEPTH][MAX_DEPTH];     /* [first draft][last draft] */
    struct dev_graph *whole[MAX_DEPTH];                 /* [drafts - 1]: step, MTP rows and drafts in one */
};

/* A conversation: its cache, and the answer under way. */
struct stepper_slot {
    struct stepper    *s;
    struct cache      *k;
    struct slot_memory m;
    struct slot_graphs graphs;
    int depth, start;                   /* most drafts a step; position at the beginning of the answer */
    int n_launched, n_taken;            /* picks: queued; whose result was taken */
    int rows;                           /* its rows of the newest step */
    int at, of;                         /* at: the first of these among all rows of the step, `of` many, which several answers may share */
    bool whole;                         /* it was launched with its drafts in one */
    int n_made;                         /* drafts after the newest pick */
    int tokens[STEP_RESULTS];           /* [pick % STEP_RESULTS] tokens of the newest results */
    int n_tokens;                       /* tokens of all results that were taken */

    /* MTP rows that were left out: n_behind positions from behind_pos on, and then those of the newest pick if `fresh` */
    bool fresh;                         /* the newest pick's rows were not run; their inputs are in f->step.hidden and live->mtp_next */
    int  n_behind, behind_pos;          /* the inputs of these rows are in m.behind */
    struct step_live live;              /* the device's copy at the last stepper_end() */

    /* of an answer under a guide */
    uint8_t *seen;                      /* [vocab] the device's copy without the tokens of the newest result; NULL: no guide */
    struct step_result newest;          /* its result, if newest.n > 0 */
    uint32_t masked;                    /* rows of the newest pick that have masks */
};

struct stepper {
    struct forward *f;
    struct dev     *dev;
    struct stepper_slot *slots;
    int    n_slots;
    int    vocab, hidden, max_depth;
    int    max_rows;                    /* most rows of a step */
    bool   mtp;                         /* there is an MTP block, and drafts are wanted */
    int    most_behind;                 /* most MTP rows that may be left out */

    const struct weight *head;
    void  *memory;
    float *logits, *tile_max, *draft_logits, *draft_max;
    void  *pick_scratch, *head_scratch;
    struct step_row *rows, *draft_rows; /* [STEP_ROWS] device memory: those of the newest step of several conversations, and of its drafts */
    struct step_row *masked_row;        /* [1] device memory: the row whose logits are completed */
    uint32_t *masks;                    /* [STEP_ROWS, step_mask_words(vocab)] of the pick that is made once more */
    struct slot_memory first;           /* of slot 0, which the memory of the other slots follows at equal distances */
    struct dev_graph *together[STEP_ROWS];              /* [rows - 1] steps of several conversations */
    struct dev_graph *mtp_together[STEP_ROWS];          /* [rows - 1] the MTP block over the first rows of such a step */
    struct dev_graph *draft_together[MAX_DEPTH][STEP_ROWS];             /* [i][n - 1] the i-th draft of n conversations */

    struct stepper_part parts[STEP_ROWS];               /* [n_parts] of the newest step */
    int    n_parts, n_made;             /* n_parts: 0 if that was of one conversation; n_made: drafts after a step of several */
    struct stepper_slot *drafting;      /* the conversation whose MTP rows are in the work space of steps */
    struct stepper_counts counts;
    /* for_again: of picks that are made once more; for_step, for_whole: [rows - 1], the latter of steps that are launched with drafts in one;
     * for_drafts: [drafts - 1] */
    struct patience for_again, for_first, for_step[STEP_ROWS], for_whole[STEP_ROWS], for_drafts[MAX_DEPTH];
};

/* ---- memory ---- */

/* Sets the pointers into `memory`, those of conversations for slot 0 of n; returns the bytes that all of it takes.  memory NULL: only counts them. */
static size_t share_out(struct stepper *s, char *memory, const struct model_config *c, int max_depth, size_t n)
{
    const size_t rows = STEP_ROWS, vocab = (size_t)c->vocab, drafts = vocab < DRAFT_HEAD ? vocab : DRAFT_HEAD,
        hidden = (size_t)c->hidden, behind = max_depth ? MTP_BEHIND : 0;
    struct slot_memory *m = &s->first;
    const struct { void *at; size_t bytes; } list[] = {
        {&s->logits, rows * vocab * 4}, {&s->tile_max, rows * (size_t)step_maxima(c->vocab) * 4}, {&s->draft_logits, rows * drafts * 4},
        {&s->draft_max, rows * (size_t)step_maxima((int)drafts) * 4}, {&s->pick_scratch, step_pick_scratch(c->vocab)},
        {&s->head_scratch, STEP_LOGITS_SCRATCH},
        {&s->rows, rows * sizeof *s->rows}, {&s->draft_rows, rows * sizeof *s->rows},
        {&m->live, n * sizeof *m->live}, {&m->sampling, n * sizeof *m->sampling},
        {&m->seen, n * vocab}, {&m->bias, n * vocab * 4}, {&m->last_hidden, n * 3 * hidden * 4},
        {&m->behind, n * behind * hidden * 4}, {&m->behind_next, n * behind * 4},
        {&s->masked_row, sizeof *s->masked_row}, {&s->masks, rows * (size_t)step_mask_words(c->vocab) * sizeof *s->masks},
        {&m->live_before, n * sizeof *m->live}, {&m->sampling_before, n * sizeof *m->sampling},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + 255) / 256 * 256;
    }
    return at;
}

static size_t bytes_for(const struct model_config *c, int max_depth, int n_slots)
{
    struct stepper s;
    return share_out(&s, NULL, c, max_depth, (size_t)n_slots);
}

size_t stepper_bytes(const struct model_config *c, int max_depth)
{
    return bytes_for(c, max_depth, 0);
}

size_t stepper_slot_bytes(const struct model_config *c, int max_depth)
{
    return bytes_for(c, max_depth, 1) - bytes_for(c, max_depth, 0);
}

/* Allocates the memory of all slots, on the device and for results on the host, and gives each slot its part. */
static bool open_memory(struct stepper *s, struct err *e)
{
    const struct model_config *c = s->f->cfg;
    const size_t n = (size_t)s->n_slots, bytes = share_out(s, NULL, c, s->max_depth, n), vocab = (size_t)c->vocab, hidden = (size_t)c->hidden;
    struct slot_memory *m = &s->first;
    s->memory = s->dev->alloc(s->dev, bytes);
    m->results = s->dev->alloc_host(s->dev, n * STEP_RESULTS * sizeof *m->results);
    m->made = s->dev->alloc_host(s->dev, n * sizeof *m->made);
    if (!s->memory || !m->results || !m->made)
        return err_set(e, "no memory for the logits of %d rows: %zu MiB asked for; end other programs", STEP_ROWS, bytes >> 20);
    share_out(s, s->memory, c, s->max_depth, n);
    for (size_t i = 0; i < n; i++)
        s->slots[i].m = (struct slot_memory){
            m->live + i, m->sampling + i, m->seen + i * vocab, m->bias + i * vocab, m->last_hidden + i * 3 * hidden, m->results + i * STEP_RESULTS,
            m->made + i, m->behind + i * MTP_BEHIND * hidden, m->behind_next + i * MTP_BEHIND,
            m->live_before + i, m->sampling_before + i};
    return true;
}

struct stepper *stepper_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e)
{
    const struct model_config *c = f->cfg;
    struct stepper *s = memory_zeroed(1, sizeof *s);
    CHECK(max_depth >= 0 && max_depth <= MAX_DEPTH);
    *s = (struct stepper){.f = f, .n_slots = n, .slots = memory_zeroed((size_t)n, sizeof *s->slots), .dev = f->dev, .head = weights_head(f->w, h),
                          .vocab = c->vocab, .hidden = c->hidden, .max_depth = max_depth, .mtp = max_depth > 0 && f->w->mtp.present,
                          .most_behind = f->max_rows < MTP_BEHIND ? f->max_rows : MTP_BEHIND};
    for (int i = 0; i < n; i++)
        s->slots[i] = (struct stepper_slot){.s = s, .k = caches[i]};
    const int each = max_depth + 1, most = f->dev->caps->several ? n * each : each;
    s->max_rows = most < STEP_ROWS ? most : STEP_ROWS;
    if (step_check(f, s->max_rows, e) && open_memory(s, e))
        return s;
    stepper_close(s);
    return NULL;
}

/* Frees the captured graphs of a slot. */
static void free_graphs(struct dev *d, struct slot_graphs *o)
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

void stepper_close(struct stepper *s)
{
    if (!s)
        return;
    struct err ignored;
    struct dev *d = s->dev;
    d->finish(d, &ignored);
    for (int i = 0; i < s->n_slots; i++) {
        free_graphs(d, &s->slots[i].graphs);
        free(s->slots[i].seen);
    }
    for (int i = 0; i < STEP_ROWS; i++) {
        d->graph_free(d, s->together[i]);
        d->graph_free(d, s->mtp_together[i]);
        for (int j = 0; j < MAX_DEPTH; j++)
            d->graph_free(d, s->draft_together[j][i]);
    }
    if (s->memory)
        d->free(d, s->memory);
    d->free_host(d, s->first.results);
    d->free_host(d, s->first.made);
    free(s->slots);
    free(s);
}

/* ---- graphs: steps as recorded operations (kernels/step.def) ---- */

/* The content of a graph, in this order and each part only if there is any: a step of step_rows rows, mtp_rows rows of the MTP block, drafts
 * from..to.  A recipe is recorded when it is launched for the first time. */
struct recipe {
    struct stepper_slot *o;             /* the conversation; NULL: several, whose rows are in device memory */
    int  step_rows, mtp_rows;           /* 0: none */
    bool first;                         /* instead of a step: the first pick of an answer */
    int  from, to;                      /* indices of drafts; none if to < from */
    int  n_drafting;                    /* of several: conversations that drafts are made for */
};

int stepper_draft_rows(const struct weight *head)
{
    /* The first rows of an INT4 matrix are no matrix by themselves. */
    const bool whole = head->rows < DRAFT_HEAD || head->format == WEIGHT_INT4;
    return whole ? head->rows : DRAFT_HEAD;
}

/* Queues a step and its pick; or, if `first`, only head and pick, from the prompt's last hidden state.  m: memory of the conversation of r->k and
 * r->live. */
static void queue_step(struct stepper *s, const struct slot_memory *m, const struct step_rows *r, bool first)
{
    const struct step_head h = {.w = s->head, .logits = s->logits, .tile_max = s->tile_max, .sampling = m->sampling, .seen = m->seen,
                                .bias = m->bias, .drafts = m->live->ids + 1, .scratch = s->head_scratch};
    const float *given = first ? m->last_hidden : NULL;
    if (!first)
        step_layers(s->f, r);
    step_output(s->f, &h, r, given);
    STEP(s->dev, step_pick, .logits = s->logits, .tile_max = s->tile_max, .live = m->live, .sampling = m->sampling, .seen = m->seen,
         .bias = m->bias, .results = m->results, .hidden = first ? given : s->f->step.hidden, .last_hidden = m->last_hidden,
         .scratch = s->pick_scratch, .rows = r->rows, .n_rows = r->n, .vocab = s->vocab, .width = s->hidden, .first = first);
}

/* Queues the i-th draft of each conversation, from its draft before; r has one row of each conversation. */
static void queue_draft(struct stepper *s, const struct slot_memory *m, const struct step_rows *r, int i)
{
    struct step_live *live = r->live;
    struct weight slice = *s->head;
    slice.rows = stepper_draft_rows(s->head);
    const struct step_head h = {.w = &slice, .logits = s->draft_logits, .tile_max = s->draft_max, .n_ids = slice.rows,
                                .estimate = slice.format == WEIGHT_PLANES, .scratch = s->head_scratch};
    if (i)
        step_mtp(s->f, r, &live->draft_ids[i - 1], s->f->step.mtp_h, &live->draft_pos[i - 1], &live->drafting);
    step_mtp_output(s->f, &h, r, i ? NULL : &live->mtp_last, &live->drafting);
    STEP(s->dev, step_draft, .logits = s->draft_logits, .tile_max = s->draft_max, .live = live, .drafts = m->made, .rows = r->rows,
         .n_rows = r->n, .i = i, .n_ids = slice.rows);
}

static struct step_rows rows_of(const struct stepper *s, const struct recipe *what, const struct step_row *rows, int n)
{
    return what->o ? (struct step_rows){.k = what->o->k, .live = what->o->m.live, .n = n}
                   : (struct step_rows){.k = s->slots[0].k, .live = s->first.live, .rows = rows, .n = n};
}

/* Records the recipe as a graph that the caller owns; NULL with the reason. */
static struct dev_graph *record(struct stepper *s, const struct recipe *what, struct err *e)
{
    const struct slot_memory *m = what->o ? &what->o->m : &s->first;
    const struct step_rows step = rows_of(s, what, s->rows, what->step_rows), mtp = rows_of(s, what, s->rows, what->mtp_rows),
        drafts = rows_of(s, what, s->draft_rows, what->o ? 1 : what->n_drafting);
    s->dev->graph_begin(s->dev);
    if (what->step_rows)
        queue_step(s, m, &step, what->first);
    if (what->mtp_rows)                 /* of the tokens that were just picked, from the hidden states of the step; drafts start from these */
        step_mtp(s->f, &mtp, mtp.live->mtp_next, s->f->step.hidden, &mtp.live->mtp_pos, &mtp.live->mtp_rows);
    for (int i = what->from; i <= what->to; i++)
        queue_draft(s, m, &drafts, i);
    return s->dev->graph_end(s->dev, e);
}

/* Returns the place of a recipe's graph. */
static struct dev_graph **graph_of(struct stepper *s, const struct recipe *what)
{
    struct slot_graphs *o = what->o ? &what->o->graphs : NULL;
    CHECK(o || what->from == what->to || what->to < 0);
    if (what->first)
        return &o->first;
    if (what->step_rows && what->mtp_rows)
        return &o->whole[what->to];
    if (what->step_rows)
        return o ? &o->step[what->step_rows - 1] : &s->together[what->step_rows - 1];
    if (what->mtp_rows)
        return o ? &o->mtp[what->mtp_rows - 1] : &s->mtp_together[what->mtp_rows - 1];
    return o ? &o->drafts[what->from][what->to] : &s->draft_together[what->from][what->n_drafting - 1];
}

static void launch(struct stepper *s, const struct recipe *what)
{
    struct err ignored;                 /* recording fails only when the device does, which the next wait reports */
    struct dev_graph **g = graph_of(s, what);
    if (!*g)
        *g = record(s, what, &ignored);
    if (*g)
        s->dev->graph_launch(s->dev, *g);
}

/* ---- MTP rows that were left out ---- */

/* Returns the number of tokens of the newest pick; while its result is outstanding, the most that it can be. */
static int newest_tokens(const struct stepper_slot *o)
{
    return o->n_taken == o->n_launched ? o->tokens[(o->n_launched + STEP_RESULTS - 1) % STEP_RESULTS] : o->rows;
}

/* Counts a run of the MTP block over so many rows, for n conversations the last one with its experts. */
static void count_mtp(struct stepper *s, int rows, int n)
{
    s->counts.mtp_rows += rows;
    s->counts.last_rows += n;
    s->counts.mtp_runs++;
}

/* Runs the MTP rows that were left out, except those of the newest pick, as rows of a prompt. */
static void run_behind(struct stepper_slot *o)
{
    struct stepper *s = o->s;
    if (!o->n_behind)
        return;
    prompt_mtp(s->f, o->k, o->m.behind, o->m.behind_next, o->n_behind, o->behind_pos, NULL);
    count_mtp(s, o->n_behind, 0);
    s->counts.late_rows += o->n_behind;
    s->counts.late_runs++;
    o->n_behind = 0;
}

/* Copies the inputs of the newest pick's MTP rows to those of the rows that were left out, before the next step overwrites them. */
static void keep_fresh(struct stepper_slot *o)
{
    struct stepper *s = o->s;
    const int n = newest_tokens(o), outstanding = o->n_launched - o->n_taken;
    if (!o->fresh)
        return;
    CHECK(n <= 1 || !outstanding);
    o->fresh = false;
    if (!n)                             /* the answer has ended */
        return;
    if (o->n_behind + n > s->most_behind)
        run_behind(o);
    if (!o->n_behind)
        o->behind_pos = o->start - 1 + o->n_tokens + outstanding - n;
    const size_t row = (size_t)s->hidden;
    s->dev->copy(s->dev, o->m.behind + (size_t)o->n_behind * row, s->f->step.hidden + (size_t)o->at * row,
                 (size_t)n * row * sizeof(float));
    s->dev->copy(s->dev, o->m.behind_next + o->n_behind, o->m.live->mtp_next, (size_t)n * sizeof(int32_t));
    o->n_behind += n;
}

/* Calls keep_fresh() for every conversation: a step of any of them overwrites these inputs. */
static void keep_all_fresh(struct stepper *s)
{
    for (int i = 0; i < s->n_slots; i++)
        keep_fresh(&s->slots[i]);
}

/* ---- an answer ---- */

struct stepper_slot *stepper_slot(struct stepper *s, int i)
{
    CHECK(i >= 0 && i < s->n_slots);
    return &s->slots[i];
}

void stepper_begin(struct stepper_slot *o, const struct step_sampling *how, const int32_t *prompt, int n_prompt, int n_answer_prefix, int pos,
                   const int32_t *bias_ids, const float *bias, int n_bias, int depth)
{
    struct stepper *s = o->s;
    const struct step_live live = {.pos = pos, .rope_offset = cache_rope_offset(o->k)};
    struct step_sampling sampling = *how;
    CHECK(depth >= 0 && depth <= s->max_depth);
    state_end_steps(&o->k->state);
    state_begin_steps(&o->k->state, s->f->w, o->m.live, pos);
    uint8_t *seen = memory_zeroed(1, (size_t)s->vocab);
    for (int i = 0; i < n_prompt; i++)
        seen[prompt[i]] |= i < n_prompt - n_answer_prefix ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
    s->dev->copy(s->dev, o->m.seen, seen, (size_t)s->vocab);
    free(seen);
    sampling.biased = n_bias > 0;
    if (n_bias > 0) {
        float *by_id = memory_zeroed((size_t)s->vocab, sizeof *by_id);
        for (int i = 0; i < n_bias; i++)
            by_id[bias_ids[i]] += bias[i];
        s->dev->copy(s->dev, o->m.bias, by_id, (size_t)s->vocab * sizeof *by_id);
        free(by_id);
    }
    s->dev->copy(s->dev, o->m.sampling, &sampling, sizeof sampling);
    s->dev->copy(s->dev, o->m.live, &live, sizeof live);
    s->dev->copy(s->dev, o->m.last_hidden, o->k->state.last_hidden, (size_t)s->hidden * sizeof(float));
    memset(o->m.results, 0, STEP_RESULTS * sizeof *o->m.results);
    memset(o->m.made, 0, sizeof *o->m.made);
    o->depth = s->mtp ? depth : 0;
    o->start = pos;
    o->n_launched = o->n_taken = o->n_made = o->n_tokens = o->n_behind = 0;
    o->fresh = false;
    s->drafting = NULL;
    free(o->seen);
    o->seen = NULL;
}

/* ---- picks that are made once more ---- */

void stepper_guard(struct stepper_slot *o, bool on)
{
    struct stepper *s = o->s;
    struct err ignored;                 /* a fault of the device is reported by the next wait */
    if (on == (o->seen != NULL))
        return;
    CHECK(o->n_taken == o->n_launched);
    free(o->seen);
    o->seen = on ? memory_zeroed((size_t)s->vocab, 1) : NULL;
    if (!on)
        return;
    o->newest.n = 0;
    s->dev->copy(s->dev, o->seen, o->m.seen, (size_t)s->vocab);
    s->dev->finish(s->dev, &ignored);
}

/* Keeps what the next pick will change, if it may be made once more. */
static void keep_before(struct stepper_slot *o)
{
    struct stepper *s = o->s;
    if (!o->seen)
        return;
    CHECK(o->n_taken == o->n_launched);
    for (int i = 0; i < o->newest.n; i++)
        o->seen[o->newest.ids[i]] = STEP_IN_TEXT | STEP_IN_ANSWER;
    o->newest.n = 0;
    o->masked = 0;
    s->dev->copy(s->dev, o->m.live_before, o->m.live, sizeof *o->m.live);
    s->dev->copy(s->dev, o->m.sampling_before, o->m.sampling, sizeof *o->m.sampling);
}

/* Takes the newest pick back.  The hidden state that it kept is overwritten by the next pick, since there is only one pick under way.  Drafts that
 * were queued after it are waited for: new ones will have the same serial. */
static void put_back(struct stepper_slot *o)
{
    struct stepper *s = o->s;
    struct step_drafts void_ones;
    struct err ignored;                 /* a device that has failed reports it at the next wait, too */
    stepper_drafts(o, &void_ones, &ignored);
    o->m.made->serial = 0;
    s->dev->copy(s->dev, o->m.live, o->m.live_before, sizeof *o->m.live);
    s->dev->copy(s->dev, o->m.sampling, o->m.sampling_before, sizeof *o->m.sampling);
    for (int i = 0; i < o->newest.n; i++)
        s->dev->copy(s->dev, o->m.seen + o->newest.ids[i], &o->seen[o->newest.ids[i]], 1);
    o->n_tokens -= o->newest.n;
    o->newest.n = 0;
    o->n_taken--;
    o->n_made = 0;
    o->fresh = s->mtp;                  /* its MTP rows are run again, if they were run for drafts */
    s->drafting = NULL;
    o->m.results[(o->n_taken + 1) % STEP_RESULTS].serial = 0;
}

/* Makes the row's logits whole: those of ids that were not wanted are only estimates, with a head in two planes. */
static void complete_row(struct stepper_slot *o, int row, const float *hidden)
{
    struct stepper *s = o->s;
    const struct slot_memory *m = &s->first;
    const int slot = (int)(o - s->slots), at = o->at + row;
    const struct step_row r = {.slot = slot, .index = row, .first = o->at};
    const struct step_head h = {
        .w = s->head, .logits = s->logits + (size_t)at * (size_t)s->vocab, .tile_max = s->tile_max + (size_t)at * (size_t)step_maxima(s->vocab),
        .sampling = m->sampling, .seen = m->seen, .bias = m->bias, .drafts = m->live->ids + 1, .whole = true, .scratch = s->head_scratch};
    if (s->head->format != WEIGHT_PLANES)
        return;
    s->dev->copy(s->dev, s->masked_row, &r, sizeof r);
    step_output(s->f, &h, &(struct step_rows){.k = s->slots[0].k, .live = m->live, .rows = s->masked_row, .n = 1}, hidden + row * s->hidden);
}

void stepper_pick_again(struct stepper_slot *o, int row, const uint32_t *mask)
{
    struct stepper *s = o->s;
    const bool first = o->n_launched == 1;
    const size_t at = (size_t)o->at, words = (size_t)step_mask_words(s->vocab);
    const float *hidden = first ? o->m.last_hidden : s->f->step.hidden + at * (size_t)s->hidden;
    CHECK(o->seen && o->n_taken == o->n_launched && row >= 0 && row < o->rows);
    put_back(o);
    complete_row(o, row, hidden);
    o->masked |= 1u << row;
    s->dev->copy(s->dev, s->masks + (size_t)row * words, mask, words * sizeof *mask);
    STEP(s->dev, step_pick, .logits = s->logits + at * (size_t)s->vocab, .tile_max = s->tile_max + at * (size_t)step_maxima(s->vocab),
         .live = o->m.live, .sampling = o->m.sampling, .seen = o->m.seen, .bias = o->m.bias, .results = o->m.results, .hidden = hidden,
         .last_hidden = o->m.last_hidden, .scratch = s->pick_scratch, .n_rows = o->rows, .vocab = s->vocab, .width = s->hidden, .first = first,
         .mask = s->masks, .masked = o->masked);
}

/* ---- steps ---- */

void stepper_step(struct stepper_slot *o, int rows)
{
    struct stepper *s = o->s;
    const bool first = o->n_launched == 0;
    CHECK(o->n_launched - o->n_taken < STEP_RESULTS && rows >= 1 && rows <= s->max_depth + 1);
    keep_all_fresh(s);
    keep_before(o);
    launch(s, &(struct recipe){.o = o, .step_rows = rows, .first = first, .to = -1});
    if (first)                          /* the MTP block finds its input where a step would leave it */
        s->dev->copy(s->dev, s->f->step.hidden, o->m.last_hidden, (size_t)s->hidden * sizeof(float));
    o->n_launched++;
    o->n_made = 0;
    o->rows = o->of = rows;
    o->at = 0;
    o->whole = false;
    o->fresh = s->mtp;
    s->n_parts = 0;
}

/* Notes that the conversation's next pick is made of `rows` rows of a step of `of` rows, from row `at` on. */
static void join_step(struct stepper_slot *o, int at, int rows, int of)
{
    const struct stepper *s = o->s;
    CHECK(rows >= 1 && rows <= s->max_depth + 1 && o->n_launched > 0 && o->n_launched - o->n_taken < STEP_RESULTS);
    keep_before(o);
    o->n_launched++;
    o->n_made = 0;
    o->rows = rows;
    o->at = at;
    o->of = of;
    o->whole = false;
    o->fresh = s->mtp;
}

static int count_rows(const struct stepper_part *parts, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++)
        rows += parts[i].rows;
    return rows;
}

int stepper_most_rows(const struct stepper *s)
{
    return s->max_rows;
}

void stepper_step_together(struct stepper *s, const struct stepper_part *parts, int n)
{
    struct step_row rows[STEP_ROWS], draft_rows[STEP_ROWS];
    const int n_rows = count_rows(parts, n);
    CHECK(s->dev->caps->several && n >= 1 && n_rows <= s->max_rows);
    keep_all_fresh(s);
    for (int i = 0, at = 0; i < n; at += parts[i++].rows) {
        join_step(stepper_slot(s, parts[i].slot), at, parts[i].rows, n_rows);
        draft_rows[i] = (struct step_row){.slot = parts[i].slot, .first = at};
        for (int j = 0; j < parts[i].rows; j++)
            rows[at + j] = (struct step_row){.slot = parts[i].slot, .index = j, .first = at};
    }
    s->dev->copy(s->dev, s->rows, rows, (size_t)n_rows * sizeof *rows);
    s->dev->copy(s->dev, s->draft_rows, draft_rows, (size_t)n * sizeof *draft_rows);
    launch(s, &(struct recipe){.step_rows = n_rows, .to = -1});
    memcpy(s->parts, parts, (size_t)n * sizeof *parts);
    s->n_parts = n;
    s->n_made = 0;
}

/* Counts n more drafts for each of n_conversations conversations, which had `before` drafts each. */
static void count_drafts(struct stepper *s, int n, int n_conversations, int before)
{
    const int chained = before ? n : n - 1;
    s->counts.drafts += (long)n * n_conversations;
    s->counts.heads += n;
    s->counts.chained_runs += chained;
    s->counts.chained_rows += (long)chained * n_conversations;
}

/* Runs the MTP rows of the newest pick, and those left out before it.  rows: at least as many as the pick has tokens. */
static void run_fresh(struct stepper_slot *o, int rows)
{
    struct stepper *s = o->s;
    run_behind(o);
    launch(s, &(struct recipe){.o = o, .mtp_rows = rows, .to = -1});
    count_mtp(s, rows, 1);
    o->fresh = false;
    s->drafting = o;
}

void stepper_draft(struct stepper_slot *o, int n)
{
    struct stepper *s = o->s;
    const int from = o->n_made, to = from + n - 1;
    CHECK(s->mtp && o->n_launched > 0 && !o->at && n > 0 && to < s->max_depth);
    if (o->fresh && newest_tokens(o))
        run_fresh(o, newest_tokens(o));
    CHECK(!s->drafting || s->drafting == o || !newest_tokens(o));
    launch(s, &(struct recipe){.o = o, .from = from, .to = to});
    o->n_made += n;
    count_drafts(s, n, 1, from);
}

/* Runs the MTP rows of the first n parts of the newest step. */
static void run_fresh_together(struct stepper *s, int n)
{
    const int rows = count_rows(s->parts, n);
    for (int i = 0; i < n; i++) {
        struct stepper_slot *o = &s->slots[s->parts[i].slot];
        CHECK(o->fresh);
        run_behind(o);
        o->fresh = false;
    }
    launch(s, &(struct recipe){.mtp_rows = rows, .to = -1});
    count_mtp(s, rows, n);
    s->drafting = NULL;
}

void stepper_draft_together(struct stepper *s, int n_parts, int n)
{
    const int from = s->n_made, to = from + n - 1;
    CHECK(s->mtp && n_parts >= 1 && n_parts <= s->n_parts && n > 0 && to < s->max_depth);
    if (!from)
        run_fresh_together(s, n_parts);
    for (int i = from; i <= to; i++)
        launch(s, &(struct recipe){.from = i, .to = i, .n_drafting = n_parts});
    for (int i = 0; i < n_parts; i++)
        s->slots[s->parts[i].slot].n_made += n;
    s->n_made += n;
    count_drafts(s, n, n_parts, from);
}

void stepper_propose(struct stepper_slot *o, const int32_t *ids, int n)
{
    struct stepper *s = o->s;
    struct { int32_t ids[STEP_ROWS - 1], n; } drafts = {.n = n};
    _Static_assert(offsetof(struct step_live, n_drafts) == offsetof(struct step_live, ids) + STEP_ROWS * sizeof(int32_t),
                   "the ids, then their number");
    CHECK(n > 0 && n <= s->max_depth && o->n_taken == o->n_launched);
    memcpy(drafts.ids, ids, (size_t)n * sizeof *ids);
    s->dev->copy(s->dev, &o->m.live->ids[1], &drafts, sizeof drafts);
}

void stepper_launch(struct stepper_slot *o)
{
    struct stepper *s = o->s;
    const int n = o->depth;
    if (!n || !o->n_launched || o->fresh || o->n_behind) {
        stepper_step(o, 1);
        if (n)
            stepper_draft(o, n);
        return;
    }
    CHECK(!o->seen && o->n_launched - o->n_taken < STEP_RESULTS);
    keep_all_fresh(s);
    s->drafting = o;
    launch(s, &(struct recipe){.o = o, .step_rows = n + 1, .mtp_rows = n + 1, .to = n - 1});
    count_mtp(s, n + 1, 1);
    s->n_parts = 0;
    o->n_launched++;
    o->rows = o->of = n + 1;
    o->at = 0;
    o->whole = true;
    o->n_made = n;
    count_drafts(s, n, 1, 0);
}

int stepper_behind(const struct stepper_slot *o)
{
    return o->n_behind;
}

struct stepper_counts stepper_counts(const struct stepper *s)
{
    return s->counts;
}

/* Waits until the device has written the expected serial; false when the device failed. */
static bool await_serial(struct stepper *s, const volatile int32_t *serial, int32_t expected, struct patience *p, struct err *e)
{
    const int64_t start = clock_ns();
    int64_t asked = start, nap = 0;
    /* It may be there, since another answer of the same step was waited for; then nothing is learnt about how long steps take. */
    if (__atomic_load_n(serial, __ATOMIC_ACQUIRE) == expected)
        return true;
    while (__atomic_load_n(serial, __ATOMIC_ACQUIRE) != expected) {
        CHECK(s->dev->caps->beside_host);       /* on other devices it is there when the launch returns */
        nap = patience_nap_ns(p, clock_ns() - start);
        if (nap)
            nanosleep(&(struct timespec){.tv_sec = nap / 1000000000, .tv_nsec = nap % 1000000000}, NULL);
        if (clock_ms_since(asked) > DOUBT_MS) {
            asked = clock_ns();
            if (!s->dev->finish(s->dev, e))
                return false;
        }
    }
    patience_learn(p, clock_ns() - start, nap > 0);
    return true;
}

/* Returns the times of earlier results like the newest one.  A step that is launched with its drafts in one takes longer: sleeping for so long
 * through a step that is launched alone would make that look as slow. */
static struct patience *patience_for(const struct stepper_slot *o)
{
    struct stepper *s = o->s;
    return o->seen && o->masked ? &s->for_again : !o->n_taken ? &s->for_first : o->whole ? &s->for_whole[o->of - 1] : &s->for_step[o->of - 1];
}

bool stepper_wait(struct stepper_slot *o, struct step_result *out, struct err *e)
{
    struct stepper *s = o->s;
    const struct step_result *r = &o->m.results[(o->n_taken + 1) % STEP_RESULTS];       /* picks count from 1 */
    CHECK(o->n_taken < o->n_launched);
    if (!await_serial(s, &r->serial, o->n_taken + 1, patience_for(o), e))
        return false;
    memcpy(out, r, sizeof *out);
    o->tokens[o->n_taken % STEP_RESULTS] = out->n;
    o->n_tokens += out->n;
    if (o->seen)
        o->newest = *out;
    o->n_taken++;
    return true;
}

bool stepper_drafts(struct stepper_slot *o, struct step_drafts *out, struct err *e)
{
    struct stepper *s = o->s;
    if (o->n_made && !await_serial(s, &o->m.made->serial, o->n_launched * STEP_ROWS + o->n_made, &s->for_drafts[o->n_made - 1], e))
        return false;
    memcpy(out, o->m.made, sizeof *out);
    return true;
}

int stepper_end(struct stepper_slot *o, int n_delivered, struct err *e)
{
    struct stepper *s = o->s;
    struct step_result r;
    while (o->n_taken < o->n_launched)
        if (!stepper_wait(o, &r, e))
            return -1;
    s->dev->copy(s->dev, &o->live, o->m.live, sizeof o->live);
    if (!s->dev->finish(s->dev, e))
        return -1;
    /* The first pick is no step.  Steps after the last result that counts are taken back. */
    const int last = o->n_launched - 1, reported = n_delivered > 0 ? n_delivered - 1 : 0, back = last - reported;
    const int tokens[2] = {o->tokens[last % STEP_RESULTS], o->tokens[(last + STEP_RESULTS - 1) % STEP_RESULTS]};
    struct state *state = &o->k->state;
    CHECK(back >= 0 && back <= 2);
    const int hidden = state_take_over(state, &o->live, back < last ? back : last, tokens);
    s->dev->copy(s->dev, state->last_hidden, o->m.last_hidden + (size_t)hidden * (size_t)s->hidden, (size_t)s->hidden * sizeof(float));
    keep_fresh(o);
    if (o->n_behind > state->pos - o->behind_pos)       /* rows of tokens that were taken back, or are after the end */
        o->n_behind = state->pos > o->behind_pos ? state->pos - o->behind_pos : 0;
    run_behind(o);
    return state->pos;
}

int stepper_pause(struct stepper_slot *o, struct err *e)
{
    CHECK(o->n_taken == o->n_launched);
    return stepper_end(o, o->n_taken, e);
}

void stepper_resume(struct stepper_slot *o)
{
    struct stepper *s = o->s;
    struct step_live live = o->live;    /* ending the steps used up the device's copy */
    struct state *state = &o->k->state;
    state_end_steps(state);             /* does nothing if saving the states has done so */
    live.pos = state->pos;
    live.parity = live.n_apply = 0;
    state_begin_steps(state, s->f->w, o->m.live, state->pos);
    s->dev->copy(s->dev, o->m.live, &live, sizeof live);
    s->dev->copy(s->dev, o->m.last_hidden, state->last_hidden, (size_t)s->hidden * sizeof(float));
}

/* ---- measurements ---- */

bool stepper_measure(struct stepper *s, int rows, int pos, int n_steps, int overlap, double *ms_per_step, double *distinct, struct err *e)
{
    enum { WARM_UP = 3 };
    struct step_space *u = &s->f->step;
    struct cache *k = s->slots[0].k;
    const struct slot_memory *m = &s->slots[0].m;
    const struct step_rows r = {.k = k, .live = m->live, .n = rows};
    const struct step_sampling how = {.n_ids = s->vocab, .room = 1 << 30};
    struct step_live live = {.pos = pos};
    CHECK(rows >= 1 && rows <= s->max_depth + 1);
    int32_t *seen = s->dev->alloc_host(s->dev, (size_t)s->f->cfg->n_layers * sizeof *seen);
    CHECK(seen);
    for (int i = 0; i < rows; i++)
        live.ids[i] = (int32_t)((unsigned)i * 7919u % (unsigned)s->vocab);
    state_end_steps(&k->state);
    state_begin_steps(&k->state, s->f->w, m->live, pos);
    s->dev->copy(s->dev, m->sampling, &how, sizeof how);
    s->dev->copy(s->dev, m->live, &live, sizeof live);
    u->overlap = overlap;
    struct dev_graph *g = record(s, &(struct recipe){.o = &s->slots[0], .step_rows = rows, .to = -1}, e);
    bool ok = g;
    int64_t start = 0;
    for (int i = 0; ok && i < WARM_UP + n_steps; i++) {
        if (i == WARM_UP) {
            ok = s->dev->finish(s->dev, e);
            start = clock_ns();
        }
        s->dev->graph_launch(s->dev, g);
    }
    ok = ok && s->dev->finish(s->dev, e);
    *ms_per_step = clock_ms_since(start) / n_steps;
    u->distinct = seen;
    if (ok) {
        step_layers(s->f, &r);
        ok = s->dev->finish(s->dev, e);
    }
    *distinct = 0;
    for (int i = 0; i < s->f->cfg->n_layers; i++)
        *distinct += (double)seen[i] / s->f->cfg->n_layers;
    u->distinct = NULL;
    u->overlap = -1;
    s->dev->graph_free(s->dev, g);
    s->dev->free_host(s->dev, seen);
    cache_reset(k);
    return ok;
}

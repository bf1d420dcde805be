#include "model/stepper.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/patience.h"
#include "model/fused.h"
#include "model/layout.h"

enum {
    MAX_DEPTH  = STEP_ROWS - 1,
    DRAFT_HEAD = 65536,                 /* rows of the head that drafts are chosen from: the byte-pair vocabulary is ordered by
                                         * merge rank, and a draft that is not there is only a draft less */
    DOUBT_MS   = 2000,                  /* no result for so long: ask the device whether it lives */
    MOST_BEHIND = 256,                  /* MTP rows that may be left out before they are run together: then each costs little */
};

/* A conversation: its cache, what was recorded for it, and the answer under way. */
struct stepper_slot {
    struct cache     *k;
    struct dev_graph *first, *step[STEP_ROWS];          /* by rows, less one */
    struct dev_graph *mtp[STEP_ROWS];                   /* likewise */
    struct dev_graph *drafts[MAX_DEPTH][MAX_DEPTH];     /* by the first draft and the last one */
    struct dev_graph *whole[MAX_DEPTH];                 /* step, MTP rows and drafts in one, by drafts, less one */

    int depth, start;                   /* drafts a step; position at the beginning */
    int n_launched, n_taken;
    int rows;                           /* of the newest step */
    int at, of;                         /* the first of them among the rows of the step, which others may share; how many it has */
    int n_made;                         /* drafts, behind the newest pick */
    int tokens[STEP_RESULTS];           /* of the newest results, by pick */
    int n_tokens;                       /* of all results that were taken */

    /* the newest positions, whose MTP rows were left out */
    bool fresh;                         /* those of the newest pick were, too: fused->hidden and live->mtp_next have their inputs */
    int  n_behind;                      /* of the positions before these */
    int  behind_pos;                    /* the first of them */
    struct step_live live;              /* as the last stepper_end() found it */
};

/* What operations need of a conversation; device memory, but for results and drafts. */
struct per_slot {
    struct step_live     *live;
    struct step_sampling *sampling;
    uint8_t *seen;                      /* [vocab] */
    float   *bias;                      /* [vocab] */
    float   *last_hidden;               /* [3, hidden] */
    struct step_result *results;        /* [STEP_RESULTS] host memory */
    struct step_drafts *made;           /* host memory */
    float   *behind;                    /* [MOST_BEHIND, hidden] hidden states before MTP rows that were left out */
    int32_t *behind_next;               /* [MOST_BEHIND] the tokens that follow */
};

struct stepper {
    struct forward *f;
    struct stepper_slot *slots;
    int    n_slots;
    struct dev     *dev;
    const struct weight *head;
    int    vocab, hidden, max_depth;
    int    max_rows;                    /* of a step */
    bool   mtp;
    int    most_behind;                 /* MTP rows that may be left out */
    void  *memory;
    float *logits, *tile_max, *draft_logits, *draft_max;
    void  *pick_scratch, *head_scratch;
    struct per_slot of;                 /* of slot 0; those of the others lie behind */
    struct step_row *rows, *draft_rows; /* [STEP_ROWS] device memory: of a step of several conversations, and one of each of them */
    struct dev_graph *together[STEP_ROWS];              /* such steps, by rows, less one */
    struct dev_graph *mtp_together[STEP_ROWS];          /* the MTP block over the first rows of them, likewise */
    struct dev_graph *draft_together[MAX_DEPTH][STEP_ROWS];             /* the i-th draft of so many conversations, less one */
    struct stepper_part parts[STEP_ROWS];               /* of the newest step; n_parts: 0 if it was of one conversation */
    int    n_parts, n_made;             /* drafts behind it */
    struct stepper_slot *on;            /* the conversation that calls are about */
    struct stepper_slot *drafting;      /* whose MTP rows are in the work space of steps */
    struct stepper_counts counts;
    struct patience for_first, for_step[STEP_ROWS], for_drafts[MAX_DEPTH];      /* steps by rows, drafts by their number, less one */
};

/* Cuts `memory` for n conversations, or with NULL only counts. */
static size_t cut(struct stepper *s, char *memory, const struct model_config *c, int max_depth, size_t n)
{
    const size_t rows = STEP_ROWS, vocab = (size_t)c->vocab, drafts = vocab < DRAFT_HEAD ? vocab : DRAFT_HEAD,
        hidden = (size_t)c->hidden, behind = max_depth ? MOST_BEHIND : 0;
    const struct { void *at; size_t bytes; } list[] = {
        {&s->logits, rows * vocab * 4}, {&s->tile_max, rows * (size_t)step_maxima(c->vocab) * 4}, {&s->draft_logits, rows * drafts * 4},
        {&s->draft_max, rows * (size_t)step_maxima((int)drafts) * 4}, {&s->pick_scratch, step_pick_scratch(c->vocab)},
        {&s->head_scratch, STEP_LOGITS_SCRATCH},
        {&s->rows, rows * sizeof *s->rows}, {&s->draft_rows, rows * sizeof *s->rows}, {&s->of.live, n * sizeof *s->of.live}, {&s->of.sampling, n * sizeof *s->of.sampling},
        {&s->of.seen, n * vocab}, {&s->of.bias, n * vocab * 4}, {&s->of.last_hidden, n * 3 * hidden * 4},
        {&s->of.behind, n * behind * hidden * 4}, {&s->of.behind_next, n * behind * 4},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + 255) / 256 * 256;
    }
    return at;
}

size_t stepper_bytes(const struct model_config *c, int max_depth)
{
    struct stepper s;
    return cut(&s, NULL, c, max_depth, 0);
}

size_t stepper_slot_bytes(const struct model_config *c, int max_depth)
{
    struct stepper s;
    return cut(&s, NULL, c, max_depth, 1) - cut(&s, NULL, c, max_depth, 0);
}

/* Of the conversation that calls are about. */
static struct per_slot mine(const struct stepper *s)
{
    const size_t i = (size_t)(s->on - s->slots), vocab = (size_t)s->vocab, hidden = (size_t)s->hidden;
    const struct per_slot *o = &s->of;
    return (struct per_slot){o->live + i, o->sampling + i, o->seen + i * vocab, o->bias + i * vocab, o->last_hidden + i * 3 * hidden,
                             o->results + i * STEP_RESULTS, o->made + i, o->behind + i * MOST_BEHIND * hidden, o->behind_next + i * MOST_BEHIND};
}

int stepper_draft_rows(const struct weight *head)
{
    const bool whole = head->rows < DRAFT_HEAD || head->format == WEIGHT_INT4;          /* whose rows do not lie one behind the other */
    return whole ? head->rows : DRAFT_HEAD;
}

struct stepper *stepper_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e)
{
    const struct model_config *c = f->cfg;
    struct stepper *s = memory_zeroed(1, sizeof *s);
    CHECK(f->fused && max_depth >= 0 && max_depth <= MAX_DEPTH);
    *s = (struct stepper){.f = f, .n_slots = n, .slots = memory_zeroed((size_t)n, sizeof *s->slots), .dev = f->dev, .head = weights_head(f->w, h),
                          .vocab = c->vocab, .hidden = c->hidden, .max_depth = max_depth, .mtp = max_depth > 0 && f->w->mtp.present,
                          .most_behind = f->max_rows < MOST_BEHIND ? f->max_rows : MOST_BEHIND};
    for (int i = 0; i < n; i++)
        s->slots[i].k = caches[i];
    const int each = max_depth + 1, most = f->dev->caps->several ? n * each : each;
    s->max_rows = most < STEP_ROWS ? most : STEP_ROWS;
    if (!fused_check(f, s->max_rows, e)) {
        stepper_close(s);
        return NULL;
    }
    const size_t slots = (size_t)n, bytes = cut(s, NULL, c, max_depth, slots);
    s->memory = f->dev->alloc(f->dev, bytes);
    s->of.results = f->dev->alloc_host(f->dev, slots * STEP_RESULTS * sizeof *s->of.results);
    s->of.made = f->dev->alloc_host(f->dev, slots * sizeof *s->of.made);
    if (!s->memory || !s->of.results || !s->of.made) {
        err_set(e, "no memory for the logits of %d rows: %zu MiB asked for; end other programs", STEP_ROWS, bytes >> 20);
        stepper_close(s);
        return NULL;
    }
    cut(s, s->memory, c, max_depth, slots);
    s->on = &s->slots[0];
    return s;
}

static void slot_free(struct dev *d, struct stepper_slot *o)
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
    s->dev->finish(s->dev, &ignored);
    for (struct stepper_slot *o = s->slots; o < s->slots + s->n_slots; o++)
        slot_free(s->dev, o);
    for (int i = 0; i < STEP_ROWS; i++) {
        s->dev->graph_free(s->dev, s->together[i]);
        s->dev->graph_free(s->dev, s->mtp_together[i]);
        for (int j = 0; j < MAX_DEPTH; j++)
            s->dev->graph_free(s->dev, s->draft_together[j][i]);
    }
    free(s->slots);
    if (s->memory)
        s->dev->free(s->dev, s->memory);
    s->dev->free_host(s->dev, s->of.results);
    s->dev->free_host(s->dev, s->of.made);
    free(s);
}

/* ---- what a graph holds ---- */

static struct fused_head target_head(const struct stepper *s, const struct per_slot *o)
{
    return (struct fused_head){.w = s->head, .logits = s->logits, .tile_max = s->tile_max, .sampling = o->sampling, .seen = o->seen,
                               .bias = o->bias, .drafts = o->live->ids + 1, .scratch = s->head_scratch};
}

/* n rows of the conversation that calls are about. */
static struct fused_rows my_rows(const struct stepper *s, int n)
{
    return (struct fused_rows){.k = s->on->k, .live = mine(s).live, .n = n};
}

/* A whole step, or `first` what follows the prompt's last hidden state.  o: of whom r->k and r->live are. */
static void queue_step(struct stepper *s, const struct per_slot *o, const struct fused_rows *r, bool first)
{
    const struct fused_head h = target_head(s, o);
    const float *given = first ? o->last_hidden : NULL;
    if (!first)
        fused_layers(s->f, r);
    fused_logits(s->f, &h, r, given);
    STEP(s->dev, step_pick, .logits = s->logits, .tile_max = s->tile_max, .live = o->live, .sampling = o->sampling, .seen = o->seen, .bias = o->bias,
         .results = o->results, .hidden = first ? given : s->f->fused->hidden, .last_hidden = o->last_hidden, .scratch = s->pick_scratch,
         .rows = r->rows, .n_rows = r->n, .vocab = s->vocab, .width = s->hidden, .first = first);
}

/* The MTP rows of the tokens just picked, from their real hidden states, so that drafts can be made. */
static void queue_mtp(struct stepper *s, const struct fused_rows *r)
{
    fused_mtp(s->f, r, r->live->mtp_next, s->f->fused->hidden, &r->live->mtp_pos, &r->live->mtp_rows);
}

/* The i-th draft of each conversation, of which r has one row, from the draft before it. */
static void queue_draft(struct stepper *s, const struct per_slot *o, const struct fused_rows *r, int i)
{
    struct step_live *live = r->live;
    struct weight slice = *s->head;
    slice.rows = stepper_draft_rows(s->head);
    const struct fused_head h = {.w = &slice, .logits = s->draft_logits, .tile_max = s->draft_max, .n_ids = slice.rows, .estimate = slice.format == WEIGHT_PLANES,
                                 .scratch = s->head_scratch};
    if (i)
        fused_mtp(s->f, r, &live->draft_ids[i - 1], s->f->fused->mtp_h, &live->draft_pos[i - 1], &live->drafting);
    fused_mtp_logits(s->f, &h, r, i ? NULL : &live->mtp_last, &live->drafting);
    STEP(s->dev, step_draft, .logits = s->draft_logits, .tile_max = s->draft_max, .live = live, .drafts = o->made, .rows = r->rows, .n_rows = r->n,
         .i = i, .n_ids = slice.rows);
}

/* Of these, what there is in this order: a step of so many rows, their MTP rows, drafts. */
struct recipe {
    int  step_rows, mtp_rows;           /* 0: none */
    bool first;                         /* of an answer: no step, but a pick */
    bool together;                      /* the rows are those of s->rows */
    int  from, to;                      /* drafts; none if to < from */
    int  n_drafting;                    /* with `together`: conversations for which they are */
};

static struct fused_rows rows_of(const struct stepper *s, const struct recipe *r, const struct step_row *rows, int n)
{
    return r->together ? (struct fused_rows){s->slots[0].k, s->of.live, rows, n} : my_rows(s, n);
}

static void queue(struct stepper *s, const struct recipe *r)
{
    const struct per_slot o = r->together ? s->of : mine(s);
    const struct fused_rows step = rows_of(s, r, s->rows, r->step_rows), mtp = rows_of(s, r, s->rows, r->mtp_rows),
        drafts = rows_of(s, r, s->draft_rows, r->together ? r->n_drafting : 1);
    if (r->step_rows)
        queue_step(s, &o, &step, r->first);
    if (r->mtp_rows)
        queue_mtp(s, &mtp);
    for (int i = r->from; i <= r->to; i++)
        queue_draft(s, &o, &drafts, i);
}

/* Launches what *g holds, which is recorded if it was not.  A graph that cannot be recorded is a fault of the device, which waiting will
 * report. */
static void launch(struct stepper *s, struct dev_graph **g, const struct recipe *r)
{
    struct err ignored;
    if (!*g) {
        s->dev->graph_begin(s->dev);
        queue(s, r);
        *g = s->dev->graph_end(s->dev, &ignored);
    }
    if (*g)
        s->dev->graph_launch(s->dev, *g);
}

/* ---- MTP rows that were left out ---- */

/* Tokens of the newest pick; as long as it was not heard of, at most. */
static int newest_tokens(const struct stepper *s)
{
    return s->on->n_taken == s->on->n_launched ? s->on->tokens[(s->on->n_launched + STEP_RESULTS - 1) % STEP_RESULTS] : s->on->rows;
}

/* Runs the rows that were left out before the newest pick, as those of a prompt. */
static void catch_up(struct stepper *s)
{
    if (!s->on->n_behind)
        return;
    forward_mtp(s->f, s->on->k, mine(s).behind, mine(s).behind_next, s->on->n_behind, s->on->behind_pos, NULL);
    s->counts.mtp_rows += s->on->n_behind;
    s->counts.late_rows += s->on->n_behind;
    s->counts.mtp_runs++;
    s->counts.late_runs++;
    s->on->n_behind = 0;
}

/* The next step will write over what the MTP rows of the newest pick are made from. */
static void keep_fresh(struct stepper *s)
{
    const int n = newest_tokens(s), outstanding = s->on->n_launched - s->on->n_taken;
    if (!s->on->fresh)
        return;
    CHECK(n <= 1 || !outstanding);
    s->on->fresh = false;
    if (!n)                             /* the answer has ended */
        return;
    if (s->on->n_behind + n > s->most_behind)
        catch_up(s);
    if (!s->on->n_behind)
        s->on->behind_pos = s->on->start - 1 + s->on->n_tokens + outstanding - n;
    const size_t row = (size_t)s->hidden;
    s->dev->copy(s->dev, mine(s).behind + (size_t)s->on->n_behind * row, s->f->fused->hidden + (size_t)s->on->at * row, (size_t)n * row * sizeof(float));
    s->dev->copy(s->dev, mine(s).behind_next + s->on->n_behind, mine(s).live->mtp_next, (size_t)n * sizeof(int32_t));
    s->on->n_behind += n;
}

/* The same for all conversations: the next step may be of any. */
static void keep_all_fresh(struct stepper *s)
{
    struct stepper_slot *on = s->on;
    for (s->on = s->slots; s->on < s->slots + s->n_slots; s->on++)
        keep_fresh(s);
    s->on = on;
}

/* ---- an answer ---- */

void stepper_choose(struct stepper *s, int slot)
{
    CHECK(slot >= 0 && slot < s->n_slots);
    s->on = &s->slots[slot];
}

void stepper_begin(struct stepper *s, int slot, const struct step_sampling *how, const int32_t *prompt, int n_prompt, int n_answer_prefix, int pos,
                   const int32_t *bias_ids, const float *bias, int n_bias, int depth)
{
    const struct step_live live = {.pos = pos};
    struct step_sampling sampling = *how;
    CHECK(depth >= 0 && depth <= s->max_depth);
    stepper_choose(s, slot);
    state_end_steps(&s->on->k->state);
    state_begin_steps(&s->on->k->state, s->f->w, mine(s).live, pos);
    uint8_t *seen = memory_zeroed(1, (size_t)s->vocab);
    for (int i = 0; i < n_prompt; i++)
        seen[prompt[i]] |= i < n_prompt - n_answer_prefix ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
    s->dev->copy(s->dev, mine(s).seen, seen, (size_t)s->vocab);
    free(seen);
    sampling.biased = n_bias > 0;
    if (n_bias > 0) {
        float *by_id = memory_zeroed((size_t)s->vocab, sizeof *by_id);
        for (int i = 0; i < n_bias; i++)
            by_id[bias_ids[i]] += bias[i];
        s->dev->copy(s->dev, mine(s).bias, by_id, (size_t)s->vocab * sizeof *by_id);
        free(by_id);
    }
    s->dev->copy(s->dev, mine(s).sampling, &sampling, sizeof sampling);
    s->dev->copy(s->dev, mine(s).live, &live, sizeof live);
    s->dev->copy(s->dev, mine(s).last_hidden, s->on->k->state.last_hidden, (size_t)s->hidden * sizeof(float));
    memset(mine(s).results, 0, STEP_RESULTS * sizeof *mine(s).results);
    memset(mine(s).made, 0, sizeof *mine(s).made);
    s->on->depth = s->mtp ? depth : 0;
    s->on->start = pos;
    s->on->n_launched = s->on->n_taken = s->on->n_made = s->on->n_tokens = s->on->n_behind = 0;
    s->on->fresh = false;
    s->drafting = NULL;
}

void stepper_step(struct stepper *s, int rows)
{
    const bool first = s->on->n_launched == 0;
    CHECK(s->on->n_launched - s->on->n_taken < STEP_RESULTS && rows >= 1 && rows <= s->max_depth + 1);
    keep_all_fresh(s);
    launch(s, first ? &s->on->first : &s->on->step[rows - 1], &(struct recipe){.step_rows = rows, .first = first, .to = -1});
    if (first)                          /* where a step leaves it */
        s->dev->copy(s->dev, s->f->fused->hidden, mine(s).last_hidden, (size_t)s->hidden * sizeof(float));
    s->on->n_launched++;
    s->on->n_made = 0;
    s->on->rows = s->on->of = rows;
    s->on->at = 0;
    s->on->fresh = s->mtp;
    s->n_parts = 0;
}

/* The next rows of the conversation that calls are about are those of a step of `of` rows, from `at` on. */
static void join_step(struct stepper *s, int at, int rows, int of)
{
    struct stepper_slot *o = s->on;
    CHECK(rows >= 1 && rows <= s->max_depth + 1 && o->n_launched > 0 && o->n_launched - o->n_taken < STEP_RESULTS);
    o->n_launched++;
    o->n_made = 0;
    o->rows = rows;
    o->at = at;
    o->of = of;
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
        stepper_choose(s, parts[i].slot);
        join_step(s, at, parts[i].rows, n_rows);
        draft_rows[i] = (struct step_row){.slot = parts[i].slot, .first = at};
        for (int j = 0; j < parts[i].rows; j++)
            rows[at + j] = (struct step_row){.slot = parts[i].slot, .index = j, .first = at};
    }
    s->dev->copy(s->dev, s->rows, rows, (size_t)n_rows * sizeof *rows);
    s->dev->copy(s->dev, s->draft_rows, draft_rows, (size_t)n * sizeof *draft_rows);
    launch(s, &s->together[n_rows - 1], &(struct recipe){.step_rows = n_rows, .together = true, .to = -1});
    memcpy(s->parts, parts, (size_t)n * sizeof *parts);
    s->n_parts = n;
    s->n_made = 0;
}

/* n drafts for each of so many conversations, `before` of which there were. */
static void count_drafts(struct stepper *s, int n, int n_conversations, int before)
{
    const int chained = before ? n : n - 1;
    s->counts.drafts += (long)n * n_conversations;
    s->counts.heads += n;
    s->counts.chained_runs += chained;
    s->counts.chained_rows += (long)chained * n_conversations;
}

/* `rows`: of the newest pick, at least. */
static void run_fresh(struct stepper *s, int rows)
{
    catch_up(s);
    launch(s, &s->on->mtp[rows - 1], &(struct recipe){.mtp_rows = rows, .to = -1});
    s->counts.mtp_rows += rows;
    s->counts.mtp_runs++;
    s->on->fresh = false;
    s->drafting = s->on;
}

void stepper_draft(struct stepper *s, int n)
{
    const int from = s->on->n_made, to = from + n - 1;
    CHECK(s->mtp && s->on->n_launched > 0 && !s->on->at && n > 0 && to < s->max_depth);
    if (s->on->fresh && newest_tokens(s))
        run_fresh(s, newest_tokens(s));
    CHECK(!s->drafting || s->drafting == s->on || !newest_tokens(s));
    launch(s, &s->on->drafts[from][to], &(struct recipe){.from = from, .to = to});
    s->on->n_made += n;
    count_drafts(s, n, 1, from);
}

/* The MTP rows behind the newest step, of its first n parts. */
static void run_fresh_together(struct stepper *s, int n)
{
    const int rows = count_rows(s->parts, n);
    for (int i = 0; i < n; i++) {
        stepper_choose(s, s->parts[i].slot);
        CHECK(s->on->fresh);
        catch_up(s);
        s->on->fresh = false;
    }
    launch(s, &s->mtp_together[rows - 1], &(struct recipe){.mtp_rows = rows, .together = true, .to = -1});
    s->counts.mtp_rows += rows;
    s->counts.mtp_runs++;
    s->drafting = NULL;
}

void stepper_draft_together(struct stepper *s, int n_parts, int n)
{
    const int from = s->n_made, to = from + n - 1;
    CHECK(s->mtp && n_parts >= 1 && n_parts <= s->n_parts && n > 0 && to < s->max_depth);
    if (!from)
        run_fresh_together(s, n_parts);
    for (int i = from; i <= to; i++)
        launch(s, &s->draft_together[i][n_parts - 1], &(struct recipe){.together = true, .from = i, .to = i, .n_drafting = n_parts});
    for (int i = 0; i < n_parts; i++)
        s->slots[s->parts[i].slot].n_made += n;
    s->n_made += n;
    count_drafts(s, n, n_parts, from);
}

void stepper_propose(struct stepper *s, const int32_t *ids, int n)
{
    struct { int32_t ids[STEP_ROWS - 1], n; } drafts = {.n = n};
    _Static_assert(offsetof(struct step_live, n_drafts) == offsetof(struct step_live, ids) + STEP_ROWS * sizeof(int32_t), "the ids, then their number");
    CHECK(n > 0 && n <= s->max_depth && s->on->n_taken == s->on->n_launched);
    memcpy(drafts.ids, ids, (size_t)n * sizeof *ids);
    s->dev->copy(s->dev, &mine(s).live->ids[1], &drafts, sizeof drafts);
}

void stepper_launch(struct stepper *s)
{
    const int n = s->on->depth;
    if (!n || !s->on->n_launched || s->on->fresh || s->on->n_behind) {
        stepper_step(s, 1);
        if (n)
            stepper_draft(s, n);
        return;
    }
    CHECK(s->on->n_launched - s->on->n_taken < STEP_RESULTS);
    keep_all_fresh(s);
    s->drafting = s->on;
    launch(s, &s->on->whole[n - 1], &(struct recipe){.step_rows = n + 1, .mtp_rows = n + 1, .to = n - 1});
    s->counts.mtp_rows += n + 1;
    s->counts.mtp_runs++;
    s->n_parts = 0;
    s->on->n_launched++;
    s->on->rows = s->on->of = n + 1;
    s->on->at = 0;
    s->on->n_made = n;
    count_drafts(s, n, 1, 0);
}

int stepper_behind(const struct stepper *s)
{
    return s->on->n_behind;
}

struct stepper_counts stepper_counts(const struct stepper *s)
{
    return s->counts;
}

/* Until the device has written the serial; false when it failed. */
static bool await(struct stepper *s, const volatile int32_t *serial, int32_t expected, struct patience *p, struct err *e)
{
    const int64_t start = clock_ns();
    int64_t asked = start, nap = 0;
    if (__atomic_load_n(serial, __ATOMIC_ACQUIRE) == expected)          /* as when another answer of the same step was waited for: that tells nothing */
        return true;
    while (__atomic_load_n(serial, __ATOMIC_ACQUIRE) != expected) {
        CHECK(s->dev->caps->beside_host);       /* otherwise it is there when the launch returns */
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

bool stepper_wait(struct stepper *s, struct step_result *out, struct err *e)
{
    const struct step_result *r = &mine(s).results[(s->on->n_taken + 1) % STEP_RESULTS];       /* picks count from 1 */
    CHECK(s->on->n_taken < s->on->n_launched);
    if (!await(s, &r->serial, s->on->n_taken + 1, s->on->n_taken ? &s->for_step[s->on->of - 1] : &s->for_first, e))
        return false;
    memcpy(out, r, sizeof *out);
    s->on->tokens[s->on->n_taken % STEP_RESULTS] = out->n;
    s->on->n_tokens += out->n;
    s->on->n_taken++;
    return true;
}

bool stepper_drafts(struct stepper *s, struct step_drafts *out, struct err *e)
{
    if (s->on->n_made && !await(s, &mine(s).made->serial, s->on->n_launched * STEP_ROWS + s->on->n_made, &s->for_drafts[s->on->n_made - 1], e))
        return false;
    memcpy(out, mine(s).made, sizeof *out);
    return true;
}

int stepper_end(struct stepper *s, int n_delivered, struct err *e)
{
    struct step_result r;
    while (s->on->n_taken < s->on->n_launched)
        if (!stepper_wait(s, &r, e))
            return -1;
    s->dev->copy(s->dev, &s->on->live, mine(s).live, sizeof s->on->live);
    if (!s->dev->finish(s->dev, e))
        return -1;
    /* The first pick is no step; those behind the last one that was heard are taken back. */
    const int last = s->on->n_launched - 1, heard = n_delivered > 0 ? n_delivered - 1 : 0, back = last - heard;
    const int tokens[2] = {s->on->tokens[last % STEP_RESULTS], s->on->tokens[(last + STEP_RESULTS - 1) % STEP_RESULTS]};
    struct state *state = &s->on->k->state;
    CHECK(back >= 0 && back <= 2);
    const int hidden = state_take_over(state, &s->on->live, back < last ? back : last, tokens);
    s->dev->copy(s->dev, state->last_hidden, mine(s).last_hidden + (size_t)hidden * (size_t)s->hidden, (size_t)s->hidden * sizeof(float));
    keep_fresh(s);
    if (s->on->n_behind > state->pos - s->on->behind_pos)       /* of what was taken back, or came after the end */
        s->on->n_behind = state->pos > s->on->behind_pos ? state->pos - s->on->behind_pos : 0;
    catch_up(s);
    return state->pos;
}

int stepper_pause(struct stepper *s, struct err *e)
{
    CHECK(s->on->n_taken == s->on->n_launched);
    return stepper_end(s, s->on->n_taken, e);
}

void stepper_resume(struct stepper *s)
{
    struct step_live live = s->on->live;    /* the device's own was needed to end the steps */
    struct state *state = &s->on->k->state;
    state_end_steps(state);             /* unless saving the states did so */
    live.pos = state->pos;
    live.parity = live.n_apply = 0;
    state_begin_steps(state, s->f->w, mine(s).live, state->pos);
    s->dev->copy(s->dev, mine(s).live, &live, sizeof live);
    s->dev->copy(s->dev, mine(s).last_hidden, state->last_hidden, (size_t)s->hidden * sizeof(float));
}

/* ---- measurements ---- */

bool stepper_measure(struct stepper *s, int rows, int pos, int n_steps, int overlap, double *ms_per_step, double *distinct, struct err *e)
{
    enum { WARM_UP = 3 };
    struct fused *u = s->f->fused;
    struct cache *k = s->slots[0].k;
    const struct fused_rows r = {.k = k, .live = s->of.live, .n = rows};
    const struct step_sampling how = {.n_ids = s->vocab, .room = 1 << 30};
    struct step_live live = {.pos = pos};
    CHECK(rows >= 1 && rows <= s->max_depth + 1);
    int32_t *seen = s->dev->alloc_host(s->dev, (size_t)s->f->cfg->n_layers * sizeof *seen);
    CHECK(seen);
    for (int i = 0; i < rows; i++)
        live.ids[i] = (int32_t)((unsigned)i * 7919u % (unsigned)s->vocab);
    state_end_steps(&k->state);
    state_begin_steps(&k->state, s->f->w, s->of.live, pos);
    s->dev->copy(s->dev, s->of.sampling, &how, sizeof how);
    s->dev->copy(s->dev, s->of.live, &live, sizeof live);
    u->overlap = overlap;
    s->dev->graph_begin(s->dev);
    queue_step(s, &s->of, &r, false);
    struct dev_graph *g = s->dev->graph_end(s->dev, e);
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
        fused_layers(s->f, &r);
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

#include "engine/saving.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/least.h"
#include "base/memory.h"
#include "base/worker.h"
#include "engine/checkpoint.h"

/* Copied KV rows: of the positions from the end of the piece before (or the first that was wanted) to `to` - 1. */
struct piece {
    struct piece *next;
    int    to;
    size_t bytes;
    char   data[];
};

/* A copy of the states after `pos` tokens, made when the save began. */
struct saved_states { int pos; void *data; };

/* A save in the queue.  It is used without the lock: by the engine thread in stage WANTS, by the thread that writes in the other stages.  A save of
 * an evicted sequence is used by both threads at a time: one copies (copy_piece()), the other writes; neither changes what the other one reads.
 *
 *     OPENING -> WANTS <-> WRITING -> freed           a save on request
 *     OPENING -> WRITING -> freed                     a sequence that was evicted */
struct job {
    struct job *next;                   /* evicted: the next one in the list */
    enum { OPENING, WANTS, WRITING } stage;
    bool  dropped;                      /* a newer save replaces this one, or the file lacks rows that it should have: nothing more is written */
    bool  evicted;
    struct piece *first, **last;        /* copied pieces that are not written yet */
    bool   whole;                       /* evicted: the last piece was added */

    uint64_t name;                      /* of the conversation */
    char    *path;
    struct fingerprint identity;
    struct resident    of;
    struct span_buf    spans;           /* tokens that are to be saved */
    struct saved_states states[SAVED_STATES];
    int    n_states;
    size_t state_bytes;                 /* size of one set of states */
    struct checkpoint *file;
    int    n_there;                     /* tokens whose rows the file has */
    int    expected;                    /* evicted: tokens whose rows the file must have had before; -1: any number */
    struct err why;                     /* why the file cannot be written; "": it can */
};

struct saving {
    struct saving_hooks hooks;
    struct worker worker;               /* its lock guards the members below */
    struct job *job;                    /* the save on request that is under way */
    struct job *next;                   /* the save on request that begins when that one has ended */
    struct job *evicted;                /* saves of evicted sequences, in order; written before those on request */
    int         n_evicted;
    size_t      held;                   /* bytes of copied pieces of evicted sequences */
};

/* --- what is saved ------------------------------------------------------------------------------------------------------- */

/* Adds the position of the newest snapshot at or before `pos` to the content, unless that has it. */
static void add_states_at(const struct resident *r, int pos, struct content *c, int *n)
{
    const int slot = snapshots_find(r->snaps, r->slot, pos);
    if (slot >= 0 && !(*n && c->pos[0] == r->snaps->pos[slot]))
        c->pos[(*n)++] = r->snaps->pos[slot];
}

/* Returns the states where the next turn rejoins and, if the answer may still be continued, the newest states.  No more, since one set of states of
 * a large model is as large as the rows of 23,000 tokens. */
struct content saving_content(const struct resident *r)
{
    struct content c = {0};
    int n = 0;
    const bool known = r->rejoins > 0 && r->rejoins < r->tl->n_run;
    if (!known || !r->finished)
        add_states_at(r, r->tl->n_run, &c, &n);
    if (known)
        add_states_at(r, r->rejoins, &c, &n);
    if (!n)
        add_states_at(r, r->tl->n_run, &c, &n);
    c.spans = spans_head(timeline_spans(r->tl), c.pos[0]);
    return c;
}

/* Copies the states of snapshots, which the device must have finished.  NULL: the sequence has no snapshots, so there is nothing to save. */
static struct job *job_open(uint64_t name, const char *path, struct fingerprint identity, const struct resident *r)
{
    const struct content has = saving_content(r);
    if (!has.spans.n)
        return NULL;
    struct job *j = memory_zeroed(1, sizeof *j);
    *j = (struct job){.name = name, .path = memory_strdup(path), .identity = identity, .of = *r, .state_bytes = r->snaps->bytes,
                        .expected = -1, .last = &j->first};
    for (int i = 0; i < SAVED_STATES && has.pos[i]; i++) {
        void *data = memory_alloc(j->state_bytes);
        memcpy(data, snapshots_at(r->snaps, snapshots_find(r->snaps, r->slot, has.pos[i])), j->state_bytes);
        j->states[j->n_states++] = (struct saved_states){has.pos[i], data};
    }
    span_buf_add(&j->spans, has.spans, has.spans.n);
    return j;
}

/* Frees a job with its pieces and states and closes its file; NULL is allowed. */
static void job_close(struct job *j)
{
    if (!j)
        return;
    checkpoint_close(j->file);
    for (struct piece *p = j->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    for (int i = 0; i < j->n_states; i++)
        free(j->states[i].data);
    span_buf_free(&j->spans);
    free(j->path);
    free(j);
}

/* Returns the number of equal rows, of `common` equal tokens.  If more tokens follow, the last row differs: the MTP block's row of a token depends
 * on the next token. */
static int rows_that_stay(const struct job *j, int common)
{
    return common - (common > 0 && common < j->spans.ids.n);
}

/* --- copying, on the engine thread ----------------------------------------------------------------------------------------- */

/* Leaves out tokens and states that the sequence has replaced since.  The other thread must not write meanwhile. */
static void leave_out_replaced(struct job *j)
{
    const struct timeline *t = j->of.tl;
    int n = least(t->n_run, spans_common(timeline_spans(t), spans_of(&j->spans))), n_states = 0;
    span_buf_cut(&j->spans, most(n, j->n_there));
    for (int i = 0; i < j->n_states; i++) {
        if (j->states[i].pos <= j->spans.ids.n)
            j->states[n_states++] = j->states[i];
        else
            free(j->states[i].data);
    }
    j->n_states = n_states;
}

/* Copies rows from position `from` on, as many as fit into a piece, but at least one.  NULL when the device failed. */
static struct piece *copy_piece(const struct job *j, int from, struct err *fault)
{
    int to = j->spans.ids.n;
    while (to - from > 1 && cache_rows_bytes(j->of.cache, from, to) > SAVING_PIECE)
        to = from + (to - from) / 2;
    const size_t bytes = cache_rows_bytes(j->of.cache, from, to);
    struct piece *p = memory_alloc(sizeof *p + bytes);
    *p = (struct piece){.to = to, .bytes = bytes};
    cache_rows_save(j->of.cache, from, to, p->data);
    if (j->of.dev->finish(j->of.dev, fault))
        return p;
    free(p);
    return NULL;
}

/* Called under the lock. */
static void add_piece(struct job *j, struct piece *p)
{
    *j->last = p;
    j->last = &p->next;
}

/* --- writing, on its thread -------------------------------------------------------------------------------------------------- */

/* Opens the file and drops from it what is not of this sequence.  False: the file lacks rows that it should have, and stays as it is. */
static bool open_file(struct job *j)
{
    j->file = checkpoint_edit(j->path, j->identity, &j->why);
    if (!j->file)
        return true;                    /* with the reason in j->why */
    j->n_there = rows_that_stay(j, spans_common(checkpoint_spans(j->file), spans_of(&j->spans)));
    if (j->n_there < j->expected)
        return false;
    if (j->expected >= 0)
        j->n_there = j->expected;
    checkpoint_cut(j->file, j->n_there);
    return true;
}

/* True if this save writes states of `pos`. */
static bool adds_states_at(const struct job *j, int pos)
{
    for (int i = 0; i < j->n_states; i++)
        if (j->states[i].pos == pos)
            return true;
    return false;
}

/* Drops states of earlier saves, those of the lowest position first, until all states of the file are no larger than its rows: the tokens of a short
 * conversation are computed sooner than states are read. */
static void drop_old_states(const struct job *j)
{
    for (;;) {
        int n, oldest = 0;
        const struct checkpoint_section *all = checkpoint_sections(j->file, &n);
        uint64_t rows = 0, states = 0;
        for (int i = 0; i < n; i++) {
            *(checkpoint_is_rows(&all[i]) ? &rows : &states) += all[i].bytes;
            if (!checkpoint_is_rows(&all[i]) && !adds_states_at(j, all[i].from) && (!oldest || all[i].from < oldest))
                oldest = all[i].from;
        }
        if (!oldest || states <= rows)
            return;
        checkpoint_drop_states(j->file, oldest);
    }
}

/* Adds the states and commits, after all rows were written; or fills in the failure. */
static void finish_file(struct job *j, struct saved *out)
{
    bool ok = !*j->why.msg;
    for (int i = 0; ok && i < j->n_states; i++) {
        checkpoint_drop_states(j->file, j->states[i].pos);
        ok = checkpoint_add_states(j->file, j->states[i].pos, j->states[i].data, j->state_bytes, &j->why);
    }
    if (ok)
        drop_old_states(j);
    ok = ok && checkpoint_commit(j->file, &j->why);
    out->failed = j->why;
    out->written = j->file ? checkpoint_written(j->file) : 0;
    if (ok) {
        out->bytes = checkpoint_bytes(j->file);
        out->has = (struct content){.spans = spans_head(spans_of(&j->spans), j->n_there)};
        for (int i = 0; i < j->n_states; i++)
            out->has.pos[i] = j->states[i].pos;
    } else if (j->file) {               /* deleted, since on a full disk the conversation itself needs the space */
        unlink(j->path);
    }
}

/* Ends a job whose rows are all written, or that is given up.  Called under the lock, which it releases for a while. */
static void end_job(struct saving *s, struct job *j, struct job **at)
{
    struct saved out = {.name = j->name, .path = j->path, .evicted = j->evicted, .dropped = j->dropped};
    worker_unlock(&s->worker);
    if (!out.dropped)
        finish_file(j, &out);
    checkpoint_close(j->file);          /* before done() reports that others may open it */
    j->file = NULL;
    worker_lock(&s->worker);
    *at = j->next;
    s->hooks.done(s->hooks.arg, &out);
    job_close(j);                       /* under the lock, so that no other thread can still be reading the job */
}

/* Opens the file, or writes one piece; neither if the job is dropped or has failed.  Called under the lock, which it releases for a while. */
static void advance(struct saving *s, struct job *j)
{
    struct piece *p = j->stage == WRITING ? j->first : NULL;
    if (p && !(j->first = p->next))
        j->last = &j->first;
    const bool wanted = !j->dropped && !*j->why.msg;
    bool fits = true;
    worker_unlock(&s->worker);
    if (wanted && j->stage == OPENING)
        fits = open_file(j);
    if (wanted && p) {
        checkpoint_add_rows(j->file, spans_of(&j->spans), p->to, p->data, p->bytes, &j->why);
        j->n_there = p->to;
    }
    worker_lock(&s->worker);
    j->dropped |= !fits;
    if (p && j->evicted)
        s->held -= p->bytes;
    free(p);
}

/* Does the next piece of work for the first evicted sequence.  Called under the lock.  False: there is none. */
static bool advance_evicted(struct saving *s)
{
    struct job *j = s->evicted;
    if (!j || (j->stage == WRITING && !j->first && !j->whole))
        return false;
    if (j->stage == WRITING && !j->first) {
        end_job(s, j, &s->evicted);
        s->n_evicted--;
    } else {
        advance(s, j);
        j->stage = WRITING;
    }
    return true;
}

/* Does the next piece of work for the save on request.  Called under the lock.  False: there is none. */
static bool advance_requested(struct saving *s)
{
    struct job *j = s->job;
    if (!j && s->next) {
        s->job = s->next;
        s->next = NULL;
        return true;
    }
    if (!j || (j->stage == WANTS && !j->dropped))
        return false;
    if (!j->dropped)
        advance(s, j);
    if (j->dropped || *j->why.msg || j->n_there == j->spans.ids.n) {
        end_job(s, j, &s->job);
    } else {
        j->stage = WANTS;
        s->hooks.wants_rows(s->hooks.arg);
    }
    return true;
}

static int64_t saving_work(void *arg)
{
    struct saving *s = arg;
    const bool worked = (s->job && s->job->dropped && advance_requested(s)) || advance_evicted(s) || advance_requested(s);
    return worked ? WORKER_AGAIN : WORKER_IDLE;
}

struct saving *saving_open(const struct saving_hooks *h, struct err *e)
{
    struct saving *s = memory_zeroed(1, sizeof *s);
    s->hooks = *h;
    if (worker_start(&s->worker, 1, saving_work, s))
        return s;
    err_set(e, "cannot start the thread that saves conversations");
    free(s);
    return NULL;
}

void saving_close(struct saving *s)
{
    if (!s)
        return;
    worker_stop(&s->worker);
    job_close(s->job);
    job_close(s->next);
    for (struct job *j = s->evicted, *next; j; j = next) {
        next = j->next;
        job_close(j);
    }
    free(s);
}

/* --- a save on request, on the engine thread -------------------------------------------------------------------------------- */

static void report_dropped(struct saving *s, uint64_t name)
{
    s->hooks.done(s->hooks.arg, &(struct saved){.name = name, .dropped = true});
}

bool saving_begin(struct saving *s, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* copies into snapshots are complete */
        return false;
    struct job *j = job_open(name, path, identity, r);
    worker_lock(&s->worker);
    CHECK(!s->job || s->job->name == name);
    if (s->job)
        s->job->dropped = true;
    struct job *old = s->next;
    s->next = j;
    worker_wake(&s->worker);
    worker_unlock(&s->worker);
    for (int n = (old != NULL) + (j == NULL); n; n--)
        report_dropped(s, name);
    job_close(old);
    return true;
}

/* True if the save on request waits for rows.  Called under the lock. */
static bool wants_rows(const struct saving *s)
{
    return s->job && !s->job->dropped && s->job->stage == WANTS;
}

bool saving_step(struct saving *s, struct err *fault)
{
    struct piece *p = NULL;
    worker_lock(&s->worker);
    struct job *j = wants_rows(s) ? s->job : NULL;
    worker_unlock(&s->worker);
    if (!j)
        return true;
    leave_out_replaced(j);
    if (j->n_there < j->spans.ids.n && !(p = copy_piece(j, j->n_there, fault)))
        return false;
    worker_lock(&s->worker);
    if (p)
        add_piece(j, p);
    j->stage = WRITING;
    worker_wake(&s->worker);
    worker_unlock(&s->worker);
    return true;
}

bool saving_wait(struct saving *s)
{
    worker_lock(&s->worker);
    while ((s->evicted || s->job || s->next) && !wants_rows(s))
        worker_wait(&s->worker, WORKER_IDLE);
    const bool wants = wants_rows(s);
    worker_unlock(&s->worker);
    return wants;
}

static bool is_to(const struct job *j, const char *path)
{
    return j && !strcmp(j->path, path);
}

bool saving_writes(struct saving *s, const char *path)
{
    worker_lock(&s->worker);
    const struct job *j = s->evicted;
    while (j && !is_to(j, path))
        j = j->next;
    const bool writes = j || is_to(s->job, path) || is_to(s->next, path);
    worker_unlock(&s->worker);
    return writes;
}

/* --- a sequence that is evicted, on the engine thread ------------------------------------------------------------------------ */

/* Appends the job to those of evicted sequences, when there are fewer than SAVING_EVICTED.  It replaces the saves on request of its conversation. */
static void enter(struct saving *s, struct job *j)
{
    struct job **at = &s->evicted;
    worker_lock(&s->worker);
    if (s->job && s->job->name == j->name)
        s->job->dropped = true;
    struct job *old = s->next && s->next->name == j->name ? s->next : NULL;
    if (old)
        s->next = NULL;
    worker_wake(&s->worker);
    while (s->n_evicted == SAVING_EVICTED)
        worker_wait(&s->worker, WORKER_IDLE);
    while (*at)
        at = &(*at)->next;
    *at = j;
    s->n_evicted++;
    worker_wake(&s->worker);
    worker_unlock(&s->worker);
    if (old)
        report_dropped(s, old->name);
    job_close(old);
}

/* Hands a piece to the thread that writes, and waits until SAVING_HELD has room for it; a larger piece waits until no other is held. */
static void hand_over(struct saving *s, struct job *j, struct piece *p)
{
    worker_lock(&s->worker);
    while (s->held && s->held + p->bytes > SAVING_HELD)
        worker_wait(&s->worker, WORKER_IDLE);
    s->held += p->bytes;
    add_piece(j, p);
    worker_wake(&s->worker);
    worker_unlock(&s->worker);
}

bool saving_evict(struct saving *s, uint64_t name, const char *path, int common, struct fingerprint identity, const struct resident *r,
                  struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* copies into snapshots are complete */
        return false;
    struct job *j = job_open(name, path, identity, r);
    if (!j) {
        s->hooks.done(s->hooks.arg, &(struct saved){.name = name, .path = path, .evicted = true, .dropped = true});
        return true;
    }
    bool ok = true;
    j->evicted = true;
    int from = j->expected = rows_that_stay(j, common);
    const int n = j->spans.ids.n;
    enter(s, j);
    while (ok && from < n) {
        struct piece *p = copy_piece(j, from, fault);
        ok = p;
        if (ok) {
            from = p->to;
            hand_over(s, j, p);
        }
    }
    worker_lock(&s->worker);            /* no piece follows: from here on the other thread may free the job */
    j->dropped |= !ok;
    j->whole = true;
    worker_wake(&s->worker);
    worker_unlock(&s->worker);
    return ok;
}

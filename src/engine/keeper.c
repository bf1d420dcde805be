#include "engine/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quiet.h"
#include "engine/checkpoint.h"

/* States as they were when the save began. */
struct saved_states { int pos; void *data; };

/* Rows up to a token. */
struct piece {
    struct piece *next;
    int    to;
    size_t bytes;
    char   data[];
};

/* A save.  Without the lock the engine thread may touch it in WANTS alone, the keeper's thread in the other stages.
 *
 *     OPENING -> WANTS <-> WRITING -> gone
 *     OPENING -> WRITING -> gone                      of a sequence that left */
struct job {
    struct job *next;                   /* of those that left */
    enum { OPENING, WANTS, WRITING } stage;
    bool  dropped;                      /* another one takes its place; or its file is not as expected */
    bool  evicted;
    uint64_t name;
    char *path;
    struct fingerprint identity;
    struct resident    of;
    struct ids         ids;             /* that are to be saved */
    struct saved_states states[SAVED_STATES];
    int    n_states;
    size_t state_bytes;
    struct checkpoint *file;
    int    n_there;                     /* tokens that the file has */
    int    expected;                    /* evicted: that it must have; their rows were not copied */
    struct piece *first, **last;        /* for the file; under the lock */
    bool   whole;                       /* evicted: no piece is still to come */
    struct err why;                     /* it cannot be written; "": it can */
};

struct keeper {
    struct keeper_hooks hooks;
    pthread_t       thread;
    pthread_mutex_t lock;               /* guards what is below */
    pthread_cond_t  changed;
    struct job     *job;                /* under way */
    struct job     *next;               /* begins when that one has ended */
    struct job     *left;               /* of sequences that left, in order; these go first */
    int             n_left;
    size_t          held;               /* bytes of their pieces */
    bool            ending;
};

/* --- a save, on the keeper's thread ---------------------------------------------------------------------------------- */

static void job_free(struct job *j)
{
    if (!j)
        return;
    checkpoint_close(j->file);
    for (int i = 0; i < j->n_states; i++)
        free(j->states[i].data);
    for (struct piece *p = j->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    ids_free(&j->ids);
    free(j->path);
    free(j);
}

static int same(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
    int i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

/* But not the last row, if more follow: the MTP block's row of a token depends on the next one. */
static int rows_that_stay(const struct job *j, int common)
{
    return common - (common > 0 && common < j->ids.n);
}

/* What the file has of the sequence stays.  False: it lacks what it was expected to have. */
static bool open_file(struct job *j)
{
    int n;
    j->file = checkpoint_edit(j->path, j->identity, &j->why);
    if (!j->file)
        return true;
    const int32_t *ids = checkpoint_ids(j->file, &n);
    j->n_there = rows_that_stay(j, same(ids, n, j->ids.data, j->ids.n));
    if (j->evicted && j->n_there < j->expected)
        return false;
    if (j->evicted)
        j->n_there = j->expected;
    checkpoint_cut(j->file, j->n_there);
    return true;
}

static void write_rows(struct job *j, const struct piece *p)
{
    checkpoint_add_rows(j->file, j->ids.data + j->n_there, p->to - j->n_there, p->data, p->bytes, &j->why);
    j->n_there = p->to;
}

static bool is_ours(const struct job *j, int pos)
{
    for (int i = 0; i < j->n_states; i++)
        if (j->states[i].pos == pos)
            return true;
    return false;
}

/* Older states are kept while all of them take no more room than the rows: a short conversation is computed again sooner than they are
 * read.  Those of the lowest position go first. */
static void drop_old_states(const struct job *j)
{
    for (;;) {
        int n, oldest = 0;
        const struct checkpoint_section *s = checkpoint_sections(j->file, &n);
        uint64_t rows = 0, states = 0;
        for (int i = 0; i < n; i++) {
            *(checkpoint_is_rows(&s[i]) ? &rows : &states) += s[i].bytes;
            if (!checkpoint_is_rows(&s[i]) && !is_ours(j, s[i].from) && (!oldest || s[i].from < oldest))
                oldest = s[i].from;
        }
        if (!oldest || states <= rows)
            return;
        checkpoint_drop_states(j->file, oldest);
    }
}

static bool write_states(struct job *j)
{
    bool ok = true;
    for (int i = 0; ok && i < j->n_states; i++) {
        checkpoint_drop_states(j->file, j->states[i].pos);
        ok = checkpoint_add_states(j->file, j->states[i].pos, j->states[i].data, j->state_bytes, &j->why);
    }
    drop_old_states(j);
    return ok;
}

/* Its end: all rows are there, or something went wrong. */
static void finish(struct job *j, struct kept *out)
{
    const bool ok = !*j->why.msg && write_states(j) && checkpoint_commit(j->file, &j->why);
    out->failed = j->why;
    if (j->file)
        out->written = checkpoint_written(j->file);
    if (ok) {
        out->bytes = checkpoint_bytes(j->file);
        out->has = (struct saving){.ids = j->ids.data, .n = j->n_there};
        for (int i = 0; i < j->n_states; i++)
            out->has.pos[i] = j->states[i].pos;
    } else if (j->file) {               /* ours alone: a full disk is needed for the conversation itself */
        unlink(j->path);
    }
}

/* ... under the lock, which is left meanwhile. */
static void end_job(struct keeper *k, struct job *j, struct job **at)
{
    struct kept out = {.name = j->name, .path = j->path, .evicted = j->evicted, .dropped = j->dropped};
    pthread_mutex_unlock(&k->lock);
    if (!out.dropped)
        finish(j, &out);
    checkpoint_close(j->file);          /* before others hear of it */
    j->file = NULL;
    pthread_mutex_lock(&k->lock);
    *at = j->next;
    k->hooks.done(k->hooks.arg, &out);
    job_free(j);                        /* under the lock: nobody reads it any more */
}

/* Under the lock. */
static struct piece *take_piece(struct job *j)
{
    struct piece *p = j->first;
    if (p && !(j->first = p->next))
        j->last = &j->first;
    return p;
}

/* Under the lock, which is left meanwhile: the file is opened, or a piece written.  What is not worth it any more is not. */
static void advance(struct keeper *k, struct job *j)
{
    struct piece *p = j->stage == WRITING ? take_piece(j) : NULL;
    const bool wanted = !j->dropped && !*j->why.msg;
    bool fits = true;
    pthread_mutex_unlock(&k->lock);
    if (wanted && j->stage == OPENING)
        fits = open_file(j);
    else if (wanted && p)
        write_rows(j, p);
    pthread_mutex_lock(&k->lock);
    j->dropped |= !fits;
    if (p && j->evicted)
        k->held -= p->bytes;
    free(p);
}

/* Under the lock.  False: there is nothing to do. */
static bool go_on_with_left(struct keeper *k)
{
    struct job *j = k->left;
    if (!j || (j->stage == WRITING && !j->first && !j->whole))
        return false;
    if (j->stage == WRITING && !j->first) {
        end_job(k, j, &k->left);
        k->n_left--;
    } else {
        advance(k, j);
        j->stage = WRITING;
    }
    return true;
}

static bool go_on_with_job(struct keeper *k)
{
    struct job *j = k->job;
    if (!j && k->next) {
        k->job = k->next;
        k->next = NULL;
        return true;
    }
    if (!j || (j->stage == WANTS && !j->dropped))
        return false;
    if (!j->dropped)
        advance(k, j);
    if (j->dropped || *j->why.msg || j->n_there == j->ids.n) {
        end_job(k, j, &k->job);
    } else {
        j->stage = WANTS;
        k->hooks.wants_rows(k->hooks.arg);
    }
    return true;
}

static void *keeper_main(void *arg)
{
    struct keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->ending) {
        const bool worked = (k->job && k->job->dropped && go_on_with_job(k)) || go_on_with_left(k) || go_on_with_job(k);
        if (worked)
            pthread_cond_broadcast(&k->changed);
        else
            pthread_cond_wait(&k->changed, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

struct keeper *keeper_open(const struct keeper_hooks *h, struct err *e)
{
    struct keeper *k = memory_zeroed(1, sizeof *k);
    k->hooks = *h;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    int rc = quiet_thread(&k->thread, keeper_main, k);
    if (!rc)
        return k;
    err_set(e, "cannot start the thread that saves: %s", strerror(rc));
    free(k);
    return NULL;
}

void keeper_close(struct keeper *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->ending = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    job_free(k->job);
    job_free(k->next);
    for (struct job *j = k->left, *next; j; j = next) {
        next = j->next;
        job_free(j);
    }
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* --- a save, on the engine thread --------------------------------------------------------------------------------------- */

/* Where the newest states are at or before a position, if they are not among those of the save. */
static void add_states_at(const struct resident *r, int pos, struct saving *s, int *n)
{
    const int slot = snapshots_find(r->snaps, r->sequence, pos);
    if (slot >= 0 && !(*n && s->pos[0] == r->snaps->pos[slot]))
        s->pos[(*n)++] = r->snaps->pos[slot];
}

/* The states from which the next turn goes on; and, where an answer may be continued, the newest ones.  States of a large model take as much
 * room as the rows of 23,000 tokens. */
struct saving keeper_saving(const struct resident *r)
{
    struct saving s = {.ids = r->tl->ids};
    int n = 0;
    const bool known = r->rejoins > 0 && r->rejoins < r->tl->n_run;
    if (!known || !r->finished)
        add_states_at(r, r->tl->n_run, &s, &n);
    if (known)
        add_states_at(r, r->rejoins, &s, &n);
    if (!n)
        add_states_at(r, r->tl->n_run, &s, &n);
    s.n = s.pos[0];
    return s;
}

/* NULL: there are no states. */
static struct job *make_job(uint64_t name, const char *path, struct fingerprint identity, const struct resident *r)
{
    const struct saving s = keeper_saving(r);
    if (!s.n)
        return NULL;
    struct job *j = memory_zeroed(1, sizeof *j);
    j->name = name;
    j->path = memory_strdup(path);
    j->identity = identity;
    j->of = *r;
    j->last = &j->first;
    j->state_bytes = r->snaps->bytes;
    for (int i = 0; i < SAVED_STATES && s.pos[i]; i++) {
        void *data = memory_alloc(j->state_bytes);
        memcpy(data, snapshots_at(r->snaps, snapshots_find(r->snaps, r->sequence, s.pos[i])), j->state_bytes);
        j->states[j->n_states++] = (struct saved_states){s.pos[i], data};
    }
    ids_append(&j->ids, s.ids, s.n);
    return j;
}

static void tell_dropped(struct keeper *k, uint64_t name)
{
    k->hooks.done(k->hooks.arg, &(struct kept){.name = name, .dropped = true});
}

bool keeper_begin(struct keeper *k, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* the snapshots are copied */
        return false;
    struct job *j = make_job(name, path, identity, r);
    pthread_mutex_lock(&k->lock);
    CHECK(!k->job || k->job->name == name);
    if (k->job)
        k->job->dropped = true;
    struct job *old = k->next;
    k->next = j;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    for (int n = (old != NULL) + (j == NULL); n; n--)
        tell_dropped(k, name);
    job_free(old);
    return true;
}

/* The job, if it waits for rows. */
static struct job *waiting(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    struct job *j = k->job && !k->job->dropped && k->job->stage == WANTS ? k->job : NULL;
    pthread_mutex_unlock(&k->lock);
    return j;
}

/* Leaves out what is not there any more. */
static void shorten(struct job *j)
{
    const struct timeline *t = j->of.tl;
    int n = same(t->ids, t->n_run, j->ids.data, j->ids.n), n_states = 0;
    j->ids.n = n > j->n_there ? n : j->n_there;
    for (int i = 0; i < j->n_states; i++) {
        if (j->states[i].pos <= j->ids.n)
            j->states[n_states++] = j->states[i];
        else
            free(j->states[i].data);
    }
    j->n_states = n_states;
}

/* The next rows: as many as a piece holds.  NULL when the device failed. */
static struct piece *copy_piece(const struct job *j, int from, struct err *fault)
{
    int to = j->ids.n;
    while (to - from > 1 && cache_rows_bytes(j->of.cache, from, to) > KEEPER_PIECE)
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

/* Under the lock. */
static void add_piece(struct job *j, struct piece *p)
{
    *j->last = p;
    j->last = &p->next;
}

bool keeper_step(struct keeper *k, struct err *fault)
{
    struct job *j = waiting(k);
    struct piece *p = NULL;
    if (!j)
        return true;
    shorten(j);
    if (j->ids.n > j->n_there && !(p = copy_piece(j, j->n_there, fault)))
        return false;
    pthread_mutex_lock(&k->lock);
    if (p)
        add_piece(j, p);
    j->stage = WRITING;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return true;
}

static bool is_to(const struct job *j, const char *path)
{
    return j && (!path || !strcmp(j->path, path));
}

static bool any_to(const struct keeper *k, const char *path)
{
    const struct job *j = k->left;
    while (j && !is_to(j, path))
        j = j->next;
    return j || is_to(k->job, path) || is_to(k->next, path);
}

bool keeper_wait(struct keeper *k, const char *path)
{
    pthread_mutex_lock(&k->lock);
    while (any_to(k, path) && !(is_to(k->job, path) && !k->job->dropped && k->job->stage == WANTS))
        pthread_cond_wait(&k->changed, &k->lock);
    bool wants = any_to(k, path);
    pthread_mutex_unlock(&k->lock);
    return wants;
}

/* --- a sequence that leaves ------------------------------------------------------------------------------------------ */

/* Under the lock: what was begun of that name is of no use any more.  Returns the one that had not begun, the caller's to free. */
static struct job *drop_saves(struct keeper *k, uint64_t name)
{
    struct job *old = k->next && k->next->name == name ? k->next : NULL;
    if (k->job && k->job->name == name)
        k->job->dropped = true;
    if (old)
        k->next = NULL;
    return old;
}

static void enter(struct keeper *k, struct job *j)
{
    struct job **at = &k->left;
    pthread_mutex_lock(&k->lock);
    struct job *old = drop_saves(k, j->name);
    while (k->n_left == KEEPER_LEFT)
        pthread_cond_wait(&k->changed, &k->lock);
    while (*at)
        at = &(*at)->next;
    *at = j;
    k->n_left++;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    if (old)
        tell_dropped(k, old->name);
    job_free(old);
}

/* A piece may be more than is to be held. */
static void hand_over(struct keeper *k, struct job *j, struct piece *p)
{
    pthread_mutex_lock(&k->lock);
    while (k->held && k->held + p->bytes > KEEPER_HELD)
        pthread_cond_wait(&k->changed, &k->lock);
    k->held += p->bytes;
    add_piece(j, p);
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* Its thread may free it from here on. */
static void seal(struct keeper *k, struct job *j, bool dropped)
{
    pthread_mutex_lock(&k->lock);
    j->dropped |= dropped;
    j->whole = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

bool keeper_evict(struct keeper *k, uint64_t name, const char *path, int common, struct fingerprint identity, const struct resident *r, struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* the snapshots are copied */
        return false;
    struct job *j = make_job(name, path, identity, r);
    bool ok = true;
    if (!j) {
        k->hooks.done(k->hooks.arg, &(struct kept){.name = name, .path = path, .evicted = true, .dropped = true});
        return true;
    }
    j->evicted = true;
    j->expected = rows_that_stay(j, common);
    enter(k, j);
    for (int from = j->expected; ok && from < j->ids.n;) {
        struct piece *p = copy_piece(j, from, fault);
        ok = p;
        if (ok) {
            from = p->to;
            hand_over(k, j, p);
        }
    }
    seal(k, j, !ok);
    return ok;
}

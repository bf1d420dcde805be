#include "engine/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/ids.h"
#include "base/memory.h"
#include "base/quiet.h"
#include "engine/checkpoint.h"

/* States as they were when the save began. */
struct saved_states { int pos; void *data; };

/* A save.  It belongs to the engine thread in WANTS, to the keeper's in the other stages.
 *
 *     OPENING -> WANTS <-> WRITING -> gone */
struct job {
    enum { OPENING, WANTS, WRITING } stage;
    bool  dropped;                      /* by the engine thread: another one takes its place */
    char *path;
    struct fingerprint identity;
    struct resident    of;
    struct ids         ids;             /* that are to be saved */
    struct saved_states states[KEEPER_STATES];
    int    n_states;
    size_t state_bytes;
    struct checkpoint *file;
    int    n_there;                     /* tokens that the file has */
    void  *rows;                        /* a piece for it */
    size_t rows_bytes;
    int    rows_to;
};

struct keeper {
    struct keeper_hooks hooks;
    pthread_t       thread;
    pthread_mutex_t lock;               /* guards what is below */
    pthread_cond_t  changed;
    struct job     *job;                /* under way */
    struct job     *next;               /* begins when that one has ended */
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
    ids_free(&j->ids);
    free(j->rows);
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

/* What the file has of the sequence stays. */
static bool open_file(struct job *j, struct err *e)
{
    int n;
    j->file = checkpoint_edit(j->path, j->identity, e);
    if (!j->file)
        return false;
    const int32_t *ids = checkpoint_ids(j->file, &n);
    j->n_there = same(ids, n, j->ids.data, j->ids.n);
    checkpoint_cut(j->file, j->n_there);
    return true;
}

static bool write_rows(struct job *j, struct err *e)
{
    bool ok = checkpoint_add_rows(j->file, j->ids.data + j->n_there, j->rows_to - j->n_there, j->rows, j->rows_bytes, e);
    j->n_there = j->rows_to;
    free(j->rows);
    j->rows = NULL;
    return ok;
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

static bool write_states(struct job *j, struct err *e)
{
    bool ok = true;
    for (int i = 0; ok && i < j->n_states; i++) {
        checkpoint_drop_states(j->file, j->states[i].pos);
        ok = checkpoint_add_states(j->file, j->states[i].pos, j->states[i].data, j->state_bytes, e);
    }
    drop_old_states(j);
    return ok;
}

/* Its end: all rows are there. */
static void finish(struct keeper *k, struct job *j, bool ok, struct kept *out)
{
    ok = ok && write_states(j, &out->failed) && checkpoint_commit(j->file, &out->failed);
    if (j->file) {
        out->written = checkpoint_written(j->file);
        out->bytes = checkpoint_bytes(j->file);
        out->n_tokens = j->n_there;
    }
    if (!ok) {                          /* a full disk is needed for the conversation itself */
        out->bytes = 0;
        unlink(j->path);
    }
    k->hooks.done(k->hooks.arg, out);
}

/* One stage, without the lock.  False: the job has ended. */
static bool advance(struct keeper *k, struct job *j)
{
    struct kept out = {0};
    bool ok = j->stage == OPENING ? open_file(j, &out.failed) : !j->rows || write_rows(j, &out.failed);
    if (ok && j->n_there < j->ids.n)
        return true;
    finish(k, j, ok, &out);
    return false;
}

static void *keeper_main(void *arg)
{
    struct keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->ending) {
        struct job *j = k->job;
        if (!j && k->next) {
            k->job = k->next;
            k->next = NULL;
        } else if (j && (j->dropped || j->stage != WANTS)) {
            bool dropped = j->dropped;
            pthread_mutex_unlock(&k->lock);
            bool more = !dropped && advance(k, j);
            if (!more)
                job_free(j);
            pthread_mutex_lock(&k->lock);
            if (more)
                j->stage = WANTS;
            else
                k->job = NULL;
            pthread_cond_broadcast(&k->changed);
            if (more)
                k->hooks.wants_rows(k->hooks.arg);
        } else {
            pthread_cond_wait(&k->changed, &k->lock);
        }
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
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* --- a save, on the engine thread --------------------------------------------------------------------------------------- */

static void take_states(struct job *j, int pos)
{
    int slot = snapshots_find(j->of.snaps, j->of.sequence, pos);
    if (slot < 0 || is_ours(j, j->of.snaps->pos[slot]))
        return;
    void *data = memory_alloc(j->state_bytes);
    memcpy(data, snapshots_at(j->of.snaps, slot), j->state_bytes);
    j->states[j->n_states++] = (struct saved_states){j->of.snaps->pos[slot], data};
}

/* The states from which the next turn goes on; and, where an answer may be continued, the newest ones.  States of a large model take as much
 * room as the rows of 23,000 tokens.  NULL: there are none. */
static struct job *make_job(const char *path, struct fingerprint identity, const struct resident *r)
{
    struct job *j = memory_zeroed(1, sizeof *j);
    j->path = memory_strdup(path);
    j->identity = identity;
    j->of = *r;
    j->state_bytes = r->snaps->bytes;
    const bool known = r->rejoins > 0 && r->rejoins < r->tl->n_run;
    if (!known || !r->finished)
        take_states(j, r->tl->n_run);
    if (known)
        take_states(j, r->rejoins);
    if (!j->n_states)
        take_states(j, r->tl->n_run);
    if (!j->n_states) {
        job_free(j);
        return NULL;
    }
    ids_append(&j->ids, r->tl->ids, j->states[0].pos);
    return j;
}

bool keeper_begin(struct keeper *k, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* the snapshots are copied */
        return false;
    struct job *j = make_job(path, identity, r);
    pthread_mutex_lock(&k->lock);
    if (k->job)
        k->job->dropped = true;
    struct job *old = k->next;
    k->next = j;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
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

/* As many as a piece holds. */
static int piece_end(const struct job *j)
{
    int to = j->ids.n;
    while (to - j->n_there > 1 && cache_rows_bytes(j->of.cache, j->n_there, to) > KEEPER_PIECE)
        to = j->n_there + (to - j->n_there) / 2;
    return to;
}

bool keeper_step(struct keeper *k, struct err *fault)
{
    struct job *j = waiting(k);
    if (!j)
        return true;
    shorten(j);
    if (j->ids.n > j->n_there) {
        j->rows_to = piece_end(j);
        j->rows_bytes = cache_rows_bytes(j->of.cache, j->n_there, j->rows_to);
        j->rows = memory_alloc(j->rows_bytes);
        cache_rows_save(j->of.cache, j->n_there, j->rows_to, j->rows);
        if (!j->of.dev->finish(j->of.dev, fault))
            return false;
    }
    pthread_mutex_lock(&k->lock);
    j->stage = WRITING;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return true;
}

bool keeper_wait(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    while ((k->job || k->next) && !(k->job && !k->job->dropped && k->job->stage == WANTS))
        pthread_cond_wait(&k->changed, &k->lock);
    bool wants = k->job;
    pthread_mutex_unlock(&k->lock);
    return wants;
}

/* --- a restore -------------------------------------------------------------------------------------------------------- */

static bool load_rows(const struct resident *r, const struct checkpoint_section *s, const void *data, struct err *e)
{
    if (s->bytes != cache_rows_bytes(r->cache, s->from, s->to))
        return err_set(e, "the checkpoint has %llu bytes for the rows from %d to %d, expected %zu", (unsigned long long)s->bytes, s->from, s->to,
                       cache_rows_bytes(r->cache, s->from, s->to));
    cache_rows_load(r->cache, s->from, s->to, data);
    return true;
}

static bool load_states(const struct resident *r, const struct checkpoint_section *s, const void *data, struct err *e)
{
    if (s->bytes != r->snaps->bytes || cache_saved_pos(r->cache, data) != s->from)
        return err_set(e, "the checkpoint has %llu bytes for the states at %d, expected %zu and that position", (unsigned long long)s->bytes, s->from,
                       r->snaps->bytes);
    void *mem = snapshots_claim(r->snaps, r->sequence, s->from, false);
    if (mem) {
        memcpy(mem, data, s->bytes);
        r->snaps->from_file[snapshots_find(r->snaps, r->sequence, s->from)] = true;
    }
    return true;
}

static bool load_section(const struct resident *r, const struct checkpoint *c, const struct checkpoint_section *s, struct err *e)
{
    void *data = memory_alloc(s->bytes);
    bool ok = checkpoint_read(c, s, data, e) && (checkpoint_is_rows(s) ? load_rows : load_states)(r, s, data, e);
    free(data);
    return ok;
}

static int by_position(const void *a, const void *b)
{
    const struct checkpoint_section *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Rows in the file's order, then states in the sequence's. */
static bool load_all(const struct resident *r, const struct checkpoint *c, struct err *e)
{
    int n, n_states = 0;
    const struct checkpoint_section *s = checkpoint_sections(c, &n);
    struct checkpoint_section *states = memory_alloc((size_t)n * sizeof *states);
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        if (checkpoint_is_rows(&s[i]))
            ok = load_section(r, c, &s[i], e);
        else
            states[n_states++] = s[i];
    }
    qsort(states, (size_t)n_states, sizeof *states, by_position);
    for (int i = 0; ok && i < n_states; i++)
        ok = load_section(r, c, &states[i], e);
    free(states);
    return ok;
}

/* Could it be ours, and is it worth it? */
static bool is_wanted(const struct resident *r, const struct checkpoint *c)
{
    int n, n_sections, last = 0;
    const int32_t *ids = checkpoint_ids(c, &n);
    const struct checkpoint_section *s = checkpoint_sections(c, &n_sections);
    for (int i = 0; i < n_sections; i++)
        if (!checkpoint_is_rows(&s[i]))
            last = s[i].from > last ? s[i].from : last;
    for (int i = 0; i < n_sections; i++)
        if (s[i].to > r->tl->cap)
            return false;
    return last && n <= r->tl->cap && same(ids, n, r->tl->ids, r->tl->n_run) < last;
}

static void empty(const struct resident *r)
{
    timeline_adopt(r->tl, NULL, 0, 0);
    snapshots_drop_after(r->snaps, r->sequence, 0);
    cache_reset(r->cache);
}

static void become(const struct resident *r, const struct checkpoint *c)
{
    int n;
    const int32_t *ids = checkpoint_ids(c, &n);
    int slot = snapshots_find(r->snaps, r->sequence, n);
    if (slot < 0) {                     /* there is room for none */
        empty(r);
        return;
    }
    cache_state_load(r->cache, snapshots_at(r->snaps, slot));
    timeline_adopt(r->tl, ids, r->snaps->pos[slot], r->snaps->pos[slot]);
}

bool keeper_restore(const char *path, struct fingerprint identity, const struct resident *r, struct restored *out, struct err *fault)
{
    *out = (struct restored){0};
    bool useless;
    struct checkpoint *c = checkpoint_open(path, identity, &useless, &out->refused);
    if (c && is_wanted(r, c)) {
        empty(r);
        useless = !load_all(r, c, &out->refused);
        if (useless)
            empty(r);
        else
            become(r, c);
        out->n_tokens = r->tl->n_run;
    }
    checkpoint_close(c);
    if (useless)
        unlink(path);
    return r->dev->finish(r->dev, fault);
}

#include "engine/keeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/quiet.h"

/* A save in the queue.  Its saver is used without the lock: by the engine thread in stage WANTS, by the keeper's thread in the other stages.  The
 * saver of an evicted sequence is used by both threads, each for its own part (engine/saver.h).
 *
 *     OPENING -> WANTS <-> WRITING -> freed           a save on request
 *     OPENING -> WRITING -> freed                     a sequence that was evicted */
struct job {
    struct job *next;                   /* evicted: the next one in the list */
    enum { OPENING, WANTS, WRITING } stage;
    bool  dropped;                      /* a newer save replaces this one, or the file lacks rows that it should have: nothing more is written */
    bool  evicted;
    uint64_t name;                      /* of the conversation */
    struct saver *saver;
    struct saver_piece *first, **last;  /* copied pieces that are not written yet */
    bool   whole;                       /* evicted: the last piece was added */
};

struct keeper {
    struct keeper_hooks hooks;
    pthread_t       thread;
    pthread_mutex_t lock;               /* guards the members below */
    pthread_cond_t  changed;
    struct job     *job;                /* the save on request that is under way */
    struct job     *next;               /* the save on request that begins when that one has ended */
    struct job     *left;               /* saves of evicted sequences, in order; written before those on request */
    int             n_left;
    size_t          held;               /* bytes of copied pieces of evicted sequences */
    bool            ending;
};

/* --- jobs ---------------------------------------------------------------------------------------------------------------- */

/* NULL: the sequence has no states to save. */
static struct job *job_open(uint64_t name, const char *path, struct fingerprint identity, const struct resident *r)
{
    struct saver *s = saver_open(path, identity, r);
    if (!s)
        return NULL;
    struct job *j = memory_zeroed(1, sizeof *j);
    *j = (struct job){.name = name, .saver = s, .last = &j->first};
    return j;
}

static void job_close(struct job *j)
{
    if (!j)
        return;
    saver_close(j->saver);
    for (struct saver_piece *p = j->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(j);
}

/* Under the lock. */
static void add_piece(struct job *j, struct saver_piece *p)
{
    *j->last = p;
    j->last = &p->next;
}

/* Under the lock. */
static struct saver_piece *take_piece(struct job *j)
{
    struct saver_piece *p = j->first;
    if (p && !(j->first = p->next))
        j->last = &j->first;
    return p;
}

/* --- on the keeper's thread ---------------------------------------------------------------------------------------------- */

/* Ends a job whose rows are all written, or that is given up.  Called under the lock, which it releases for a while. */
static void end_job(struct keeper *k, struct job *j, struct job **at)
{
    struct kept out = {.name = j->name, .path = saver_path(j->saver), .evicted = j->evicted, .dropped = j->dropped};
    pthread_mutex_unlock(&k->lock);
    if (!out.dropped)
        out.saved = saver_finish(j->saver);
    saver_close_file(j->saver);         /* closed before done() tells others that they may open it */
    pthread_mutex_lock(&k->lock);
    *at = j->next;
    k->hooks.done(k->hooks.arg, &out);
    job_close(j);                       /* under the lock, so that no other thread can still be reading the job */
}

/* Opens the file, or writes one piece; neither if the job is dropped or has failed.  Called under the lock, which it releases for a while. */
static void advance(struct keeper *k, struct job *j)
{
    struct saver_piece *p = j->stage == WRITING ? take_piece(j) : NULL;
    const bool wanted = !j->dropped && !saver_failed(j->saver);
    bool fits = true;
    pthread_mutex_unlock(&k->lock);
    if (wanted && j->stage == OPENING)
        fits = saver_open_file(j->saver);
    else if (wanted && p)
        saver_write(j->saver, p);
    pthread_mutex_lock(&k->lock);
    j->dropped |= !fits;
    if (p && j->evicted)
        k->held -= p->bytes;
    free(p);
}

/* Works on the first evicted sequence.  Called under the lock.  False: nothing to do. */
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

/* Likewise on the save on request. */
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
    if (j->dropped || saver_failed(j->saver) || saver_n_written(j->saver) == saver_n_tokens(j->saver)) {
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
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
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
    job_close(k->job);
    job_close(k->next);
    for (struct job *j = k->left, *next; j; j = next) {
        next = j->next;
        job_close(j);
    }
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* --- a save, on the engine thread ------------------------------------------------------------------------------------------ */

static void tell_dropped(struct keeper *k, uint64_t name)
{
    k->hooks.done(k->hooks.arg, &(struct kept){.name = name, .dropped = true});
}

bool keeper_begin(struct keeper *k, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* copies into snapshots are complete */
        return false;
    struct job *j = job_open(name, path, identity, r);
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
    job_close(old);
    return true;
}

/* The save on request, if it waits for rows. */
static struct job *waiting(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    struct job *j = k->job && !k->job->dropped && k->job->stage == WANTS ? k->job : NULL;
    pthread_mutex_unlock(&k->lock);
    return j;
}

bool keeper_step(struct keeper *k, struct err *fault)
{
    struct job *j = waiting(k);
    struct saver_piece *p = NULL;
    if (!j)
        return true;
    saver_shorten(j->saver);
    const int from = saver_n_written(j->saver);
    if (from < saver_n_tokens(j->saver) && !(p = saver_copy(j->saver, from, KEEPER_PIECE, fault)))
        return false;
    pthread_mutex_lock(&k->lock);
    if (p)
        add_piece(j, p);
    j->stage = WRITING;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return true;
}

bool keeper_wait(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    while ((k->left || k->job || k->next) && !(k->job && !k->job->dropped && k->job->stage == WANTS))
        pthread_cond_wait(&k->changed, &k->lock);
    bool wants = k->left || k->job || k->next;
    pthread_mutex_unlock(&k->lock);
    return wants;
}

static bool is_to(const struct job *j, const char *path)
{
    return j && !strcmp(saver_path(j->saver), path);
}

/* Under the lock. */
static bool any_to(const struct keeper *k, const char *path)
{
    const struct job *j = k->left;
    while (j && !is_to(j, path))
        j = j->next;
    return j || is_to(k->job, path) || is_to(k->next, path);
}

bool keeper_writes(struct keeper *k, const char *path)
{
    pthread_mutex_lock(&k->lock);
    bool writes = any_to(k, path);
    pthread_mutex_unlock(&k->lock);
    return writes;
}

/* --- a sequence that is evicted -------------------------------------------------------------------------------------- */

/* Drops the saves on request of this name, which the eviction replaces.  Called under the lock.  Returns the one that had not begun, for the caller
 * to free. */
static struct job *drop_saves(struct keeper *k, uint64_t name)
{
    struct job *old = k->next && k->next->name == name ? k->next : NULL;
    if (k->job && k->job->name == name)
        k->job->dropped = true;
    if (old)
        k->next = NULL;
    return old;
}

/* Appends the job to those of evicted sequences, when there are fewer than KEEPER_LEFT. */
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
    job_close(old);
}

/* Gives a piece to the keeper's thread when KEEPER_HELD has room for it; a piece larger than that is taken when there is no other one. */
static void hand_over(struct keeper *k, struct job *j, struct saver_piece *p)
{
    pthread_mutex_lock(&k->lock);
    while (k->held && k->held + p->bytes > KEEPER_HELD)
        pthread_cond_wait(&k->changed, &k->lock);
    k->held += p->bytes;
    add_piece(j, p);
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* No piece follows: from here on the keeper's thread may free the job. */
static void seal(struct keeper *k, struct job *j, bool dropped)
{
    pthread_mutex_lock(&k->lock);
    j->dropped |= dropped;
    j->whole = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

bool keeper_evict(struct keeper *k, uint64_t name, const char *path, int common, struct fingerprint identity, const struct resident *r,
                  struct err *fault)
{
    if (!r->dev->finish(r->dev, fault))         /* copies into snapshots are complete */
        return false;
    struct job *j = job_open(name, path, identity, r);
    bool ok = true;
    if (!j) {
        k->hooks.done(k->hooks.arg, &(struct kept){.name = name, .path = path, .evicted = true, .dropped = true});
        return true;
    }
    j->evicted = true;
    int from = saver_expect(j->saver, common);
    const int n = saver_n_tokens(j->saver);
    enter(k, j);
    while (ok && from < n) {
        struct saver_piece *p = saver_copy(j->saver, from, KEEPER_PIECE, fault);
        ok = p;
        if (ok) {
            from = p->to;
            hand_over(k, j, p);
        }
    }
    seal(k, j, !ok);
    return ok;
}

#include "base/worker.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/least.h"
#include "base/lock.h"
#include "base/memory.h"

_Thread_local unsigned lock_held;        /* base/lock.h */

int quiet_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t most, before;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&most, faults[i]);
    pthread_sigmask(SIG_SETMASK, &most, &before);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Sleeps under the lock.  False when the time has come. */
static bool sleep_until(struct worker *w, pthread_cond_t *cond, int64_t until_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    return (until_ns == WORKER_IDLE ? pthread_cond_wait(cond, &w->lock) : pthread_cond_timedwait(cond, &w->lock, &at)) != ETIMEDOUT;
}

/* The worker's thread: calls step() with the lock held and sleeps as long as its result says. */
static void *worker_main(void *arg)
{
    struct worker *w = arg;
    worker_lock(w);
    while (!w->ending) {
        const int64_t next = w->step(w->arg);
        if (next == WORKER_AGAIN)
            pthread_cond_broadcast(&w->done);
        else if (!w->ending)
            sleep_until(w, &w->work, next);
    }
    worker_unlock(w);
    return NULL;
}

bool worker_start(struct worker *w, int n_threads, int64_t (*step)(void *arg), void *arg)
{
    pthread_condattr_t monotonic;
    *w = (struct worker){.step = step, .arg = arg, .threads = memory_zeroed((size_t)n_threads, sizeof *w->threads)};
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->work, &monotonic);
    pthread_cond_init(&w->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    while (w->n_threads < n_threads && !quiet_thread(&w->threads[w->n_threads], worker_main, w))
        w->n_threads++;
    if (w->n_threads)
        return true;
    worker_stop(w);
    return false;
}

void worker_stop(struct worker *w)
{
    if (!w->step)
        return;
    worker_lock(w);
    w->ending = true;
    worker_wake(w);
    worker_unlock(w);
    for (int i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w->threads);
    *w = (struct worker){0};
}

void worker_lock(struct worker *w)
{
    lock_take(&w->lock, LOCK_WORKER);
}

void worker_unlock(struct worker *w)
{
    lock_release(&w->lock, LOCK_WORKER);
}

void worker_wake(struct worker *w)
{
    (w->ending ? pthread_cond_broadcast : pthread_cond_signal)(&w->work);
}

bool worker_wait(struct worker *w, int64_t until_ns)
{
    return sleep_until(w, &w->done, until_ns);
}

/* ---- jobs ---- */

struct running {
    struct worker_jobs *jobs;
    atomic_ullong   next;
    pthread_mutex_t lock;               /* guards e */
    struct err     *e;
};

/* A thread of worker_jobs: runs jobs until none is left or one has failed; the first error is kept. */
static void *jobs_main(void *arg)
{
    struct running *r = arg;
    struct worker_jobs *j = r->jobs;
    void *scratch = NULL;
    CHECK(!j->scratch || !posix_memalign(&scratch, 4096, j->scratch));
    for (uint64_t i; !atomic_load(&j->failed) && (i = atomic_fetch_add(&r->next, 1)) < j->n;) {
        struct err e = {0};
        if (j->job(j->arg, i, scratch, &e))
            continue;
        pthread_mutex_lock(&r->lock);
        if (!atomic_exchange(&j->failed, true))
            err_set(r->e, "%s", e.msg);
        pthread_mutex_unlock(&r->lock);
    }
    free(scratch);
    return NULL;
}

bool worker_run_jobs(struct worker_jobs *j, struct err *e)
{
    enum { MOST = 64, USUAL = 16 };
    struct running r = {.jobs = j, .e = e};
    pthread_t threads[MOST];
    const int wanted = j->n_threads > 0 ? least(j->n_threads, MOST) : least((int)sysconf(_SC_NPROCESSORS_ONLN), USUAL);
    int n = 0;
    pthread_mutex_init(&r.lock, NULL);
    while (n < wanted && (uint64_t)n < j->n && !quiet_thread(&threads[n], jobs_main, &r))
        n++;
    if (!n)                             /* no thread could be started */
        jobs_main(&r);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&r.lock);
    return !atomic_load(&j->failed);
}

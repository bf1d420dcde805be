/* Threads that do the work of one owner: a lock, a condition for each side, and an end.  Plain value inside the owner's struct; {0} is a worker that
 * was not started. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WORKER_AGAIN 0                  /* call the step again at once */
#define WORKER_IDLE  INT64_MAX          /* not before worker_wake() */

struct worker {
    pthread_mutex_t lock;               /* guards what the owner and the threads share; LOCK_WORKER (base/lock.h) */
    pthread_cond_t  work, done;         /* the threads sleep on `work`, the owner on `done` */
    pthread_t      *threads;
    int             n_threads;
    bool            ending;             /* no further step begins; set by worker_stop(), or earlier by the owner under the lock */
    int64_t       (*step)(void *arg);
    void           *arg;
};

/* Starts up to n_threads threads, which call step(arg) until worker_stop().  A step is called with the lock held and may release it meanwhile.  It
 * returns WORKER_AGAIN, or, if it has found nothing to do since it last took the lock, WORKER_IDLE or the time (clock_ns()) of the next look.
 * False if no thread can be started; the worker is {0} again. */
bool worker_start(struct worker *w, int n_threads, int64_t (*step)(void *arg), void *arg);
/* Waits for the steps under way, ends the threads and frees what worker_start() made.  Does nothing to a worker that was not started. */
void worker_stop(struct worker *w);

void worker_lock(struct worker *w);
void worker_unlock(struct worker *w);
void worker_wake(struct worker *w);                     /* wakes one idle thread, or all of a worker that is ending */
/* Waits, under the lock, until a step returns WORKER_AGAIN.  False when the time until_ns (WORKER_IDLE: never) has come. */
bool worker_wait(struct worker *w, int64_t until_ns);

/* Jobs 0 .. n-1, which do not depend on each other, for several threads that end with them. */
struct worker_jobs {
    uint64_t n;
    int      n_threads;                 /* at most 64; 0: one for each processor, at most 16 */
    size_t   scratch;                   /* bytes of memory for each thread, which begins at a page and has any content */
    bool   (*job)(void *arg, uint64_t i, void *scratch, struct err *e);         /* false with the reason: no other job begins */
    void    *arg;
    atomic_bool failed;                 /* a job has failed: those under way may end early */
};
/* Returns when all jobs have ended.  False with the reason of the first failure. */
bool worker_run_jobs(struct worker_jobs *j, struct err *e);

/* pthread_create() with all signals blocked except those of the thread's own faults (SIGSEGV and the like): the others go to the thread that owns the
 * terminal. */
int quiet_thread(pthread_t *thread, void *(*run)(void *), void *arg);

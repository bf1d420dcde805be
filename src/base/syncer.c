#include "base/syncer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

struct syncer {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted, ending;
    int  failed;
};

static void *sync_thread(void *arg)
{
    struct syncer *s = arg;
    struct timespec next = {0};         /* the earliest time of the next sync */
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        struct timespec now;
        if (!s->wanted) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec < next.tv_sec || (now.tv_sec == next.tv_sec && now.tv_nsec < next.tv_nsec)) {
            pthread_cond_timedwait(&s->changed, &s->lock, &next);
            continue;
        }
        s->wanted = false;
        pthread_mutex_unlock(&s->lock);
        int failed = fdatasync(s->fd) && errno != EINVAL ? errno : 0;   /* EINVAL: this kind of file cannot be synced */
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_mutex_lock(&s->lock);
        s->failed = failed ? failed : s->failed;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct syncer *syncer_open(int fd)
{
    struct syncer *s = memory_zeroed(1, sizeof *s);
    pthread_condattr_t attr;
    sigset_t all, before;
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);        /* signals are for the other threads */
    bool ok = s->fd >= 0 && pthread_create(&s->thread, NULL, sync_thread, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok)
        return s;
    if (s->fd >= 0)
        close(s->fd);
    free(s);
    return NULL;
}

static void tell(struct syncer *s, bool *what)
{
    pthread_mutex_lock(&s->lock);
    *what = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void syncer_want(struct syncer *s)
{
    tell(s, &s->wanted);
}

int syncer_failed(struct syncer *s)
{
    pthread_mutex_lock(&s->lock);
    int failed = s->failed;
    s->failed = 0;
    pthread_mutex_unlock(&s->lock);
    return failed;
}

void syncer_close(struct syncer *s)
{
    if (!s)
        return;
    tell(s, &s->ending);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    close(s->fd);
    free(s);
}

#include "base/syncer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/move.h"
#include "base/quiet.h"

struct syncer {
    int fd, wake;                       /* wake: an eventfd, for the owner */
    char *name;                         /* its directory is still to be synced; the thread's */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool wanted, urgent;                /* urgent: not only when a second is over */
    bool syncs, ending;
    int  failed;
};

/* errno; 0: all is on disk. */
static int sync_all(struct syncer *s)
{
    if (fdatasync(s->fd) && errno != EINVAL)    /* EINVAL: this kind of file cannot be synced */
        return errno;
    if (s->name)
        file_sync_name(s->name);
    free(s->name);
    s->name = NULL;
    return 0;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static void *sync_thread(void *arg)
{
    struct syncer *s = arg;
    struct timespec next = {0};         /* the earliest time of the next sync that is not urgent */
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        struct timespec now;
        if (!s->wanted) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!s->urgent && is_before(&now, &next)) {
            pthread_cond_timedwait(&s->changed, &s->lock, &next);
            continue;
        }
        s->wanted = s->urgent = false;
        s->syncs = true;
        pthread_mutex_unlock(&s->lock);
        int failed = sync_all(s);
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_mutex_lock(&s->lock);
        s->syncs = false;
        s->failed = failed ? failed : s->failed;
        if (failed || !s->wanted)
            eventfd_write(s->wake, 1);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void free_syncer(struct syncer *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->wake >= 0)
        close(s->wake);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s);
}

struct syncer *syncer_open(int fd, const char *name)
{
    struct syncer *s = memory_zeroed(1, sizeof *s);
    pthread_condattr_t attr;
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->name = name ? memory_strdup(name) : NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (s->fd >= 0 && s->wake >= 0 && !quiet_thread(&s->thread, sync_thread, s))
        return s;
    free_syncer(s);
    return NULL;
}

static void want(struct syncer *s, bool urgent)
{
    pthread_mutex_lock(&s->lock);
    s->wanted = true;
    s->urgent = s->urgent || urgent;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void syncer_want(struct syncer *s)
{
    want(s, false);
}

void syncer_now(struct syncer *s)
{
    want(s, true);
}

int syncer_fd(const struct syncer *s)
{
    return s->wake;
}

bool syncer_settled(struct syncer *s)
{
    eventfd_t v;
    pthread_mutex_lock(&s->lock);
    eventfd_read(s->wake, &v);
    bool settled = !s->wanted && !s->syncs;
    pthread_mutex_unlock(&s->lock);
    return settled;
}

int syncer_failed(struct syncer *s)
{
    pthread_mutex_lock(&s->lock);
    int failed = s->failed;
    s->failed = 0;
    pthread_mutex_unlock(&s->lock);
    return failed;
}

void syncer_wait(struct syncer *s)
{
    pthread_mutex_lock(&s->lock);
    s->urgent = true;
    pthread_cond_broadcast(&s->changed);
    while (s->wanted || s->syncs)
        pthread_cond_wait(&s->changed, &s->lock);
    s->urgent = false;
    pthread_mutex_unlock(&s->lock);
}

void syncer_close(struct syncer *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    free_syncer(s);
}

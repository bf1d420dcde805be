#include "base/syncer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/file.h"
#include "base/worker.h"

#define INTERVAL_NS 1000000000          /* between two syncs that are not urgent */

struct syncer {
    struct worker worker;
    int  fd, event;                     /* event: an eventfd, for the owner */
    char *name;                         /* its directory is still to be synced; used by the thread only */
    int64_t next_ns;                    /* the earliest time of the next sync that is not urgent */
    bool wanted, urgent;                /* urgent: not only when a second is over */
    bool syncs;
    int  failed;
};

/* Syncs the file, and its directory if its name is new.  Returns errno; 0: all is on disk. */
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

/* One step of the worker, called with the lock: syncs the file when that is due, without the lock, and signals the end. */
static int64_t sync_step(void *arg)
{
    struct syncer *s = arg;
    if (!s->wanted)
        return WORKER_IDLE;
    if (!s->urgent && clock_ns() < s->next_ns)
        return s->next_ns;
    s->wanted = s->urgent = false;
    s->syncs = true;
    worker_unlock(&s->worker);
    const int failed = sync_all(s);
    worker_lock(&s->worker);
    s->next_ns = clock_ns() + INTERVAL_NS;
    s->syncs = false;
    s->failed = failed ? failed : s->failed;
    if (failed || !s->wanted)
        eventfd_write(s->event, 1);
    return WORKER_AGAIN;
}

struct syncer *syncer_open(int fd, const char *name)
{
    struct syncer *s = memory_zeroed(1, sizeof *s);
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->name = memory_strdup(name);
    if (s->fd >= 0 && s->event >= 0 && worker_start(&s->worker, 1, sync_step, s))
        return s;
    syncer_close(s);
    return NULL;
}

static void request_sync(struct syncer *s, bool urgent)
{
    worker_lock(&s->worker);
    s->wanted = true;
    s->urgent = s->urgent || urgent;
    worker_wake(&s->worker);
    worker_unlock(&s->worker);
}

void syncer_want(struct syncer *s)
{
    request_sync(s, false);
}

void syncer_now(struct syncer *s)
{
    request_sync(s, true);
}

int syncer_fd(const struct syncer *s)
{
    return s->event;
}

bool syncer_settled(struct syncer *s)
{
    eventfd_t v;
    worker_lock(&s->worker);
    eventfd_read(s->event, &v);
    bool settled = !s->wanted && !s->syncs;
    worker_unlock(&s->worker);
    return settled;
}

int syncer_failed(struct syncer *s)
{
    worker_lock(&s->worker);
    int failed = s->failed;
    s->failed = 0;
    worker_unlock(&s->worker);
    return failed;
}

void syncer_wait(struct syncer *s)
{
    worker_lock(&s->worker);
    s->urgent = true;
    worker_wake(&s->worker);
    while (s->wanted || s->syncs)
        worker_wait(&s->worker, WORKER_IDLE);
    s->urgent = false;
    worker_unlock(&s->worker);
}

void syncer_close(struct syncer *s)
{
    if (!s)
        return;
    worker_stop(&s->worker);
    if (s->fd >= 0)
        close(s->fd);
    if (s->event >= 0)
        close(s->event);
    free(s->name);
    free(s);
}

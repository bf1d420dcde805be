#include "responder/local_loader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/worker.h"

/* Shared by the owner and the thread; the last of the two frees it. */
struct loader {
    atomic_int owners;
    pthread_t thread;
    bool  running;                      /* for the owner: the thread was not joined yet */
    char *dir;
    int   fd;                           /* eventfd */
    bool  guides;
    struct tokenizer *tok;
    struct guide_vocabulary *vocabulary;
    struct err e;
};

/* Gives up one reference; the last one frees the loader with what was not taken. */
static void drop(struct loader *l)
{
    if (atomic_fetch_sub(&l->owners, 1) > 1)
        return;
    guide_vocabulary_release(l->vocabulary);
    tokenizer_close(l->tok);
    if (l->fd >= 0)
        close(l->fd);
    free(l->dir);
    free(l);
}

/* The loader's thread: opens the tokenizer, builds the vocabulary of guides if they are wanted, and signals the end. */
static void *run(void *arg)
{
    struct loader *l = arg;
    l->tok = tokenizer_open(l->dir, &l->e);
    if (l->tok && l->guides)
        l->vocabulary = guide_vocabulary_of(l->tok);
    eventfd_write(l->fd, 1);            /* publishes all of it */
    drop(l);
    return NULL;
}

struct loader *loader_start(const char *dir, bool guides, struct err *e)
{
    struct loader *l = memory_zeroed(1, sizeof *l);
    l->guides = guides;
    l->dir = memory_strdup(dir);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = l->fd < 0 ? errno : 0;
    l->owners = 2;
    if (!rc && !(rc = quiet_thread(&l->thread, run, l))) {
        l->running = true;
        return l;
    }
    err_set(e, "cannot start the thread that reads the tokenizer: %s", strerror(rc));
    l->owners = 1;
    drop(l);
    return NULL;
}

int loader_fd(const struct loader *l)
{
    return l->fd;
}

bool loader_take(struct loader *l, struct tokenizer **tok, struct err *e)
{
    eventfd_t done;
    if (!l->running || eventfd_read(l->fd, &done))
        return false;
    pthread_join(l->thread, NULL);
    l->running = false;
    *tok = l->tok;
    *e = l->e;
    l->tok = NULL;
    return true;
}

struct guide_vocabulary *loader_take_vocabulary(struct loader *l)
{
    struct guide_vocabulary *v = l->vocabulary;
    l->vocabulary = NULL;
    return v;
}

void loader_stop(struct loader *l)
{
    struct timespec until;
    if (!l)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOADER_MOMENT_MS / 1000;
    if (l->running && pthread_timedjoin_np(l->thread, NULL, &until))
        pthread_detach(l->thread);
    drop(l);
}

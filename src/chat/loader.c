#include "chat/loader.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"

static void *run(void *arg)
{
    struct loader *l = arg;
    l->tok = tokenizer_open(l->dir, &l->e);
    eventfd_write(l->fd, 1);            /* publishes tok and e */
    return NULL;
}

void loader_start(struct loader *l, const char *dir)
{
    *l = (struct loader){.dir = dir, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .running = true};
    CHECK(l->fd >= 0 && pthread_create(&l->thread, NULL, run, l) == 0);
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

void loader_stop(struct loader *l)
{
    if (l->running) {
        pthread_join(l->thread, NULL);
        tokenizer_close(l->tok);
    }
    if (l->fd > 0)
        close(l->fd);
    *l = (struct loader){0};
}

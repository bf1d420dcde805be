#include "chat/shelf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/worker.h"

static const int64_t KEPT_NS = (int64_t)10 * 1000000000;

/* The state of a file on disk; another one is another file. */
struct stamp { dev_t dev; ino_t ino; off_t size; struct timespec changed; };

struct item {
    char *path;                         /* as the message has it */
    struct stamp stamp;
    enum { WAITS, WORKS, READ, FAILED } state;
    struct attached files;
    struct err why;
    int64_t asked_ns;                   /* when it was asked for last */
};

struct shelf {
    struct worker worker;               /* its lock guards the items */
    int fd;                             /* eventfd */
    atomic_bool ends;
    struct item **items;
    int n, cap;
};

/* ---- the thread ---- */

/* One step of the worker, called with the lock: reads the next file that waits, without it. */
static int64_t read_next(void *arg)
{
    struct shelf *s = arg;
    int i = 0;
    while (i < s->n && s->items[i]->state != WAITS)
        i++;
    if (i == s->n)
        return WORKER_IDLE;
    struct item *it = s->items[i];
    it->state = WORKS;
    worker_unlock(&s->worker);
    const bool ok = attach_add(&it->files, it->path, &it->why);
    worker_lock(&s->worker);
    it->state = ok ? READ : FAILED;
    eventfd_write(s->fd, 1);
    return WORKER_AGAIN;
}

struct shelf *shelf_open(void)
{
    struct shelf *s = memory_zeroed(1, sizeof *s);
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->fd >= 0 && worker_start(&s->worker, 1, read_next, s))
        return s;
    if (s->fd >= 0)
        close(s->fd);
    free(s);
    return NULL;
}

static void drop(struct shelf *s, int i)
{
    attach_free(&s->items[i]->files);
    free(s->items[i]->path);
    free(s->items[i]);
    memmove(s->items + i, s->items + i + 1, (size_t)(--s->n - i) * sizeof *s->items);
}

void shelf_close(struct shelf *s)
{
    if (!s)
        return;
    atomic_store(&s->ends, true);
    worker_stop(&s->worker);
    while (s->n)
        drop(s, s->n - 1);
    free(s->items);
    close(s->fd);
    free(s);
}

int shelf_fd(const struct shelf *s)
{
    return s->fd;
}

bool shelf_changed(struct shelf *s)
{
    eventfd_t n;
    return !eventfd_read(s->fd, &n);
}

/* ---- its files ---- */

static struct stamp stamp_of(const char *path)
{
    struct stat st;
    return attach_stat(path, &st) ? (struct stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim} : (struct stamp){0};
}

static bool same(struct stamp a, struct stamp b)
{
    return a.dev == b.dev && a.ino == b.ino && a.size == b.size && a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec;
}

/* Returns the item of a file, which waits for the thread if it is new; the lock is held. */
static struct item *item_of(struct shelf *s, const char *path, enum pdf_as pdf)
{
    const struct stamp stamp = stamp_of(path);
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->items[i]->path, path) && s->items[i]->files.pdf == pdf && same(s->items[i]->stamp, stamp))
            return s->items[i];
    struct item *it = memory_zeroed(1, sizeof *it);
    *it = (struct item){.path = memory_strdup(path), .stamp = stamp, .files = {.pdf = pdf, .ends = &s->ends}};
    s->items = memory_grow(s->items, s->n, &s->cap, sizeof *s->items);
    worker_wake(&s->worker);
    return s->items[s->n++] = it;
}

bool shelf_take(struct shelf *s, const char *path, struct attached *to, struct err *e)
{
    worker_lock(&s->worker);
    struct item *it = item_of(s, path, to->pdf);
    it->asked_ns = clock_ns();
    const bool failed = it->state == FAILED, there = it->state == READ;
    if (failed)
        err_set(e, "%s", it->why.msg);
    to->awaits |= !failed && !there;
    for (int i = 0; there && i < it->files.n; i++)
        attach_one(to, &it->files.files[i]);
    worker_unlock(&s->worker);
    return !failed;
}

void shelf_trim(struct shelf *s)
{
    const int64_t before = clock_ns() - KEPT_NS;
    worker_lock(&s->worker);
    for (int i = s->n - 1; i >= 0; i--)
        if (s->items[i]->asked_ns < before && s->items[i]->state != WORKS)
            drop(s, i);
    worker_unlock(&s->worker);
}

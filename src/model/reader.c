#include "model/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

enum { MAX_THREADS = 64 };

struct file {
    int         fd, direct;             /* direct: opened with O_DIRECT; -1 when the file system refuses that */
    atomic_bool refused;                /* the file system took O_DIRECT, but refused a read with it */
};

struct reader {
    struct reader_options o;
    struct file    *files;
    pthread_t       threads[MAX_THREADS];
    int             n_threads;

    pthread_mutex_t lock;               /* guards what is below */
    pthread_cond_t  filled, freed;
    int             next_job;
    int            *free_buffers, n_free;
    struct read_block *blocks;          /* ring of n_buffers */
    int             first, n_blocks;
    bool            stop, failed;
    struct err      why;
};

/* Bytes [from, to) of the file, whose first page begins at buf. */
static bool read_pages(struct reader *r, int file, char *buf, uint64_t from, uint64_t to, struct err *e)
{
    struct file *f = &r->files[file];
    uint64_t begin = from / READER_PAGE * READER_PAGE, end = (to + READER_PAGE - 1) / READER_PAGE * READER_PAGE;
    for (uint64_t at = begin; at < to;) {
        bool direct = f->direct >= 0 && at % READER_PAGE == 0 && !atomic_load(&f->refused);
        ssize_t n = pread(direct ? f->direct : f->fd, buf + (at - begin), (direct ? end : to) - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && direct && (errno == EINVAL || errno == ENOTSUP)) {
            atomic_store(&f->refused, true);
            continue;
        }
        if (n < 0)
            return err_set(e, "cannot read %s: %s", r->o.paths[file], strerror(errno));
        if (n == 0)
            return err_set(e, "%s has shrunk: it now ends before byte %llu", r->o.paths[file], (unsigned long long)to);
        at += (uint64_t)n;
    }
    return true;
}

static bool fill(struct reader *r, struct read_block *b, struct err *e)
{
    const struct read_job *j = &r->o.jobs[b->job];
    char *buf = r->o.buffers[b->buffer];
    if (j->copy) {
        CHECK(j->bytes <= r->o.buffer_bytes);
        b->data = memcpy(buf, j->copy, j->bytes);
    } else {
        uint64_t lead = j->offset % READER_PAGE;
        CHECK((lead + j->bytes + READER_PAGE - 1) / READER_PAGE * READER_PAGE <= r->o.buffer_bytes);
        b->data = buf + lead;
        if (!read_pages(r, j->file, buf, j->offset, j->offset + j->bytes, e))
            return false;
    }
    return !r->o.check || r->o.check(r->o.arg, b->job, b->data, e);
}

/* A job and a buffer for it; false at the end. */
static bool take_job(struct reader *r, struct read_block *b)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stop && r->next_job < r->o.n_jobs && !r->n_free)
        pthread_cond_wait(&r->freed, &r->lock);
    bool more = !r->stop && r->next_job < r->o.n_jobs;
    if (more)
        *b = (struct read_block){.job = r->next_job++, .buffer = r->free_buffers[--r->n_free]};
    pthread_mutex_unlock(&r->lock);
    return more;
}

static void *run(void *arg)
{
    struct reader *r = arg;
    struct read_block b;
    while (take_job(r, &b)) {
        struct err e = {0};
        bool ok = fill(r, &b, &e);
        pthread_mutex_lock(&r->lock);
        if (ok) {
            r->blocks[(r->first + r->n_blocks++) % r->o.n_buffers] = b;
        } else if (!r->failed) {
            r->failed = r->stop = true;
            r->why = e;
            pthread_cond_broadcast(&r->freed);
        }
        pthread_cond_signal(&r->filled);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static bool open_files(struct reader *r, struct err *e)
{
    for (int i = 0; i < r->o.n_paths; i++)
        r->files[i].fd = r->files[i].direct = -1;
    for (int i = 0; i < r->o.n_paths; i++) {
        struct file *f = &r->files[i];
        f->fd = open(r->o.paths[i], O_RDONLY | O_CLOEXEC);
        if (f->fd < 0)
            return err_set(e, "cannot open %s: %s", r->o.paths[i], strerror(errno));
        f->direct = open(r->o.paths[i], O_RDONLY | O_CLOEXEC | O_DIRECT);
    }
    return true;
}

struct reader *reader_open(const struct reader_options *o, struct err *e)
{
    pthread_condattr_t monotonic;
    struct reader *r = memory_zeroed(1, sizeof *r);
    CHECK(o->n_buffers > 0 && o->n_threads > 0 && o->n_threads <= MAX_THREADS);
    r->o = *o;
    r->files = memory_zeroed((size_t)o->n_paths + 1, sizeof *r->files);
    r->free_buffers = memory_zeroed((size_t)o->n_buffers, sizeof *r->free_buffers);
    r->blocks = memory_zeroed((size_t)o->n_buffers, sizeof *r->blocks);
    for (int i = 0; i < o->n_buffers; i++)
        r->free_buffers[r->n_free++] = i;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&r->freed, NULL);
    if (!open_files(r, e)) {
        reader_close(r);
        return NULL;
    }
    for (; r->n_threads < o->n_threads; r->n_threads++)
        if (pthread_create(&r->threads[r->n_threads], NULL, run, r))
            break;
    CHECK(r->n_threads);
    return r;
}

enum read_result reader_next(struct reader *r, struct read_block *out, int timeout_ms, struct err *e)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    enum read_result result = READ_NOTHING_YET;
    pthread_mutex_lock(&r->lock);
    while (!r->failed && !r->n_blocks && pthread_cond_timedwait(&r->filled, &r->lock, &until) != ETIMEDOUT)
        ;
    if (r->failed) {
        *e = r->why;
        result = READ_FAILED;
    } else if (r->n_blocks) {
        *out = r->blocks[r->first];
        r->first = (r->first + 1) % r->o.n_buffers;
        r->n_blocks--;
        result = READ_BLOCK;
    }
    pthread_mutex_unlock(&r->lock);
    return result;
}

void reader_give_back(struct reader *r, int buffer)
{
    pthread_mutex_lock(&r->lock);
    r->free_buffers[r->n_free++] = buffer;
    pthread_cond_signal(&r->freed);
    pthread_mutex_unlock(&r->lock);
}

bool reader_is_direct(const struct reader *r)
{
    for (int i = 0; i < r->o.n_paths; i++)
        if (r->files[i].direct < 0 || atomic_load(&r->files[i].refused))
            return false;
    return true;
}

void reader_close(struct reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->freed);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    for (int i = 0; i < r->o.n_paths; i++) {
        if (r->files[i].fd >= 0)
            close(r->files[i].fd);
        if (r->files[i].direct >= 0)
            close(r->files[i].direct);
    }
    pthread_cond_destroy(&r->filled);
    pthread_cond_destroy(&r->freed);
    pthread_mutex_destroy(&r->lock);
    free(r->files);
    free(r->free_buffers);
    free(r->blocks);
    free(r);
}

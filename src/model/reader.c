#include "model/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/worker.h"

struct file {
    int         fd, direct;             /* direct: opened with O_DIRECT; -1 when the file system refuses that */
    atomic_bool refused;                /* the file system took O_DIRECT, but refused a read with it */
};

struct reader {
    struct reader_options o;
    struct file    *files;

    struct worker   worker;             /* its lock guards what is below */
    int             next_job;
    int            *free_buffers, n_free;
    struct read_block *blocks;          /* ring of n_buffers */
    int             first, n_blocks;
    bool            failed;
    struct err      why;
};

/* Reads bytes [from, to) of the file, whose first page begins at buf. */
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

/* Reads a job's bytes into the block's buffer, or copies them if they are in memory, and has them checked. */
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

/* Reads the next job into a free buffer. */
static int64_t read_step(void *arg)
{
    struct reader *r = arg;
    if (r->failed || r->next_job == r->o.n_jobs || !r->n_free)
        return WORKER_IDLE;
    struct read_block b = {.job = r->next_job++, .buffer = r->free_buffers[--r->n_free]};
    struct err e = {0};
    worker_unlock(&r->worker);
    const bool ok = fill(r, &b, &e);
    worker_lock(&r->worker);
    if (ok) {
        r->blocks[(r->first + r->n_blocks++) % r->o.n_buffers] = b;
    } else if (!r->failed) {
        r->failed = true;
        r->why = e;
    }
    return WORKER_AGAIN;
}

/* Opens all files twice: for the page cache and, where the file system allows it, for direct reads. */
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
    struct reader *r = memory_zeroed(1, sizeof *r);
    CHECK(o->n_buffers > 0 && o->n_threads > 0);
    r->o = *o;
    r->files = memory_zeroed((size_t)o->n_paths + 1, sizeof *r->files);
    r->free_buffers = memory_zeroed((size_t)o->n_buffers, sizeof *r->free_buffers);
    r->blocks = memory_zeroed((size_t)o->n_buffers, sizeof *r->blocks);
    for (int i = 0; i < o->n_buffers; i++)
        r->free_buffers[r->n_free++] = i;
    if (!open_files(r, e)) {
        reader_close(r);
        return NULL;
    }
    CHECK(worker_start(&r->worker, o->n_threads, read_step, r));
    return r;
}

enum read_result reader_next(struct reader *r, struct read_block *out, int timeout_ms, struct err *e)
{
    const int64_t until_ns = clock_ns() + (int64_t)timeout_ms * 1000000;
    enum read_result result = READ_NOTHING_YET;
    worker_lock(&r->worker);
    while (!r->failed && !r->n_blocks && worker_wait(&r->worker, until_ns))
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
    worker_unlock(&r->worker);
    return result;
}

void reader_give_back(struct reader *r, int buffer)
{
    worker_lock(&r->worker);
    r->free_buffers[r->n_free++] = buffer;
    worker_wake(&r->worker);
    worker_unlock(&r->worker);
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
    worker_stop(&r->worker);
    for (int i = 0; i < r->o.n_paths; i++) {
        if (r->files[i].fd >= 0)
            close(r->files[i].fd);
        if (r->files[i].direct >= 0)
            close(r->files[i].direct);
    }
    free(r->files);
    free(r->free_buffers);
    free(r->blocks);
    free(r);
}

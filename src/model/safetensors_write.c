#include "model/safetensors_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/least.h"
#include "base/memory.h"
#include "base/worker.h"

enum { JOB = 8 << 20, ALIGN = 4096, LEAST_THREADS = 4 };

struct file {
    struct file_out *out;
    int              fd;
    struct buf       head;              /* all before the data */
    uint64_t         data_bytes;
};

struct writer {
    struct file  *files;
    int           n_files;
    const struct write_options *o;
};

uint64_t tensor_out_bytes(const struct tensor_out *t)
{
    uint64_t n = dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

/* ---- headers */

static void add_entry(struct buf *out, const struct tensor_out *t, uint64_t end, bool comma)
{
    buf_addf(out, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", comma ? "," : "", t->name, dtype_name(t->dtype));
    for (int i = 0; i < t->n_dims; i++)
        buf_addf(out, "%s%llu", i ? "," : "", (unsigned long long)t->shape[i]);
    buf_addf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->at, (unsigned long long)end);
}

/* Gives each tensor its place in the data and writes the header, padded to 8 bytes. */
static void lay_out(struct file *f)
{
    uint64_t n = 0;
    buf_add(&f->head, &n, sizeof n);
    buf_addc(&f->head, '{');
    for (int i = 0; i < f->out->n_tensors; i++) {
        struct tensor_out *t = f->out->tensors[i];
        CHECK(dtype_bytes(t->dtype));
        t->at = f->data_bytes;
        f->data_bytes += tensor_out_bytes(t);
        add_entry(&f->head, t, f->data_bytes, i > 0);
    }
    buf_addc(&f->head, '}');
    while (f->head.len % 8)
        buf_addc(&f->head, ' ');
    n = f->head.len - sizeof n;
    memcpy(f->head.data, &n, sizeof n);
    f->out->bytes = f->head.len + f->data_bytes;
}

static bool open_file(struct file *f, struct err *e)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC };
    f->fd = open(f->out->path, FLAGS | O_DIRECT, 0644);
    if (f->fd < 0 && errno == EINVAL)
        f->fd = open(f->out->path, FLAGS, 0644);
    return f->fd >= 0 || err_set(e, "cannot write %s: %s", f->out->path, strerror(errno));
}

/* Waits until the file is on the disk, and drops it from the page cache, so that the next reader reads the disk. */
static bool close_file(struct file *f, bool keep, struct err *e)
{
    if (f->fd < 0)
        return true;
    bool ok = !keep || (!ftruncate(f->fd, (off_t)f->out->bytes) && !fsync(f->fd))
        || err_set(e, "cannot write %s: %s", f->out->path, strerror(errno));
    posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
    close(f->fd);
    return ok;
}

/* ---- bytes */

/* Makes bytes begin .. end-1 of the data part, which may belong to several tensors. */
static bool make_range(const struct writer *w, const struct file *f, uint64_t begin, uint64_t end, uint8_t *dst, struct err *e)
{
    struct tensor_out *const *t = f->out->tensors;
    int low = 0, high = f->out->n_tensors - 1;
    while (low < high) {                /* the first tensor that ends behind `begin` */
        int mid = (low + high) / 2;
        if (t[mid]->at + tensor_out_bytes(t[mid]) > begin)
            high = mid;
        else
            low = mid + 1;
    }
    for (uint64_t at = begin; at < end; low++) {
        uint64_t stop = t[low]->at + tensor_out_bytes(t[low]);
        stop = stop < end ? stop : end;
        if (stop > at && !w->o->make(t[low], at - t[low]->at, stop - at, dst + (at - begin), e))
            return false;
        at = stop;
    }
    return true;
}

/* Writes bytes [begin, end) of the file, then zeros up to a multiple of ALIGN, which the file loses again when it is closed. */
static bool write_job(const struct writer *w, const struct file *f, uint64_t begin, uint64_t end, uint8_t *buf, struct err *e)
{
    uint64_t head = f->head.len, length = (end - begin + ALIGN - 1) / ALIGN * ALIGN;
    if (begin < head)
        memcpy(buf, f->head.data + begin, (end < head ? end : head) - begin);
    if (end > head) {
        uint64_t from = begin > head ? begin : head;
        if (!make_range(w, f, from - head, end - head, buf + (from - begin), e))
            return false;
    }
    memset(buf + (end - begin), 0, length - (end - begin));
    return file_write_at(f->fd, buf, length, begin) || err_set(e, "cannot write %s: %s", f->out->path, strerror(errno));
}

static uint64_t n_jobs(const struct file *f) { return (f->out->bytes + JOB - 1) / JOB; }

/* Writes a piece of JOB bytes, counted through all files. */
static bool work(void *arg, uint64_t job, void *buf, struct err *e)
{
    const struct writer *w = arg;
    const struct file *f = w->files;
    for (; job >= n_jobs(f); f++)
        job -= n_jobs(f);
    const uint64_t begin = job * JOB, bytes = f->out->bytes;
    return write_job(w, f, begin, begin + JOB < bytes ? begin + JOB : bytes, buf, e);
}

static bool write_data(struct writer *w, struct err *e)
{
    struct worker_jobs j = {.n_threads = w->o->n_threads, .scratch = JOB, .job = work, .arg = w};
    if (j.n_threads <= 0)
        j.n_threads = most((int)sysconf(_SC_NPROCESSORS_ONLN), LEAST_THREADS);
    for (int i = 0; i < w->n_files; i++)
        j.n += n_jobs(&w->files[i]);
    return worker_run_jobs(&j, e);
}

bool safetensors_write(struct file_out *files, int n_files, const struct write_options *o, struct err *e)
{
    struct writer w = {.files = memory_zeroed((size_t)n_files + 1, sizeof *w.files), .n_files = n_files, .o = o};
    bool ok = true;
    for (int i = 0; i < n_files; i++)
        w.files[i] = (struct file){.out = &files[i], .fd = -1};
    for (int i = 0; i < n_files; i++)
        lay_out(&w.files[i]);
    for (int i = 0; i < n_files && ok; i++)
        ok = open_file(&w.files[i], e);
    ok = ok && write_data(&w, e);
    for (int i = 0; i < n_files; i++) {
        if (!close_file(&w.files[i], ok, e))
            ok = false;
        buf_free(&w.files[i].head);
    }
    free(w.files);
    return ok;
}

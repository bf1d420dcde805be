/* `q35chat bench load`: the speed of loading a checkpoint, against a raw read of the same files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/worker.h"
#include "bench/subject.h"

enum { MAX_FILES = 256, THREADS = 8, BLOCK = 8 << 20 };

struct raw {
    int      fds[MAX_FILES];
    uint64_t bytes[MAX_FILES];
    int      n_files;
    atomic_ullong read;
};

static uint64_t n_blocks(const struct raw *r, int file) { return (r->bytes[file] + BLOCK - 1) / BLOCK; }

/* Reads a block, counted through all files. */
static bool read_block(void *arg, uint64_t block, void *buf, struct err *e)
{
    struct raw *r = arg;
    int i = 0;
    while (block >= n_blocks(r, i))
        block -= n_blocks(r, i++);
    const ssize_t n = pread(r->fds[i], buf, BLOCK, (off_t)(block * BLOCK));
    if (n > 0)
        atomic_fetch_add(&r->read, (uint64_t)n);
    return n >= 0 || err_set(e, "cannot read the files of the model: %s", strerror(errno));
}

/* Opens the safetensors files of a folder for direct reads, where the file system has them. */
static bool open_files(struct raw *r, const char *dir, struct err *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return err_set(e, "cannot open %s: %s", dir, strerror(errno));
    for (struct dirent *ent; (ent = readdir(d)) && r->n_files < MAX_FILES;) {
        const char *end = strstr(ent->d_name, ".safetensors");
        struct stat st;
        if (!end || strcmp(end, ".safetensors"))
            continue;
        int fd = openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (fd < 0 && errno == EINVAL)          /* a file system without it, tmpfs for one */
            fd = openat(dirfd(d), ent->d_name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && !fstat(fd, &st)) {
            r->bytes[r->n_files] = (uint64_t)st.st_size;
            r->fds[r->n_files++] = fd;
        }
    }
    closedir(d);
    return r->n_files || err_set(e, "%s holds no .safetensors files", dir);
}

/* Reads every byte of every file in blocks, past the page cache. */
static bool raw_read(const char *dir, int n_threads, double *bytes, double *ms, struct err *e)
{
    struct raw r = {0};
    struct worker_jobs j = {.n_threads = n_threads, .scratch = BLOCK, .job = read_block, .arg = &r};
    if (!open_files(&r, dir, e))
        return false;
    for (int i = 0; i < r.n_files; i++)
        j.n += n_blocks(&r, i);
    int64_t start = clock_ns();
    const bool ok = worker_run_jobs(&j, e);
    *ms = clock_ms_since(start);
    *bytes = (double)atomic_load(&r.read);
    for (int i = 0; i < r.n_files; i++)
        close(r.fds[i]);
    return ok;
}

/* Loads the weights.  On the CPU they stay mapped, and loading makes them present. */
static bool load(struct model *m, double *bytes, double *ms, struct err *e)
{
    int64_t start = clock_ns();
    bool ok = load_weights(m, NULL, NULL, e) && m->dev->finish(m->dev, e);
    *bytes = (double)m->weights.stats.bytes;
    *ms = clock_ms_since(start);
    return ok;
}

/* Reports a row: GB, seconds, GB/s, and percent of `mark`, which is in GB/s. */
static void row(struct report *r, const char *what, double bytes, double ms, double mark)
{
    report_text(r, what);
    report_number(r, bytes * 1e-9);
    report_number(r, ms * 1e-3);
    report_number(r, bytes / ms * 1e-6);
    report_number(r, 100 * bytes / ms * 1e-6 / mark);
}

int bench_load(const struct bench_options *o)
{
    static const struct column columns[] = {
        {"what", "what", -44, 0}, {"gb", "GB", 8, 2}, {"s", "s", 8, 2}, {"gb_s", "GB/s", 8, 2}, {"of_raw", "% raw", 7, 1},
    };
    struct report r;
    struct err e = {0};
    double raw_bytes[2], raw_ms[2], bytes, ms;
    int n_threads = o->n_threads ? o->n_threads : THREADS;
    report_open(&r, "load", o);
    bool ok = o->model_dir || err_set(&e, "bench load needs --model DIR");
    struct model m = {0};
    if ((ok = ok && subject_load(&m, o, &(struct load_options){0}, &e))) {
        report_device(&r, m.dev);
        report_table(&r, "loading", columns, sizeof columns / sizeof *columns);
        ok = raw_read(o->model_dir, n_threads, &raw_bytes[0], &raw_ms[0], &e) && load(&m, &bytes, &ms, &e)
            && raw_read(o->model_dir, n_threads, &raw_bytes[1], &raw_ms[1], &e);
    }
    if (ok) {
        double mark = fmax(raw_bytes[0] / raw_ms[0], raw_bytes[1] / raw_ms[1]) * 1e-6;
        row(&r, "raw read of all files, before", raw_bytes[0], raw_ms[0], mark);
        row(&r, m.dev->caps->packs_weights ? "opened, read, packed on the device" : "opened, mapped, made present", bytes, ms, mark);
        row(&r, "raw read of all files, after", raw_bytes[1], raw_ms[1], mark);
    }
    int status = report_close(&r, ok ? NULL : &e);
    load_close(&m);
    return status;
}

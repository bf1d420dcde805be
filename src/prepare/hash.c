#include "prepare/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { PIECE = 1 << 20, MAX_THREADS = 16 };

struct pool {
    struct hash_job *jobs;
    int              n;
    atomic_int       next;
    atomic_bool      failed;
    atomic_ullong   *done;
    pthread_mutex_t  lock;              /* guards e */
    struct err      *e;
};

static bool hash_one(struct hash_job *j, struct pool *p, uint8_t *buf, struct err *e)
{
    struct stat st;
    int fd = open(j->path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && !fstat(fd, &st);
    uint64_t at = j->at, end = ok && (j->git || j->bytes == UINT64_MAX) ? (uint64_t)st.st_size : j->at + j->bytes;
    if (!ok)
        err_set(e, "cannot open %s: %s", j->path, strerror(errno));
    struct digest *d = digest_open(!j->git, end - at);
    while (ok && at < end && !atomic_load(&p->failed)) {
        ssize_t r = pread(fd, buf, end - at < PIECE ? end - at : PIECE, (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        ok = r > 0 || err_set(e, "cannot read %s: %s", j->path, r ? strerror(errno) : "the file has become shorter");
        if (ok) {
            digest_add(d, buf, (size_t)r);
            at += (uint64_t)r;
            if (p->done)
                atomic_fetch_add(p->done, (uint64_t)r);
        }
    }
    digest_end(d, j->hex);
    digest_close(d);
    if (fd >= 0)
        close(fd);
    return ok;
}

static void *work(void *arg)
{
    struct pool *p = arg;
    uint8_t *buf = memory_alloc(PIECE);
    for (int i; !atomic_load(&p->failed) && (i = atomic_fetch_add(&p->next, 1)) < p->n;) {
        struct err e = {0};
        if (!hash_one(&p->jobs[i], p, buf, &e)) {
            pthread_mutex_lock(&p->lock);
            if (!atomic_exchange(&p->failed, true))
                err_set(p->e, "%s", e.msg);
            pthread_mutex_unlock(&p->lock);
        }
    }
    free(buf);
    return NULL;
}

bool hash_jobs(struct hash_job *jobs, int n, atomic_ullong *done, struct err *e)
{
    struct pool p = {.jobs = jobs, .n = n, .done = done, .e = e};
    pthread_t threads[MAX_THREADS];
    int n_threads = 0, usable = (int)sysconf(_SC_NPROCESSORS_ONLN);
    pthread_mutex_init(&p.lock, NULL);
    while (n_threads < MAX_THREADS && n_threads < usable && n_threads < n && !pthread_create(&threads[n_threads], NULL, work, &p))
        n_threads++;
    if (!n_threads)
        work(&p);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&p.lock);
    return !atomic_load(&p.failed);
}

void hash_text(const void *bytes, size_t n, char hex[DIGEST_HEX])
{
    struct digest *d = digest_open(true, n);
    digest_add(d, bytes, n);
    digest_end(d, hex);
    digest_close(d);
}

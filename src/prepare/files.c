#include "prepare/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/worker.h"

/* ---- hashes ---- */

enum { PIECE = 1 << 20 };

struct hashing {
    struct hash_job   *jobs;
    atomic_ullong     *done;
    struct worker_jobs work;
};

/* Computes the digest of a job's bytes, or of its whole file. */
static bool hash_one(void *arg, uint64_t i, void *buf, struct err *e)
{
    struct hashing *p = arg;
    struct hash_job *j = &p->jobs[i];
    struct stat st;
    int fd = open(j->path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && !fstat(fd, &st);
    uint64_t at = j->at, end = ok && (j->git || j->bytes == UINT64_MAX) ? (uint64_t)st.st_size : j->at + j->bytes;
    if (!ok)
        err_set(e, "cannot open %s: %s", j->path, strerror(errno));
    struct digest *d = digest_open(!j->git, end - at);
    while (ok && at < end && !atomic_load(&p->work.failed)) {
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

bool hash_jobs(struct hash_job *jobs, int n, atomic_ullong *done, struct err *e)
{
    struct hashing p = {.jobs = jobs, .done = done, .work = {.n = (uint64_t)n, .scratch = PIECE, .job = hash_one}};
    p.work.arg = &p;
    return worker_run_jobs(&p.work, e);
}

void hash_text(const void *bytes, size_t n, char hex[DIGEST_HEX])
{
    struct digest *d = digest_open(true, n);
    digest_add(d, bytes, n);
    digest_end(d, hex);
    digest_close(d);
}

/* ---- second names ---- */

const char *const placing_names[] = {"hard link", "clone", "copy", "there already"};

/* Copies in the kernel if possible; drops the source from the page cache. */
static bool copy_bytes(int in, int out, uint64_t n)
{
    enum { LARGE = 64 << 20, SMALL = 1 << 20 };
    char *buf = NULL;
    bool ok = true;
    for (uint64_t done = 0; done < n && ok;) {
        ssize_t r = buf ? -1 : copy_file_range(in, NULL, out, NULL, n - done < LARGE ? n - done : LARGE, 0);
        if (r < 0 && (buf || errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
            buf = buf ? buf : memory_alloc(SMALL);
            r = pread(in, buf, SMALL, (off_t)done);
            if (r > 0 && !(lseek(out, (off_t)done, SEEK_SET) >= 0 && file_write(out, buf, (size_t)r)))
                r = -1;
        }
        if (r < 0 && errno == EINTR)
            continue;
        if (r == 0)
            errno = EIO;                /* the file became shorter */
        ok = r > 0;
        done += ok ? (uint64_t)r : 0;
    }
    free(buf);
    return ok;
}

/* Clones or copies the file under a temporary name, then renames it. */
static bool duplicate(const char *from, const char *to, uint64_t n, enum placing *how, struct err *e)
{
    struct buf tmp = {0};
    bool ok = false;
    const char *slash = strrchr(to, '/');
    size_t dir = slash ? (size_t)(slash - to) + 1 : 0;
    buf_addf(&tmp, "%.*s.%s.tmp", (int)dir, to, to + dir);
    int in = open(from, O_RDONLY | O_CLOEXEC), out = in < 0 ? -1 : open(buf_str(&tmp), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out >= 0) {
        *how = ioctl(out, FICLONE, in) ? PLACED_COPY : PLACED_CLONE;
        ok = (*how == PLACED_CLONE || copy_bytes(in, out, n)) && !fsync(out) && !rename(buf_str(&tmp), to);
    }
    if (!ok)
        err_set(e, "cannot copy %s to %s: %s", from, to, strerror(errno));
    if (in >= 0)
        close(in);
    if (out >= 0) {
        close(out);
        if (!ok)
            unlink(buf_str(&tmp));
    }
    buf_free(&tmp);
    return ok;
}

bool place_file(const char *from, const char *to, bool own, enum placing *how, struct err *e)
{
    enum placing unused;
    struct stat st, there;
    char *real = realpath(from, NULL);
    bool ok;
    how = how ? how : &unused;
    if (!real || stat(real, &st)) {
        ok = err_set(e, "cannot open %s: %s", from, strerror(errno));
    } else if (!lstat(to, &there) && S_ISREG(there.st_mode) && there.st_size == st.st_size) {
        *how = PLACED_ALREADY;
        ok = true;
    } else {
        unlink(to);
        *how = PLACED_LINK;
        ok = (!own && !link(real, to)) || duplicate(real, to, (uint64_t)st.st_size, how, e);
    }
    free(real);
    return ok;
}

bool place_sync_dir(const char *dir, struct err *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && !fsync(fd);
    if (!ok)
        err_set(e, "cannot write %s: %s", dir, strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

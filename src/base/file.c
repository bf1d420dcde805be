#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { CHUNK = 65536 };

/* Reads once.  Returns 1 if there may be more, 0 at the end of the file, -1 with errno. */
static int read_piece(struct buf *b, int fd)
{
    buf_reserve(b, CHUNK);
    ssize_t n = read(fd, b->data + b->len, CHUNK);
    b->len += n > 0 ? (size_t)n : 0;
    b->data[b->len] = 0;
    return n > 0 || (n < 0 && errno == EINTR) ? 1 : n ? -1 : 0;
}

static bool too_large(const char *path, size_t max, struct err *e)
{
    return err_set(e, "%s is larger than the %zu bytes that such a file may have", path, max);
}

bool file_read_fd(struct buf *b, int fd, const char *path, size_t max, struct err *e)
{
    int more;
    while ((more = read_piece(b, fd)) > 0)
        if (b->len > max)
            return too_large(path, max, e);
    return !more || err_set(e, "cannot read %s: %s", path, strerror(errno));
}

/* Opens a file to read without waiting for a FIFO's writer, and fills in its status. -1 with the reason. */
static int open_at_once(const char *path, struct stat *st, struct err *e)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && !fstat(fd, st))
        return fd;
    err_set(e, "cannot open %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

bool file_read(struct buf *b, const char *path, size_t max, struct err *e)
{
    struct stat st;
    int fd = open_at_once(path, &st, e);
    if (fd < 0)
        return false;
    bool ok = S_ISREG(st.st_mode) ? file_read_fd(b, fd, path, max, e)
            : err_set(e, S_ISDIR(st.st_mode) ? "%s is a directory, expected a file" : "%s is not a regular file", path);
    close(fd);
    return ok;
}

/* Reads up to the end, waiting with poll(): a FIFO without a writer reads as end of file, but poll() does not report it as readable. */
static bool read_patiently(struct buf *b, int fd, const char *path, size_t max, int patience_ms, struct err *e)
{
    int64_t start = clock_ns();
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        double left = patience_ms - clock_ms_since(start);
        int r = left > 0 ? poll(&p, 1, (int)left + 1) : 0;
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return err_set(e, "%s: its end was not reached after %d s", path, patience_ms / 1000);
        int more = read_piece(b, fd);
        if (!more)
            return true;
        if (more < 0 && errno != EAGAIN)
            return err_set(e, "cannot read %s: %s", path, strerror(errno));
        if (b->len > max)
            return too_large(path, max, e);
    }
}

bool file_read_stream(struct buf *b, const char *path, size_t max, int patience_ms, struct err *e)
{
    struct stat st;
    int fd = open_at_once(path, &st, e);
    if (fd < 0)
        return false;
    bool ok = S_ISREG(st.st_mode) ? file_read_fd(b, fd, path, max, e)
            : S_ISDIR(st.st_mode) ? err_set(e, "%s is a directory, expected a file", path)
            : read_patiently(b, fd, path, max, patience_ms, e);
    close(fd);
    return ok;
}

/* Waits for more bytes of a stream that has none now.  False: it cannot have any. */
static bool wait_for_more(FILE *in)
{
    struct pollfd p = {.fd = fileno(in), .events = POLLIN};
    bool later = ferror(in) && errno == EAGAIN && poll(&p, 1, -1) >= 0;
    if (later)
        clearerr(in);
    return later;
}

enum file_line file_read_line(struct buf *b, FILE *in, size_t max)
{
    size_t from = b->len;
    for (int c;;) {
        while ((c = getc_unlocked(in)) != EOF && c != '\n' && b->len - from < max)
            buf_addc(b, (char)c);
        if (c == '\n')
            return FILE_LINE;
        if (c != EOF)
            return FILE_LINE_TOO_LONG;
        if (wait_for_more(in))
            continue;
        if (!ferror(in))
            return b->len > from ? FILE_LINE : FILE_LINE_END;
        enum file_line result = errno == EINTR ? FILE_LINE_INTERRUPTED : FILE_LINE_UNREADABLE;
        clearerr(in);
        return result;
    }
}

bool file_write(int fd, const void *bytes, size_t n)
{
    for (const char *s = bytes; n;) {
        ssize_t k = write(fd, s, n);
        if (k < 0 && errno != EINTR)
            return false;
        s += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

bool file_read_at(int fd, void *to, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = pread(fd, (char *)to + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0) {
            errno = r ? errno : 0;
            return false;
        }
        done += (size_t)r;
    }
    return true;
}

bool file_write_at(int fd, const void *bytes, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = pwrite(fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0) {
            errno = r ? errno : ENOSPC;
            return false;
        }
        done += (size_t)r;
    }
    return true;
}

bool file_append(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    bool ok = fd >= 0 && file_write(fd, bytes, n);
    int why = errno;
    if (fd >= 0 && close(fd) && ok) {
        ok = false;
        why = errno;
    }
    errno = why;
    return ok;
}

/* Writes a new file beside `path` and renames it to `path`, so that readers see the old or the new bytes.  False with errno set. */
static bool replace(const char *path, const void *bytes, size_t n, bool synced)
{
    struct buf fresh = {0};
    buf_addf(&fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh.data, O_CLOEXEC);
    bool ok = fd >= 0 && file_write(fd, bytes, n) && (!synced || !fsync(fd));
    int why = errno;
    if (fd >= 0 && close(fd) && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(fresh.data, path)) {
        ok = false;
        why = errno;
    }
    if (fd >= 0 && !ok)
        unlink(fresh.data);
    buf_free(&fresh);
    errno = why;
    return ok;
}

bool file_replace(const char *path, const void *bytes, size_t n)
{
    return replace(path, bytes, n, true);
}

bool file_replace_unsynced(const char *path, const void *bytes, size_t n)
{
    return replace(path, bytes, n, false);
}

/* ---- names ---- */

/* Renames on file systems without links; another program may take the name between the check and the rename. */
static bool check_and_rename(const char *from, const char *to)
{
    if (access(to, F_OK))
        return !rename(from, to);
    errno = EEXIST;
    return false;
}

bool file_move(const char *from, const char *to)
{
    if (link(from, to))
        return errno != EEXIST && errno != ENOENT && check_and_rename(from, to);
    if (!unlink(from))
        return true;
    int why = errno;
    unlink(to);
    errno = why;
    return false;
}

void file_sync_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct buf dir = {0};
    buf_add(&dir, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    int fd = open(dir.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    buf_free(&dir);
}

bool file_make_parents(char *path, struct err *e)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        int r = mkdir(path, 0700);
        if (r && errno != EEXIST)
            err_set(e, "cannot make %s: %s", path, strerror(errno));
        bool ok = !r || errno == EEXIST;
        *p = '/';
        if (!ok)
            return false;
    }
    return true;
}

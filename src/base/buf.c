#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"

void buf_reserve(struct buf *b, size_t n)
{
    size_t need = b->len + n + 1;
    CHECK(need > b->len);
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = memory_resized(b->data, cap);
    b->cap = cap;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    buf_reserve(b, n);
    if (n)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addv(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    CHECK(n >= 0);
    buf_reserve(b, (size_t)n);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_addv(b, fmt, ap);
    va_end(ap);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = 0;
}

void buf_consume(struct buf *b, size_t n)
{
    CHECK(n <= b->len);
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

enum { CHUNK = 65536 };

/* Reads once.  1: there may be more; 0: end of file; -1 with errno. */
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

bool buf_read_fd(struct buf *b, int fd, const char *path, size_t max, struct err *e)
{
    int more;
    while ((more = read_piece(b, fd)) > 0)
        if (b->len > max)
            return too_large(path, max, e);
    return !more || err_set(e, "cannot read %s: %s", path, strerror(errno));
}

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

bool buf_read_file(struct buf *b, const char *path, size_t max, struct err *e)
{
    struct stat st;
    int fd = open_at_once(path, &st, e);
    if (fd < 0)
        return false;
    bool ok = S_ISREG(st.st_mode) ? buf_read_fd(b, fd, path, max, e)
            : err_set(e, S_ISDIR(st.st_mode) ? "%s is a directory, expected a file" : "%s is not a regular file", path);
    close(fd);
    return ok;
}

/* A FIFO without a writer reads as end of file, but poll() does not report it as readable. */
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
            return err_set(e, "%s: it had not come to its end after %d s", path, patience_ms / 1000);
        int more = read_piece(b, fd);
        if (!more)
            return true;
        if (more < 0 && errno != EAGAIN)
            return err_set(e, "cannot read %s: %s", path, strerror(errno));
        if (b->len > max)
            return too_large(path, max, e);
    }
}

bool buf_read_stream(struct buf *b, const char *path, size_t max, int patience_ms, struct err *e)
{
    struct stat st;
    int fd = open_at_once(path, &st, e);
    if (fd < 0)
        return false;
    bool ok = S_ISREG(st.st_mode) ? buf_read_fd(b, fd, path, max, e)
            : S_ISDIR(st.st_mode) ? err_set(e, "%s is a directory, expected a file", path)
            : read_patiently(b, fd, path, max, patience_ms, e);
    close(fd);
    return ok;
}

/* A stream has no more bytes now.  True: it may have some again, after a wait. */
static bool wait_for_more(FILE *in)
{
    struct pollfd p = {.fd = fileno(in), .events = POLLIN};
    bool later = ferror(in) && errno == EAGAIN && poll(&p, 1, -1) >= 0;
    if (later)
        clearerr(in);
    return later;
}

enum buf_line buf_read_line(struct buf *b, FILE *in, size_t max)
{
    size_t from = b->len;
    for (int c;;) {
        while ((c = getc_unlocked(in)) != EOF && c != '\n' && b->len - from < max)
            buf_addc(b, (char)c);
        if (c == '\n')
            return BUF_LINE;
        if (c != EOF)
            return BUF_LINE_TOO_LONG;
        if (wait_for_more(in))
            continue;
        if (!ferror(in))
            return b->len > from ? BUF_LINE : BUF_LINE_END;
        enum buf_line result = errno == EINTR ? BUF_LINE_INTERRUPTED : BUF_LINE_UNREADABLE;
        clearerr(in);
        return result;
    }
}

bool buf_write(int fd, const void *bytes, size_t n)
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

bool buf_append_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    bool ok = fd >= 0 && buf_write(fd, bytes, n);
    int why = errno;
    if (fd >= 0 && close(fd) && ok) {
        ok = false;
        why = errno;
    }
    errno = why;
    return ok;
}

static bool replace_file(const char *path, const void *bytes, size_t n, bool synced)
{
    struct buf fresh = {0};
    buf_addf(&fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh.data, O_CLOEXEC);
    bool ok = fd >= 0 && buf_write(fd, bytes, n) && (!synced || !fsync(fd));
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

bool buf_replace_file(const char *path, const void *bytes, size_t n)
{
    return replace_file(path, bytes, n, true);
}

bool buf_replace_file_unsynced(const char *path, const void *bytes, size_t n)
{
    return replace_file(path, bytes, n, false);
}

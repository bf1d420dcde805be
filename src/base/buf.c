#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

void buf_reserve(struct buf *b, size_t n)
{
    size_t need = b->len + n + 1;
    CHECK(need > b->len);
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = realloc(b->data, cap);
    CHECK(b->data);
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

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CHECK(n >= 0);
    buf_reserve(b, (size_t)n);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
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

bool buf_read_file(struct buf *b, const char *path, size_t max, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_set(e, "cannot open %s: %s", path, strerror(errno));
    bool ok = true;
    for (;;) {
        buf_reserve(b, 65536);
        errno = 0;
        size_t n = fread(b->data + b->len, 1, 65536, f);
        b->len += n;
        b->data[b->len] = 0;
        if (b->len > max) {
            ok = err_set(e, "%s is larger than the %zu bytes that such a file may have", path, max);
            break;
        }
        if (n < 65536) {
            if (ferror(f))
                ok = err_set(e, "cannot read %s: %s", path, strerror(errno));
            break;
        }
    }
    fclose(f);
    return ok;
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

bool buf_replace_file(const char *path, const void *bytes, size_t n)
{
    struct buf fresh = {0};
    buf_addf(&fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh.data, O_CLOEXEC);
    bool ok = fd >= 0 && buf_write(fd, bytes, n) && !fsync(fd);
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

#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
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
    b->data[b->len] = '\0';
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

void buf_add_random(struct buf *b, int n)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { LETTERS = sizeof letters - 1, FAIR = 256 / LETTERS * LETTERS };
    unsigned char bytes[64];
    while (n > 0) {
        CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
        for (size_t i = 0; i < sizeof bytes && n > 0; i++)
            if (bytes[i] < FAIR) {      /* each letter is equally likely */
                buf_addc(b, letters[bytes[i] % LETTERS]);
                n--;
            }
    }
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

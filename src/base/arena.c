#include "base/arena.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/memory.h"

enum { FIRST = 1024, LARGEST = 64 * 1024, ALIGN = 64 };        /* blocks double: many arenas hold a line or two */

struct arena_block {
    struct arena_block *next;
    size_t used, size;
};

#define HEADER ((sizeof(struct arena_block) + ALIGN - 1) / ALIGN * ALIGN)

static struct arena_block *block_new(size_t size)
{
    struct arena_block *b = memory_got(aligned_alloc(ALIGN, HEADER + size));
    memset(b, 0, HEADER + size);
    b->size = size;
    return b;
}

static size_t usual_size(const struct arena_block *before, size_t n)
{
    size_t size = !before ? FIRST : before->size < LARGEST / 2 ? before->size * 2 : LARGEST;
    while (size < n)
        size *= 2;
    return size;
}

void *arena_alloc(struct arena *a, size_t n)
{
    CHECK(n < SIZE_MAX / 2);
    size_t align = n >= ALIGN ? ALIGN : 16;
    struct arena_block *b = a->head;
    size_t at = b ? (b->used + align - 1) / align * align : 0;
    if (!b || at + n > b->size) {
        bool big = n > LARGEST / 4;
        struct arena_block *fresh = block_new(big ? (n + ALIGN - 1) / ALIGN * ALIGN : usual_size(b, n));
        if (b && big) {                 /* a big allocation gets its own block, behind the open one */
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            a->head = fresh;
        }
        b = fresh;
        at = 0;
    }
    b->used = at + n;
    a->total += n;
    return (char *)b + HEADER + at;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    CHECK(!size || count <= SIZE_MAX / 2 / size);
    return arena_alloc(a, count * size);
}

void *arena_grow(struct arena *a, const void *array, int n, int *cap, size_t size)
{
    enum { FEW = 4 };
    if (n < *cap)
        return (void *)array;
    CHECK(*cap <= INT_MAX / 2);
    *cap = *cap ? 2 * *cap : FEW;
    void *fresh = arena_array(a, (size_t)*cap, size);
    if (n)
        memcpy(fresh, array, (size_t)n * size);
    return fresh;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_addv(&text, fmt, ap);
    va_end(ap);
    char *p = arena_strndup(a, buf_str(&text), text.len);
    buf_free(&text);
    return p;
}

void arena_free(struct arena *a)
{
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->total = 0;
}

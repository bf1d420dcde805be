#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { BLOCK = 64 * 1024, ALIGN = 64 };

struct arena_block {
    struct arena_block *next;
    size_t used, size;
};

#define HEADER ((sizeof(struct arena_block) + ALIGN - 1) / ALIGN * ALIGN)

static struct arena_block *block_new(size_t size)
{
    struct arena_block *b = aligned_alloc(ALIGN, HEADER + size);
    CHECK(b);
    memset(b, 0, HEADER + size);
    b->size = size;
    return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
    CHECK(n < SIZE_MAX / 2);
    size_t align = n >= ALIGN ? ALIGN : 16;
    struct arena_block *b = a->head;
    size_t at = b ? (b->used + align - 1) / align * align : 0;
    if (!b || at + n > b->size) {
        size_t size = n > BLOCK / 4 ? (n + ALIGN - 1) / ALIGN * ALIGN : BLOCK;
        struct arena_block *fresh = block_new(size);
        if (b && size != BLOCK) {       /* a big piece gets a block of its own behind the open one */
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
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CHECK(n >= 0);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
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

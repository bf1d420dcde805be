#include "base/memory.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { FIRST_ELEMENTS = 16 };           /* room of a growing array */

void *memory_got(void *p)
{
    if (!p)
        err_no_memory();
    return p;
}

void *memory_alloc(size_t n)
{
    return memory_got(malloc(n ? n : 1));
}

void *memory_zeroed(size_t n, size_t size)
{
    return memory_got(calloc(n ? n : 1, size ? size : 1));
}

void *memory_resized(void *p, size_t n)
{
    return memory_got(realloc(p, n ? n : 1));
}

char *memory_strdup(const char *s)
{
    return s ? memory_got(strdup(s)) : NULL;
}

void *memory_grow(void *array, int n, int *cap, size_t size)
{
    if (n < *cap)
        return array;
    CHECK(*cap <= INT_MAX / 2);
    *cap = *cap ? 2 * *cap : FIRST_ELEMENTS;
    return memory_resized(array, (size_t)*cap * size);
}

/* ---- arenas ---- */

enum { FIRST_BLOCK = 1024, LARGEST_BLOCK = 64 * 1024, ALIGN = 64 };    /* blocks double: many arenas hold a line or two */

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

/* Returns the size of a block with room for n bytes: twice that of the block before it, up to LARGEST_BLOCK. */
static size_t next_block_size(const struct arena_block *before, size_t n)
{
    size_t size = !before ? FIRST_BLOCK : before->size < LARGEST_BLOCK / 2 ? before->size * 2 : LARGEST_BLOCK;
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
        bool big = n > LARGEST_BLOCK / 4;
        struct arena_block *fresh = block_new(big ? (n + ALIGN - 1) / ALIGN * ALIGN : next_block_size(b, n));
        if (b && big) {                 /* a big allocation gets its own block, after the open one */
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
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    CHECK(n >= 0);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
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

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void *memory_got(void *p)
{
    if (!p)
        log_no_memory();
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
    return memory_got(strdup(s));
}

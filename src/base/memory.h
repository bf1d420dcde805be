/* Small allocations: what they return, or the end of the program.  Large ones are settled by engine/memplan. */
#ifndef Q35_BASE_MEMORY_H
#define Q35_BASE_MEMORY_H

#include <stddef.h>

/* p, unless it is NULL: then one sentence on stderr, with the terminal given back, and status 1. */
void *memory_got(void *p);
void *memory_alloc(size_t n);                   /* malloc(), calloc(), realloc() and strdup(), likewise; no bytes are one byte */
void *memory_zeroed(size_t n, size_t size);
void *memory_resized(void *p, size_t n);
char *memory_strdup(const char *s);

#endif

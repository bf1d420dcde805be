/* Small allocations.  If one fails, the program ends.  Large ones are planned by engine/memplan. */
#ifndef Q35_BASE_MEMORY_H
#define Q35_BASE_MEMORY_H

#include <stddef.h>

/* Returns p.  If p is NULL, restores the terminal, prints one sentence on stderr and ends with status 1. */
void *memory_got(void *p);
void *memory_alloc(size_t n);                   /* malloc(), calloc(), realloc() and strdup() with that check; 0 bytes count as 1 */
void *memory_zeroed(size_t n, size_t size);
void *memory_resized(void *p, size_t n);
char *memory_strdup(const char *s);

#endif

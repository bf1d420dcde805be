/* Small allocations: what they return, or the end of the program.  Large ones are settled by engine/memplan. */
#ifndef Q35_BASE_MEMORY_H
#define Q35_BASE_MEMORY_H

#include <stddef.h>

/* p, unless it is NULL: then one sentence on stderr, with the terminal given back, and status 1. */
void *memory_got(void *p);
void *memory_alloc(size_t n);           /* malloc(), likewise; for libraries that want a function */
char *memory_strdup(const char *s);

#endif

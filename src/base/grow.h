/* See base/memory.h. */
#ifndef Q35_BASE_GROW_H
#define Q35_BASE_GROW_H

#include "base/memory.h"

static inline void *grow(void *array, int n, int *cap, size_t size) { return memory_grow(array, n, cap, size); }

#endif

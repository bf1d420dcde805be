#include "base/grow.h"

#include <limits.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"

enum { FIRST = 16 };

void *grow(void *array, int n, int *cap, size_t size)
{
    if (n < *cap)
        return array;
    CHECK(*cap <= INT_MAX / 2);
    *cap = *cap ? 2 * *cap : FIRST;
    return memory_resized(array, (size_t)*cap * size);
}

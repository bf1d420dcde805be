/* Arrays that grow by doubling; a small allocation that fails aborts. */
#ifndef Q35_BASE_GROW_H
#define Q35_BASE_GROW_H

#include <stddef.h>

/* Room for one more element of `size` bytes behind the n that `array` has (NULL at first); *cap follows.  Returns the array,
 * which may have moved. */
void *grow(void *array, int n, int *cap, size_t size);

#endif

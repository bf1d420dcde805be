/* Arrays that grow by doubling.  Allocation failure ends the program (base/memory.h). */
#ifndef Q35_BASE_GROW_H
#define Q35_BASE_GROW_H

#include <stddef.h>

/* Makes room for one more element of `size` bytes after the n elements of `array` (NULL at first): when full, doubles *cap.
 * Returns the array, which may have moved. */
void *grow(void *array, int n, int *cap, size_t size);

#endif

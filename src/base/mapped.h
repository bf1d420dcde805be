/* Files that are mapped.  One that shrinks meanwhile ends the program by SIGBUS wherever it is read; this gives the terminal back
 * and says which file it was. */
#ifndef Q35_BASE_MAPPED_H
#define Q35_BASE_MAPPED_H

#include <stddef.h>

void mapped_watch(void);                /* once, at the start: takes SIGBUS, and remembers how the terminal is set */
void mapped_add(const void *at, size_t n, const char *path);
void mapped_drop(const void *at);

#endif

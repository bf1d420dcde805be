/* Another name for a file. */
#ifndef Q35_BASE_MOVE_H
#define Q35_BASE_MOVE_H

#include <stdbool.h>

/* Never over another file: then, and on any other failure, false and errno, and `from` is still there. */
bool file_move(const char *from, const char *to);
/* Waits until a name that was given to a file is on disk, as it is when its directory is.  Some file systems cannot do that; nothing is
 * wrong with the file then. */
void file_sync_name(const char *path);

#endif

/* A file at a second place without moving its bytes, where the file system can. */
#ifndef Q35_PREPARE_PLACE_H
#define Q35_PREPARE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum placing { PLACED_LINK, PLACED_CLONE, PLACED_COPY, PLACED_ALREADY };
extern const char *const placing_names[];       /* "hard link", ... */

/* Puts `from` (or what it links to) at `to`: as a hard link, else as a clone that shares its blocks, else as a copy; `own`: as a file of
 * its own, that can be changed without changing `from`.  `to` appears whole or not at all.  A file that is there already and as large
 * stays.  *how (may be NULL) is how it was done. */
bool place_file(const char *from, const char *to, bool own, enum placing *how, struct err *e);

/* The directory's entries reach the disk. */
bool place_sync_dir(const char *dir, struct err *e);

#endif

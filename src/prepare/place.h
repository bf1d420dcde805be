/* A file under a second name, without copying its bytes if the file system allows it. */
#ifndef Q35_PREPARE_PLACE_H
#define Q35_PREPARE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum placing { PLACED_LINK, PLACED_CLONE, PLACED_COPY, PLACED_ALREADY };
extern const char *const placing_names[];       /* "hard link", ... */

/* Makes `to` from `from` (links followed): a hard link, else a clone that shares blocks, else a copy.  `own`: never a hard link, so that
 * changing `to` does not change `from`.  `to` appears complete or not at all.  An existing file of the same size stays.  *how (may be
 * NULL) receives the method. */
bool place_file(const char *from, const char *to, bool own, enum placing *how, struct err *e);

/* Syncs the entries of the directory to disk. */
bool place_sync_dir(const char *dir, struct err *e);

#endif

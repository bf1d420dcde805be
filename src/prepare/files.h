/* Files of a checkpoint: hashes of them and of their parts, and second names without copying bytes if the file system allows it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/digest.h"

struct hash_job {
    const char *path;
    uint64_t    at, bytes;              /* UINT64_MAX bytes: to the end */
    bool        git;                    /* git's SHA-1 of the whole file instead */
    char        hex[DIGEST_HEX];
};

/* Computes the hashes with several threads.  False with the first error.  `done` (may be NULL) counts bytes. */
bool hash_jobs(struct hash_job *jobs, int n, atomic_ullong *done, struct err *e);
void hash_text(const void *bytes, size_t n, char hex[DIGEST_HEX]);

enum placing { PLACED_LINK, PLACED_CLONE, PLACED_COPY, PLACED_ALREADY };
extern const char *const placing_names[];       /* "hard link", ... */

/* Makes `to` from `from` (links followed): a hard link, else a clone that shares blocks, else a copy.  `own`: never a hard link, so that
 * changing `to` does not change `from`.  `to` appears complete or not at all.  An existing file of the same size stays.  *how (may be
 * NULL) receives the method. */
bool place_file(const char *from, const char *to, bool own, enum placing *how, struct err *e);

/* Syncs the entries of the directory to disk. */
bool place_sync_dir(const char *dir, struct err *e);

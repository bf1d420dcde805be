/* SHA-256 of files and of parts of files, several in parallel. */
#ifndef Q35_PREPARE_HASH_H
#define Q35_PREPARE_HASH_H

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

/* False with the first error.  `done` (may be NULL) counts bytes. */
bool hash_jobs(struct hash_job *jobs, int n, atomic_ullong *done, struct err *e);
void hash_text(const void *bytes, size_t n, char hex[DIGEST_HEX]);

#endif

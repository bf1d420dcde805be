/* A temporary directory for a test, with a few files. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct tmpdir { char path[64]; };

static inline bool tmpdir_make(struct tmpdir *d)
{
    snprintf(d->path, sizeof d->path, "/tmp/q35test.XXXXXX");
    return mkdtemp(d->path) != NULL;
}

static inline bool tmpdir_put(const struct tmpdir *d, const char *name, const char *data, size_t n)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    unlink(path);                       /* overwriting a file may wait for the disk, creating one does not */
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    bool ok = fwrite(data, 1, n, f) == n;
    return !fclose(f) && ok;
}

static inline void tmpdir_drop(const struct tmpdir *d, const char *name)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    unlink(path);
}

/* Call after removing its files. */
static inline void tmpdir_remove(const struct tmpdir *d)
{
    rmdir(d->path);
}

/* A repository of a hub and its files: plain values, and the options of a struct fetch. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fetch_options {
    int stall_s;                        /* reconnect after this time without data; 0: 20 */
    int tries;                          /* attempts in a row without data before a range fails; 0: 8 */
    /* Reports delays, such as "the hub limits requests and asks to wait for 40 s".  Called on any thread; may be NULL. */
    void (*note)(void *arg, const char *text);
    void *arg;
};

enum { FETCH_HASH = 65 };

struct fetch_file {
    const char *path;                   /* "config.json", "sub/file"; safe to append to a directory */
    uint64_t    bytes;
    bool        lfs;                    /* hash is the SHA-256 of the bytes; otherwise git's SHA-1 of the blob */
    char        hash[FETCH_HASH];       /* lower case; the name of the blob in the cache.  "": unknown (offline, not a link) */
};

struct fetch_repo {
    char  *name, *revision;             /* as requested: "org/name", "main" */
    char   commit[FETCH_HASH];          /* the commit of the revision when it was listed; later calls request this commit */
    struct fetch_file *files;           /* sorted by path */
    int    n_files;
};

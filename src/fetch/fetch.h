/* Files of a model hub (huggingface.co, or what HF_ENDPOINT names) by list and by byte range, checked as they arrive.
 * Honours HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE; with the last nothing is asked, and both calls
 * answer from the hub's cache on this machine.  The token goes to the hub alone, never to where it sends us.
 *
 * A struct fetch may be used by several threads at once; each call blocks until it is done. */
#ifndef Q35_FETCH_FETCH_H
#define Q35_FETCH_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fetch_options {
    int stall_s;                        /* a connection that brings nothing for so long is made anew; 0: 20 */
    int tries;                          /* of a range, one behind the other, that bring nothing; 0: 8 */
    /* What takes a while, e.g. "the hub asks us to wait for 40 s".  From any thread; may be NULL. */
    void (*note)(void *arg, const char *text);
    void *arg;
};

enum { FETCH_HASH = 65 };

struct fetch_file {
    const char *path;                   /* "config.json", "sub/file"; safe to append to a directory */
    uint64_t    bytes;
    bool        lfs;                    /* hash is the SHA-256 of its bytes; else git's SHA-1 of it as a blob */
    char        hash[FETCH_HASH];       /* lower case; the hub's cache calls the file so.  "": not known (offline, no link) */
};

struct fetch_repo {
    char  *name, *revision;             /* as asked for: "org/name", "main" */
    char   commit[FETCH_HASH];          /* what the revision was when listed; later calls ask for this commit */
    struct fetch_file *files;           /* sorted by path */
    int    n_files;
};

struct fetch;
struct fetch *fetch_open(const struct fetch_options *o, struct err *e);         /* asks nobody anything yet */
void fetch_close(struct fetch *f);
void fetch_stop(struct fetch *f);       /* any thread: calls under way and later ones fail with "stopped" */
bool fetch_stopped(const struct fetch *f);
bool fetch_offline(const struct fetch *f);

/* All files of a repository with sizes and hashes.  `revision` NULL: "main".  *r must be freed either way. */
bool fetch_list(struct fetch *f, const char *name, const char *revision, struct fetch_repo *r, struct err *e);
void fetch_repo_free(struct fetch_repo *r);
const struct fetch_file *fetch_find(const struct fetch_repo *r, const char *path);     /* NULL: not there */

/* Bytes [offset, offset + n) of a file into dst, however many connections that takes.  Whether they are the right bytes only the hash of
 * the whole file can say; of what HTTP tells, everything is checked. */
bool fetch_range(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, size_t n, void *dst,
                 struct err *e);

/* The same into a function, piece by piece and in order.  It is never told a byte twice.  It returns false, with a sentence, to end. */
typedef bool fetch_take(void *arg, const void *bytes, size_t n, struct err *e);
bool fetch_range_to(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, uint64_t n,
                    fetch_take *take, void *arg, struct err *e);

#endif

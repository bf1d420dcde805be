/* Files of a model hub (huggingface.co or HF_ENDPOINT): lists them and reads byte ranges, which are checked as they arrive.
 * Uses HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE.  With HF_HUB_OFFLINE nothing is requested; both
 * calls read the Hugging Face cache on this machine.  The token is sent only to the hub, never to the target of a redirect.
 *
 * A struct fetch may be used by several threads at once; each call blocks until it is done. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/repo.h"

struct fetch;
struct fetch *fetch_open(const struct fetch_options *o, struct err *e);         /* makes no request */
void fetch_close(struct fetch *f);
void fetch_stop(struct fetch *f);       /* any thread: running and later calls fail with "stopped" */
bool fetch_stopped(const struct fetch *f);
bool fetch_offline(const struct fetch *f);

/* Checks the form of the names of a repository and a revision; asks no server.  False with the reason. */
bool fetch_is_name(const char *name, const char *revision, struct err *e);
/* All files of a repository with sizes and hashes.  `revision` NULL: "main".  *r must be freed either way. */
bool fetch_list(struct fetch *f, const char *name, const char *revision, struct fetch_repo *r, struct err *e);
void fetch_repo_free(struct fetch_repo *r);
const struct fetch_file *fetch_find(const struct fetch_repo *r, const char *path);     /* NULL if there is none */

/* Reads bytes [offset, offset + n) of a file into dst, with as many connections as it takes.  All HTTP headers are checked; only the hash
 * of the whole file can prove the bytes themselves. */
bool fetch_range(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, size_t n, void *dst,
                 struct err *e);

/* The same into a function, which gets each byte once and in order.  To stop, it returns false and sets `e`. */
typedef bool fetch_take(void *arg, const void *bytes, size_t n, struct err *e);
bool fetch_range_to(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, uint64_t n,
                    fetch_take *take, void *arg, struct err *e);

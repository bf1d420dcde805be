/* The hub's cache on this machine, laid out as its own tools do, so that each finds what the other has downloaded:
 *   ROOT/models--ORG--NAME/blobs/HASH               the files, by hash
 *                         /snapshots/COMMIT/PATH    links to them, by name
 *                         /refs/REVISION            a commit */
#ifndef Q35_FETCH_CACHE_H
#define Q35_FETCH_CACHE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "fetch/fetch.h"

/* HF_HUB_CACHE, HF_HOME/hub, or below ~/.cache.  False when not even HOME is set. */
bool cache_root(struct buf *path, struct err *e);
bool cache_home(struct buf *path, struct err *e);                       /* HF_HOME, where the token lies */
bool cache_repo(struct buf *path, const char *name, struct err *e);     /* the repository's folder */
void cache_snapshot(struct buf *path, const char *folder, const char *commit);
void cache_blob(struct buf *path, const char *folder, const char *hash);
/* The commit that a revision (a name, or a commit) stands for there; false if it is not there. */
bool cache_commit(const char *folder, const char *revision, char commit[FETCH_HASH]);
/* "ORG/NAME" of a folder's name "models--ORG--NAME"; false if it is none. */
bool cache_repo_name(struct buf *name, const char *folder_name);

/* What lies in a directory, links followed, as fetch_list() tells it: hashes are taken from the names that links point to.  Leaves out
 * what is not there in whole, and names with a leading dot. */
bool cache_list(const char *dir, struct fetch_repo *r, struct err *e);

/* Makes SNAPSHOT/PATH a link to the blob, and the directories above it.  A link that is there already is replaced at once. */
bool cache_link(const char *folder, const char *commit, const char *path, const char *hash, struct err *e);
/* Writes refs/REVISION; none for a commit. */
bool cache_set_ref(const char *folder, const char *revision, const char *commit, struct err *e);
/* Makes every directory above the last slash. */
bool cache_make_parents(const char *path, struct err *e);

#endif

/* The Hugging Face cache on this machine, with the layout of the Hugging Face tools, so that each finds the other's downloads:
 *   ROOT/models--ORG--NAME/blobs/HASH               the files, by hash
 *                         /snapshots/COMMIT/PATH    links to them, by name
 *                         /refs/REVISION            a commit */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "fetch/repo.h"

/* HF_HUB_CACHE, HF_HOME/hub, or below ~/.cache.  False if HOME is not set either. */
bool cache_root(struct buf *path, struct err *e);
bool cache_home(struct buf *path, struct err *e);                       /* HF_HOME, which has the token */
bool cache_repo(struct buf *path, const char *name, struct err *e);     /* the repository's folder */
void cache_snapshot(struct buf *path, const char *folder, const char *commit);
void cache_blob(struct buf *path, const char *folder, const char *hash);
/* The commit of a revision (a name or a commit) in the cache; false if the cache does not have it. */
bool cache_commit(const char *folder, const char *revision, char commit[FETCH_HASH]);
/* "ORG/NAME" of a folder name "models--ORG--NAME"; false if the folder name has another form. */
bool cache_repo_name(struct buf *name, const char *folder_name);

/* The files of a directory (links followed), in the form of fetch_list(); hashes are the names that links point to.  Incomplete files
 * and names with a leading dot are left out. */
bool cache_list(const char *dir, struct fetch_repo *r, struct err *e);

/* Makes SNAPSHOT/PATH a link to the blob, and the directories above it.  An existing link is replaced atomically. */
bool cache_link(const char *folder, const char *commit, const char *path, const char *hash, struct err *e);
/* Writes refs/REVISION; writes nothing if the revision is a commit. */
bool cache_set_ref(const char *folder, const char *revision, const char *commit, struct err *e);
/* Makes all directories above the last slash. */
bool cache_make_parents(const char *path, struct err *e);

/* A file that is being downloaded in ranges by several threads, hashed while it arrives, safe against a kill at any moment.
 *
 * Its name is FINAL.q35part until its hash was checked; then it is renamed to FINAL.  FINAL.q35part.journal records the progress of each
 * range and the state of the hash.  It is written after the bytes that it describes are on disk, so it is also right after a power cut.
 * Bytes that arrive in order are hashed from memory; bytes that arrive early are read back.  Any thread may call these functions,
 * except open and close. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h"

struct part;

/* Continues an earlier run.  Refuses a file that another process is downloading. */
struct part *part_open(const char *final, const struct fetch_file *f, uint64_t range_bytes, struct err *e);
void     part_close(struct part *p);
int      part_take(struct part *p);                     /* reserves a missing range for the caller; -1: none is free */
bool     part_has_free(struct part *p);
void     part_give(struct part *p, int range);          /* releases the range, complete or not */
void     part_missing(struct part *p, int range, uint64_t *offset, uint64_t *n);
/* Writes the next n bytes of a range that the caller reserved. */
bool     part_write(struct part *p, int range, const void *bytes, size_t n, struct err *e);
/* Hashes bytes that arrived early and are next in order, unless another thread does. */
bool     part_hash_rest(struct part *p, struct err *e);
bool     part_is_whole(struct part *p);                 /* complete and hashed */
uint64_t part_bytes(struct part *p);                    /* bytes present */
/* Syncs the bytes to disk, then writes the journal, if anything changed. */
bool     part_commit(struct part *p, struct err *e);
/* Call once, when complete.  True: renamed to its final name.  False with *wrong: wrong hash, the file was removed.  False: see `e`. */
bool     part_finish(struct part *p, bool *wrong, struct err *e);

/* Removes the remains of a download after `final` was made in another way, unless another process still downloads it. */
void     part_drop(const char *final);
/* Bytes on disk of an unfinished download of `final`. */
uint64_t part_left(const char *final);
extern const char part_suffix[];        /* ".q35part" */

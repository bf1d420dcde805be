/* A file that is being downloaded: in ranges, by several threads, hashed as it comes, safe against a kill at any moment.
 *
 * It lies beside its place under a name of its own, FINAL.q35part, and takes its final name only when its hash is right.  FINAL.q35part.journal
 * says how far each range is and holds the state of the hash there; it is written after the bytes it speaks of are on disk, so it is
 * true also after a power cut.  Bytes are hashed from memory when they come in order; what came ahead of its turn is read back.
 * All functions may be called by any thread but open and close. */
#ifndef Q35_PREPARE_PART_H
#define Q35_PREPARE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h"

struct part;

/* Takes up what an earlier run has left.  Refuses a file that another process is downloading. */
struct part *part_open(const char *final, const struct fetch_file *f, uint64_t range_bytes, struct err *e);
void     part_close(struct part *p);
int      part_take(struct part *p);                     /* a range that is missing and nobody works at, now the caller's; -1: none */
bool     part_has_free(struct part *p);
void     part_give(struct part *p, int range);          /* the caller's work on it is over, finished or not */
void     part_missing(struct part *p, int range, uint64_t *offset, uint64_t *n);
/* The next n bytes of a range that the caller has taken. */
bool     part_write(struct part *p, int range, const void *bytes, size_t n, struct err *e);
/* Hashes what came ahead of its turn and is due now, unless another thread is at it. */
bool     part_settle(struct part *p, struct err *e);
bool     part_is_whole(struct part *p);                 /* all is there and hashed */
uint64_t part_bytes(struct part *p);                    /* how many are there */
/* Brings the bytes to disk, then the journal.  Nothing to do: does nothing. */
bool     part_commit(struct part *p, struct err *e);
/* When whole: true with its final name; or *wrong, and nothing of it is left; or false with a sentence.  Once. */
bool     part_finish(struct part *p, bool *wrong, struct err *e);

/* Removes what such a download has left, once `final` is there by other means; not that of a process that still runs. */
void     part_drop(const char *final);
/* Bytes on disk of what an unfinished download of `final` has left; 0: nothing. */
uint64_t part_left(const char *final);
extern const char part_suffix[];        /* ".q35part" */

#endif

/* What a sequence has computed, in a file: token ids, KV rows and states, so that a conversation goes on without computing them again.
 * The file is a copy that may be lost: whoever finds it damaged or of another model deletes it and computes.
 *
 * Sections are written to free places of the file and count from the next checkpoint_commit() on, which is one write of one page: a
 * program that is killed, or a power cut, leaves either what was committed before or what was to be.  docs/formats.md has the layout.
 * This file knows neither model nor device: what rows and states are made of is the caller's, and part of the identity.
 *
 * One thread at a time. */
#ifndef Q35_ENGINE_CHECKPOINT_H
#define Q35_ENGINE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"

enum { CHECKPOINT_VERSION = 1 };

/* KV rows of positions from..to-1, of which those from `end` on do not count; or (from == to) the states that stand at that position. */
struct checkpoint_section {
    int32_t  from, to, end, unused;     /* unused: 0 */
    uint64_t at, bytes, checksum;       /* where it lies in the file */
};
static inline bool checkpoint_is_rows(const struct checkpoint_section *s) { return s->from < s->to; }

struct checkpoint;

/* For reading.  NULL with the reason; without one (e->msg is empty) when there is no such file.  *useless: it will never be readable. */
struct checkpoint *checkpoint_open(const char *path, struct fingerprint identity, bool *useless, struct err *e);
/* For writing, locked against other programs; a file that is not there, damaged or of another identity is made anew.  NULL with the reason. */
struct checkpoint *checkpoint_edit(const char *path, struct fingerprint identity, struct err *e);
void checkpoint_close(struct checkpoint *c);            /* what was not committed is dropped */

/* As the file is, or will be with the next commit.  The rows are those of all ids, section after section; they must be loaded in that order,
 * since rows that do not count in one section are overwritten by the next. */
const int32_t *checkpoint_ids(const struct checkpoint *c, int *n);
const struct checkpoint_section *checkpoint_sections(const struct checkpoint *c, int *n);
/* Into s->bytes of memory.  False when they are not those that were written. */
bool checkpoint_read(const struct checkpoint *c, const struct checkpoint_section *s, void *to, struct err *e);

/* The sequence is another one from position n on: drops ids, rows and states behind it. */
void checkpoint_cut(struct checkpoint *c, int n);
/* n more tokens and their rows. */
bool checkpoint_add_rows(struct checkpoint *c, const int32_t *ids, int n, const void *rows, size_t bytes, struct err *e);
/* pos is at most the number of ids, and has no states yet. */
bool checkpoint_add_states(struct checkpoint *c, int pos, const void *states, size_t bytes, struct err *e);
void checkpoint_drop_states(struct checkpoint *c, int pos);
/* Makes what was done since the last commit count, and waits until it is on the disk.  False: the file is as after the last commit. */
bool checkpoint_commit(struct checkpoint *c, struct err *e);

size_t checkpoint_bytes(const struct checkpoint *c);    /* that the file takes on the disk */
size_t checkpoint_written(const struct checkpoint *c);  /* bytes written since it was opened */

#endif

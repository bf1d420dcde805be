/* A checkpoint: the token ids, pictures, KV rows and states of a sequence in a file, so that a conversation continues without computing them again.
 * The file is only a copy: a program that finds it damaged, or of another model, deletes it and computes the tokens again.
 *
 * Sections are written to unused parts of the file and count from the next checkpoint_commit() on, which is one write of one page.  So after a kill
 * or a power cut the file has the content of the commit before or of the new one, nothing in between.  docs/formats.md has the layout.
 * This module depends on neither model nor device: rows and states are bytes to it, and `identity` stands for what they depend on.
 *
 * One thread at a time uses a struct checkpoint. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/spans.h"

/* A file gets version 2 with its first picture; without pictures it has version 1, which older programs read. */
enum { CHECKPOINT_VERSION = 2, CHECKPOINT_TEXT_VERSION = 1 };

/* The KV rows of positions from..to-1, of which only those before `end` are valid; or (from == to) the states after that many tokens. */
struct checkpoint_section {
    int32_t  from, to, end, unused;     /* unused: 0 */
    uint64_t at, bytes, checksum;       /* at: offset in the file */
};
static inline bool checkpoint_is_rows(const struct checkpoint_section *s) { return s->from < s->to; }

struct checkpoint;

/* Opens a file for reading.  NULL with the reason; if there is no such file, NULL and e->msg is empty.  *useless: the file is damaged or of another
 * identity, so that it will never be readable. */
struct checkpoint *checkpoint_open(const char *path, struct fingerprint identity, bool *useless, struct err *e);
/* Opens a file for writing and locks it against other programs.  Makes an empty one if there is none, or if it is damaged or of another identity.
 * NULL with the reason. */
struct checkpoint *checkpoint_edit(const char *path, struct fingerprint identity, struct err *e);
void checkpoint_close(struct checkpoint *c);            /* drops changes that were not committed */

/* The content of the file, with the changes since the last commit.  Sections of rows follow each other and cover all tokens.  They must be loaded in
 * this order: the invalid rows at the end of one section have the positions of rows of the next. */
struct spans checkpoint_spans(const struct checkpoint *c);
const struct checkpoint_section *checkpoint_sections(const struct checkpoint *c, int *n);
/* Reads s->bytes of the section into `to`.  False with the reason when they cannot be read or their checksum is wrong. */
bool checkpoint_read(const struct checkpoint *c, const struct checkpoint_section *s, void *to, struct err *e);

/* Drops tokens and rows of the positions from n on, and states after more than n tokens. */
void checkpoint_cut(struct checkpoint *c, int n);
/* Appends the tokens of s that the file lacks, up to to-1, and their rows.  The file's tokens are a prefix of s. */
bool checkpoint_add_rows(struct checkpoint *c, struct spans s, int to, const void *rows, size_t bytes, struct err *e);
/* Adds the states after `pos` tokens: at most as many as there are ids, and no states of this position may be there. */
bool checkpoint_add_states(struct checkpoint *c, int pos, const void *states, size_t bytes, struct err *e);
void checkpoint_drop_states(struct checkpoint *c, int pos);
/* Makes the changes since the last commit count, and waits until they are on the disk.  False with the reason: the file is as after the last
 * commit. */
bool checkpoint_commit(struct checkpoint *c, struct err *e);

size_t checkpoint_bytes(const struct checkpoint *c);    /* space that the file takes on the disk */
size_t checkpoint_written(const struct checkpoint *c);  /* bytes written since it was opened */

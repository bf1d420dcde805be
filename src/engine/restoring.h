/* Brings sequences back from checkpoint files.  Disks are slow, so a thread of its own reads the files, one after the other and section by section;
 * the engine thread only copies to the device, a slice at a time, so that other answers can take steps in between.
 *
 * The sequence has the tokens of its file when the last section was copied.  Before that it is empty, or as it was, and nobody may use it.
 *
 * All functions are called from the engine thread; restoring_open() and restoring_close() may be called from another one, before and after. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/sequence.h"

struct restoring;

/* Bytes of states in a slice.  A slice of KV rows is a whole section, of at most SAVING_PIECE bytes. */
enum { RESTORING_SLICE = 8 << 20 };

/* The outcome of a restore. */
struct restored {
    uint64_t    name;                   /* the conversation, its file and its place: as given to restoring_begin() */
    const char *path;
    struct resident of;
    int n_tokens;                       /* tokens that came back; 0: the sequence is as it was, or empty */
    struct err refused;                 /* why the file cannot be used; empty: it was */
    bool deleted;                       /* refused, and deleted since it never will be usable; false: another program has it, or reading failed */
};

struct restoring_hooks {
    void (*arrived)(void *arg);         /* restoring_step() has something to do; called on the thread that reads */
    void (*done)(void *arg, const struct restored *r);  /* once for each restoring_begin(); called within restoring_step() */
    void *arg;
};

/* The most host memory that restores use, in bytes: that of one section.  state_bytes: of one set of states; rows_bytes: of the KV rows of a
 * whole context. */
size_t restoring_bytes(size_t state_bytes, size_t rows_bytes);

struct restoring *restoring_open(const struct restoring_hooks *h, struct err *e);
void restoring_close(struct restoring *t);                /* drops the restores under way */

/* Queues a restore: the sequence in this place is to become that of the file.  own: the place already has a sequence of this conversation, which
 * stays as it is if it has all that the file has. */
void restoring_begin(struct restoring *t, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, bool own);
/* The file of the next restore in the queue; NULL: the queue is empty, or a file is being read.  The caller calls restoring_read(), which lets the
 * thread read it, once no save writes this file. */
const char *restoring_next(struct restoring *t);
void restoring_read(struct restoring *t);

bool restoring_brings(const struct restoring *t, uint64_t name);          /* a restore of this conversation is queued or under way */
bool restoring_ready(struct restoring *t);                                /* restoring_step() has something to do */
/* Copies one slice to the device, if one was read.  False when the device failed. */
bool restoring_step(struct restoring *t, struct err *fault);
/* Waits until restoring_step() has something to do (true), or this file is not being read (false). */
bool restoring_wait(struct restoring *t, const char *path);

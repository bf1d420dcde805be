/* The restorer brings sequences back from checkpoint files.  Disks are slow, so the restorer has a thread that reads the files, one after the other
 * and section by section; the engine thread only copies to the device, a slice at a time, so that other answers can take steps in between.
 *
 * The sequence has the tokens of its file when the last section was copied.  Before that it is empty, or as it was, and nobody may use it.
 *
 * All functions are called from the engine thread; restorer_open() and restorer_close() may be called from another one, before and after. */
#ifndef Q35_ENGINE_RESTORER_H
#define Q35_ENGINE_RESTORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/resident.h"

struct restorer;

/* Bytes of states in a slice.  A slice of KV rows is a whole section, of at most KEEPER_PIECE bytes. */
enum { RESTORER_SLICE = 8 << 20 };

/* The outcome of a restore. */
struct restored {
    uint64_t    name;                   /* the conversation, its file and its place: as given to restorer_begin() */
    const char *path;
    struct resident of;
    int n_tokens;                       /* tokens that came back; 0: none, or the sequence had them already */
    struct err refused;                 /* why the file cannot be used; empty: it was */
    bool deleted;                       /* refused, and deleted since it never will be usable; false: another program has it, or reading failed */
};

struct restorer_hooks {
    void (*arrived)(void *arg);         /* restorer_step() has something to do; called on the restorer's thread */
    void (*done)(void *arg, const struct restored *r);  /* once for each restorer_begin(); called within restorer_step() */
    void *arg;
};

/* The most host memory that the restorer uses, in bytes: that of one section.  state_bytes: of one set of states; rows_bytes: of the KV rows of a
 * whole context. */
size_t restorer_bytes(size_t state_bytes, size_t rows_bytes);

struct restorer *restorer_open(const struct restorer_hooks *h, struct err *e);
void restorer_close(struct restorer *t);                /* drops the restores under way */

/* Queues a restore: the sequence in this place is to become that of the file.  own: the place already has a sequence of this conversation, which
 * stays as it is if it has all that the file has. */
void restorer_begin(struct restorer *t, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, bool own);
/* The file of the next restore in the queue; NULL: the queue is empty, or a file is being read.  The caller calls restorer_read(), which lets the
 * thread read it, once no save writes this file. */
const char *restorer_next(struct restorer *t);
void restorer_read(struct restorer *t);

bool restorer_brings(const struct restorer *t, uint64_t name);          /* a restore of this conversation is queued or under way */
bool restorer_ready(struct restorer *t);                                /* restorer_step() has something to do */
/* Copies one slice to the device, if one was read.  False when the device failed. */
bool restorer_step(struct restorer *t, struct err *fault);
/* Waits until restorer_step() has something to do (true), or this file is not being read (false). */
bool restorer_wait(struct restorer *t, const char *path);

#endif

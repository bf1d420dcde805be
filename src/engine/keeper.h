/* Saves of sequences, in a queue: each is a saver (engine/saver).  Disks are slow, so files are written on a thread of its own, and the engine
 * thread only copies.
 *
 * A save that was asked for takes nobody's time: the states are copied when it begins, then KV rows piece by piece, whenever the thread asks for
 * them and nothing else is to be done.  What is saved is the sequence as it was at the beginning; what of it is replaced before its rows were
 * copied, is left out.  A sequence that must leave its place is copied at once, as far as its file lacks it.
 *
 * Called from the engine thread, but for keeper_open() and keeper_close(). */
#ifndef Q35_ENGINE_KEEPER_H
#define Q35_ENGINE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/resident.h"
#include "engine/saver.h"

struct keeper;

/* What came of a save. */
struct kept {
    uint64_t    name;                   /* as keeper_begin() or keeper_evict() was told */
    const char *path;
    bool   evicted;                     /* it was keeper_evict() */
    bool   dropped;                     /* another one of the same took its place, or there was nothing to save: `saved` is {0} */
    struct saved saved;                 /* its ids are valid during the call */
};

struct keeper_hooks {
    void (*wants_rows)(void *arg);      /* keeper_step() has something to do */
    void (*done)(void *arg, const struct kept *k);      /* once for each save */
    void *arg;                          /* both are called on the keeper's thread, done() perhaps within the call that began it */
};

enum {
    KEEPER_PIECE = 64 << 20,            /* bytes of rows that are copied at a time */
    KEEPER_HELD = 256 << 20,            /* ... and of sequences that left: more of them are copied when these are written */
    KEEPER_LEFT = 2,                    /* sequences that left and are not written; the next one waits */
};

static inline size_t keeper_least(size_t a, size_t b) { return a < b ? a : b; }

/* Host memory at most, with states of that size and rows of a whole context: the rows of a save and of those that left; the states of a save under
 * way, of the next one, and of those that left. */
static inline size_t keeper_bytes(size_t state_bytes, size_t rows_bytes)
{
    return keeper_least(KEEPER_PIECE, rows_bytes) + keeper_least(KEEPER_HELD, KEEPER_LEFT * rows_bytes)
           + (2 + KEEPER_LEFT) * SAVED_STATES * state_bytes;
}

struct keeper *keeper_open(const struct keeper_hooks *h, struct err *e);
void keeper_close(struct keeper *k);                    /* what is under way is dropped */

/* Begins to save the sequence to that file, if there is something to save.  The save of that name that is under way is dropped; there must be none of
 * another one.  False when the device failed. */
bool keeper_begin(struct keeper *k, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault);
/* Copies the next rows, if they are wanted.  False when the device failed. */
bool keeper_step(struct keeper *k, struct err *fault);
/* Copies what is to be saved of the sequence, which leaves its place: afterwards it may be overwritten.  `common`: so many of its tokens the file
 * has; if it does not, nothing is saved.  A save of that name that is under way is dropped.  Waits for the disk only where KEEPER_HELD or
 * KEEPER_LEFT says so.  False when the device failed. */
bool keeper_evict(struct keeper *k, uint64_t name, const char *path, int common, struct fingerprint identity, const struct resident *r,
                  struct err *fault);
bool keeper_wait(struct keeper *k);                     /* until rows of a save are wanted (true) or none is under way */
bool keeper_writes(struct keeper *k, const char *path);         /* a save to that file is under way */

#endif

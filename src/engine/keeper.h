/* Sequences on their way to checkpoint files.  Disks are slow, so they are written on a thread of their own, and the engine thread only
 * copies: the states when a save begins, then KV rows piece by piece, whenever the thread asks for them and nothing else is to be done.  What is
 * saved is the sequence as it was at the beginning; what of it is replaced before its rows were copied, is left out.
 *
 * Called from the engine thread, but for keeper_open() and keeper_close(). */
#ifndef Q35_ENGINE_KEEPER_H
#define Q35_ENGINE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/snapshot.h"
#include "engine/timeline.h"
#include "model/cache.h"

struct dev;
struct keeper;

/* A sequence and where it lies. */
struct resident {
    struct dev       *dev;
    int               sequence;         /* whose the snapshots are */
    struct timeline  *tl;
    struct snapshots *snaps;
    struct cache     *cache;
    int rejoins;                        /* where the next turn rejoins if nothing more comes of this one; 0: not known */
    bool finished;                      /* nothing more comes of it */
};

/* What came of a save. */
struct kept {
    size_t written, bytes;              /* of this save; that the file has now */
    int    n_tokens;                    /* that it holds */
    struct err failed;                  /* or why it could not be written; the file is gone then */
};

struct keeper_hooks {
    void (*wants_rows)(void *arg);      /* keeper_step() has something to do */
    void (*done)(void *arg, const struct kept *k);
    void *arg;                          /* both are called on the keeper's thread */
};

enum { KEEPER_PIECE = 64 << 20, KEEPER_STATES = 2 };    /* bytes of rows that are copied at a time; states of a save */

/* Host memory at most, with states of that size: a piece, and the states of a save under way and of the next one. */
static inline size_t keeper_bytes(size_t state_bytes)
{
    return KEEPER_PIECE + 2 * KEEPER_STATES * state_bytes;
}

struct keeper *keeper_open(const struct keeper_hooks *h, struct err *e);
void keeper_close(struct keeper *k);                    /* what is under way is dropped */

/* Begins to save the sequence to that file, if there is something to save.  One that is under way is dropped.  False when the device failed. */
bool keeper_begin(struct keeper *k, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault);
/* Copies the next rows, if they are wanted.  False when the device failed. */
bool keeper_step(struct keeper *k, struct err *fault);
/* Waits until rows are wanted (true) or nothing is left to be saved. */
bool keeper_wait(struct keeper *k);

/* What came of a restore. */
struct restored {
    int n_tokens;                       /* that are there now; 0: none, or they were there already */
    struct err refused;                 /* why the file is of no use; it is gone then */
};
/* Makes the sequence that of the file.  False when the device failed. */
bool keeper_restore(const char *path, struct fingerprint identity, const struct resident *r, struct restored *out, struct err *fault);

#endif

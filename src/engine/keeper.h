/* The keeper saves sequences to checkpoint files, one after the other; each save is a saver (engine/saver.h).  Disks are slow, so the keeper has a
 * thread that writes the files, and the engine thread only copies from the device.
 *
 * A save on request (keeper_begin()) delays no answer: its states are copied at the beginning, its KV rows later piece by piece, when the thread
 * wants more and the engine has nothing else to do.  The file gets the sequence as it was at the beginning; tokens that the sequence replaces
 * before their rows were copied are left out.  A sequence that must leave its place (keeper_evict()) is copied at once, as far as its file lacks it.
 *
 * All functions are called from the engine thread; keeper_open() and keeper_close() may be called from another one, before and after. */
#ifndef Q35_ENGINE_KEEPER_H
#define Q35_ENGINE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/checksum.h"
#include "base/err.h"
#include "base/least.h"
#include "engine/resident.h"
#include "engine/saver.h"

struct keeper;

/* The outcome of a save. */
struct kept {
    uint64_t    name;                   /* the conversation, and its file: as given to keeper_begin() or keeper_evict() */
    const char *path;
    bool   evicted;                     /* it was keeper_evict() */
    bool   dropped;                     /* a newer save of the conversation replaced it, or there was nothing to save: `saved` is {0} */
    struct saved saved;                 /* its ids are valid during the call */
};

/* Called on the keeper's thread; done() may also be called within keeper_begin() and keeper_evict(). */
struct keeper_hooks {
    void (*wants_rows)(void *arg);      /* keeper_step() has something to do */
    void (*done)(void *arg, const struct kept *k);      /* once for each save */
    void *arg;
};

enum {
    KEEPER_PIECE = 64 << 20,            /* bytes of KV rows that a save on request copies at a time */
    KEEPER_HELD = 256 << 20,            /* most bytes of copied rows of evicted sequences that wait for the disk; then keeper_evict() waits too */
    KEEPER_LEFT = 2,                    /* most evicted sequences that wait for the disk; then the next keeper_evict() waits */
};

/* The most host memory that the keeper uses, in bytes.  state_bytes: of one set of states; rows_bytes: of the KV rows of a whole context.  It holds
 * a piece of rows of a save on request and the rows of evicted sequences; the states of the save under way, of the next one, and of evicted ones. */
static inline size_t keeper_bytes(size_t state_bytes, size_t rows_bytes)
{
    return least_size(KEEPER_PIECE, rows_bytes) + least_size(KEEPER_HELD, KEEPER_LEFT * rows_bytes)
           + (2 + KEEPER_LEFT) * SAVED_STATES * state_bytes;
}

struct keeper *keeper_open(const struct keeper_hooks *h, struct err *e);
void keeper_close(struct keeper *k);                    /* drops the saves under way */

/* Begins to save the sequence to that file, if there is something to save.  If a save of the same name is under way it is dropped; none of another
 * name may be under way.  False when the device failed. */
bool keeper_begin(struct keeper *k, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault);
/* Copies the next piece of rows, if the thread wants one.  False when the device failed. */
bool keeper_step(struct keeper *k, struct err *fault);
/* Copies all that the file lacks of a sequence, which may be overwritten afterwards.  `common`: the file is known to have the rows of that many of
 * its first tokens; if it turns out not to have them, nothing is saved.  If a save of the same name is under way it is dropped.  Waits for the disk
 * only because of KEEPER_HELD or KEEPER_LEFT.  False when the device failed. */
bool keeper_evict(struct keeper *k, uint64_t name, const char *path, int common, struct fingerprint identity, const struct resident *r,
                  struct err *fault);
bool keeper_wait(struct keeper *k);                     /* waits until keeper_step() has something to do (true) or no save is under way (false) */
bool keeper_writes(struct keeper *k, const char *path);         /* a save to that file is under way */

#endif

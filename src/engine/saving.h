/* Saves sequences to checkpoint files, one after the other.  Disks are slow, so a thread of its own writes the files, and the engine thread only
 * copies from the device.
 *
 * A save on request (saving_begin()) delays no answer: its states are copied at the beginning, its KV rows later piece by piece, when the thread
 * wants more and the engine has nothing else to do.  The file gets the sequence as it was at the beginning; tokens that the sequence replaces
 * before their rows were copied are left out.  A sequence that must leave its place (saving_evict()) is copied at once, as far as its file lacks it.
 *
 * All functions are called from the engine thread; saving_open() and saving_close() may be called from another one, before and after. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/checksum.h"
#include "base/err.h"
#include "base/least.h"
#include "engine/sequence.h"

struct saving;

enum { SAVED_STATES = 2 };              /* most sets of states in a save */

/* The content of a checkpoint file: the first tokens of a conversation, and the states after some numbers of them; {0}: nothing. */
struct content {
    struct spans spans;
    int pos[SAVED_STATES];              /* numbers of tokens; 0: there are fewer sets */
};

/* The outcome of a save. */
struct saved {
    uint64_t    name;                   /* the conversation, and its file: as given to saving_begin() or saving_evict() */
    const char *path;
    bool   evicted;                     /* the save was begun by saving_evict() */
    bool   dropped;                     /* a newer save of the conversation replaced it, or there was nothing to save: the members below are {0} */
    size_t written, bytes;              /* bytes that this save wrote; size of the file now */
    struct content has;                 /* content of the file now; its tokens are valid during the call */
    struct err failed;                  /* if not empty: why the save failed.  The file is deleted then, unless another program has it */
};

/* Called on the thread that writes; done() may also be called within saving_begin() and saving_evict(). */
struct saving_hooks {
    void (*wants_rows)(void *arg);      /* saving_step() has something to do */
    void (*done)(void *arg, const struct saved *s);     /* once for each save */
    void *arg;
};

enum {
    SAVING_PIECE = 64 << 20,            /* bytes of KV rows that a save on request copies at a time */
    SAVING_HELD = 256 << 20,            /* most bytes of copied rows of evicted sequences that wait for the disk; then saving_evict() waits too */
    SAVING_EVICTED = 2,                 /* most evicted sequences that wait for the disk; then the next saving_evict() waits */
};

/* The most host memory that saves use, in bytes.  state_bytes: of one set of states; rows_bytes: of the KV rows of a whole context.  It holds a piece
 * of rows of a save on request and the rows of evicted sequences; the states of the save under way, of the next one, and of evicted ones. */
static inline size_t saving_bytes(size_t state_bytes, size_t rows_bytes)
{
    return least_size(SAVING_PIECE, rows_bytes) + least_size(SAVING_HELD, SAVING_EVICTED * rows_bytes)
           + (2 + SAVING_EVICTED) * SAVED_STATES * state_bytes;
}

struct saving *saving_open(const struct saving_hooks *h, struct err *e);
void saving_close(struct saving *s);                    /* drops the saves under way */

/* The content that a save would write if the sequence stayed as it is. */
struct content saving_content(const struct resident *r);

/* Begins to save the sequence to that file, if there is something to save.  What `r` points to must stay valid while rows are copied.  A save of the
 * same name that is under way is dropped; none of another name may be under way.  False when the device failed. */
bool saving_begin(struct saving *s, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, struct err *fault);
/* Copies the next piece of rows, if the thread wants one.  False when the device failed. */
bool saving_step(struct saving *s, struct err *fault);
/* Copies all that the file lacks of a sequence, which may be overwritten afterwards.  `common`: the file is known to have the rows of that many of
 * its first tokens; if it turns out not to have them, nothing is saved.  A save of the same name that is under way is dropped.  Waits for the disk
 * only because of SAVING_HELD or SAVING_EVICTED.  False when the device failed. */
bool saving_evict(struct saving *s, uint64_t name, const char *path, int common, struct fingerprint identity, const struct resident *r,
                  struct err *fault);
bool saving_wait(struct saving *s);                     /* waits until saving_step() has something to do (true) or no save is under way (false) */
bool saving_writes(struct saving *s, const char *path);         /* a save to that file is under way */

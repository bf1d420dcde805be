/* Sequences on their way back out of checkpoint files.  Disks are slow, so the files are read on a thread of their own, one after the other and
 * section by section; the engine thread only copies what was read, a slice at a time, so that others can take steps in between.
 *
 * A sequence is that of its file when the last section was copied.  Until then it is empty, or as it was before the file was opened, and nobody else
 * may use it.
 *
 * Called from the engine thread, but for restorer_open() and restorer_close(). */
#ifndef Q35_ENGINE_RESTORER_H
#define Q35_ENGINE_RESTORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/resident.h"

struct restorer;

enum { RESTORER_SLICE = 8 << 20 };      /* bytes of states that are copied at a time; of rows a section, which KEEPER_PIECE limits */

/* What came of it. */
struct restored {
    uint64_t    name;                   /* as restorer_begin() was told */
    const char *path;
    struct resident of;
    int n_tokens;                       /* that are there now; 0: none, or they were there already */
    struct err refused;                 /* why the file is of no use */
    bool deleted;                       /* so it is gone; else another program has it, or it cannot be read now */
};

struct restorer_hooks {
    void (*arrived)(void *arg);         /* restorer_step() has something to do; on the restorer's thread */
    void (*done)(void *arg, const struct restored *r);  /* once for each that was begun, within restorer_step() */
    void *arg;
};

/* Host memory at most, with states of that size and rows of a whole context: a section. */
size_t restorer_bytes(size_t state_bytes, size_t rows_bytes);

struct restorer *restorer_open(const struct restorer_hooks *h, struct err *e);
void restorer_close(struct restorer *t);                /* what is under way is dropped */

/* The sequence is to become that of the file.  own: it is that of this conversation, and stays as it is if it has what the file has. */
void restorer_begin(struct restorer *t, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, bool own);
/* The file that is to be read next, by restorer_read(), when nobody writes it; NULL: none waits, or another one is being read. */
const char *restorer_next(struct restorer *t);
void restorer_read(struct restorer *t);

bool restorer_brings(const struct restorer *t, uint64_t name);          /* that conversation is on its way */
bool restorer_ready(struct restorer *t);                                /* restorer_step() has something to do */
/* Copies a slice, if one is there.  False when the device failed. */
bool restorer_step(struct restorer *t, struct err *fault);
/* Waits until restorer_step() has something to do (true), or that file is not being read (false). */
bool restorer_wait(struct restorer *t, const char *path);

#endif

/* The storage moves conversations between their places in memory and their files: it saves on request, evicts a conversation when another one
 * needs its place, and brings it back when it is asked for again.  Called from the engine thread, unless said otherwise. */
#ifndef Q35_ENGINE_STORAGE_H
#define Q35_ENGINE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/homes.h"
#include "engine/requests.h"

struct decoder;
struct keeper;
struct model;
struct restorer;

struct storage {
    struct homes       homes;           /* usable from any thread */
    struct requests   *requests;        /* gets the outcomes: EV_SAVED, EV_RESTORED */
    const struct model *model;
    struct decoder    *decoder;
    struct keeper     *keeper;
    struct restorer   *restorer;
    struct fingerprint identity;        /* of this model's checkpoint files; computed when it is first needed */
    bool               identified;      /* `identity` is computed */
};

/* Called from the engine's owner thread. */
void storage_init(struct storage *s, struct requests *q);
void storage_free(struct storage *s);

/* False with the reason; storage_close() must be called either way. */
bool storage_open(struct storage *s, const struct model *m, struct decoder *d, struct err *e);
void storage_close(struct storage *s);  /* saves that are not finished are dropped */

/* Functions with `fault` return false when the device failed. */
bool storage_save(struct storage *s, struct save *what, struct err *fault);             /* begins a save; frees `what` */
bool storage_step(struct storage *s, struct err *fault);        /* copies the next rows of the save under way, if it wants some */
bool storage_finish(struct storage *s, struct err *fault);      /* finishes the save under way, and all that were asked for */
/* Begins to bring a conversation back from that file; storage_moving() is true until it is in its place. */
bool storage_restore(struct storage *s, uint64_t name, const char *path, struct err *fault);
/* Makes a place for a prompt that is to be run: evicts a conversation to its file, if it must.  If the prompt's own conversation is not in memory
 * but has a file, it begins to come back: then storage_moving() is true, and the prompt must wait. */
bool storage_make_place(struct storage *s, uint64_t name, const int32_t *ids, int n, struct err *fault);
bool storage_moving(struct storage *s, uint64_t name);          /* the conversation is being written to its file or read from it */
bool storage_returns(struct storage *s);                        /* storage_bring_back() has something to copy */
bool storage_bring_back(struct storage *s, struct err *fault);  /* between steps: copies some slices of conversations that come back */

#endif

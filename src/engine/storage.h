/* The storage moves conversations between their places in memory and their files: it saves on request, evicts a conversation when another one
 * needs its place, and brings it back with its next prompt.  Called from the engine thread, unless stated otherwise. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "config/limits.h"
#include "engine/requests.h"
#include "engine/saving.h"

struct decoder;
struct model;
struct restoring;

/* The home of a conversation: its file, to which it is saved when another one takes its place in memory. */
struct home {
    uint64_t   name;                    /* the conversation; 0: this entry is free */
    char      *path;                    /* its file; NULL: the conversation is not to be kept */
    struct span_buf has;                /* tokens that the file has */
    int        pos[SAVED_STATES];       /* ... and its states, as in struct content */
    bool       moving;                  /* an evicted conversation is being written: no longer in memory, and not yet whole in the file */
    bool       refused;                 /* the file was refused when it was last read, and no prompt has gone without it since */
    size_t     bytes;                   /* of a file of the storage's own, as of its last save; 0: the file is not its own */
    uint64_t   used;                    /* storage.clock when it was used last */
};

/* Counts of conversations since the engine was opened. */
struct moves {
    int evicted;                        /* gave up their place */
    int out, in;                        /* of these: written to a file; and came back from one */
};

struct storage {
    pthread_mutex_t lock;               /* guards homes and clock */
    struct home all[LIMIT_HOMES];       /* the least recently used one is forgotten first */
    uint64_t    clock;
    struct requests    *requests;       /* gets the outcomes: EV_SAVED, EV_RESTORED */
    const struct model *model;
    struct decoder     *decoder;
    struct saving      *saving;
    struct restoring   *restoring;
    struct fingerprint identity;        /* of this model's checkpoint files; computed when it is first needed */
    bool               identified;      /* `identity` is computed */
    char              *moved_dir;       /* where own_dir will be made; NULL: conversations without a name are not moved */
    char              *own_dir;         /* for their files; NULL: none was moved yet */
    int                own_lock;        /* held as long as `own_dir` is in use */
    size_t             own_room;        /* bytes that its files may have together */
    uint32_t           n_given;         /* names given so far */
    struct moves       moves;           /* guarded by lock */
};

/* Called from the engine's owner thread. */
void storage_init(struct storage *s, struct requests *q);
void storage_free(struct storage *s);
/* Lets long conversations without a name be moved to files of a new folder in `dir`, which have at most `room` bytes together, and are deleted by
 * storage_free().  Deletes folders there that a process left behind which did not end by itself.  The folder is made
 * when it is needed; if it cannot be made, nothing is moved. */
void storage_move_to(struct storage *s, const char *dir, size_t room);

/* Sets the file of a conversation; NULL: it has none.  May be called from any thread. */
void storage_keep(struct storage *s, uint64_t name, const char *path);

/* False with the reason; storage_close() must be called either way. */
bool storage_open(struct storage *s, const struct model *m, struct decoder *d, struct err *e);
void storage_close(struct storage *s);  /* saves that are not finished are dropped */

/* Functions with `fault` return false when the device failed. */
bool storage_save(struct storage *s, struct request *what, struct err *fault);       /* begins a save; frees `what` */
bool storage_finish(struct storage *s, struct err *fault);      /* finishes the save under way, and all that were requested */
/* Begins to bring a conversation back from that file; storage_moving() is true until it is in its place. */
bool storage_restore(struct storage *s, const struct arrival *a, const char *path, struct err *fault);
/* Makes a place for a prompt that is to be run: evicts a conversation to its file, if it must.  If the prompt's own conversation is not in memory
 * but has a file, it begins to come back: then storage_moving() is true, and the prompt must wait.  A prompt without a name that continues
 * a conversation which was moved to a file gets the name of that, in a->name. */
bool storage_make_place(struct storage *s, struct arrival *a, struct err *fault);
struct moves storage_moves(struct storage *s);          /* on any thread */
bool storage_moving(struct storage *s, uint64_t name);          /* the conversation is being written to its file or read from it */
bool storage_bring_back(struct storage *s, struct err *fault);  /* between steps: copies some slices of conversations that come back */

/* Conversations in files: saved when they were asked to be, and kept there while another one has their place.  Engine thread, where nothing else is
 * said. */
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

struct storage {
    struct homes       homes;           /* any thread */
    struct requests   *requests;        /* hears what comes of it */
    const struct model *model;
    struct decoder    *decoder;
    struct keeper     *keeper;
    struct fingerprint identity;        /* of the files, once it is `identified` */
    bool               identified;
};

/* Owner thread. */
void storage_init(struct storage *s, struct requests *q);
void storage_free(struct storage *s);

/* False with the reason; storage_close() either way. */
bool storage_open(struct storage *s, const struct model *m, struct decoder *d, struct err *e);
void storage_close(struct storage *s);  /* what is not in a file is lost */

/* What returns a bool is false when the device failed. */
bool storage_save(struct storage *s, struct save *what, struct err *fault);             /* frees it */
bool storage_step(struct storage *s, struct err *fault);        /* of the save under way, if it wants rows */
bool storage_finish(struct storage *s, struct err *fault);      /* what was begun, and what was asked for */
bool storage_restore(struct storage *s, uint64_t name, const char *path, struct err *fault);
/* Before a prompt is run.  What must leave a place for it goes to its file, and the conversation comes back from its own, if it is not there. */
bool storage_make_place(struct storage *s, uint64_t name, const int32_t *ids, int n, struct err *fault);
bool storage_moving(struct storage *s, uint64_t name);          /* it is on its way to its file, and can come back only from there */

#endif

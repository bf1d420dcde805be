/* Conversations in files: saved on request, and kept there while another one has their place.  Engine thread, where nothing else is said. */
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
    struct homes       homes;           /* any thread */
    struct requests   *requests;        /* hears what comes of it */
    const struct model *model;
    struct decoder    *decoder;
    struct keeper     *keeper;
    struct restorer   *restorer;
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
/* Begins to bring a conversation back from that file: it is moving until it is there. */
bool storage_restore(struct storage *s, uint64_t name, const char *path, struct err *fault);
/* Before a prompt is run.  What must leave a place for it goes to its file.  If the conversation is not there, it begins to come back from its own
 * file: then it is moving, and the prompt must wait. */
bool storage_make_place(struct storage *s, uint64_t name, const int32_t *ids, int n, struct err *fault);
bool storage_moving(struct storage *s, uint64_t name);          /* it is on its way to its file, or from there */
bool storage_returns(struct storage *s);                        /* storage_bring_back() has a slice to copy */
bool storage_bring_back(struct storage *s, struct err *fault);  /* between steps: some slices of what comes back, if there are any */

#endif

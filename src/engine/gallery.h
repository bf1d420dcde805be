/* The rows of pictures that prompts need: computed by the vision tower in slices, and kept by the hash of the picture, so that the same picture is
 * not computed again while there is room.  Engine thread.
 *
 * The memory has room for GALLERY_PICTURES pictures of the greatest size; of pictures that nobody needs now, the least recently used one goes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/spans.h"
#include "model/cache.h"
#include "model/vision.h"

struct dev;
struct gallery;

enum { GALLERY_PICTURES = 3 };

/* `v` stays the caller's.  NULL with the reason: no room. */
struct gallery *gallery_open(struct dev *d, struct vision *v, int hidden, int picture_tokens, struct err *e);
void   gallery_close(struct gallery *g);
size_t gallery_bytes(int hidden, int picture_tokens);

/* True if the tower can see the pictures of a prompt: none has more tokens than there may be, and pixels have the size that their tokens need. */
bool gallery_check(const struct gallery *g, struct spans prompt, struct err *e);

enum gallery_state {
    GALLERY_THERE,                      /* *rows and *n_rows are what cache_set_pictures() takes, until the next call */
    GALLERY_WORKS,                      /* a slice was computed; call again */
    GALLERY_LACKS,                      /* a picture came without pixels, and its rows are not there: see *why */
    GALLERY_FAILED,                     /* the device did: see *fault */
};
/* Brings the rows of the pictures among tokens from .. *to - 1 of the prompt into place.  When there are more than fit, *to becomes less.  Each call
 * takes at most some 20 ms of the device.  *n_computed is increased for each picture that the tower has completed. */
enum gallery_state gallery_fetch(struct gallery *g, struct spans prompt, int from, int *to, const struct picture_rows **rows, int *n_rows,
                                 int *n_computed, struct err *why, struct err *fault);

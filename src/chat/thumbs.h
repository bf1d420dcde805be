/* Small copies of the pictures of a conversation, for screens: a thread decodes each picture once, when it is asked for first.  The newest
 * THUMBS_MOST are kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { THUMB_W = 320, THUMB_H = 160, THUMBS_MOST = 64 };        /* most pixels of a side; about 0.3 MB each with its file */

struct thumb {
    uint32_t number;                    /* from 1, never given twice */
    int w, h;
    uint8_t *rgb;                       /* [h, w, 3] */
    struct buf png;                     /* the same as a PNG file */
};

struct thumbs;
struct entry_picture;

/* Starts the thread.  NULL: none can be started. */
struct thumbs *thumbs_open(void);
void thumbs_close(struct thumbs *t);                    /* NULL is fine */
int  thumbs_fd(const struct thumbs *t);                 /* readable when one was made */
bool thumbs_changed(struct thumbs *t);                  /* true, once, after that */
/* Returns the number of the small copy of this picture; 0: it is being made, or cannot be. */
uint32_t thumbs_number(struct thumbs *t, const struct entry_picture *p);
/* Returns the copy, valid until the next thumbs_number(); NULL: it is no longer kept. */
const struct thumb *thumbs_find(struct thumbs *t, uint32_t number);

/* The pixels of a picture, which image.h reads from files. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    IMAGE_MAX_PIXELS = 178956970,       /* of a decoded picture */
    IMAGE_LARGE = 16 << 20,             /* pictures with more pixels are decoded one at a time */
    IMAGE_MAX_RATIO = 200,              /* of the longer side to the shorter one */
};

/* Who wants a picture. */
struct image_wish {
    const atomic_bool *stop;            /* becomes true when nobody wants the picture any more, which ends the work soon; may be NULL */
    uint64_t client;                    /* its pictures have one turn among those of the others; 0: the picture is a client of its own */
};

/* image_free() frees it; valid as {0}. */
struct image {
    int w, h;
    uint8_t *rgb;                       /* [h, w, 3] */
    size_t turn;                        /* pixels that it takes of those that may be decoded at one time; image_free() gives them back */
    bool plain;                         /* every reader of PNG and JPEG sees the same in the file: not turned, laid over white or cut to 8 bits */
};

/* Appends the picture as a PNG file. */
bool image_write_png(const struct image *im, struct buf *out, struct err *e);

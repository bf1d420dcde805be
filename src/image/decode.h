/* The decoders: each is the only user of its library, if it has one.  An image is made by decode_room(), upright only after image_decode() has turned
 * it.  False with the reason as the end of a sentence; the caller frees the image either way.  Each checks
 * decode_stopped() between rows. */
#pragma once

#include "image/pixels.h"

/* A file to decode, and what becomes of it. */
struct decode {
    const uint8_t *bytes;
    size_t n;
    struct image *im;
    struct image_wish wish;
    int orientation;                    /* of EXIF: 1 to 8, 0 if there is none */
};

bool decode_png(struct decode *d, struct err *e);
bool decode_jpeg(struct decode *d, struct err *e);
bool decode_webp(struct decode *d, struct err *e);
bool decode_gif(struct decode *d, struct err *e);

/* Allocates pixels of `channels` bytes, 3 or 4, for a picture of that size, after checking its sides.  Waits for its turn, so that all threads
 * together decode only so many pixels at one time. */
bool decode_room(struct decode *d, uint32_t w, uint32_t h, int channels, struct err *e);
void decode_end_turn(struct image *im);
/* True if nobody wants the picture any more. */
bool decode_stopped(const struct decode *d);
#define DECODE_STOPPED "is not needed any more"
/* Lays pixels of 4 bytes over white, which leaves 3 bytes each. */
void decode_flatten(struct image *im);
/* Returns the orientation that an EXIF block says, which begins with its byte order; 0 if it says none. */
int  decode_orientation(const uint8_t *exif, size_t n);

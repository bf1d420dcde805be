/* Pictures: from the bytes of a file to what a vision tower gets.  PNG, JPEG, WebP and GIF are told apart by their first bytes, whatever the name; of
 * a file that moves, the first frame counts.  A picture is turned upright (EXIF), transparent parts are laid over white, and of 16-bit samples the
 * upper 8 count.  No colour profile is applied.
 *
 * All bytes may be hostile.  Sizes are checked before anything is allocated, and whatever is wrong ends in one sentence.  Any thread may call these
 * functions.  Decoded pictures share the memory of the machine: a large one is decoded when the one before it has been freed or resized, so a thread
 * has one at a time.  Clients take turns, so that one with many pictures delays another one by a single picture.
 *
 *     struct image im;
 *     if (image_read(&im, path, &e) && image_fit(&im, &limits, &e))
 *         image_patches(&im, patches);             [image_grid(&im).h * .w, IMAGE_PATCH] */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "base/err.h"
#include "image/pixels.h"

enum {
    IMAGE_SIDE = 16,                    /* pixels of a patch's side */
    IMAGE_PATCH = 3 * 2 * IMAGE_SIDE * IMAGE_SIDE,      /* numbers of a patch: channel, frame, y, x */
    IMAGE_FACTOR = 2 * IMAGE_SIDE,      /* both sides of a fitted picture are multiples of it: a token is a block of 2 x 2 patches */
    IMAGE_MAX_BYTES = 64 << 20,         /* of a file */
    IMAGE_MIN_AREA = 65536, IMAGE_MAX_AREA = 16777216,  /* the limits that models are published with */
};

/* Areas in pixels between which a picture is fitted. */
struct image_limits { int64_t min_pixels, max_pixels; };

/* The patches of a fitted picture. */
struct image_grid {
    int h, w;                           /* in patches, both even */
    int tokens;                         /* h * w / 4 */
};

enum image_kind { IMAGE_PNG, IMAGE_JPEG, IMAGE_WEBP, IMAGE_GIF, IMAGE_PDF, IMAGE_UNREAD, IMAGE_NONE };  /* UNREAD: has a name but no decoder */
enum { IMAGE_MAGIC = 12 };              /* first bytes that show the kind */

/* Returns the kind that the first bytes show. */
enum image_kind image_kind(const void *bytes, size_t n);

/* Decodes a file, or bytes that messages call `name`.  False with the reason; then *im is {0}.  `wish` may be NULL. */
bool image_read(struct image *im, const char *path, struct err *e);
bool image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e);
void image_free(struct image *im);
uint8_t *image_take(struct image *im);  /* frees all but the pixels, which become the caller's */

/* Reads the limits of preprocessor_config.json or processor_config.json in a model's directory; without these files, or without sizes in them, they
 * are the published 65,536 and 16,777,216.  False with the reason if a file is there and is no such file. */
bool image_limits_load(struct image_limits *l, const char *dir, struct err *e);
/* The same for pictures of at most so many tokens. */
bool image_limits_within(struct image_limits *l, const char *dir, int most_tokens, struct err *e);

/* Computes the size of the fitted picture: sides that are multiples of IMAGE_FACTOR, nearly in the old ratio, and an area within the limits
 * (smart_resize() of Qwen2-VL).  False with the reason if the ratio is above IMAGE_MAX_RATIO or a side becomes 0. */
bool image_target(int h, int w, const struct image_limits *l, int *target_h, int *target_w, struct err *e);
/* Resamples the picture to its target: bicubic, a = -0.5, with a kernel that widens when shrinking, horizontally first, 8 bits between the passes.
 * Equals Pillow up to 12 byte for byte.  False with the reason; *im must be freed all the same. */
bool image_fit(struct image *im, const struct image_limits *l, struct err *e);

/* Resamples the picture to w x h pixels in the same way.  False: too little memory, and *im must be freed all the same. */
bool image_shrink(struct image *im, int w, int h);

/* Return or compute the patches of a fitted picture.  They come in blocks of 2 x 2, the blocks in raster order; the numbers are (v - 127.5) / 127.5,
 * and both frames are alike. */
struct image_grid image_grid(const struct image *im);
void image_patches(const struct image *im, float *patches);     /* [grid.h * grid.w, IMAGE_PATCH] */
struct fingerprint image_hash(const struct image *im);          /* of height, width and pixels: equal hashes mean equal rows of the tower */

/* Decodes the file `bytes`, and replaces it by a PNG file where other programs may see something else in it (it is not plain) or cannot read it
 * (WebP, GIF).  *w and *h: pixels of the upright picture.  False with the reason. */
bool image_settle(struct buf *bytes, int *w, int *h, const char *name, struct err *e);

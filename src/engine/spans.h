/* Spans are the tokens of a prompt: ids, some of them the pads of pictures.  All pads have the same id, so a picture is told apart by a hash of what
 * the vision tower sees of it.  Two prompts have a prefix in common as far as their ids and their pictures are equal; whatever keeps computed rows,
 * in memory or in a file, compares prompts with spans_common() alone.  Text is the case without pictures. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/ids.h"

struct rope_position;

/* Tokens first .. first + n - 1, row by row; n = h * w.  Also a record of checkpoint files. */
struct picture {
    int32_t first, n, h, w;
    struct fingerprint hash;            /* of height, width and pixels as the tower gets them: equal hashes mean equal rows */
};

/* The pixels of a picture as the tower gets them.  Shared by everybody who has taken a reference, on any thread. */
struct pixels {
    atomic_int refs;
    int        h, w;
    uint8_t    rgb[];                   /* [h, w, 3] */
};
struct pixels *pixels_new(const uint8_t *rgb, int h, int w);    /* copies them; with one reference */
struct pixels *pixels_retain(struct pixels *p);         /* NULL is fine, here and below */
void           pixels_release(struct pixels *p);

/* A view of somebody's tokens; {0}: none. */
struct spans {
    const int32_t *ids;                 /* [n] */
    int n;
    const struct picture *pictures;     /* those that begin before n, in order, not overlapping; the last one may be cut off by n */
    int n_pictures;
    struct pixels *const *pixels;       /* [n_pictures] of each, or NULL where its rows are computed already; NULL: of none */
};
static inline const struct pixels *spans_pixels(struct spans s, int i) { return s.pixels ? s.pixels[i] : NULL; }

static inline struct spans spans_text(const int32_t *ids, int n) { return (struct spans){.ids = ids, .n = n}; }
bool spans_valid(struct spans s);       /* true if `pictures` is as stated */
bool spans_picture(struct spans s, int from, int to);   /* true if tokens from .. to-1 have some of a picture */
struct spans spans_head(struct spans s, int n);         /* the first n tokens */
int  spans_common(struct spans a, struct spans b);      /* length of the common prefix */

/* Returns the positions by which rope turns tokens 0 .. *n - 1, up to the end of the last picture; the caller frees them.  All tokens after these are
 * at their index plus *offset (cache_set_positions()).  NULL, 0 and 0 without pictures.  The tokens of a picture share one position in time and
 * differ in row and column; text after it begins one after the greatest of these (Qwen2-VL, arXiv:2409.12191, 3.1). */
struct rope_position *spans_positions(struct spans s, int *n, int *offset);

/* Pictures of an owner, in order; valid as {0}. */
struct pictures { struct picture *all; int n, cap; };
void pictures_add(struct pictures *l, struct spans s, int from, int to);        /* those of s that begin at tokens from .. to-1 */
void pictures_cut(struct pictures *l, int n);           /* forgets those that begin at token n or later */
void pictures_free(struct pictures *l);

/* A copy of tokens, with references to the pixels; valid as {0}. */
struct span_buf { struct ids ids; struct pictures pictures; struct pixels **pixels; int cap_pixels; };
struct spans spans_of(const struct span_buf *b);
void span_buf_add(struct span_buf *b, struct spans s, int to);          /* tokens up to to-1 of s that b has not; b is a prefix of s */
void span_buf_cut(struct span_buf *b, int n);           /* keeps the first n tokens */
void span_buf_free(struct span_buf *b);

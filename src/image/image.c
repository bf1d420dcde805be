#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "image/decode.h"

/* ---- what kind of file ---- */

/* Files that somebody may take for pictures: those without a decoder are refused by name. */
static const struct {
    const char *name;
    size_t at, n;
    const char *bytes;
    enum image_kind kind;
} kinds[] = {
    {"a PNG", 0, 8, "\x89PNG\r\n\x1a\n", IMAGE_PNG},
    {"a JPEG", 0, 3, "\xff\xd8\xff", IMAGE_JPEG},
    {"a WebP", 8, 4, "WEBP", IMAGE_WEBP},
    {"a PDF", 0, 5, "%PDF-", IMAGE_PDF},
    {"a GIF", 0, 6, "GIF87a", IMAGE_GIF},
    {"a GIF", 0, 6, "GIF89a", IMAGE_GIF},
    {"a BMP", 0, 2, "BM", IMAGE_UNREAD},
    {"a TIFF", 0, 4, "II*\0", IMAGE_UNREAD},
    {"a TIFF", 0, 4, "MM\0*", IMAGE_UNREAD},
    {"a HEIC", 4, 8, "ftypheic", IMAGE_UNREAD},
    {"a HEIC", 4, 8, "ftypheix", IMAGE_UNREAD},
    {"a HEIC", 4, 8, "ftypmif1", IMAGE_UNREAD},
    {"an AVIF", 4, 8, "ftypavif", IMAGE_UNREAD},
    {"a JPEG XL", 0, 2, "\xff\x0a", IMAGE_UNREAD},
    {"a JPEG XL", 4, 4, "JXL ", IMAGE_UNREAD},
    {"a JPEG 2000", 4, 4, "jP  ", IMAGE_UNREAD},
    {"an icon", 0, 4, "\0\0\1\0", IMAGE_UNREAD},
    {"a Photoshop", 0, 4, "8BPS", IMAGE_UNREAD},
};

/* Returns a row of kinds[], -1 if there is none. */
static int kind_of(const void *bytes, size_t n)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].at + kinds[i].n && !memcmp((const char *)bytes + kinds[i].at, kinds[i].bytes, kinds[i].n))
            return (int)i;
    return -1;
}

enum image_kind image_kind(const void *bytes, size_t n)
{
    const int i = kind_of(bytes, n);
    return i < 0 ? IMAGE_NONE : kinds[i].kind;
}

/* ---- upright ---- */

/* Returns the index of the pixel that comes to row y, column x of the upright picture, which is h x w.  The stored picture has rows of `w0`. */
static size_t stored_at(int orientation, int y, int x, int h, int w, int w0)
{
    const int down = h - 1 - y, right = w - 1 - x;
    const int row[] = {y, y, down, down, x, right, right, x};          /* the stored row for orientations 1 to 8 */
    const int column[] = {x, right, right, x, y, y, down, down};
    return (size_t)row[orientation - 1] * (size_t)w0 + (size_t)column[orientation - 1];
}

/* Turns a picture upright by its EXIF orientation, 1 to 8.  False with the reason. */
static bool turn(const struct decode *d, struct err *e)
{
    struct image *im = d->im;
    if (d->orientation < 2)
        return true;
    const bool sideways = d->orientation >= 5;
    struct image up = {.w = sideways ? im->h : im->w, .h = sideways ? im->w : im->h};
    up.rgb = malloc((size_t)up.w * (size_t)up.h * 3);
    if (!up.rgb)
        return err_set(e, "has %d x %d pixels, for which there is too little memory", im->w, im->h);
    for (int y = 0; y < up.h && !decode_stopped(d); y++)
        for (int x = 0; x < up.w; x++)
            memcpy(up.rgb + ((size_t)y * (size_t)up.w + (size_t)x) * 3,
                   im->rgb + 3 * stored_at(d->orientation, y, x, up.h, up.w, im->w), 3);
    up.turn = im->turn;
    im->turn = 0;
    image_free(im);
    *im = up;
    return !decode_stopped(d) || err_set(e, DECODE_STOPPED);
}

/* ---- decoding ---- */

/* Decodes the picture by its kind.  False with the reason as the end of a sentence, whose subject is the name. */
static bool decode(struct decode *d, struct err *e)
{
    const int i = kind_of(d->bytes, d->n);
    if (!d->n)
        return err_set(e, "is empty");
    if (d->n > IMAGE_MAX_BYTES)
        return err_set(e, "has %zu MiB; a picture may have at most %d MiB", d->n >> 20, IMAGE_MAX_BYTES >> 20);
    if (i < 0)
        return err_set(e, "is not a picture: its bytes are not PNG, JPEG, WebP or GIF");
    switch (kinds[i].kind) {
    case IMAGE_PNG: return decode_png(d, e);
    case IMAGE_JPEG: return decode_jpeg(d, e);
    case IMAGE_WEBP: return decode_webp(d, e);
    case IMAGE_GIF: return decode_gif(d, e);
    default: return err_set(e, "is %s file, which is not read as a picture; convert it to PNG or JPEG", kinds[i].name);
    }
}

bool image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e)
{
    struct err why = {0};
    struct decode d = {.bytes = bytes, .n = n, .im = im, .wish = wish ? *wish : (struct image_wish){0}};
    *im = (struct image){0};
    if (decode(&d, &why) && turn(&d, &why))
        return true;
    image_free(im);
    return err_set(e, "%s %s", name, why.msg);
}

bool image_read(struct image *im, const char *path, struct err *e)
{
    struct buf bytes = {0};
    *im = (struct image){0};
    bool ok = file_read(&bytes, path, IMAGE_MAX_BYTES, e) && image_decode(im, buf_str(&bytes), bytes.len, path, NULL, e);
    buf_free(&bytes);
    return ok;
}

bool image_settle(struct buf *bytes, int *w, int *h, const char *name, struct err *e)
{
    struct image im;
    bool ok = image_decode(&im, buf_str(bytes), bytes->len, name, NULL, e);
    *w = im.w;
    *h = im.h;
    if (ok && !im.plain) {
        buf_reset(bytes);
        ok = image_write_png(&im, bytes, e);
    }
    image_free(&im);
    return ok;
}

uint8_t *image_take(struct image *im)
{
    uint8_t *rgb = im->rgb;
    im->rgb = NULL;
    image_free(im);
    return rgb;
}

void image_free(struct image *im)
{
    free(im->rgb);
    decode_end_turn(im);
    *im = (struct image){0};
}

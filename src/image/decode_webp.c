/* WebP, by libwebp, whose only user this file is. */
#include <string.h>

#include <webp/decode.h>

#include "image/decode.h"

enum {
    PART = 32 << 10,                    /* bytes of a file that are decoded before decode_stopped() is looked at again */
    FIRST_CHUNK = 12, CHUNK_HEAD = 8,   /* where chunks begin; the name and the size of a chunk */
    FLAGS_AT = 20, HAS_EXIF = 8,        /* in a file that begins with the chunk VP8X */
    FRAME_HEAD = 16,                    /* of the chunk of a frame: place and size, 3 bytes each; time, flags */
};

static uint32_t number_at(const uint8_t *p, int bytes)
{
    uint32_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

/* Returns how many bytes of the file are WebP, by its own account, which may be wrong. */
static size_t bytes_of(const struct decode *d)
{
    return (size_t)number_at(d->bytes + 4, 4) + CHUNK_HEAD;
}

/* Finds the first chunk of that name.  NULL: there is none that is whole. */
static const uint8_t *find_chunk(const struct decode *d, const char *name, size_t *n)
{
    const size_t end = bytes_of(d) < d->n ? bytes_of(d) : d->n;
    for (size_t at = FIRST_CHUNK; at + CHUNK_HEAD <= end; at += CHUNK_HEAD + *n + (*n & 1)) {
        *n = number_at(d->bytes + at + 4, 4);
        if (*n > end - at - CHUNK_HEAD)
            return NULL;
        if (!memcmp(d->bytes + at, name, 4))
            return d->bytes + at + CHUNK_HEAD;
    }
    return NULL;
}

/* Reads the orientation, which stands in a chunk that usually comes last. */
static void read_exif(struct decode *d)
{
    size_t n;
    const bool has = d->n > FLAGS_AT && !memcmp(d->bytes + FIRST_CHUNK, "VP8X", 4) && d->bytes[FLAGS_AT] & HAS_EXIF;
    const uint8_t *exif = has ? find_chunk(d, "EXIF", &n) : NULL;
    const size_t skip = exif && n > 6 && !memcmp(exif, "Exif\0", 6) ? 6 : 0;
    if (exif)
        d->orientation = decode_orientation(exif + skip, n - skip);
}

/* Decodes a file, or the part of one that is a frame, to `to` in the image, part by part, so that it can be stopped. */
static bool read_parts(const struct decode *d, const uint8_t *file, size_t n_file, uint8_t *to, bool alpha)
{
    struct image *im = d->im;
    VP8StatusCode status = VP8_STATUS_SUSPENDED;
    const int stride = im->w * (alpha ? 4 : 3);
    const size_t bytes = (size_t)stride * (size_t)im->h;
    WebPIDecoder *parts = WebPINewRGB(alpha ? MODE_RGBA : MODE_RGB, to, bytes - (size_t)(to - im->rgb), stride);
    for (size_t n = 0; n < n_file && status == VP8_STATUS_SUSPENDED && !decode_stopped(d);) {
        n = n_file - n > PART ? n + PART : n_file;
        status = WebPIUpdate(parts, file, n);
    }
    WebPIDelete(parts);
    return status == VP8_STATUS_OK;
}

/* Decodes the first frame to its place on the canvas, which is transparent elsewhere.  A file that ends too early is refused, even if its first frame
 * is whole. */
static bool read_first_frame(const struct decode *d)
{
    size_t n;
    const uint8_t *frame = bytes_of(d) <= d->n ? find_chunk(d, "ANMF", &n) : NULL;
    WebPBitstreamFeatures f;
    if (!frame || n < FRAME_HEAD || WebPGetFeatures(frame + FRAME_HEAD, n - FRAME_HEAD, &f) != VP8_STATUS_OK)
        return false;
    const uint32_t x = 2 * number_at(frame, 3), y = 2 * number_at(frame + 3, 3), w = number_at(frame + 6, 3) + 1, h = number_at(frame + 9, 3) + 1;
    return (uint32_t)f.width == w && (uint32_t)f.height == h && x + w <= (uint32_t)d->im->w && y + h <= (uint32_t)d->im->h &&
           read_parts(d, frame + FRAME_HEAD, n - FRAME_HEAD, d->im->rgb + 4 * ((size_t)y * (size_t)d->im->w + x), true);
}

bool decode_webp(struct decode *d, struct err *e)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(d->bytes, d->n, &f) != VP8_STATUS_OK || f.width < 1 || f.height < 1)
        return err_set(e, "is a damaged WebP file: its header cannot be read");
    const bool alpha = f.has_alpha || f.has_animation;
    if (!decode_room(d, (uint32_t)f.width, (uint32_t)f.height, alpha ? 4 : 3, e))
        return false;
    if (!(f.has_animation ? read_first_frame(d) : read_parts(d, d->bytes, d->n, d->im->rgb, alpha)))
        return err_set(e, decode_stopped(d) ? DECODE_STOPPED : "is a damaged WebP file: its picture is incomplete or wrong");
    read_exif(d);
    d->im->plain = false;
    if (alpha)
        decode_flatten(d->im);
    return true;
}

/* WebP, by libwebp, whose only user this file is. */
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "image/decode.h"

enum { PART = 32 << 10 };                /* bytes of a file that are decoded before decode_stopped() is looked at again */

/* Reads the orientation, which stands in a chunk that usually comes last. */
static void read_exif(struct decode *d)
{
    const WebPData all = {d->bytes, d->n};
    WebPDemuxer *parts = WebPDemux(&all);
    WebPChunkIterator chunk;
    if (parts && WebPDemuxGetChunk(parts, "EXIF", 1, &chunk)) {
        const uint8_t *exif = chunk.chunk.bytes;
        const size_t skip = chunk.chunk.size > 6 && !memcmp(exif, "Exif\0", 6) ? 6 : 0;
        d->orientation = decode_orientation(exif + skip, chunk.chunk.size - skip);
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    WebPDemuxDelete(parts);
}

/* Copies the first frame, as it stands on the whole canvas. */
static bool read_first_frame(const struct decode *d)
{
    const WebPData all = {d->bytes, d->n};
    WebPAnimDecoder *frames = WebPAnimDecoderNew(&all, NULL);
    WebPAnimInfo info;
    uint8_t *canvas;
    int ms;
    bool ok = frames && WebPAnimDecoderGetInfo(frames, &info) && info.canvas_width == (uint32_t)d->im->w &&
              info.canvas_height == (uint32_t)d->im->h && WebPAnimDecoderGetNext(frames, &canvas, &ms);
    if (ok)
        memcpy(d->im->rgb, canvas, (size_t)d->im->w * (size_t)d->im->h * 4);
    WebPAnimDecoderDelete(frames);
    return ok;
}

/* Decodes part by part, so that it can be stopped. */
static bool read_still(const struct decode *d, bool alpha)
{
    struct image *im = d->im;
    VP8StatusCode status = VP8_STATUS_SUSPENDED;
    const int stride = im->w * (alpha ? 4 : 3);
    const size_t bytes = (size_t)stride * (size_t)im->h;
    WebPIDecoder *parts = WebPINewRGB(alpha ? MODE_RGBA : MODE_RGB, im->rgb, bytes, stride);
    for (size_t n = 0; n < d->n && status == VP8_STATUS_SUSPENDED && !decode_stopped(d);) {
        n = d->n - n > PART ? n + PART : d->n;
        status = WebPIUpdate(parts, d->bytes, n);
    }
    WebPIDelete(parts);
    return status == VP8_STATUS_OK;
}

bool decode_webp(struct decode *d, struct err *e)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(d->bytes, d->n, &f) != VP8_STATUS_OK || f.width < 1 || f.height < 1)
        return err_set(e, "is a damaged WebP file: its header cannot be read");
    const bool alpha = f.has_alpha || f.has_animation;
    if (!decode_room(d, (uint32_t)f.width, (uint32_t)f.height, alpha ? 4 : 3, e))
        return false;
    if (!(f.has_animation ? read_first_frame(d) : read_still(d, alpha)))
        return err_set(e, decode_stopped(d) ? DECODE_STOPPED : "is a damaged WebP file: its picture is incomplete or wrong");
    read_exif(d);
    d->im->plain = false;
    if (alpha)
        decode_flatten(d->im);
    return true;
}

/* GIF: the first picture of a file, where it lies on the screen that the file describes.  The screen is white where that picture leaves it open or is
 * transparent. */
#include <string.h>

#include "image/decode.h"

enum {
    MAX_BITS = 12, MAX_CODES = 1 << MAX_BITS,
    HAS_COLOURS = 0x80, INTERLACED = 0x40,              /* flags */
    EXTENSION = 0x21, PICTURE = 0x2C, CONTROL = 0xF9,   /* kinds of blocks, and an extension */
};

/* A file and how far it has been read.  Behind its end there are zeros. */
struct source {
    const uint8_t *bytes;
    size_t n, at;
    bool ended;
};

/* A picture, and the pixel of it that is written next. */
struct frame {
    uint32_t left, top, w, h, x, y;
    int pass;                           /* of an interlaced picture */
    bool interlaced;
    int clear;                          /* the transparent colour, -1 if there is none */
    uint8_t colours[256][3];
};

/* Codes of up to MAX_BITS bits in blocks of up to 255 bytes. */
struct codes {
    struct source *from;
    uint32_t bits, n_bits, in_block;
};

static uint32_t number(struct source *s, int bytes)
{
    uint32_t x = 0;
    for (int i = 0; i < bytes; i++) {
        s->ended |= s->at >= s->n;
        x |= s->ended ? 0 : (uint32_t)s->bytes[s->at++] << 8 * i;
    }
    return x;
}

static void skip(struct source *s, uint32_t bytes)
{
    s->ended |= bytes > s->n - s->at;
    s->at += s->ended ? 0 : bytes;
}

static void read_colours(struct source *s, struct frame *f, uint32_t flags)
{
    for (uint32_t i = 0; flags & HAS_COLOURS && i < 2u << (flags & 7); i++)
        for (int c = 0; c < 3; c++)
            f->colours[i][c] = (uint8_t)number(s, 1);
}

/* Reads up to the pixels of the first picture.  False: the file has none. */
static bool find_picture(struct source *s, struct frame *f)
{
    uint32_t block;
    while ((block = number(s, 1)) == EXTENSION) {
        const bool control = number(s, 1) == CONTROL;
        for (uint32_t n; (n = number(s, 1)) > 0; ) {
            const struct source body = *s;
            skip(s, n);
            if (control && n == 4 && !s->ended)
                f->clear = body.bytes[body.at] & 1 ? body.bytes[body.at + 3] : -1;
        }
    }
    f->left = number(s, 2);
    f->top = number(s, 2);
    f->w = number(s, 2);
    f->h = number(s, 2);
    const uint32_t flags = number(s, 1);
    f->interlaced = flags & INTERLACED;
    read_colours(s, f, flags);
    return block == PICTURE && f->w && f->h && !s->ended;
}

/* Returns -1 if the codes have ended. */
static int next_code(struct codes *c, uint32_t width)
{
    for (; c->n_bits < width; c->n_bits += 8, c->in_block--) {
        if (!c->in_block && !(c->in_block = number(c->from, 1)))
            return -1;
        c->bits |= number(c->from, 1) << c->n_bits;
    }
    const uint32_t code = c->bits & ((1u << width) - 1);
    c->bits >>= width;
    c->n_bits -= width;
    return c->from->ended ? -1 : (int)code;
}

/* Writes a pixel.  The rows of an interlaced picture come in four passes. */
static void put(struct frame *f, struct image *im, uint8_t colour)
{
    static const uint8_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    if (colour != f->clear)
        memcpy(im->rgb + 3 * ((size_t)(f->top + f->y) * (size_t)im->w + f->left + f->x), f->colours[colour], 3);
    if (++f->x < f->w)
        return;
    f->x = 0;
    f->y += f->interlaced ? step[f->pass] : 1;
    while (f->interlaced && f->y >= f->h && f->pass < 3)
        f->y = first[++f->pass];
}

/* Undoes LZW: a code is a colour, or an earlier code and a colour that follows it.  False: the codes are wrong, or end before the last pixel. */
static bool read_pixels(struct source *s, struct frame *f, const struct decode *d)
{
    uint16_t before[MAX_CODES];
    uint8_t last[MAX_CODES], colours[MAX_CODES + 1];
    struct codes c = {.from = s};
    const uint32_t bits = number(s, 1);
    if (bits < 1 || bits > 8)
        return false;
    const int reset = 1 << bits, end = reset + 1;
    uint32_t width = bits + 1;
    int next = end + 1, previous = -1;
    uint8_t first = 0;
    while (f->y < f->h && !decode_stopped(d)) {
        int code = next_code(&c, width), n = 0;
        if (code == reset) {
            width = bits + 1;
            next = end + 1;
            previous = -1;
            continue;
        }
        if (code < 0 || code == end || code > next || (code == next && previous < 0))
            return false;
        const int whole = code;
        if (code == next) {             /* the previous colours and the first of them again */
            colours[n++] = first;
            code = previous;
        }
        for (; code > end; code = before[code])
            colours[n++] = last[code];
        colours[n++] = first = (uint8_t)code;
        if (previous >= 0 && next < MAX_CODES) {
            before[next] = (uint16_t)previous;
            last[next++] = first;
            width += next == 1 << width && width < MAX_BITS;
        }
        previous = whole;
        while (n && f->y < f->h)
            put(f, d->im, colours[--n]);
    }
    return f->y >= f->h;
}

bool decode_gif(struct decode *d, struct err *e)
{
    struct source s = {.bytes = d->bytes, .n = d->n, .at = 6};
    struct frame f = {.clear = -1};
    const uint32_t w = number(&s, 2), h = number(&s, 2), flags = number(&s, 1);
    number(&s, 2);                      /* background, shape of pixels */
    read_colours(&s, &f, flags);
    if (!find_picture(&s, &f))
        return err_set(e, "is a damaged GIF file: %s", s.ended ? "it ends too early" : "it has no picture");
    const uint32_t right = f.left + f.w, bottom = f.top + f.h;
    if (!decode_room(d, w > right ? w : right, h > bottom ? h : bottom, 3, e))
        return false;
    d->im->plain = false;
    memset(d->im->rgb, 255, 3 * (size_t)d->im->w * (size_t)d->im->h);
    return read_pixels(&s, &f, d) ||
           err_set(e, decode_stopped(d) ? DECODE_STOPPED : "is a damaged GIF file: its picture is incomplete or wrong");
}

/* Pictures in every shape that files have: written by the libraries, read by src/image.  Each is right, or refused in one sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

#include "base/buf.h"
#include "base/memory.h"
#include "image/image.h"

/* Smooth enough for lossy formats, and without symmetry. */
static uint8_t sample(int y, int x, int channel)
{
    static const int by_y[] = {3, 1, 2}, by_x[] = {1, 4, 2};
    return (uint8_t)(20 + 30 * channel + by_y[channel] * y + by_x[channel] * x);
}

static const char *refusal(const struct buf *file, struct err *e)
{
    struct image im;
    *e = (struct err){0};
    const bool ok = image_decode(&im, buf_str(file), file->len, "x", NULL, e);
    if (ok)
        image_free(&im);
    else
        assert_true(*e->msg && !im.rgb);
    return ok ? "" : e->msg;
}

static struct image decoded(const struct buf *file)
{
    struct image im;
    struct err e = {0};
    if (!image_decode(&im, buf_str(file), file->len, "x", NULL, &e))
        fail_msg("%s", e.msg);
    return im;
}

static const uint8_t *at(const struct image *im, int y, int x)
{
    return im->rgb + 3 * ((size_t)y * (size_t)im->w + (size_t)x);
}

/* ---- PNG ---- */

struct png_shape {
    int type, depth;
    bool interlaced, transparent;       /* transparent: by a tRNS chunk */
};

static void add_bytes(png_structp png, png_bytep bytes, size_t n)
{
    buf_add(png_get_io_ptr(png), bytes, n);
}

static void flush(png_structp png)
{
    (void)png;
}

static png_color palette_colour(int i)
{
    return (png_color){(png_byte)(i * 37), (png_byte)(i * 91), (png_byte)(255 - i * 53)};
}

/* Returns the sample of `depth` bits that is stored. */
static int stored(const struct png_shape *s, int y, int x, int channel)
{
    if (s->type == PNG_COLOR_TYPE_PALETTE)
        return (3 * y + x) % (1 << s->depth);
    const int v = channel == 3 || (channel == 1 && s->type == PNG_COLOR_TYPE_GRAY_ALPHA) ? (40 * x + 11 * y) & 255 : sample(y, x, channel);
    return s->depth == 16 ? v << 8 | ((7 * x + y) & 255) : v >> (8 - s->depth);
}

static int n_channels(const struct png_shape *s)
{
    return s->type == PNG_COLOR_TYPE_PALETTE ? 1 : 1 + 2 * !!(s->type & PNG_COLOR_MASK_COLOR) + !!(s->type & PNG_COLOR_MASK_ALPHA);
}

static void add_transparency(png_structp png, png_infop info, const struct png_shape *s)
{
    png_byte alpha[] = {0, 90};
    png_color_16 clear = {.gray = (png_uint_16)stored(s, 1, 1, 0), .red = (png_uint_16)stored(s, 1, 1, 0),
                          .green = (png_uint_16)stored(s, 1, 1, 1), .blue = (png_uint_16)stored(s, 1, 1, 2)};
    png_set_tRNS(png, info, alpha, s->type == PNG_COLOR_TYPE_PALETTE ? 2 : 1, &clear);
}

static void write_png(struct buf *out, const struct png_shape *s, int h, int w)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color colours[256];
    for (int i = 0; i < 256; i++)
        colours[i] = palette_colour(i);
    png_set_write_fn(png, out, add_bytes, flush);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, s->depth, s->type, s->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (s->type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, colours, 1 << s->depth);
    if (s->transparent)
        add_transparency(png, info, s);
    png_write_info(png, info);
    const int n = n_channels(s);
    uint8_t *row = memory_zeroed((size_t)w * (size_t)n, 2);
    const int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < h; y++) {
            memset(row, 0, (size_t)w * (size_t)n * 2);
            for (int i = 0; i < w * n; i++) {
                const int v = stored(s, y, i / n, i % n), bit = i * s->depth;
                if (s->depth == 16) {
                    row[2 * i] = (uint8_t)(v >> 8);
                    row[2 * i + 1] = (uint8_t)v;
                } else
                    row[bit / 8] |= (uint8_t)(v << (8 - s->depth - bit % 8));
            }
            png_write_row(png, row);
        }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(row);
}

/* Returns the sample that the model gets. */
static int expected(const struct png_shape *s, int y, int x, int channel)
{
    const bool palette = s->type == PNG_COLOR_TYPE_PALETTE, colour = s->type & PNG_COLOR_MASK_COLOR;
    const int i = stored(s, y, x, 0), v = palette ? 0 : stored(s, y, x, colour ? channel : 0);
    const png_color c = palette_colour(i);
    int seen = palette ? (channel == 0 ? c.red : channel == 1 ? c.green : c.blue) : s->depth == 16 ? v >> 8 : v * 255 / ((1 << s->depth) - 1);
    int alpha = 255;
    if (s->type & PNG_COLOR_MASK_ALPHA)
        alpha = (40 * x + 11 * y) & 255;
    else if (s->transparent && palette)
        alpha = i == 0 ? 0 : i == 1 ? 90 : 255;
    else if (s->transparent) {
        alpha = 0;
        for (int k = 0; k < (colour ? 3 : 1); k++)
            if (stored(s, y, x, k) != stored(s, 1, 1, k))
                alpha = 255;
    }
    return (int)((seen * alpha + 255 * (255 - alpha)) / 255.0 + 0.5);
}

static void check_png(const struct png_shape *s, int h, int w)
{
    struct buf file = {0};
    write_png(&file, s, h, w);
    struct image im = decoded(&file);
    assert_true(im.h == h && im.w == w);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++)
                if (at(&im, y, x)[c] != expected(s, y, x, c))
                    fail_msg("type %d, %d bits, %d x %d%s%s: %d instead of %d in row %d, column %d", s->type, s->depth, w, h,
                             s->interlaced ? ", interlaced" : "", s->transparent ? ", tRNS" : "", at(&im, y, x)[c], expected(s, y, x, c), y, x);
    image_free(&im);
    buf_free(&file);
}

static void test_image__png_of_every_type_depth_and_transparency_is_right(void **state)
{
    (void)state;
    static const int depths[][6] = {{PNG_COLOR_TYPE_GRAY, 1, 2, 4, 8, 16}, {PNG_COLOR_TYPE_PALETTE, 1, 2, 4, 8}, {PNG_COLOR_TYPE_RGB, 8, 16},
                                    {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 16}, {PNG_COLOR_TYPE_RGB_ALPHA, 8, 16}};
    static const int sizes[][2] = {{1, 1}, {19, 13}, {2, 70}};
    int n = 0;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (int k = 1; k < 6 && depths[i][k]; k++)
            for (int variant = 0; variant < 4; variant++) {
                const struct png_shape s = {depths[i][0], depths[i][k], variant & 1, variant & 2};
                if (s.transparent && (s.type & PNG_COLOR_MASK_ALPHA))
                    continue;
                for (size_t z = 0; z < 3; z++, n++)
                    check_png(&s, sizes[z][0], sizes[z][1]);
            }
    assert_int_equal(n, 156);
}

static uint32_t crc_of(const struct buf *b)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < b->len; i++) {
        crc ^= (uint8_t)b->data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static void add_big(struct buf *b, uint32_t x)
{
    for (int i = 24; i >= 0; i -= 8)
        buf_addc(b, (char)(x >> i));
}

/* Appends a chunk whose content begins with these numbers. */
static void add_chunk(struct buf *out, const char *kind, const uint32_t *numbers, size_t n, const char *rest, size_t n_rest)
{
    struct buf body = {0};
    buf_adds(&body, kind);
    for (size_t i = 0; i < n; i++)
        add_big(&body, numbers[i]);
    buf_add(&body, rest, n_rest);
    add_big(out, (uint32_t)body.len - 4);
    buf_add(out, body.data, body.len);
    add_big(out, crc_of(&body));
    buf_free(&body);
}

/* Makes an animated PNG of 60 x 50 pixels whose first frame is sample(). */
static void write_moving_png(struct buf *out, uint32_t n_frames)
{
    enum { HEADER = 33, END = 12 };
    static const char black[] = "\x78\x9c\x63\x60\x60\x60\0\0\0\4\0\1";     /* one pixel, compressed */
    struct buf still = {0};
    write_png(&still, &(struct png_shape){PNG_COLOR_TYPE_RGB, 8, false, false}, 50, 60);
    buf_add(out, still.data, HEADER);
    add_chunk(out, "acTL", (uint32_t[]){n_frames, 0}, 2, "", 0);
    add_chunk(out, "fcTL", (uint32_t[]){0, 60, 50, 0, 0, 1 << 16 | 10}, 6, "\0\0", 2);
    buf_add(out, still.data + HEADER, still.len - HEADER - END);
    for (uint32_t i = 1; i < n_frames; i++) {
        add_chunk(out, "fcTL", (uint32_t[]){2 * i - 1, 1, 1, 0, 0, 1 << 16 | 10}, 6, "\0\0", 2);
        add_chunk(out, "fdAT", (uint32_t[]){2 * i}, 1, black, sizeof black - 1);
    }
    buf_add(out, still.data + still.len - END, END);
    buf_free(&still);
}

static void test_image__a_moving_png_gives_its_first_frame(void **state)
{
    (void)state;
    struct buf file = {0};
    write_moving_png(&file, 300);
    struct image im = decoded(&file);
    assert_true(im.h == 50 && im.w == 60);
    for (int i = 0; i < 50 * 60 * 3; i++)
        assert_int_equal(im.rgb[i], sample(i / 180, i / 3 % 60, i % 3));
    image_free(&im);
    buf_free(&file);
}

/* ---- JPEG ---- */

struct jpeg_shape {
    int channels;                       /* 1, 3 or 4 */
    int chroma;                         /* pixels in each direction that share a colour */
    bool progressive;
    int restart;                        /* blocks */
    int orientation;                    /* -1: no EXIF */
    bool little;                        /* byte order of EXIF */
};

static void write_exif(struct jpeg_compress_struct *c, const struct jpeg_shape *s)
{
    uint8_t big[] = "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0";
    uint8_t little[] = "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\0\0\0\0\0\0\0\0";
    big[25] = little[24] = (uint8_t)s->orientation;
    jpeg_write_marker(c, JPEG_APP0 + 1, s->little ? little : big, sizeof big - 1);
}

static void write_jpeg(struct buf *out, const struct jpeg_shape *s, int h, int w)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &n);
    c.image_width = (JDIMENSION)w;
    c.image_height = (JDIMENSION)h;
    c.input_components = s->channels;
    c.in_color_space = s->channels == 1 ? JCS_GRAYSCALE : s->channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = s->chroma;
    c.restart_interval = (unsigned)s->restart;
    if (s->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    if (s->orientation >= 0)
        write_exif(&c, s);
    uint8_t *row = memory_alloc((size_t)w * 4);
    for (int y = 0; y < h; y++) {
        for (int i = 0; i < w * s->channels; i++)
            row[i] = sample(y, i / s->channels, i % s->channels % 3);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    buf_add(out, bytes, n);
    free(bytes);
    free(row);
}

static void check_near(const struct image *im, int channels, int most, const char *what)
{
    for (int y = 0; y < im->h; y++)
        for (int x = 0; x < im->w; x++)
            for (int c = 0; c < 3; c++)
                if (abs(at(im, y, x)[c] - sample(y, x, channels == 1 ? 0 : c)) > most)
                    fail_msg("%s: %d instead of %d in row %d, column %d", what, at(im, y, x)[c], sample(y, x, c), y, x);
}

static void test_image__jpeg_of_every_kind_is_right_within_its_losses(void **state)
{
    (void)state;
    static const struct { const char *name; struct jpeg_shape s; } rows[] = {
        {"gray", {1, 1, false, 0, -1, false}},           {"gray, progressive", {1, 1, true, 0, -1, false}},
        {"4:4:4", {3, 1, false, 0, -1, false}},          {"4:4:4, progressive", {3, 1, true, 0, -1, false}},
        {"4:2:0", {3, 2, false, 0, -1, false}},          {"4:2:0, progressive", {3, 2, true, 0, -1, false}},
        {"with restarts", {3, 2, false, 2, -1, false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf file = {0};
        write_jpeg(&file, &rows[i].s, 37, 30);
        struct image im = decoded(&file);
        assert_true(im.h == 37 && im.w == 30);
        check_near(&im, rows[i].s.channels, 12, rows[i].name);
        image_free(&im);
        buf_free(&file);
    }
}

static void test_image__a_cmyk_jpeg_is_refused_by_name(void **state)
{
    (void)state;
    struct err e;
    struct buf file = {0};
    write_jpeg(&file, &(struct jpeg_shape){.channels = 4, .chroma = 1, .orientation = -1}, 8, 8);
    assert_non_null(strstr(refusal(&file, &e), "CMYK"));
    buf_free(&file);
}

static struct image mirrored(const struct image *im)
{
    struct image to = {.w = im->w, .h = im->h, .rgb = memory_alloc((size_t)im->w * (size_t)im->h * 3)};
    for (int y = 0; y < to.h; y++)
        for (int x = 0; x < to.w; x++)
            memcpy(to.rgb + 3 * (y * to.w + x), at(im, y, im->w - 1 - x), 3);
    return to;
}

/* Turns the picture by 90 degrees clockwise. */
static void turn(struct image *im)
{
    struct image to = {.w = im->h, .h = im->w, .rgb = memory_alloc((size_t)im->w * (size_t)im->h * 3)};
    for (int y = 0; y < to.h; y++)
        for (int x = 0; x < to.w; x++)
            memcpy(to.rgb + 3 * (y * to.w + x), at(im, im->h - 1 - x, y), 3);
    image_free(im);
    *im = to;
}

static void test_image__every_orientation_of_exif_is_undone(void **state)
{
    (void)state;
    static const struct { bool mirror; int turns; } rows[] = {{false, 0}, {false, 0}, {true, 0}, {false, 2}, {true, 2}, {true, 3}, {false, 1},
                                                             {true, 1}, {false, 3}, {false, 0}};     /* 0 and 9 mean nothing */
    for (int k = 0; k < 20; k++) {
        struct buf plain = {0}, tagged = {0};
        write_jpeg(&plain, &(struct jpeg_shape){3, 1, k & 1, 0, -1, false}, 23, 40);
        write_jpeg(&tagged, &(struct jpeg_shape){3, 1, k & 1, 0, k / 2, k & 1}, 23, 40);
        struct image as_stored = decoded(&plain), got = decoded(&tagged), want = mirrored(&as_stored);
        if (!rows[k / 2].mirror) {
            image_free(&want);
            want = decoded(&plain);
        }
        for (int i = 0; i < rows[k / 2].turns; i++)
            turn(&want);
        if (got.w != want.w || got.h != want.h || memcmp(got.rgb, want.rgb, (size_t)got.w * (size_t)got.h * 3))
            fail_msg("orientation %d", k / 2);
        image_free(&as_stored);
        image_free(&got);
        image_free(&want);
        buf_free(&plain);
        buf_free(&tagged);
    }
}

/* ---- WebP ---- */

static void write_webp(struct buf *out, bool lossless, bool alpha, int h, int w)
{
    uint8_t *rgba = memory_alloc((size_t)w * (size_t)h * 4), *bytes = NULL;
    for (int i = 0; i < w * h * 4; i++)
        rgba[i] = i % 4 < 3 ? sample(i / 4 / w, i / 4 % w, i % 4) : !alpha ? 255 : (uint8_t)(9 * (i / 4 % w));
    const size_t n = lossless ? WebPEncodeLosslessRGBA(rgba, w, h, w * 4, &bytes) : WebPEncodeRGBA(rgba, w, h, w * 4, 95, &bytes);
    buf_add(out, bytes, n);
    WebPFree(bytes);
    free(rgba);
}

static void add_number(struct buf *b, uint32_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_addc(b, (char)(x >> 8 * i));
}

/* Makes a file whose first frame is `still`, a lossless picture, at column and row 2 of a canvas; then comes a frame in its first corner. */
static void write_moving(struct buf *out, const struct buf *still, int h, int w)
{
    struct buf body = {0};
    const uint32_t chunk = (uint32_t)still->len - 12;
    buf_adds(&body, "WEBPVP8X");
    add_number(&body, 10, 4);
    add_number(&body, 0x12, 4);         /* moves, may be transparent */
    add_number(&body, (uint32_t)w + 3, 3);
    add_number(&body, (uint32_t)h + 3, 3);
    buf_adds(&body, "ANIM");
    add_number(&body, 6, 4);
    add_number(&body, 0, 4);
    add_number(&body, 0, 2);
    for (uint32_t place = 2; place; place--) {
        buf_adds(&body, "ANMF");
        add_number(&body, 16 + chunk, 4);
        add_number(&body, place - 1, 3);        /* halves of pixels */
        add_number(&body, place - 1, 3);
        add_number(&body, (uint32_t)w - 1, 3);
        add_number(&body, (uint32_t)h - 1, 3);
        add_number(&body, 100, 3);
        add_number(&body, 0, 1);
        buf_add(&body, still->data + 12, chunk);
    }
    buf_adds(out, "RIFF");
    add_number(out, (uint32_t)body.len, 4);
    buf_add(out, body.data, body.len);
    buf_free(&body);
}

static void test_image__webp_is_right_with_and_without_losses_and_alpha(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        const bool lossless = variant & 1, alpha = variant & 2;
        struct buf file = {0};
        write_webp(&file, lossless, alpha, 21, 26);
        struct image im = decoded(&file);
        assert_true(im.h == 21 && im.w == 26);
        for (int i = 0; i < 21 * 26 * 3; i++) {
            const int y = i / 3 / 26, x = i / 3 % 26, a = alpha ? 9 * x : 255, v = sample(y, x, i % 3);
            const int want = a || lossless ? (v * a + 255 * (255 - a) + 127) / 255 : 255;
            if (abs(im.rgb[i] - want) > (lossless ? 0 : 16))
                fail_msg("variant %d: %d instead of %d in row %d, column %d", variant, im.rgb[i], want, y, x);
        }
        image_free(&im);
        buf_free(&file);
    }
}

static void test_image__a_moving_webp_gives_its_first_frame_on_the_whole_canvas(void **state)
{
    (void)state;
    struct buf still = {0}, file = {0};
    write_webp(&still, true, false, 12, 10);
    write_moving(&file, &still, 12, 10);
    struct image im = decoded(&file);
    assert_true(im.h == 16 && im.w == 14);
    for (int y = 0; y < im.h; y++)
        for (int x = 0; x < im.w; x++) {
            const bool inside = y >= 2 && y < 14 && x >= 2 && x < 12;
            for (int c = 0; c < 3; c++)
                assert_int_equal(at(&im, y, x)[c], inside ? sample(y - 2, x - 2, c) : 255);
        }
    image_free(&im);
    buf_free(&still);
    buf_free(&file);
}

/* ---- GIF ---- */

struct gif_shape {
    int bits;                           /* of a pixel */
    bool interlaced, transparent, local;        /* local: the picture has colours of its own */
    bool noisy;                         /* few repetitions, so that the table of codes gets full */
    bool resets;                        /* begins a new table then */
};

enum { GIF_LEFT = 3, GIF_TOP = 2 };

static uint8_t gif_pixel(const struct gif_shape *s, int y, int x)
{
    const uint32_t v = s->noisy ? (uint32_t)(y * 709 + x + 1) * 2654435761u >> 20 : (uint32_t)(y / 3 + x / 5);
    return (uint8_t)(v & ((1u << s->bits) - 1));
}

struct code_writer {
    struct buf bytes;
    uint32_t bits;
    int n_bits;
};

static void add_code(struct code_writer *w, int code, int width)
{
    w->bits |= (uint32_t)code << w->n_bits;
    for (w->n_bits += width; w->n_bits >= 8; w->n_bits -= 8, w->bits >>= 8)
        buf_addc(&w->bytes, (char)w->bits);
}

static void add_blocks(struct buf *out, const struct buf *bytes)
{
    for (size_t i = 0; i < bytes->len; i += 255) {
        const size_t n = bytes->len - i < 255 ? bytes->len - i : 255;
        buf_addc(out, (char)n);
        buf_add(out, bytes->data + i, n);
    }
    buf_addc(out, 0);
}

static void add_pixels(struct buf *out, const struct gif_shape *s, int h, int w)
{
    static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    const int root = s->bits < 2 ? 2 : s->bits, reset = 1 << root;
    int16_t (*after)[256] = memory_zeroed(4096, sizeof *after);
    struct code_writer codes = {0};
    int width = root + 1, next = reset + 2, code = -1;
    add_code(&codes, reset, width);
    for (int pass = 0; pass < (s->interlaced ? 4 : 1); pass++)
        for (int y = s->interlaced ? first[pass] : 0; y < h; y += s->interlaced ? step[pass] : 1)
            for (int x = 0; x < w; x++) {
                const uint8_t p = gif_pixel(s, y, x);
                if (code < 0 || after[code][p]) {
                    code = code < 0 ? p : after[code][p];
                    continue;
                }
                add_code(&codes, code, width);
                if (next < 4096) {
                    width += next == 1 << width;
                    after[code][p] = (int16_t)next++;
                } else if (s->resets) {
                    add_code(&codes, reset, width);
                    memset(after, 0, 4096 * sizeof *after);
                    width = root + 1;
                    next = reset + 2;
                }
                code = p;
            }
    add_code(&codes, code, width);
    add_code(&codes, reset + 1, width + (next < 4096 && next == 1 << width));
    add_code(&codes, 0, 7);
    buf_addc(out, (char)root);
    add_blocks(out, &codes.bytes);
    buf_free(&codes.bytes);
    free(after);
}

static void add_colours(struct buf *out, int bits, int shift)
{
    for (int i = 0; i < 1 << bits; i++) {
        const png_color c = palette_colour(i + shift);
        add_number(out, (uint32_t)(c.red | c.green << 8 | c.blue << 16), 3);
    }
}

/* The first of its pictures is at GIF_LEFT, GIF_TOP of a larger screen; then comes one of a pixel. */
static void write_gif(struct buf *out, const struct gif_shape *s, int h, int w)
{
    buf_adds(out, s->transparent ? "GIF89a" : "GIF87a");
    add_number(out, (uint32_t)(w + GIF_LEFT), 2);
    add_number(out, (uint32_t)(h + GIF_TOP + 1), 2);
    buf_addc(out, (char)(0x80 | (s->bits - 1)));
    add_number(out, 0, 2);
    add_colours(out, s->bits, 0);
    buf_add(out, "\x21\xff\x0bNETSCAPE2.0\3\1\0\0\0", 19);
    if (s->transparent)
        buf_add(out, "\x21\xf9\4\1\0\0\1\0", 8);
    for (int i = 0; i < 2; i++) {
        buf_addc(out, 0x2c);
        add_number(out, GIF_LEFT | GIF_TOP << 16, 4);
        add_number(out, i ? 1 | 1 << 16 : (uint32_t)(w | h << 16), 4);
        buf_addc(out, (char)((s->interlaced ? 0x40 : 0) | (s->local ? 0x80 | (s->bits - 1) : 0)));
        if (s->local)
            add_colours(out, s->bits, 7);
        add_pixels(out, s, i ? 1 : h, i ? 1 : w);
    }
    buf_addc(out, ';');
}

static void check_gif(const struct gif_shape *s, int h, int w)
{
    struct buf file = {0};
    write_gif(&file, s, h, w);
    struct image im = decoded(&file);
    assert_true(im.h == h + GIF_TOP + 1 && im.w == w + GIF_LEFT && !im.plain);
    for (int y = 0; y < im.h; y++)
        for (int x = 0; x < im.w; x++) {
            const bool inside = y >= GIF_TOP && y < GIF_TOP + h && x >= GIF_LEFT;
            const int i = inside ? gif_pixel(s, y - GIF_TOP, x - GIF_LEFT) : 0;
            const png_color c = inside && !(s->transparent && i == 1) ? palette_colour(i + (s->local ? 7 : 0)) : (png_color){255, 255, 255};
            if (memcmp(at(&im, y, x), (uint8_t[]){c.red, c.green, c.blue}, 3))
                fail_msg("%d bits, %d x %d%s%s: wrong in row %d, column %d", s->bits, w, h, s->interlaced ? ", interlaced" : "",
                         s->noisy ? ", noisy" : "", y, x);
        }
    image_free(&im);
    buf_free(&file);
}

static void test_image__gif_of_every_depth_gives_its_first_picture_on_the_whole_screen(void **state)
{
    (void)state;
    for (int bits = 1; bits <= 8; bits++)
        for (int variant = 0; variant < 8; variant++) {
            const struct gif_shape s = {.bits = bits, .interlaced = variant & 1, .transparent = variant & 2, .local = variant & 4};
            check_gif(&s, 1, 1);
            check_gif(&s, 19, 13);
        }
    for (int variant = 0; variant < 4; variant++)
        check_gif(&(struct gif_shape){.bits = 8, .noisy = true, .interlaced = variant & 1, .resets = variant & 2}, 150, 160);
}

/* Makes a GIF of one picture with these codes. */
static void make_gif(struct buf *out, uint32_t screen, uint32_t place, uint32_t size, const char *codes, size_t n)
{
    buf_reset(out);
    buf_adds(out, "GIF89a");
    add_number(out, screen, 4);
    buf_add(out, "\x80\0\0\0\0\0\xff\xff\xff", 9);
    buf_addc(out, 0x2c);
    add_number(out, place, 4);
    add_number(out, size, 4);
    buf_addc(out, 0);
    buf_add(out, codes, n);
}

static void test_image__a_gif_with_wrong_codes_or_sides_is_refused(void **state)
{
    (void)state;
    static const struct { uint32_t screen, place, size; const char *codes; size_t n; const char *why; } rows[] = {
        {0x20002, 0, 0x10001, "\2\1\x44", 3, ""},
        {0, 0x10001, 0x10001, "\2\1\x44", 3, ""},              /* the screen grows */
        {0x20002, 0, 0x10001, "\2\1\x44", 2, "picture is incomplete or wrong"},
        {0x20002, 0, 0x20001, "\2\1\x44\0", 4, "picture is incomplete or wrong"},
        {0x20002, 0, 0x10001, "\2\1\x2c\0", 4, "picture is incomplete or wrong"},     /* the end at once */
        {0x20002, 0, 0x10001, "\2\1\x34\0", 4, "picture is incomplete or wrong"},     /* a code without one before it */
        {0x20002, 0, 0x10001, "\0\1\x44\0", 4, "picture is incomplete or wrong"},
        {0x20002, 0, 0x10001, "\x09\1\x44\0", 4, "picture is incomplete or wrong"},
        {0x20002, 0, 0x10000, "\2\1\x44\0", 4, "it has no picture"},
        {0x20002, 0, 0x1, "\2\1\x44\0", 4, "it has no picture"},
        {0xffffffff, 0, 0x10001, "\2\1\x44", 3, "x has 65535 x 65535 pixels; at most 178 million are read"},
        {0x20002, 0xffffffff, 0xffffffff, "\2\1\x44", 3, "x has 131070 x 131070 pixels; at most 178 million are read"},
    };
    struct buf file = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e;
        make_gif(&file, rows[i].screen, rows[i].place, rows[i].size, rows[i].codes, rows[i].n);
        const char *why = refusal(&file, &e);
        if (*rows[i].why ? !strstr(why, rows[i].why) : *why)
            fail_msg("row %d: \"%s\"", (int)i, why);
    }
    buf_free(&file);
}

/* Adds an EXIF block to a PNG of 60 x 50 pixels, behind its header, and to a WebP. */
static void write_tagged(struct buf *png, struct buf *webp, uint8_t orientation)
{
    enum { HEADER = 33 };
    char exif[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0";
    struct buf plain = {0}, still = {0};
    exif[19] = (char)orientation;
    write_png(&plain, &(struct png_shape){PNG_COLOR_TYPE_RGB, 8, false, false}, 50, 60);
    buf_add(png, plain.data, HEADER);
    add_chunk(png, "eXIf", NULL, 0, exif, sizeof exif - 1);
    buf_add(png, plain.data + HEADER, plain.len - HEADER);
    write_webp(&still, true, false, 50, 60);
    const uint32_t n = (uint32_t)still.len - 12, n_exif = sizeof exif - 1;
    buf_adds(webp, "RIFF");
    add_number(webp, 4 + 18 + n + 8 + n_exif, 4);
    buf_adds(webp, "WEBPVP8X");
    add_number(webp, 10, 4);
    add_number(webp, 8, 4);             /* has EXIF */
    add_number(webp, 59, 3);
    add_number(webp, 49, 3);
    buf_add(webp, still.data + 12, n);
    buf_adds(webp, "EXIF");
    add_number(webp, n_exif, 4);
    buf_add(webp, exif, n_exif);
    buf_free(&plain);
    buf_free(&still);
}

static void test_image__orientations_in_png_and_webp_are_undone_like_those_in_jpeg(void **state)
{
    (void)state;
    for (uint8_t o = 1; o <= 8; o++) {
        struct buf files[2] = {0};
        write_tagged(&files[0], &files[1], o);
        for (int i = 0; i < 2; i++) {
            struct image im = decoded(&files[i]);
            const int down = o == 3 || o == 4 || o == 7 || o == 8 ? 49 : 0, right = o == 2 || o == 3 || o == 6 || o == 7 ? 59 : 0;
            assert_true(im.w == (o < 5 ? 60 : 50) && im.h == (o < 5 ? 50 : 60));
            for (int c = 0; c < 3; c++)         /* the first pixel of the upright picture is that of a corner */
                assert_int_equal(im.rgb[c], sample(o == 6 ? 49 : o == 8 ? 0 : down, o == 6 ? 0 : o == 8 ? 59 : right, c));
            image_free(&im);
            buf_free(&files[i]);
        }
    }
}

/* ---- what is wrong with a file ---- */

static void test_image__a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct err e;
    struct buf files[9] = {0};
    write_png(&files[0], &(struct png_shape){PNG_COLOR_TYPE_RGB, 8, false, false}, 50, 60);
    write_png(&files[1], &(struct png_shape){PNG_COLOR_TYPE_RGB_ALPHA, 16, true, false}, 50, 60);
    write_jpeg(&files[2], &(struct jpeg_shape){3, 2, false, 0, 6, false}, 90, 80);
    write_jpeg(&files[3], &(struct jpeg_shape){3, 1, true, 0, -1, false}, 90, 80);
    write_webp(&files[4], true, true, 90, 80);
    write_webp(&files[5], false, false, 90, 80);
    write_moving_png(&files[6], 2);
    write_moving(&files[7], &files[4], 90, 80);
    write_gif(&files[8], &(struct gif_shape){.bits = 8, .noisy = true}, 90, 80);
    int n = 0;
    for (int i = 0; i < 9; i++) {
        struct image im = decoded(&files[i]);
        image_free(&im);
        for (size_t cut = 0; cut < files[i].len && (i < 7 || (i == 8 && cut + 64 < files[i].len)); cut += 64, n++) {
            const struct buf part = {files[i].data, cut, 0};
            if (!*refusal(&part, &e))
                fail_msg("file %d is read after %zu of %zu bytes", i, cut, files[i].len);
        }
        for (size_t cut = 0; cut < files[i].len; cut += 64) {       /* its first frame may be complete */
            const struct buf part = {files[i].data, cut, 0};
            refusal(&part, &e);
        }
        buf_free(&files[i]);
    }
    assert_true(n > 100);
}

/* Replaces the first place of these bytes. */
static void put_instead(struct buf *b, const char *old, size_t n, const char *with)
{
    char *p = memmem(b->data, b->len, old, n);
    assert_non_null(p);
    memcpy(p, with, n);
}

static void test_image__sides_are_checked_before_any_pixel_is_read(void **state)
{
    (void)state;
    struct err e;
    struct buf png = {0}, narrow = {0}, jpeg = {0}, webp = {0}, still = {0};
    write_png(&png, &(struct png_shape){PNG_COLOR_TYPE_GRAY, 1, false, false}, 16000, 16000);
    assert_true(png.len < 1 << 20);
    assert_string_equal(refusal(&png, &e), "x has 16000 x 16000 pixels; at most 178 million are read");
    write_png(&narrow, &(struct png_shape){PNG_COLOR_TYPE_GRAY, 8, false, false}, 2, 401);
    assert_string_equal(refusal(&narrow, &e), "x has 401 x 2 pixels; one side may be at most 200 times the other");
    write_jpeg(&jpeg, &(struct jpeg_shape){3, 1, false, 0, -1, false}, 90, 80);
    put_instead(&jpeg, "\x08\0\x5a\0\x50\x03", 6, "\x08\xff\xdc\xff\xdc\x03");
    assert_string_equal(refusal(&jpeg, &e), "x has 65500 x 65500 pixels; at most 178 million are read");
    write_webp(&still, true, false, 12, 10);
    write_moving(&webp, &still, 12, 10);
    memcpy(webp.data + 24, "\x1f\x4e\0\x1f\x4e\0", 6);
    assert_string_equal(refusal(&webp, &e), "x has 20000 x 20000 pixels; at most 178 million are read");
    buf_free(&png);
    buf_free(&narrow);
    buf_free(&jpeg);
    buf_free(&webp);
    buf_free(&still);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image__png_of_every_type_depth_and_transparency_is_right),
        cmocka_unit_test(test_image__orientations_in_png_and_webp_are_undone_like_those_in_jpeg),
        cmocka_unit_test(test_image__a_moving_png_gives_its_first_frame),
        cmocka_unit_test(test_image__gif_of_every_depth_gives_its_first_picture_on_the_whole_screen),
        cmocka_unit_test(test_image__a_gif_with_wrong_codes_or_sides_is_refused),
        cmocka_unit_test(test_image__jpeg_of_every_kind_is_right_within_its_losses),
        cmocka_unit_test(test_image__a_cmyk_jpeg_is_refused_by_name),
        cmocka_unit_test(test_image__every_orientation_of_exif_is_undone),
        cmocka_unit_test(test_image__webp_is_right_with_and_without_losses_and_alpha),
        cmocka_unit_test(test_image__a_moving_webp_gives_its_first_frame_on_the_whole_canvas),
        cmocka_unit_test(test_image__a_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_image__sides_are_checked_before_any_pixel_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

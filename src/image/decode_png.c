/* PNG, by libpng, whose only user this file is.  Errors of the library leave it by longjmp(), to guarded() and no further. */
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "image/decode.h"

struct png_job {
    png_structp png;
    png_infop   info;
    jmp_buf     out;
    struct decode *d;
    size_t      at;                     /* bytes read so far, or written */
    struct buf *written;
    bool        refused;                /* the reason is in `e`, not in `why` */
    struct err *e;
    char        why[120];
};

static void on_error(png_structp png, png_const_charp message)
{
    struct png_job *j = png_get_error_ptr(png);
    snprintf(j->why, sizeof j->why, "%s", message);
    longjmp(j->out, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    struct png_job *j = png_get_io_ptr(png);
    if (n > j->d->n - j->at)
        png_error(png, "it ends too early");
    memcpy(to, j->d->bytes + j->at, n);
    j->at += n;
}

static void refuse(struct png_job *j)
{
    j->refused = true;
    longjmp(j->out, 1);
}

/* Bounds what the file may make the library allocate, and drops the chunks that nobody reads. */
static void set_limits(struct png_job *j)
{
    static const char unread[] = "iCCP\0iTXt\0zTXt\0tEXt\0sPLT\0hIST\0bKGD\0cHRM\0gAMA\0sRGB\0pHYs\0tIME\0oFFs\0pCAL\0sCAL\0sBIT";
    png_set_user_limits(j->png, IMAGE_MAX_PIXELS, IMAGE_MAX_PIXELS);
    png_set_chunk_cache_max(j->png, 64);
    png_set_chunk_malloc_max(j->png, 1 << 20);
    png_set_keep_unknown_chunks(j->png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep)unread, sizeof unread / 5);
}

/* Reads everything; each pixel becomes 3 bytes, or 4 if some may be transparent. */
static void read_pixels(struct png_job *j)
{
    png_structp png = j->png;
    png_read_info(png, j->info);
    const int type = png_get_color_type(png, j->info);
    const bool alpha = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(png, j->info, PNG_INFO_tRNS);
    const uint32_t w = png_get_image_width(png, j->info), h = png_get_image_height(png, j->info);
    if (!decode_room(j->d, w, h, alpha ? 4 : 3, j->e))
        refuse(j);
    j->d->im->plain = png_get_bit_depth(png, j->info) <= 8;
    png_set_expand(png);
    png_set_strip_16(png);
    if (!(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(png);
    const int n_passes = png_set_interlace_handling(png);
    png_read_update_info(png, j->info);
    const size_t row = (size_t)w * (alpha ? 4 : 3);
    if (png_get_rowbytes(png, j->info) != row)
        png_error(png, "its rows have an unexpected size");
    for (int pass = 0; pass < n_passes; pass++)
        for (uint32_t y = 0; y < h && !decode_stopped(j->d); y++)
            png_read_row(png, j->d->im->rgb + y * row, NULL);
    if (decode_stopped(j->d)) {
        err_set(j->e, DECODE_STOPPED);
        refuse(j);
    }
    png_read_end(png, j->info);
    if (alpha)
        decode_flatten(j->d->im);
}

static void read_exif(struct png_job *j)
{
    png_uint_32 n = 0;
    png_bytep exif = NULL;
    if (png_get_eXIf_1(j->png, j->info, &n, &exif))
        j->d->orientation = decode_orientation(exif, n);
}

/* Allocates libpng's info struct, which holds the fields of the header.  Jumps to j->out if there is too little memory. */
static void alloc_info(struct png_job *j)
{
    j->info = j->png ? png_create_info_struct(j->png) : NULL;
    if (j->info)
        return;
    snprintf(j->why, sizeof j->why, "there is too little memory");
    longjmp(j->out, 1);
}

static void read_file(struct png_job *j)
{
    j->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    alloc_info(j);
    set_limits(j);
    png_set_read_fn(j->png, j, on_read);
    read_pixels(j);
    read_exif(j);
}

/* Runs the work of a job; true if no error ended it. */
static bool guarded(struct png_job *j, void (*work)(struct png_job *))
{
    if (setjmp(j->out))
        return false;
    work(j);
    return true;
}

bool decode_png(struct decode *d, struct err *e)
{
    struct png_job j = {.d = d, .e = e};
    const bool ok = guarded(&j, read_file);
    png_destroy_read_struct(&j.png, &j.info, NULL);
    return ok || j.refused ? ok : err_set(e, "is a damaged PNG file: %s", j.why);
}

/* ---- writing ---- */

static void on_write(png_structp png, png_bytep bytes, size_t n)
{
    struct png_job *j = png_get_io_ptr(png);
    buf_add(j->written, bytes, n);
}

static void on_flush(png_structp png)
{
    (void)png;
}

/* Writes the picture as a PNG file of 8 bits and three colours. */
static void write_file(struct png_job *j)
{
    const struct image *im = j->d->im;
    j->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    alloc_info(j);
    png_set_write_fn(j->png, j, on_write, on_flush);
    png_set_IHDR(j->png, j->info, (png_uint_32)im->w, (png_uint_32)im->h, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(j->png, 3);       /* half the time of the usual level, a few percent more bytes */
    png_write_info(j->png, j->info);
    for (int y = 0; y < im->h; y++)
        png_write_row(j->png, im->rgb + (size_t)y * (size_t)im->w * 3);
    png_write_end(j->png, NULL);
}

bool image_write_png(const struct image *im, struct buf *out, struct err *e)
{
    struct image pixels = *im;
    struct decode d = {.im = &pixels};
    struct png_job j = {.d = &d, .e = e, .written = out};
    const bool ok = guarded(&j, write_file);
    png_destroy_write_struct(&j.png, &j.info);
    return ok || err_set(e, "cannot write a picture of %d x %d as PNG: %s", im->w, im->h, j.why);
}

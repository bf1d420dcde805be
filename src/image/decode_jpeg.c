/* JPEG, by libjpeg-turbo with its defaults (slow integer DCT, smooth chroma), whose only user this file is.  Errors of the library leave it by
 * longjmp(), to decode_jpeg() and no further.  What the library only warns of but makes pixels up for, such as a file that ends too early, counts as
 * an error here. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "image/decode.h"

enum {
    MAX_SCANS = 100,                    /* of a progressive file: a small one may have very many */
    MAX_MEMORY = 1 << 30,               /* bytes of the library's own, for the coefficients of progressive files */
};

struct jpeg_job {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    struct decode *d;
    struct err *e;
    char why[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr c)
{
    struct jpeg_job *j = c->client_data;
    c->err->format_message(c, j->why);
    longjmp(j->out, 1);
}

/* Warnings have the level -1. */
static void on_message(j_common_ptr c, int level)
{
    static const int made_up[] = {JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_NOT_SEQUENTIAL, JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE};
    for (size_t i = 0; level < 0 && i < sizeof made_up / sizeof *made_up; i++)
        if (c->err->msg_code == made_up[i])
            on_error(c);
}

/* Called at every row of blocks. */
static void on_progress(j_common_ptr c)
{
    struct jpeg_job *j = c->client_data;
    if (decode_stopped(j->d))
        longjmp(j->out, 1);
    if (j->c.input_scan_number <= MAX_SCANS)
        return;
    snprintf(j->why, sizeof j->why, "it has more than %d scans", MAX_SCANS);
    longjmp(j->out, 1);
}

static void set_handlers(struct jpeg_job *j)
{
    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->c.client_data = j;
}

static void read_exif(struct jpeg_job *j)
{
    for (jpeg_saved_marker_ptr m = j->c.marker_list; m && !j->d->orientation; m = m->next)
        if (m->data_length > 6 && !memcmp(m->data, "Exif\0", 6))
            j->d->orientation = decode_orientation(m->data + 6, m->data_length - 6);
}

/* Reads the header and makes room.  False with the reason in `e`. */
static bool begin(struct jpeg_job *j)
{
    struct jpeg_decompress_struct *c = &j->c;
    jpeg_save_markers(c, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(c, TRUE);
    if (c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK)
        return err_set(j->e, "is a CMYK JPEG, a format for printing that is not supported; convert it to RGB");
    read_exif(j);
    c->out_color_space = JCS_RGB;
    return decode_room(j->d, c->image_width, c->image_height, 3, j->e);
}

/* Decodes all rows to the picture. */
static void read_rows(struct jpeg_job *j)
{
    struct jpeg_decompress_struct *c = &j->c;
    jpeg_start_decompress(c);
    while (c->output_scanline < c->output_height) {
        JSAMPROW row = j->d->im->rgb + (size_t)c->output_scanline * c->output_width * 3;
        jpeg_read_scanlines(c, &row, 1);
    }
    jpeg_finish_decompress(c);
}

bool decode_jpeg(struct decode *d, struct err *e)
{
    struct jpeg_job j = {.d = d, .e = e};
    set_handlers(&j);
    if (setjmp(j.out)) {
        jpeg_destroy_decompress(&j.c);
        return decode_stopped(d) ? err_set(e, DECODE_STOPPED) : err_set(e, "is a damaged JPEG file: %s", j.why);
    }
    jpeg_create_decompress(&j.c);
    j.c.mem->max_memory_to_use = MAX_MEMORY;
    j.c.progress = &j.progress;
    j.progress.progress_monitor = on_progress;
    jpeg_mem_src(&j.c, d->bytes, d->n);
    bool ok = begin(&j);
    if (ok)
        read_rows(&j);
    jpeg_destroy_decompress(&j.c);
    return ok;
}

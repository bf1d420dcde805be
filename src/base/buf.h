/* Growable bytes.  Plain value, valid as {0}; the caller owns it and calls buf_free().  Allocation failure aborts.
 * When data is not NULL, data[len] is 0, so a buffer that holds text is also a C string. */
#ifndef Q35_BASE_BUF_H
#define Q35_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct buf {
    char  *data;
    size_t len, cap;
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_reserve(struct buf *b, size_t n);              /* room for n more bytes */
void buf_reset(struct buf *b);                          /* length 0, memory kept */
void buf_consume(struct buf *b, size_t n);              /* drops the first n bytes */
void buf_free(struct buf *b);
const char *buf_str(const struct buf *b);               /* never NULL */

/* Reads the whole file.  False, with the reason, if it is not a regular file (checked without blocking) or has more than `max`
 * bytes. */
struct err;
bool buf_read_file(struct buf *b, const char *path, size_t max, struct err *e);
/* The same, but also from a pipe, a FIFO or a device, which must reach its end within `patience_ms`. */
bool buf_read_stream(struct buf *b, const char *path, size_t max, int patience_ms, struct err *e);
/* Reads the rest of an open file of any kind. */
bool buf_read_fd(struct buf *b, int fd, const char *path, size_t max, struct err *e);
/* Appends the next line of a stream, without its newline.  A last line needs none.  After BUF_LINE_INTERRUPTED, which a signal causes, another
 * call continues the line; BUF_LINE_UNREADABLE leaves the reason in errno. */
enum buf_line { BUF_LINE, BUF_LINE_END, BUF_LINE_INTERRUPTED, BUF_LINE_TOO_LONG, BUF_LINE_UNREADABLE };
enum buf_line buf_read_line(struct buf *b, FILE *in, size_t max);
/* Writes all n bytes, with as many write() calls as needed; false with errno. */
bool buf_write(int fd, const void *bytes, size_t n);
/* Appends to a file, which is made if need be; false with errno.  Does not wait for the reader of a FIFO. */
bool buf_append_file(const char *path, const void *bytes, size_t n);
/* Replaces the file atomically by a new one that only its owner can read; false with errno, and the old file is unchanged. */
bool buf_replace_file(const char *path, const void *bytes, size_t n);
/* The same for the thread of the screen, which does not wait for the disk: if power fails soon, the file may be the old one, or empty. */
bool buf_replace_file_unsynced(const char *path, const void *bytes, size_t n);

#endif

/* Growable bytes.  Plain value, valid as {0}; the caller owns it and calls buf_free().  Allocation failure aborts.
 * When data is not NULL, data[len] is 0, so a buffer that holds text is also a C string. */
#ifndef Q35_BASE_BUF_H
#define Q35_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char  *data;
    size_t len, cap;
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_reserve(struct buf *b, size_t n);              /* room for n more bytes */
void buf_reset(struct buf *b);                          /* length 0, memory kept */
void buf_consume(struct buf *b, size_t n);              /* drops the first n bytes */
void buf_free(struct buf *b);
const char *buf_str(const struct buf *b);               /* never NULL */

/* The whole file, or false with the reason.  Refuses what is no regular file, without waiting for it, and more than `max` bytes. */
struct err;
bool buf_read_file(struct buf *b, const char *path, size_t max, struct err *e);
/* Likewise, but also from a pipe, a FIFO or a device, whose end comes within `patience_ms`. */
bool buf_read_stream(struct buf *b, const char *path, size_t max, int patience_ms, struct err *e);
/* What an open file of any kind still has. */
bool buf_read_fd(struct buf *b, int fd, const char *path, size_t max, struct err *e);
/* All n bytes, however often it takes; false with errno. */
bool buf_write(int fd, const void *bytes, size_t n);
/* A new file for the owner only that takes the place of an old one at once, or not at all: false with errno. */
bool buf_replace_file(const char *path, const void *bytes, size_t n);

#endif

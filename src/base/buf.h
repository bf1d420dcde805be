/* Growable bytes.  Plain value, valid as {0}; the caller owns it and calls buf_free().  Allocation failure aborts.
 * When data is not NULL, data[len] is 0, so a buffer that holds text is also a C string. */
#pragma once

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
void buf_add_random(struct buf *b, int n);                      /* n random letters and digits: 24 never come twice */
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_reserve(struct buf *b, size_t n);              /* room for n more bytes */
void buf_reset(struct buf *b);                          /* length 0, memory kept */
void buf_consume(struct buf *b, size_t n);              /* drops the first n bytes */
void buf_free(struct buf *b);
const char *buf_str(const struct buf *b);               /* never NULL */

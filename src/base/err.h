/* One sentence about a failure outside the program: the file, what was found, what was expected.
 * Plain value, valid as {0}.  A function that can fail in this way returns bool and takes a `struct err *` as its last argument. */
#ifndef Q35_BASE_ERR_H
#define Q35_BASE_ERR_H

#include <stdbool.h>

struct err {
    char msg[512];
};

/* Writes the sentence, cut at 511 bytes.  Control characters (bidirectional ones too) and invalid UTF-8 become '?'.  `e` may be
 * NULL.  Always returns false, for `return err_set(e, ...)`. */
bool err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

/* One sentence about what went wrong in the world outside: the file, what was found, what was expected.
 * Plain value, valid as {0}.  A function that can fail that way returns bool and takes one as its last argument. */
#ifndef Q35_BASE_ERR_H
#define Q35_BASE_ERR_H

#include <stdbool.h>

struct err {
    char msg[512];
};

/* Writes the sentence (cut at 511 bytes; controls, bidirectional ones too, and what is not UTF-8 become '?').  `e` may be NULL.
 * Always returns false, so that `return err_set(e, ...)` reads as what it is. */
bool err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

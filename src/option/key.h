/* A key in a file: what clients of our own server send over TCP, or what another server wants. */
#ifndef Q35_OPTION_KEY_H
#define Q35_OPTION_KEY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Reads it from a file that its owner alone can read: the first line.  Where there is no such file, one with a random key is made, if `makes`. */
bool key_read(const char *path, bool makes, struct buf *key, struct err *e);

#endif

/* Pictures as files of a message.  A file is a picture by its first bytes, whatever its name; an empty one by its name. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "responder/responder.h"
#include "session/transcript.h"

/* True if that file is there, can be read and begins like a picture. */
bool picture_is(const char *path);
/* Reads and decodes the file.  The bytes of the picture, in `a`, are those of the file, or, where other programs may see something else in it than
 * this one (it must be turned, is transparent, has 16 bits, is a WebP or a GIF), those of a PNG.  False with the reason. */
bool picture_read(struct entry_file *f, const char *path, struct arena *a, struct err *e);

/* The same for a file that was read, or made: `bytes` are changed. */
bool picture_take(struct entry_file *f, const char *path, struct buf *bytes, struct arena *a, struct err *e);
/* Returns the tokens of a picture for this responder; for servers with the limits that models are published with. */
int  picture_tokens(const struct entry_picture *p, const struct responder *r);

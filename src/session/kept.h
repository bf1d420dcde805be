/* The pictures of a conversation, kept beside its file: FILE.pictures/NAME, each once however often it is sent.  A name is made of a hash of the
 * bytes.  Later runs read them there; the file that the user attached is needed no more. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "session/transcript.h"

#define KEPT_FOLDER ".pictures"         /* after the name of the session file */

/* Appends the name under which such bytes are kept; `ending` is that of the file, "png". */
void kept_name(struct buf *out, struct text bytes, const char *ending);
/* Writes the pictures of an entry, or of all entries, that are not there yet.  False with the reason. */
bool kept_write_entry(const char *file, const struct entry *m, struct err *e);
bool kept_write(const char *file, const struct transcript *t, struct err *e);
/* Reads all pictures into the transcript.  Those that are lost stay empty, and `note` mentions them. */
void kept_read(const char *file, struct transcript *t, struct buf *note);
/* Follow the file: moves the pictures along, deletes them. */
void kept_move(const char *from, const char *to);
void kept_delete(const char *file);

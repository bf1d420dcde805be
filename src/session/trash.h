/* Deleted conversations: a directory beside the sessions, from which they can be restored for 30 days. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { TRASH_DAYS = 30 };

/* Moves a session to the trash, with the files that a front end kept beside it, and deletes its checkpoint.  False with the reason, for example that
 * a program has it open.  `name` becomes its name in the trash, which differs if that name is taken; `path` becomes the file. */
bool trash_put(struct buf *name, struct buf *path, struct err *e);
bool trash_take(const char *name, struct err *e);       /* restores a session */
/* Deletes for good the sessions that were put there more than TRASH_DAYS before now_s (Unix time); and files that killed programs left among the
 * sessions, a day later: those of a rewrite, empty ones, checkpoints without a session.  Skips files that a program has open. */
void trash_sweep(int64_t now_s);
/* Deletes checkpoints of sessions, the oldest first, until all of them have at most `room` bytes.  False: `own` alone has more, and was deleted. */
bool trash_trim(size_t room, const char *own);

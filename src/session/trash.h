/* Conversations that were deleted: a folder beside the sessions, from which they come back; after 30 days they are gone. */
#ifndef Q35_SESSION_TRASH_H
#define Q35_SESSION_TRASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { TRASH_DAYS = 30 };

/* Moves the session there, with what a front end kept beside it, and deletes its checkpoint.  False with the reason, which may be that it is open
 * somewhere.  `name` becomes its name in the trash, another one where that is taken; `path` gets the file. */
bool trash_put(struct buf *name, struct buf *path, struct err *e);
bool trash_take(const char *name, struct err *e);       /* it is a session again */
/* Deletes for good what was put there more than TRASH_DAYS before now_s (Unix time); and what programs that were killed left among
 * the sessions, a day after: files of a rewrite, files without a byte, checkpoints without a session.  Nothing that somebody has open. */
void trash_sweep(int64_t now_s);
/* Deletes checkpoints of sessions, the oldest first, until all of them have at most `room` bytes.  `own` goes only when it has more than that
 * alone: false. */
bool trash_trim(size_t room, const char *own);

#endif

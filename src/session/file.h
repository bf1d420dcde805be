/* The file of a session: JSON lines, a header and then the records of session/record.h.  A record is appended before the next step of the program, so
 * that it survives a crash of the program; a thread brings it to disk at once, without anybody waiting (base/syncer.h), so that it survives a power
 * failure.  Records are never changed: going back is a record, too. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "session/record.h"
#include "session/transcript.h"

struct session;
#define SESSION_CHECKPOINT ".checkpoint"        /* after the name of the session file */

/* The file of a session: a name lives in the state directory, anything with a slash is a path. */
bool session_path_of(const char *name, struct buf *path, struct err *e);
/* True if there is a session of this name or path that can be read. */
bool session_exists(const char *name, struct err *e);
/* True if the session can be read, but the file or its file system forbids writing. */
bool session_read_only(const char *name);
/* Makes a new file, readable by the owner alone; never replaces one.  name NULL: a name made from date and time. */
struct session *session_create(const char *name, const char *model, struct err *e);
/* Reads a file into the empty `t`, and opens it for more records.  A last line that was cut off is dropped; other damaged lines are skipped and stay
 * in the file; `note` mentions both.  An answer that was under way when the program ended is the last entry of the path, cut. */
struct session *session_open(const char *name, struct transcript *t, struct buf *note, struct err *e);
/* Only reads the file, which may be open elsewhere. */
bool session_read(const char *name, struct transcript *t, struct buf *note, struct err *e);
bool session_in_use(const char *name);          /* true if it is open, here or elsewhere */
void session_close(struct session *s);          /* waits for the disk */

/* Appends lines that record_*() made, and frees them.  False: these lines or earlier ones are not on the disk. */
bool session_put(struct session *s, struct buf *lines, struct err *e);
/* Appends a part of the answer under way, which is brought to disk about once a second. */
bool session_part(struct session *s, const struct answer_part *p, struct err *e);
/* Changes the model in the first line, which the next session_rewrite() writes.  False: the line names this model already. */
bool session_model(struct session *s, const char *model);
/* Replaces the whole file in one step.  False: the old file is still there. */
bool session_rewrite(struct session *s, const struct transcript *t, struct err *e);
/* The way to the disk. */
int  session_fd(const struct session *s);               /* readable when session_settled() should be called; -1: nothing is under way */
bool session_settled(struct session *s);                /* true if everything is on the disk, or has failed */
bool session_check(struct session *s, struct err *e);   /* false: something failed since the last call */
bool session_wait(struct session *s, struct err *e);    /* waits until it is settled; then the same */
const char *session_path(const struct session *s);
/* Returns the path of the checkpoint of the session in that file. */
void session_checkpoint(const char *file, struct buf *path);

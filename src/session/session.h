/* A transcript on disk: JSON lines, a header and then one record per message, each appended before the next step is taken: then it
 * outlives the program.  That it outlives the machine a thread of its own asks of the disk (base/syncer.h), at once and without being waited for.
 * What is written stays written: going back is a record too (session/record.h has all of them). */
#ifndef Q35_SESSION_SESSION_H
#define Q35_SESSION_SESSION_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "session/record.h"
#include "session/transcript.h"

struct session;
#define SESSION_CHECKPOINT ".checkpoint"        /* behind the name of its file */

/* The file of a session: a name lives in the state directory, anything with a slash is a path. */
bool session_path_of(const char *name, struct buf *path, struct err *e);
/* Whether there is one, by name or path, that could be read. */
bool session_exists(const char *name, struct err *e);
/* Whether it can be read, but the file or its file system forbids writing. */
bool session_read_only(const char *name);
/* A fresh file, readable by the owner alone; never an existing one.  name NULL: a name made from date and time. */
struct session *session_create(const char *name, const char *model, struct err *e);
/* Reads a file into the empty `t` and goes on writing to it.  A last line that was cut off is dropped, other damaged lines are
 * left out and stay in the file; both are told in `note`.  An answer that was under way when the program ended is the path's
 * last entry, cut. */
struct session *session_open(const char *name, struct transcript *t, struct buf *note, struct err *e);
/* Reads it only, also while it is open elsewhere. */
bool session_read(const char *name, struct transcript *t, struct buf *note, struct err *e);
bool session_in_use(const char *name);          /* open elsewhere, or here */
void session_close(struct session *s);          /* waits for the disk */

/* These write a record.  False: this one or one before it is not on the disk. */
bool session_append(struct session *s, const struct entry *m, struct err *e);
/* m has taken the place of the newest entry: in one step, so that one of the two is always there. */
bool session_replace(struct session *s, const struct entry *m, struct err *e);
/* The path ended with another entry in m's place: in one step likewise. */
bool session_beside(struct session *s, const struct entry *m, struct err *e);
/* Of the answer under way; the disk is asked to keep it about once a second. */
bool session_part(struct session *s, const struct answer_part *p, struct err *e);
bool session_system(struct session *s, const char *text, struct err *e);        /* "": none */
bool session_title(struct session *s, const char *text, struct err *e);         /* "": none */
bool session_keep(struct session *s, int n, struct err *e);             /* entries from n on leave the path */
bool session_forget(struct session *s, int n, struct err *e);           /* entry n, the newest of all, was never said */
bool session_go(struct session *s, int number, struct err *e);          /* the path ends with that entry */
bool session_mark(struct session *s, const struct entry *m, int file, struct err *e);    /* as it is marked now; file -1: the message */
bool session_add(struct session *s, const struct transcript *t, struct err *e);         /* to a fresh one: everything */
/* The first line names that model from the next session_rewrite() on.  False: it does so already. */
bool session_model(struct session *s, const char *model);
/* The whole file anew, in one step.  False: the old one is still there. */
bool session_rewrite(struct session *s, const struct transcript *t, struct err *e);
/* What becomes of it on the disk. */
int  session_fd(const struct session *s);               /* readable when that is to be asked; -1: nothing is under way */
bool session_settled(struct session *s);                /* all that was written is there, or has failed */
bool session_check(struct session *s, struct err *e);   /* false: something failed since the last call */
bool session_wait(struct session *s, struct err *e);    /* until it is settled; then the same */
const char *session_path(const struct session *s);
/* Where the checkpoint of the session in that file lies (chat/checkpointer.h). */
void session_checkpoint(const char *file, struct buf *path);

#endif

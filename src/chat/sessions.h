/* The conversations on disk, newest first. */
#ifndef Q35_CHAT_SESSIONS_H
#define Q35_CHAT_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct sessions_item {
    char   *name, *path, *title, *model;        /* name: what session_open() takes; title: as given, else the first message's first line */
    int64_t changed_s;                          /* Unix time */
    size_t  bytes, checkpoint_bytes;            /* of its file; on the disk for its checkpoint, 0: there is none */
    int     n_turns;                            /* on the path that is shown */
    char   *hit;                                /* with `find`: the line that matched, else NULL */
};
struct sessions { struct sessions_item *items; int n; };

/* All of them, or those whose text has all words of `find` (NULL: all; ASCII letters match in either case).  Files that cannot
 * be read, and those in which nothing was said, are left out. */
bool sessions_list(struct sessions *s, const char *find, struct err *e);
void sessions_free(struct sessions *s);
/* Their names alone, without reading them: of those that are there, or of those in the trash. */
void sessions_names(bool in_trash, void (*fn)(const char *name, void *arg), void *arg);
/* A line for people: "NAME  2 h ago  3 turns  TITLE  (checkpoint 5.3 MB)", and a second one with the hit.  Not yet safe for a terminal. */
void sessions_line(const struct sessions_item *item, int64_t now_s, struct buf *out);
bool sessions_list_trash(struct sessions *s, struct err *e);   /* of those that were deleted (chat/trash.h), likewise */
bool sessions_delete(const char *name, struct err *e);          /* for good; not one that is open somewhere */
/* Opens a session that nobody has open, so that nobody opens it until the file is closed.  -1, and why. */
int  sessions_hold(const char *name, struct buf *path, struct err *e);
size_t sessions_checkpoint_bytes(const char *name);             /* on the disk; 0: there is none */
/* What was said in it, as text. */
bool sessions_text(const char *name, struct buf *out, struct err *e);
bool sessions_rename(const char *name, const char *title, struct err *e);       /* likewise; "": none */
bool sessions_newest(struct buf *name);                         /* false: there is none */

#endif

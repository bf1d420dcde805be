/* The conversations on disk, newest first. */
#ifndef Q35_CHAT_SESSIONS_H
#define Q35_CHAT_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct sessions_item {
    char   *name, *path, *title, *model;        /* name: for session_open(); title: the user's, else the first line of the first message */
    int64_t changed_s;                          /* last change, Unix time */
    size_t  bytes, checkpoint_bytes;            /* size of its file; of its checkpoint on the disk, 0: it has none */
    int     n_turns;                            /* of the path that is shown */
    char   *hit;                                /* sessions_list() with `find`: the line that matched, else NULL */
};
struct sessions { struct sessions_item *items; int n; };

/* All sessions, or those whose text has all words of `find` (NULL: all sessions; ASCII letters match in either case).  Files that cannot
 * be read, and those without messages, are left out. */
bool sessions_list(struct sessions *s, const char *find, struct err *e);
void sessions_free(struct sessions *s);
/* Calls fn() with the name of each session, or of each in the trash.  Reads no files. */
void sessions_names(bool in_trash, void (*fn)(const char *name, void *arg), void *arg);
/* Appends a line for people: "NAME  2 h ago  3 turns  TITLE  (checkpoint 5.3 MB)", and a second one with the hit.  Control characters of the
 * title stay: the caller makes the line safe for a terminal. */
void sessions_line(const struct sessions_item *item, int64_t now_s, struct buf *out);
bool sessions_list_trash(struct sessions *s, struct err *e);    /* like sessions_list(): the sessions in the trash (chat/trash.h) */
bool sessions_delete(const char *name, struct err *e);          /* deletes it for good; refuses a session that a program has open */
/* Opens and locks the file of a session that no program has open.  Until the caller closes the descriptor no program can open the session.
 * -1 with the reason. */
int  sessions_hold(const char *name, struct buf *path, struct err *e);
size_t sessions_checkpoint_bytes(const char *name);             /* size of its checkpoint on the disk; 0: it has none */
/* The messages of a session as plain text. */
bool sessions_text(const char *name, struct buf *out, struct err *e);
bool sessions_rename(const char *name, const char *title, struct err *e);       /* "": no title; refuses a session that a program has open */
bool sessions_newest(struct buf *name);                         /* the session that was changed last; false: there is none */

#endif

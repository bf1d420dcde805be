/* The conversations on disk, newest first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct sessions_item {
    char   *name, *path, *title, *model;        /* name: for session_open(); title: the given one, else the first line of the first message */
    char   *apart;                              /* if several have this title: the last question, or the beginning of the answer to the only one */
    int64_t changed_s;                          /* last change, Unix time */
    size_t  bytes, checkpoint_bytes;            /* size of its file; of its checkpoint on the disk, 0: no checkpoint */
    int     n_turns;                            /* on the path that is shown */
    char   *hit;                                /* sessions_list() with `find`: the line that matched; NULL: no line did, or the name matched */
    struct { size_t at, n; } apart_in;          /* the line of the file that `apart` comes from; n 0: no line */
};
struct sessions { struct sessions_item *items; int n; };

/* All sessions, or those of which name, title and text together have all words of `find` (NULL: all sessions; ASCII letters match in either case).
 * Files that cannot be read, and those without messages, are left out. */
bool sessions_list(struct sessions *s, const char *find, struct err *e);
/* The sessions whose name begins with `typed`, or whose title has all its words.  For completion, which must not wait:
 * only the newest files are read; older sessions have a name alone (title NULL). */
void sessions_complete(struct sessions *s, const char *typed);
void sessions_free(struct sessions *s);
/* Calls fn() with the name of each session, or of each in the trash.  Reads no files. */
void sessions_names(bool in_trash, void (*fn)(const char *name, void *arg), void *arg);
/* Appends the title as lists show it: "TITLE", "TITLE: APART"; the name if it has no title. */
void sessions_label(const struct sessions_item *item, struct buf *out);
/* Appends a line for people: "NAME  today 14:02  3 turns  LABEL  (checkpoint 5.3 MB)", and a second one with the hit.  Control characters of the
 * title stay: the caller makes the line safe for a terminal. */
void sessions_line(const struct sessions_item *item, int64_t now_s, struct buf *out);
bool sessions_list_trash(struct sessions *s, struct err *e);    /* like sessions_list(): the sessions in the trash (session/trash.h) */
bool sessions_delete(const char *name, struct err *e);          /* deletes a session for good; refuses one that a program has open */
/* Opens and locks the file of a session that no program has open.  Until the caller closes the descriptor no program can open the session.
 * -1 with the reason. */
int  sessions_hold(const char *name, struct buf *path, struct err *e);
size_t sessions_checkpoint_bytes(const char *name);             /* size of its checkpoint on the disk; 0: no checkpoint */
/* Appends the messages of a session as plain text. */
bool sessions_text(const char *name, struct buf *out, struct err *e);
bool sessions_rename(const char *name, const char *title, struct err *e);       /* "": no title; refuses a session that a program has open */
bool sessions_newest(struct buf *name);                         /* finds the session that was changed last; false: there is no session */

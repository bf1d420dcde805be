/* The messages of one conversation, in memory.  Plain value, valid as {0}.
 *
 * They form a tree: another answer, or another wording of a message, stands beside the first one.  One path of it is shown:
 * entries[0..n), root first, which is all that most of the program looks at.  What leaves the path stays in `all`. */
#ifndef Q35_CHAT_TRANSCRIPT_H
#define Q35_CHAT_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/ids.h"
#include "base/message.h"
#include "chat/tokens.h"

/* What the user wants of the next prompts. */
enum mark { MARK_NONE, MARK_DROPPED, MARK_PINNED };      /* dropped: they do not hold it; pinned: a summary does not take its place */

struct entry_file {
    struct text path, text;     /* as it was named; what it held */
    size_t bytes;               /* its size on disk */
    int    tokens;              /* 0: not counted yet */
    bool   dropped;
};

struct entry {
    struct message m;           /* text in `mem` */
    struct text tool;           /* ROLE_TOOL: who answered */
    struct ids  ids;            /* ROLE_ASSISTANT: as they were sampled, stop id included; may be empty */
    struct tokens made;         /* ROLE_ASSISTANT: how they came about; empty: not known, or not looked at */
    bool        foreign;        /* its ids do not make its texts with the tokenizer of now: they are not used */
    bool        stopped;        /* the answer was ended by the user or by a limit */
    enum mark   mark;
    bool        summary;        /* ROLE_USER: it stands for what is before it on the path */
    bool        skipped;        /* left out of the request under way */
    bool        cut;            /* ... or by the end of the program: its ids may go on behind its text */
    struct entry_file *files;   /* ROLE_USER: chat/attach.h */
    int         n_files, cap_files, cap_calls;
    int         tokens;         /* of its text, without files and reasoning; 0: not counted yet */
    struct entry *parent;       /* NULL: a conversation begins with it */
    struct entry *shown;        /* the child that was on the path last, or NULL */
    struct entry *youngest;     /* the child that was made last, or NULL */
    struct entry *older;        /* the sibling that was made before it, or NULL */
    int         number, depth;  /* its places in `all`, and in `entries` whenever it is on the path */
    struct arena mem;
};

struct transcript {
    char *system;               /* NULL: none; not one of the entries */
    char *title;                /* NULL: none was given */
    struct entry **entries;     /* the path */
    struct entry **all;         /* as they were made: parents stand before children */
    struct entry *shown;        /* the root that was on the path last, or NULL */
    struct entry *youngest;     /* the root that was made last, or NULL */
    int n, cap, n_all, cap_all;
};

struct entry *transcript_add(struct transcript *t, enum role role, const char *content, size_t n);      /* at the end of the path */
void entry_reasoning(struct entry *m, const char *text, size_t n);
void entry_call(struct entry *m, const char *name, const char *arguments, size_t n);
void entry_tool(struct entry *m, const char *name);
void entry_file(struct entry *m, struct text path, size_t bytes, struct text text);
void entry_mark(struct entry *m, int file, enum mark mark);             /* file -1: the message itself; files are not pinned */
void transcript_system(struct transcript *t, const char *text);         /* NULL or "": none */
void transcript_title(struct transcript *t, const char *text);          /* likewise */
int  transcript_last_user(const struct transcript *t);                  /* index, or -1 */

void transcript_cut(struct transcript *t, int n);                       /* the path ends after n entries */
void transcript_go(struct transcript *t, const struct entry *end);      /* the path ends there; NULL: it is empty */
struct entry *transcript_next(const struct transcript *t);              /* what was shown behind the path's end, or NULL */
bool transcript_on_path(const struct transcript *t, const struct entry *m);
/* Entries of the same parent and role, m among them, in order: how many, and (if not NULL) which one m is, from 0. */
int  transcript_siblings(const struct transcript *t, const struct entry *m, int *which);
struct entry *transcript_sibling(const struct transcript *t, const struct entry *m, int which);
int  transcript_n_children(const struct transcript *t, const struct entry *m);
/* Forgets the path's last entry, which must be the newest of all: it was never said. */
void transcript_forget(struct transcript *t);
bool transcript_can_forget(const struct transcript *t);

void transcript_clear(struct transcript *t);                            /* no entries, no title; the system prompt stays */
void transcript_free(struct transcript *t);

#endif

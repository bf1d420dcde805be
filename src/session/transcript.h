/* The messages of one conversation, in memory.  Plain value, valid as {0}.
 *
 * They form a tree: another answer to a message, and another wording of a message, are siblings of the first one.  One path through the tree is
 * shown: entries[0..n), root first.  Most of the program looks at the path alone.  Entries that leave the path stay in `all`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer/tokens.h"
#include "base/buf.h"
#include "base/ids.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/text.h"

/* The fate of an entry in later prompts, set by the user.  Dropped: prompts leave it out; pinned: no summary replaces it. */
enum mark { ENTRY_PLAIN, ENTRY_DROPPED, ENTRY_PINNED };

/* A file that is a picture. */
struct entry_picture {
    struct text bytes;          /* of its file (struct media); empty: lost */
    struct text kept;           /* the name under which it is kept beside the session (session/kept.h) */
    int w, h;                   /* pixels */
};

struct entry_file {
    struct text path, text;     /* path as the user wrote it; text: the content when the message was sent */
    struct entry_picture *picture;      /* NULL: it is a text */
    size_t bytes;               /* size on disk */
    int    tokens;              /* of the text or picture; 0: not counted yet */
    bool   dropped;             /* later prompts leave it out */
};

struct entry {
    struct message m;           /* its texts lie in `mem` */
    struct text tool;           /* ROLE_TOOL: name of the tool */
    int64_t     time_s;         /* when it was sent or had come to its end, Unix time; 0: not known */
    struct ids  ids;            /* ROLE_ASSISTANT: ids as they were sampled, stop id included; may be empty */
    struct tokens made;         /* ROLE_ASSISTANT: how each token was chosen; empty: not known, or not worked out yet */
    bool        foreign;        /* the loaded tokenizer does not decode `ids` to the texts of `m`: the ids are not used */
    bool        stopped;        /* the user or a limit ended the answer */
    bool        cut;            /* the program ended in the middle of the answer: `ids` may hold more than the texts */
    enum mark   mark;
    bool        summary;        /* ROLE_USER: a summary, which replaces the entries before it in prompts */
    bool        skipped;        /* left out of the request under way */
    struct entry_file *files;   /* ROLE_USER: chat/sent.h */
    int         n_files, cap_files, cap_calls;
    int         tokens;         /* of its text, without files and reasoning; 0: not counted yet */
    struct entry *parent;       /* NULL: a root, the first entry of a conversation */
    struct entry *shown;        /* the child that was on the path last, or NULL */
    struct entry *youngest;     /* the child that was made last, or NULL */
    struct entry *older;        /* the sibling that was made just before it, or NULL */
    int         number, depth;  /* index in `all`; index in `entries` when it is on the path */
    struct arena mem;
};

struct transcript {
    char *system;               /* the system prompt, which is no entry; NULL: none */
    char *form;                 /* of answers (chat/forms.h); NULL: any text */
    char *title;                /* by the user or the model; NULL: none */
    bool named;                 /* there was a title, or the user wants none */
    struct entry **entries;     /* [n] the path */
    struct entry **all;         /* [n_all] every entry, in the order in which they were made: parents before children */
    struct entry *shown;        /* the root that was on the path last, or NULL */
    struct entry *youngest;     /* the root that was made last, or NULL */
    int n, cap, n_all, cap_all;
};

struct entry *transcript_add(struct transcript *t, enum role role, const char *content, size_t n);      /* appends an entry to the path */
void entry_reasoning(struct entry *m, const char *text, size_t n);
void entry_call(struct entry *m, const char *id, const char *name, const char *arguments, size_t n);
void entry_tool(struct entry *m, const char *name, const char *call_id);
void entry_attach(struct entry *m, const struct entry_file *f);          /* copies the file with its texts */
void entry_mark(struct entry *m, int file, enum mark mark);             /* file -1: the message itself; files cannot be pinned */
void transcript_system(struct transcript *t, const char *text);         /* sets the system prompt; NULL or "": none */
void transcript_form(struct transcript *t, const char *text);           /* sets the form of answers; NULL or "": any text */
void transcript_title(struct transcript *t, const char *text);          /* sets the title; NULL or "": none */
int  transcript_last_user(const struct transcript *t);                  /* index in `entries` of the last user message, or -1 */

void transcript_cut(struct transcript *t, int n);                       /* cuts the path after n entries */
void transcript_go(struct transcript *t, const struct entry *end);      /* the path leads from the root to `end`; NULL: it is empty */
struct entry *transcript_next(const struct transcript *t);              /* the child of the path's end that was on the path last, or NULL */
bool transcript_on_path(const struct transcript *t, const struct entry *m);
/* The siblings of m are the entries with its parent and its role, itself included, in the order in which they were made.  Returns how many;
 * *which (unless NULL): the index of m among them. */
int  transcript_siblings(const struct transcript *t, const struct entry *m, int *which);
struct entry *transcript_sibling(const struct transcript *t, const struct entry *m, int which);
int  transcript_n_children(const struct transcript *t, const struct entry *m);
/* Removes the last entry of the path from the tree.  It must be the newest of all, without children (transcript_can_forget()). */
void transcript_forget(struct transcript *t);
bool transcript_can_forget(const struct transcript *t);

void transcript_clear(struct transcript *t);                            /* no entries, no title; the system prompt stays */
void transcript_free(struct transcript *t);

/* ---- titles ---- */

enum { TITLE_COLUMNS = 60 };

/* Each appends one line of valid UTF-8 without control characters, or nothing. */
void title_clean(struct buf *out, struct text given);                   /* a title that the user typed */
/* A title that a model wrote: its first line without quotation marks around it and a full stop.  False: it is not a title. */
bool title_written(struct buf *out, const char *answer);
void title_of_message(struct buf *out, struct text message);            /* its first line, cut to TITLE_COLUMNS */
void title_of(struct buf *out, const struct transcript *t);             /* the given title, else that of the first message */

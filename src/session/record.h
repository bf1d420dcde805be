/* The lines of a session file (docs/formats.md), each a JSON object and a newline: writing them, and applying them to a transcript. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "session/transcript.h"

/* The text that an answer under way has gained since its last such line.  Offsets count from the beginning of the answer; if the answer continues a
 * stopped one, from the beginning of that one. */
struct answer_part {
    size_t reasoning_at, content_at;    /* bytes */
    int    ids_at;                      /* ids */
    struct text reasoning, content;
    int64_t time_s;                     /* now, Unix time */
    const int32_t *ids;
    int    n_ids;
};

/* An answer collected from these lines.  Plain value, valid as {0}. */
struct unfinished {
    bool any, no_ids;                   /* any: there was such a line; no_ids: one of them had none, so the ids are incomplete and not used */
    struct buf reasoning, content;
    struct ids ids;
    int64_t time_s;                     /* time of the last line; 0: not known */
};

/* Changes the model that a header line names.  False: it names this one already. */
bool record_header_model(struct buf *header, const char *model);

/* Each appends a line. */
void record_header(struct buf *out, const char *model);
void record_entry(struct buf *out, const struct entry *m);
void record_instead(struct buf *out, const struct entry *m);            /* entry m replaces the newest entry of all, which is an answer */
void record_beside(struct buf *out, const struct entry *m);             /* entry m is added at its depth of the path, and the path ends with it */
void record_system(struct buf *out, const char *text);                  /* the system prompt; "": none */
void record_form(struct buf *out, const char *text);                    /* the form of answers; "": any text */
void record_title(struct buf *out, const char *text);                   /* the title; "": none */
void record_keep(struct buf *out, int n);               /* cuts the path after n entries */
void record_forget(struct buf *out, int n);             /* cuts the path after n entries, and removes the next entry from the tree */
void record_part(struct buf *out, const struct answer_part *p);
void record_go(struct buf *out, int number);            /* the path ends with the entry of this number */
void record_mark(struct buf *out, const struct entry *m, int file);    /* the mark of the message, or (file >= 0) of that file of it */
/* All lines after the header that build this transcript, with its whole tree, from an empty one. */
void record_transcript(struct buf *out, const struct transcript *t);

/* Readers take a line without its newline.  Lines of unknown kinds are skipped: a later version may have written them. */
bool record_read_header(const char *line, size_t n, const char *path, struct err *e);
enum record_kind { RECORD_DAMAGED, RECORD_PART, RECORD_MOVE, RECORD_OTHER };    /* PART: of an answer; MOVE: changes the path */
/* Applies the line to `t`; collects parts of an answer in `u` until a line of another kind comes. */
enum record_kind record_read(const char *line, size_t n, struct transcript *t, struct unfinished *u);
/* For a damaged line: if it was a message, an empty entry takes its place, since later lines count entries.  False: it was no message. */
bool record_read_damaged(const char *line, size_t n, struct transcript *t, struct unfinished *u);
/* At the end of the file: makes an entry of the collected parts of an answer, and appends the lines that do the same to `out`.  False: there were no
 * parts. */
bool record_finish(struct transcript *t, struct unfinished *u, struct buf *out);
void unfinished_free(struct unfinished *u);

/* The lines of a session file (docs/formats.md), and what each does to a transcript.  A line is JSON and ends in a newline. */
#ifndef Q35_CHAT_RECORD_H
#define Q35_CHAT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "chat/transcript.h"

/* What the answer under way has gained since the last such line: from these bytes of its texts, from this one of its ids on.  An
 * answer that goes on with a stopped one counts from the beginning of that one. */
struct answer_part {
    size_t reasoning_at, content_at;
    int    ids_at;
    struct text reasoning, content;
    const int32_t *ids;
    int    n_ids;
};

/* An answer as far as such lines have it.  Plain value, valid as {0}. */
struct unfinished {
    bool any, no_ids;
    struct buf reasoning, content;
    struct ids ids;
};

/* Each appends a line. */
void record_header(struct buf *out, const char *model);
void record_entry(struct buf *out, const struct entry *m);
void record_instead(struct buf *out, const struct entry *m);            /* it takes the place of the newest answer of all */
void record_beside(struct buf *out, const struct entry *m);             /* the path ends before its place, and goes on with it */
void record_system(struct buf *out, const char *text);                  /* "": none */
void record_title(struct buf *out, const char *text);                   /* "": none */
void record_keep(struct buf *out, int n);               /* the path ends after n entries */
void record_forget(struct buf *out, int n);             /* likewise, and the entry behind them was never said */
void record_part(struct buf *out, const struct answer_part *p);
void record_go(struct buf *out, int number);            /* the path ends with that entry */
void record_mark(struct buf *out, const struct entry *m, int file);    /* of the message, or (file >= 0) of a file of it */
/* All lines behind the header that make an empty transcript into this one, tree and all. */
void record_transcript(struct buf *out, const struct transcript *t);

/* What the lines say, without their newline.  A kind of record that a later version may add is skipped. */
bool record_read_header(const char *line, size_t n, const char *path, struct err *e);
enum record_kind { RECORD_DAMAGED, RECORD_PART, RECORD_MOVE, RECORD_OTHER };    /* of an answer; of the path; the rest */
/* Does to `t` what the line says; parts of an answer gather in `u` until the path moves on. */
enum record_kind record_read(const char *line, size_t n, struct transcript *t, struct unfinished *u);
/* A damaged line that was a message keeps its place, because later lines count messages.  False: it was none. */
bool record_read_damaged(const char *line, size_t n, struct transcript *t, struct unfinished *u);
/* The end of the file: what there is of an answer becomes an entry, and `out` gets the lines that do so.  False: there is nothing. */
bool record_finish(struct transcript *t, struct unfinished *u, struct buf *out);
void unfinished_free(struct unfinished *u);

#endif

/* The lines of a session file (docs/formats.md), and what each does to a transcript.  A line is JSON and ends in a newline. */
#ifndef Q35_CHAT_RECORD_H
#define Q35_CHAT_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/transcript.h"

/* Each appends a line. */
void record_header(struct buf *out, const char *model);
void record_entry(struct buf *out, const struct entry *m);
void record_system(struct buf *out, const char *text);                  /* "": none */
void record_title(struct buf *out, const char *text);                   /* "": none */
void record_keep(struct buf *out, int n);               /* the path ends after n entries */
void record_forget(struct buf *out, int n);             /* likewise, and the entry behind them was never said */
void record_go(struct buf *out, int number);            /* the path ends with that entry */
/* All lines behind the header that make an empty transcript into this one, tree and all. */
void record_transcript(struct buf *out, const struct transcript *t);

/* What the lines say, without their newline.  False: the line is damaged.  A kind of record that a later version may add is
 * skipped. */
bool record_read_header(const char *line, size_t n, const char *path, struct err *e);
bool record_read(const char *line, size_t n, struct transcript *t);

#endif

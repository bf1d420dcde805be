/* Markdown while it streams: the source grows at its end, only its open last block is laid out again.  md4c does the parsing.
 * Any split of the same bytes gives the same lines, and all text but markdown's own marks is visible at every prefix.
 *
 * It is CommonMark with tables, strikethrough, task lists and bare URLs, shown so that a model's text stays what it wrote: its
 * line breaks and empty lines are kept, numbers and bullets are its own, mathematics and HTML stay source, and so do links by
 * reference, since what defines them may come later. */
#ifndef Q35_UI_TUI_MARKDOWN_H
#define Q35_UI_TUI_MARKDOWN_H

#include "ui/tui/lines.h"
#include "ui/tui/table.h"

struct markdown;

struct markdown *markdown_open(void);
void markdown_close(struct markdown *m);
void markdown_push(struct markdown *m, const char *text, size_t n);
/* No more text will come: nothing is held back. */
void markdown_end(struct markdown *m);
/* Both >= 1; lays out everything again when they differ.  Running text has `measure` columns, code and tables have all. */
void markdown_width(struct markdown *m, int columns, int measure);
void markdown_tables(struct markdown *m, enum table_shape shape);
/* For a page that is printed: code stands between its fences, its lines are not broken and keep their tabs. */
void markdown_fences(struct markdown *m, bool fenced);
void markdown_raw(struct markdown *m, bool raw);        /* the source as it is, wrapped */
const struct lines *markdown_lines(struct markdown *m); /* valid until the next call but this one */
/* So many of these lines stay as they are at this width, whatever is pushed. */
int  markdown_n_final(struct markdown *m);
/* Likewise, but of the open block as well: what these lines say stays.  Only the looks of a paragraph may still change, to a heading's.
 * How many they are depends on when one asks. */
int  markdown_n_settled(struct markdown *m);
/* Code blocks in order: their text (without fences) and language. */
int  markdown_n_blocks(struct markdown *m);
bool markdown_block(struct markdown *m, int i, struct buf *text, struct buf *language);
int  markdown_block_at(struct markdown *m, int line);   /* the code block that has this line, -1: none has */
/* The table whose lines hold `line`, as source; false: there is none. */
bool markdown_table_at(struct markdown *m, int line, struct buf *source);

#endif

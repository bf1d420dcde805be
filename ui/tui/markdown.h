/* Lays out markdown while it streams: the source grows at its end, and only the last, open block is laid out again.  md4c parses.  However the bytes
 * are split, the lines are the same; at any moment all text received is visible, except the marks of markdown.
 *
 * It is CommonMark with tables, strikethrough, task lists and bare URLs.  A model's text is shown as the model wrote it: line breaks, empty lines,
 * numbers and bullets are kept.  Formulas are made readable (formula.h), once they are complete; HTML and links by
 * reference, whose definition may come later, are shown as source. */
#pragma once

#include "ui/tui/lines.h"
#include "ui/tui/sheet.h"

struct markdown;

struct markdown *markdown_open(void);
void markdown_close(struct markdown *m);
void markdown_push(struct markdown *m, const char *text, size_t n);
/* Ends the text: the last block is laid out for good. */
void markdown_end(struct markdown *m);
/* Sets the width; both >= 1.  Running text gets `measure` columns, code and tables all.  Lays out everything again if a number has changed. */
void markdown_width(struct markdown *m, int columns, int measure);
void markdown_tables(struct markdown *m, enum table_shape shape);
/* For printing: code is shown between its fences, and its lines are not broken and keep their tabs. */
void markdown_fences(struct markdown *m, bool fenced);
void markdown_raw(struct markdown *m, bool raw);        /* shows the source as it is, wrapped */
const struct lines *markdown_lines(struct markdown *m); /* valid until the next call of another function */
/* How many of these lines, from the first on, no later text can change at this width. */
int  markdown_n_final(struct markdown *m);
/* The number of lines, from the first on, whose text no later text can change: the final ones and some of the open block.  A paragraph may still get
 * the looks of a heading.  The number depends on how much text has come. */
int  markdown_n_settled(struct markdown *m);
/* Code blocks in order: their text (without fences) and language. */
int  markdown_n_blocks(struct markdown *m);
bool markdown_block(struct markdown *m, int i, struct buf *text, struct buf *language);
int  markdown_block_at(struct markdown *m, int line);   /* the code block of this line; -1: none */
/* Appends the source of the table of this line; false: the line is in no table. */
bool markdown_table_at(struct markdown *m, int line, struct buf *source);

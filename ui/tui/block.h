/* Markdown before it is parsed: where its blocks end, and a copy without the text that the parser must not interpret.
 *
 * Finds where the outermost blocks of markdown begin and end, from one complete line after the other.  A block that has ended is laid out for good,
 * so decisions here never depend on later lines.  The parser (md4c) may see several blocks within one of these; but a block must not end here where
 * it continues for the parser.  The exception: a block of BLOCK_LONG bytes ends with its line, so that the time for each new byte is bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { BLOCK_LONG = 16384 };

enum block_kind {
    BLOCK_NONE,                 /* between blocks */
    BLOCK_TEXT,                 /* a paragraph, or a heading that is underlined */
    BLOCK_LINE,                 /* a heading, a rule */
    BLOCK_LIST,                 /* one item of a list: the next one is the next block */
    BLOCK_QUOTE,
    BLOCK_INDENTED,             /* code */
    BLOCK_TABLE,
    BLOCK_MATH,
    BLOCK_FENCE,                /* the kinds from here on are shown line by line as they are */
    BLOCK_HTML,
};

struct block {                  /* valid as {0} */
    enum block_kind kind;
    int  n_lines;               /* lines so far */
    bool blank;                 /* the last line is blank */
    char mark;                  /* fence: ` or ~; list: the bullet, or the character after the number */
    int  count;                 /* fence: length of the mark */
    int  indent;                /* columns before the mark */
    int  content;               /* list: column where the item's content begins */
    int  opens;                 /* math: bytes that open it */
    const char *end;            /* math, html: the text that ends the block */
    bool header;                /* text: its only line has a '|' */
    size_t bytes;               /* bytes so far */
    int  left, next_left;       /* left: the block is a part of a long list item whose content begins in this column; next_left: for the next block */
};

enum block_step {
    BLOCK_CONTINUES,            /* the line belongs to the block */
    BLOCK_ENDS_BEFORE,          /* the line begins the next block: call again with it, and a block {.left = next_left} */
    BLOCK_ENDS_AFTER,           /* the line is the block's last */
};

enum block_step block_step(struct block *b, const char *line, size_t n);

/* Length of the first line of s[0..n) with its newline (\n, \r\n); 0: the line is not complete.  ended: no more bytes will come. */
size_t block_line(const char *s, size_t n, bool ended);
bool block_is_blank(const char *line, size_t n);
/* Length of a fence's info string, without blanks around it; *at: where it begins. */
size_t block_info(const char *line, size_t n, size_t *at);

/* --- the copy for the parser --------------------------------------------------------------------------------------- */

/* A copy of markdown, in which text that it must not interpret is replaced.  What is shown is taken from the source, at the places
 * that the parser found, so replacements never show. */

struct copy_patch;
struct copy {                           /* valid as {0} */
    struct buf text;
    struct copy_patch *patches;
    int n_patches;
};

#define COPY_NO_PLACE ((size_t)-1)

/* Replaces mathematics ($x$, $$x$$, \(x\), \[x\]) by letters, so that no emphasis or list is found in it; makes text of link definitions, since a
 * block does not see those of other blocks; and makes letters of NUL bytes, vertical white space and carriage returns without a newline.  table: the
 * source is a table with its delimiter row in the second line; that row and empty cells ("||") are rewritten in the form that md4c needs. */
void copy_make(struct copy *c, const char *s, size_t n, bool table);
/* Maps the n bytes at text.data[at] to their place in the source; COPY_NO_PLACE: they are, or contain, a replacement. */
size_t copy_place(const struct copy *c, size_t at, size_t n);
/* Returns the end of the mathematics that begins at s[i], i < n; 0: no mathematics begins there. */
size_t copy_math_end(const char *s, size_t n, size_t i);
/* Length of the first part of the n bytes at text.data[at], n > 0, that is in the source as one piece, or that is one replacement. */
size_t copy_part(const struct copy *c, size_t at, size_t n);
void copy_free(struct copy *c);

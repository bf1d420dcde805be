/* Where the outermost blocks of markdown begin and end, a complete line at a time.  A block that has ended is laid out for good,
 * so what is told here never depends on a later line.  Where this and the parser see different blocks inside of one, the parser
 * is right; a block only must not end where the parser would see one that goes on.  The exception is a block of BLOCK_LONG bytes:
 * it ends with a line, so that what every new byte costs has a bound. */
#ifndef Q35_UI_TUI_BLOCK_H
#define Q35_UI_TUI_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

enum { BLOCK_LONG = 16384 };

enum block_kind {
    BLOCK_NONE,                 /* between blocks */
    BLOCK_TEXT,                 /* a paragraph, or a heading that is underlined */
    BLOCK_LINE,                 /* a heading, a rule */
    BLOCK_LIST,                 /* one item of a list: the next one is the next block */
    BLOCK_QUOTE,
    BLOCK_INDENTED,             /* code */
    BLOCK_TABLE,
    BLOCK_FENCE,                /* the kinds from here on are shown line by line as they are */
    BLOCK_MATH,
    BLOCK_HTML,
};

struct block {                  /* valid as {0} */
    enum block_kind kind;
    int  n_lines;               /* so far */
    bool blank;                 /* the last one is */
    char mark;                  /* fence: ` or ~; list: the bullet, or what stands behind the number */
    int  count;                 /* fence: length */
    int  indent;                /* columns before the mark */
    int  content;               /* list: column of what belongs to the item */
    const char *end;            /* math, html: what ends it */
    bool header;                /* text: its only line has a '|' */
    size_t bytes;               /* so far */
    int  left, next_left;       /* of a part of a long list: columns of the item it goes on in; the same for the next block */
};

enum block_step {
    BLOCK_GOES_ON,              /* the line belongs to it */
    BLOCK_ENDS_BEFORE,          /* it does not; the next block begins with this line (give it again, with {.left = next_left}) */
    BLOCK_ENDS_AFTER,
};

enum block_step block_step(struct block *b, const char *line, size_t n);

/* Bytes of the first line of s[0..n) with its newline (\n, \r\n); 0: it is not complete.  `ended`: no more bytes will come. */
size_t block_line(const char *s, size_t n, bool ended);
bool block_is_blank(const char *line, size_t n);
/* The place of a fence's info string; its length, without blanks around it. */
size_t block_info(const char *line, size_t n, size_t *at);

#endif

/* Text that was laid out for a width: lines of runs of one look, each with its place in the source.
 * Positions in the source are bytes of whatever text the lines were made from. */
#ifndef Q35_UI_TUI_LINES_H
#define Q35_UI_TUI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/cells.h"
#include "ui/tui/look.h"

#define LINES_NO_SOURCE UINT32_MAX      /* a run that the source does not have: a bullet, padding, a rule */

struct run {
    uint32_t at, n;             /* bytes of lines.text */
    uint32_t source;            /* where they begin in the source, where they stand unchanged; or LINES_NO_SOURCE */
    struct look look;
};

struct line {
    uint32_t first, n_runs;     /* of lines.runs */
    uint32_t source;            /* the line's place in the source, for anchors: never decreases from line to line */
    int32_t  block;             /* code block number, from 0; -1: none */
    uint16_t indent;            /* columns before the first run */
    bool     soft;              /* goes on from the line above, which was broken for the width */
};

struct lines {
    struct buf   text;
    struct run  *runs;
    struct line *lines;
    int n_runs, n, cap_runs, cap;
};

void lines_reset(struct lines *l);                      /* keeps the memory */
void lines_free(struct lines *l);
/* A new line; what follows goes to it.  A source before that of the line above, or LINES_NO_SOURCE, becomes the latter. */
struct line *lines_begin(struct lines *l, size_t source);
/* Joins the run before it where look and source go on. */
void lines_add(struct lines *l, struct look look, const char *text, size_t n, size_t source);
void lines_cut(struct lines *l, int n);                 /* keeps the first n lines */
/* Adds what a line holds (not its indent) to the last line, `marks` on top of its looks. */
void lines_add_line(struct lines *l, const struct lines *from, int line, uint8_t marks);
void lines_append(struct lines *l, const struct lines *more, size_t shift);     /* sources of `more` are moved by `shift` */

/* Appends line `line` of `text`, broken for `columns` (>= 1).  Lines break at blanks, which vanish, beside wide glyphs and at
 * glyphs of no width; a word longer than a line breaks anywhere, after a '/' if there is one,
 * then maybe on the line where it begins.  Tabs become blanks, up to the
 * next multiple of 4 columns (8 in LINES_CODE). */
enum lines_break {
    LINES_WORDS,
    LINES_ANYWHERE,             /* at the edge only, and no blank vanishes */
    LINES_CODE,
    LINES_WHOLE,                /* not at all, and tabs stay tabs */
};
#define LINES_GOES_ON "\xE2\x86\xB3 "   /* before the rest of a line of code or output that was broken */
enum { LINES_LEAST_SIGNED = 20 };       /* columns from which there is room for it */
struct lines_margin {           /* what stands at the left: lines of another text, -1: nothing.  `columns` counts it as well */
    const struct lines *of;
    int first, rest;
};
void lines_fill(struct lines *l, const struct lines *text, int line, enum lines_break how, struct lines_margin margin, int columns);
/* The same for plain text with newlines; continuation lines get `indent`. */
void lines_wrap(struct lines *l, struct look look, const char *text, size_t n, size_t source, int columns, int indent);

int  lines_columns(const struct lines *l, int line);    /* with its indent; tabs count as 1 */
void lines_draw(const struct lines *l, int line, struct cells *c, struct area a, int row);
void lines_text(const struct lines *l, int line, struct buf *out);      /* what it shows, without looks */

#endif

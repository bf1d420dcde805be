/* Text laid out for a width: lines of runs, each with one look and its place in the source, the text from which the lines were made.  Places in the
 * source are in bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/cells.h"
#include "ui/tui/look.h"

#define LINES_NO_SOURCE UINT32_MAX      /* place of a run that is not in the source: a bullet, padding, a rule */

struct run {
    uint32_t at, n;             /* bytes of lines.text */
    uint32_t source;            /* place of these bytes in the source, which has them unchanged; or LINES_NO_SOURCE */
    struct look look;
};

struct line {
    uint32_t first, n_runs;     /* of lines.runs */
    uint32_t source;            /* place of the line in the source; never decreases from line to line */
    int32_t  block;             /* number of its code block, from 0; -1: none */
    uint16_t indent;            /* columns before the first run */
    bool     soft;              /* continues the line above, which was broken because of the width */
};

struct lines {
    struct buf   text;
    struct run  *runs;
    struct line *lines;
    int n_runs, n, cap_runs, cap;
};

void lines_reset(struct lines *l);                      /* keeps the memory */
void lines_free(struct lines *l);
/* Begins a new line.  If `source` is before that of the line above, or LINES_NO_SOURCE, the line gets that of the line above. */
struct line *lines_begin(struct lines *l, size_t source);
/* Adds text to the last line.  It joins the run before it if both have the same look and adjoin in the source. */
void lines_add(struct lines *l, struct look look, const char *text, size_t n, size_t source);
void lines_cut(struct lines *l, int n);                 /* keeps the first n lines */
/* Adds the runs of a line, without its indent, to the last line, with `marks` added to their looks. */
void lines_add_line(struct lines *l, const struct lines *from, int line, uint8_t marks);
void lines_append(struct lines *l, const struct lines *more, size_t shift);     /* moves the places of `more` in the source by `shift` */

/* How lines_fill() breaks a line.  Tabs become blanks, up to the next multiple of 4 columns (8 in LINES_CODE). */
enum lines_break {
    LINES_WORDS,                /* at blanks, which vanish, beside wide glyphs and at glyphs without width; a word longer than a line breaks
                                 * anywhere, after a '/' if there is one, perhaps on the line where it begins */
    LINES_ANYWHERE,             /* only at the edge, and no blank vanishes */
    LINES_CODE,                 /* the same, with tabs of 8 columns */
    LINES_WHOLE,                /* not at all, and tabs stay tabs */
};
#define LINES_CONTINUED "\xE2\x86\xB3 "   /* before the rest of a line of code or output that was broken */
enum { LINES_LEAST_SIGNED = 20 };       /* fewest columns for that sign */
struct lines_margin {           /* the left margin, a part of the columns: line `first` of `of`, then line `rest`; -1: none */
    const struct lines *of;
    int first, rest;
};
/* Appends line `line` of `text`, broken for `columns` (>= 1). */
void lines_fill(struct lines *l, const struct lines *text, int line, enum lines_break mode, struct lines_margin margin, int columns);
/* The same for plain text with newlines; continuation lines get `indent`. */
void lines_wrap(struct lines *l, struct look look, const char *text, size_t n, size_t source, int columns, int indent);

int  lines_columns(const struct lines *l, int line);    /* columns of a line with its indent; tabs count as 1 */
void lines_draw(const struct lines *l, int line, struct cells *c, struct area a, int row);
void lines_text(const struct lines *l, int line, struct buf *out);      /* appends the text of a line */

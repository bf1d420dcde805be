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
    uint16_t indent;            /* columns before the first run */
    int16_t  block;             /* code block number, from 0; -1: none */
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
struct line *lines_begin(struct lines *l, size_t source);               /* a new line; what follows goes to it */
void lines_add(struct lines *l, struct look look, const char *text, size_t n, size_t source);
void lines_cut(struct lines *l, int n);                 /* keeps the first n lines */
void lines_append(struct lines *l, const struct lines *more, size_t shift);     /* sources of `more` are moved by `shift` */
/* Breaks plain text at words for `columns`, keeping its newlines; continuation lines get `indent`.  Words longer than a line
 * break anywhere. */
void lines_wrap(struct lines *l, struct look look, const char *text, size_t n, size_t source, int columns, int indent);
void lines_draw(const struct lines *l, int line, struct cells *c, struct area a, int row);
void lines_text(const struct lines *l, int line, struct buf *out);      /* what it shows, without looks */

#endif

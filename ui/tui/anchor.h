/* Glyphs whose columns terminals do not agree about, kept in the columns that they have here.  curses draws placeholders in their
 * place, private characters of one column each; on their way to the terminal these become the glyph, with blanks below it and the
 * cursor set behind it.  So a terminal with another table shows a glyph too wide or too narrow, and nothing beside it moves. */
#ifndef Q35_UI_TUI_ANCHOR_H
#define Q35_UI_TUI_ANCHOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/glyph.h"

struct anchor { struct glyph glyph; int col; };

/* {0} is a valid start. */
struct anchors {
    struct anchor *at;          /* [n] */
    int32_t *slots;             /* by hash: index into `at` plus 1, or 0 */
    int n;
};

void anchors_free(struct anchors *a);
/* Whether `n` more may come; if not: anchors_clear, and draw everything anew. */
bool anchors_room(const struct anchors *a, int n);
void anchors_clear(struct anchors *a);
/* The placeholder of the first column of a glyph that stands at `col`; the next code point is that of the second.  The same glyph
 * at the same column always has the same one, so that curses sees what has changed.  0: there is no room. */
uint32_t anchor_code(struct anchors *a, const struct glyph *g, int col);
/* Appends to `out` what curses has drawn for a screen of `cols` columns, placeholders replaced.  right(n) is what moves the
 * terminal's cursor right by n columns. */
void anchors_expand(const struct anchors *a, const char *s, size_t n, int cols, const char *(*right)(int n), struct buf *out);

#endif

/* Keeps glyphs in place whose width differs between terminals.  curses draws placeholders for them, private characters of one column each.  On the
 * way to the terminal a placeholder becomes blanks, the glyph on top of these, and an order that sets the cursor after the glyph.  So a terminal
 * with another width shows the glyph too wide or too narrow, but everything beside it stays where it belongs. */
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
/* True if there is room for n more glyphs.  If not, the caller calls anchors_clear() and draws the whole screen. */
bool anchors_room(const struct anchors *a, int n);
void anchors_clear(struct anchors *a);
/* The placeholder for the first column of a glyph at `col`; the next code point is that for the second column.  The same glyph at the same column
 * always gets the same placeholder, so that curses notices changes.  0: there is no room. */
uint32_t anchor_code(struct anchors *a, const struct glyph *g, int col);
/* Appends to `out` the n bytes that curses has drawn for a screen of `cols` columns, with placeholders replaced.  right(n): the order that moves
 * the terminal's cursor right by n columns. */
void anchors_expand(const struct anchors *a, const char *s, size_t n, int cols, const char *(*right)(int n), struct buf *out);

#endif

/* Pictures on a terminal, as bytes.  A picture covers cells; what is sent for one row of them, or for several at once, depends on what the terminal
 * has said that it can show.  Knows no terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "chat/thumbs.h"

enum graphics {
    GRAPHICS_NONE,
    GRAPHICS_BLOCKS,                    /* half blocks in colours: text like any other */
    GRAPHICS_KITTY,                     /* the picture is sent once; then rows of placeholder characters, which are text */
    GRAPHICS_ITERM,                     /* a file at a place, whole */
    GRAPHICS_SIXEL,                     /* pixels at a place */
};

/* Cells that a picture covers: row `part` of `rows`, from column `col` on. */
struct strip { uint32_t number; int part, rows, col, cols; };

enum { GRAPHICS_MOST_ROWS = 8, GRAPHICS_MOST_COLS = 32 };

/* Returns the cells of a picture of w x h pixels, a cell being twice as high as wide. */
void graphics_size(int w, int h, int *rows, int *cols);

/* Append what shows row s->part: half blocks in 24 bits or in 256 colours; placeholders of kitty, for an image that was sent with
 * this id, 1 to 255. */
void graphics_blocks(struct buf *out, const struct thumb *t, const struct strip *s, bool rgb);
void graphics_kitty_row(struct buf *out, const struct strip *s, int id);
/* Appends the picture for kitty, to be shown in s->rows x s->cols cells by placeholders; `tmux`: wrapped for the terminal around tmux. */
void graphics_kitty(struct buf *out, const struct thumb *t, const struct strip *s, int id, bool tmux);
void graphics_kitty_delete(struct buf *out, int id, bool tmux);
/* Append n rows from s->part on, at the cursor, in cells of cell_w x cell_h pixels (sixel); the whole picture (iTerm2). */
void graphics_sixel(struct buf *out, const struct thumb *t, const struct strip *s, int n, int cell_w, int cell_h);
void graphics_iterm(struct buf *out, const struct thumb *t, const struct strip *s);

/* The line to the terminal: reads raw bytes, writes and counts bytes, leaves the line as it was found, and puts glyphs of disputed width in their
 * place.  Knows no curses.  Only one line may be
 * taken at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "base/buf.h"
#include "base/err.h"
#include "ui/tui/cells.h"

struct tty {
    int    in, out;
    bool   gone;                /* hung up: no more input or output */
    size_t sent;                /* bytes written */
    bool   own_out;             /* `out` was opened again here, so that it never blocks */
    struct buf late;            /* bytes that the terminal has not accepted yet */
    struct termios found;       /* settings of the line before tty_take() */
};

bool tty_open(struct tty *t, int in, int out, struct err *e);
void tty_close(struct tty *t);
/* Sets the bytes that restore the terminal; copied, at most 512.  May be called at any time. */
void tty_restore_with(const char *restore, size_t n);
/* Makes the line raw: every byte is a key, also Ctrl-C, and written bytes are not changed.  From now on, however the program ends (exit, abort, a
 * fault, a signal that kills), the bytes of tty_restore_with() are written and the line's settings are restored. */
void tty_take(struct tty *t);
/* Writes these bytes and restores the settings.  tty_give_back_now() may be called in a signal handler, and twice. */
void tty_give_back(struct tty *t);
void tty_give_back_now(void);
/* Writes without waiting long, since a terminal may accept nothing for hours: after a moment the rest is kept for tty_ready(). */
void tty_write(struct tty *t, const char *bytes, size_t n);
bool tty_ready(struct tty *t);                          /* writes the rest; true if nothing is left and another write would not wait */
int  tty_read(struct tty *t, char *bytes, size_t size); /* returns the number of bytes; 0: no input now; -1: hung up */

/* --- glyphs whose width differs ------------------------------------------------------------------------------------ */

/* Keeps glyphs in place whose width differs between terminals.  curses draws placeholders for them, private characters of one column each.  On the
 * way to the terminal a placeholder becomes blanks, the glyph on top of these, and an order that sets the cursor after the glyph.  So a terminal
 * with another width shows the glyph too wide or too narrow, but everything beside it stays where it belongs. */

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

/* The line to the terminal: reads raw bytes, writes and counts bytes, and leaves the line as it was found.  Knows no curses.  Only one line may be
 * taken at a time. */
#ifndef Q35_UI_TUI_TTY_H
#define Q35_UI_TUI_TTY_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/buf.h"
#include "base/err.h"

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

#endif

/* The line to the terminal: raw bytes in, bytes out and counted, and the promise to leave it as it was found.  Knows no curses.
 * One at a time may be taken. */
#ifndef Q35_UI_TUI_TTY_H
#define Q35_UI_TUI_TTY_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/buf.h"
#include "base/err.h"

struct tty {
    int    in, out;
    bool   gone;                /* hung up: nothing more comes or goes */
    size_t sent;                /* bytes written */
    bool   own_out;             /* out is a description of our own, which never blocks */
    struct buf late;            /* what the terminal has not taken yet */
    struct termios found;       /* how the line was when it was taken */
};

bool tty_open(struct tty *t, int in, int out, struct err *e);
void tty_close(struct tty *t);
/* What will be written to restore the terminal; copied, up to 512 bytes.  May be called at any time. */
void tty_restore_with(const char *restore, size_t n);
/* Raw: every byte is a key, Ctrl-C too, and no byte that is written is changed.  From here on, whatever way the program ends
 * (exit, abort, a fault, a signal that kills), those bytes are written and the line is as it was found. */
void tty_take(struct tty *t);
/* Writes them and gives the line back.  tty_give_back_now() may be called in a signal handler, and twice. */
void tty_give_back(struct tty *t);
void tty_give_back_now(void);
/* A terminal that takes nothing, and may do so for hours, holds nobody up: after a moment the rest waits for tty_ready(). */
void tty_write(struct tty *t, const char *bytes, size_t n);
bool tty_ready(struct tty *t);                          /* nothing waits, and a write would not */
int  tty_read(struct tty *t, char *bytes, size_t size); /* -1: hung up; 0: nothing is there */

#endif

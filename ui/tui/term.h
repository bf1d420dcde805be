/* The terminal: the only user of curses.  One at a time.  Takes screens of cells, sends what has changed; reads bytes.
 *
 * Whatever way the program ends (exit, abort, a fault, a signal), the terminal is left as it was found.
 *
 * A frame leaves in one write.  The screen is erased only when it is taken, resized, or damaged (term_redraw).  A row that holds
 * an emoji, or what else terminals give different columns, is sent whole when it changes behind that, so that nothing wrong stays.  Signals are left
 * to the caller: after SIGWINCH ask term_size() and draw a screen of that size. */
#ifndef Q35_UI_TUI_TERM_H
#define Q35_UI_TUI_TERM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "ui/tui/cells.h"
#include "ui/tui/look.h"

struct term;

/* By terminfo.  RGB colours of a theme are sent as they are only with TERM_TRUE (TERM=xterm-direct and the like); with fewer the
 * nearest is.  With TERM_MONO the theme "mono" is used whatever was asked for: its marks tell what colours would. */
enum term_colors { TERM_MONO, TERM_8, TERM_16, TERM_256, TERM_TRUE };
struct term_options {
    const char *theme;          /* name of config/theme.def; NULL or unknown: the default */
    const char *color;          /* "auto", "always", "never"; NO_COLOR and the like count with auto */
    bool mouse, title, probe;   /* probe: ask the terminal what it can do; the answers come as input, see keys.h */
    int  fd;                    /* a terminal to use instead of standard input and output */
};

/* Whether a full screen can be had here; else false with why, in words for the user ("TERM is dumb"). */
bool term_usable(struct err *why);
/* The colours that the terminal of `fd` has, for who only prints on it; -1: it knows no bold either, or nobody knows it. */
int term_print_colors(int fd);
struct term *term_open(const struct term_options *o, struct err *e);
void term_close(struct term *t);
/* What the user should be told once: another terminal type is assumed, or no UTF-8.  NULL: nothing. */
const char *term_note(const struct term *t);
int  term_fd(const struct term *t);                     /* readable when the user typed */
/* -1: the terminal is gone (hang-up, end of file); 0: nothing there. */
int  term_read(struct term *t, char *bytes, size_t size);
void term_size(struct term *t, int *rows, int *cols);   /* asks the terminal */
bool term_ready(struct term *t);                        /* the terminal takes more: else draw later, and ask again */
bool term_waits(const struct term *t);                  /* part of what was drawn is not sent: term_ready() sends it */
void term_draw(struct term *t, const struct cells *c);  /* one frame; what did not change is not sent */
void term_redraw(struct term *t);                       /* the next frame is sent whole: the screen may be damaged */
void term_theme(struct term *t, const struct theme *theme);     /* NULL: the default */
void term_mouse(struct term *t, bool on);
void term_title(struct term *t, const char *text);      /* made safe; sent when it differs */
/* OSC 52, inside tmux also wrapped as tmux wants it; nothing tells whether it arrived.  False: too long for terminals
 * (TERM_CLIPBOARD_MAX), or this one knows no such thing; nothing was sent. */
enum { TERM_CLIPBOARD_MAX = 74994 };
bool term_clipboard(struct term *t, const char *text, size_t n);
/* Gives the terminal back to the shell (suspend, $EDITOR, printing), and takes it again. */
void term_leave(struct term *t);
void term_enter(struct term *t);
void term_report(struct term *t, int report, int value);        /* what keys.h heard: a known synchronised-update mode is used */
bool term_sets_apart(const struct term *t, enum style style);   /* it looks other than plain text, as far as this terminal can */
enum term_colors term_colors(const struct term *t);
size_t term_sent(const struct term *t);                 /* bytes written so far */

#endif

/* The terminal: the only user of curses.  A process can have one open.  It is given screens of cells and sends the changes; it reads bytes.
 *
 * Whatever way the program ends (exit, abort, a fault, a signal), the terminal is left as it was found.
 *
 * A frame is sent in one write.  The screen is erased only when it is taken, resized, or damaged (term_redraw()).  If a row changes right of an
 * emoji, or of another glyph whose width differs between terminals, the whole row is sent.  The caller handles signals: after SIGWINCH it calls
 * term_size() and draws a screen of that size. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "ui/tui/cells.h"
#include "ui/tui/look.h"

struct term;

/* How many colours the terminal has according to terminfo.  RGB colours of a theme are sent as they are only with TERM_TRUE (such as
 * TERM=xterm-direct), else the nearest colour is sent.  With TERM_MONO the theme is always "mono", which has marks in place of colours. */
enum term_colors { TERM_MONO, TERM_8, TERM_16, TERM_256, TERM_TRUE };
struct term_options {
    const char *theme;          /* name of config/theme.def; NULL or unknown: the default */
    const char *color;          /* "auto", "always", "never"; NO_COLOR and the like count with auto */
    bool pictures;              /* shows small copies of pictures, if the terminal has 256 colours; which way, it is asked */
    bool mouse, title, probe;   /* mouse: the program has it from the start; probe: query what the terminal can do; the replies come as input,
                                 * see keys.h */
    int  fd;                    /* a terminal to use instead of standard input and output */
};

/* True if this terminal can have a full screen; false sets the reason, in words for the user ("TERM is dumb"). */
bool term_usable(struct err *why);
/* The number of colours of the terminal at `fd`, for programs that only print; -1: it has no bold either, or its type is unknown. */
int term_print_colors(int fd);
struct term *term_open(const struct term_options *o, struct err *e);
void term_close(struct term *t);
/* A note for the user at the start: another terminal type is assumed, or the locale has no UTF-8.  NULL: no note. */
const char *term_note(const struct term *t);
int  term_fd(const struct term *t);                     /* readable when there is input */
/* Returns the number of bytes read; 0: no input now; -1: the terminal is gone (hang-up, end of file). */
int  term_read(struct term *t, char *bytes, size_t size);
void term_size(struct term *t, int *rows, int *cols);   /* queries the terminal */
bool term_ready(struct term *t);                        /* sends the rest of the last frame; false: the terminal is busy, draw later */
bool term_waits(const struct term *t);                  /* a part of the last frame is not sent yet: call term_ready() */
void term_draw(struct term *t, const struct cells *c);  /* one frame; sends only the changes */
void term_redraw(struct term *t);                       /* the screen may be damaged: the next frame is sent whole */
void term_theme(struct term *t, const struct theme *theme);     /* NULL: the default */
/* OFF and LENT leave the mouse to the terminal.  Many terminals then turn the wheel into Up and Down; OFF switches that off, too, where the terminal
 * has reported the mode.  All modes are restored at the end. */
/* Says where term_draw() finds the small copies of pictures; from then on rows that have a strip show it as the terminal can. */
void term_pictures(struct term *t, const struct thumb *(*find)(void *arg, uint32_t number), void *arg);
bool term_shows_pictures(const struct term *t);
enum term_mouse { TERM_MOUSE_OFF, TERM_MOUSE_ON, TERM_MOUSE_LENT };
void term_mouse(struct term *t, enum term_mouse mode);
/* Calls for attention: a bell, and a notification with this text if the terminal is known to show notifications. */
void term_call(struct term *t, const char *text);
void term_title(struct term *t, const char *text);      /* control characters are removed; sent only if it has changed */
/* Copies text to the clipboard with OSC 52, inside tmux also in tmux's wrapped form.  The terminal does not confirm.  False: the text is longer
 * than TERM_CLIPBOARD_MAX, or the terminal does not know OSC 52; nothing was sent. */
enum { TERM_CLIPBOARD_MAX = 74994 };
bool term_clipboard(struct term *t, const char *text, size_t n);
/* Gives the terminal back to the shell (suspend, $EDITOR, printing), and takes it back. */
void term_leave(struct term *t);
void term_enter(struct term *t);
void term_report(struct term *t, int report, int value);        /* handles a KEYS_REPORT of keys.h: which features to use */
bool term_sets_apart(const struct term *t, enum style style);   /* true if this terminal shows the style differently from plain text */
enum term_colors term_colors(const struct term *t);
size_t term_sent(const struct term *t);                 /* bytes written so far */

/* --- control sequences that carry text, appended to a buffer --- */


/* The forms of desktop notifications, by the number of their sequence. */
enum osc_notice { OSC_NOTICE_NONE, OSC_NOTICE_9, OSC_NOTICE_99, OSC_NOTICE_777 };
/* The form that the terminal shows, from the variables TERM, TERM_PROGRAM, LC_TERMINAL and TMUX, each of which may be NULL.  Inside tmux and screen
 * OSC_NOTICE_NONE, since they pass on the bell alone. */
enum osc_notice osc_notice(const char *term, const char *program, const char *lc_terminal, const char *tmux);
/* Notifies with at most 200 bytes of `text`, which need not be trusted. */
void osc_call(struct buf *out, enum osc_notice form, const char *text);

/* Gives text to other programs: an editor, a pager, the clipboard.
 *
 * Runs an editor or a pager in the terminal and waits for it.  The caller calls term_leave() before and term_enter() afterwards.  Ctrl-C in between
 * goes to the other program alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Edits the draft in $VISUAL, $EDITOR, vi or nano, by a file in $XDG_RUNTIME_DIR or /tmp that only the user can read.  The shell expands the
 * variable, so "emacs -nw" works.  False: the editor failed, or its file cannot be read; then `edited` is unchanged, and if the file has changed it
 * stays, and `e` says where. */
bool handoff_edit(const char *draft, struct buf *edited, struct err *e);
/* Shows a text in $PAGER or less, without its control characters. */
bool handoff_page(const char *text, size_t n, struct err *e);

/* Opens a file in the program that the desktop has for it (xdg-open, or open), and returns at once.  False with the reason: there is no such
 * program. */
bool handoff_open(const char *path, struct err *e);

/* --- the clipboard ------------------------------------------------------------------------------------------------- */

/* The most bytes that are sent to a terminal: 99,992 bytes of base64, which is a common limit. */
enum { CLIP_TERMINAL_MAX = 74994 };

/* Tries in this order: tmux (if TMUX is set), a program of the desktop (if WAYLAND_DISPLAY or DISPLAY is set and SSH_CONNECTION is not), the terminal
 * itself by fn() (NULL: it cannot), with `file` a file in the state directory.  Appends one sentence without newline to `message`; false: nothing
 * worked.  May wait 2 s for a program that hangs. */
bool clip_copy(const char *text, size_t n, void (*fn)(void *arg, const char *text, size_t n), void *arg, bool file, struct buf *message);

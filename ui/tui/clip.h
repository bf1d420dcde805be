/* Copies text to a place from which the user can paste it, and reports the place. */
#ifndef Q35_UI_TUI_CLIP_H
#define Q35_UI_TUI_CLIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* The most bytes that are sent to a terminal: 99,992 bytes of base64, which is a common limit. */
enum { CLIP_TERMINAL_MAX = 74994 };

/* Tries in this order: tmux (if TMUX is set), a program of the desktop (if WAYLAND_DISPLAY or DISPLAY is set and SSH_CONNECTION is not), the terminal
 * itself by fn() (NULL: it cannot), with `file` a file in the state directory.  Appends one sentence without newline to `message`; false: nothing
 * worked.  May wait 2 s for a program that hangs. */
bool clip_copy(const char *text, size_t n, void (*fn)(void *arg, const char *text, size_t n), void *arg, bool file, struct buf *message);

#endif

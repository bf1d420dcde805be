/* Copies text to where the user can paste it, and says where that is. */
#ifndef Q35_UI_TUI_CLIP_H
#define Q35_UI_TUI_CLIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Most that is given to a terminal: 99,992 bytes of base64, a customary limit. */
enum { CLIP_TERMINAL_MAX = 74994 };

/* The first that works of: tmux (TMUX is set), a program of the desktop (WAYLAND_DISPLAY or DISPLAY is set, SSH_CONNECTION is
 * not), the terminal itself through fn (NULL: it cannot), a file in the state directory.  Appends one sentence to `said`, without
 * an end of line; false: it went nowhere.  May wait 2 s for a program that hangs. */
bool clip_copy(const char *text, size_t n, void (*fn)(void *arg, const char *text, size_t n), void *arg, struct buf *said);

#endif

/* Control sequences that carry text, appended to a buffer. */
#ifndef Q35_UI_TUI_OSC_H
#define Q35_UI_TUI_OSC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Sets the window's title to at most 200 bytes of `text`, which need not be trusted. */
void osc_title(struct buf *out, const char *text);
/* Copies text to the clipboard (OSC 52).  Depending on its configuration tmux takes the plain form, or a form wrapped for the terminal around it:
 * with `tmux` both are sent. */
void osc_clipboard(struct buf *out, const char *text, size_t n, bool tmux);

#endif

/* Orders to the terminal that carry text: what to send, appended. */
#ifndef Q35_UI_TUI_OSC_H
#define Q35_UI_TUI_OSC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The window's title, of at most 200 bytes of text that anybody may have written. */
void osc_title(struct buf *out, const char *text);
/* Text for the clipboard (OSC 52).  tmux takes the plain form or the one wrapped for the terminal around it, as it is configured:
 * it gets both. */
void osc_clipboard(struct buf *out, const char *text, size_t n, bool tmux);

#endif

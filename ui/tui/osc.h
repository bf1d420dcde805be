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

/* The forms of desktop notifications, by the number of their sequence. */
enum osc_notice { OSC_NOTICE_NONE, OSC_NOTICE_9, OSC_NOTICE_99, OSC_NOTICE_777 };
/* The form that the terminal shows, from the variables TERM, TERM_PROGRAM, LC_TERMINAL and TMUX, each of which may be NULL.  Inside tmux and screen:
 * none, since they pass on the bell alone. */
enum osc_notice osc_notice(const char *term, const char *program, const char *lc_terminal, const char *tmux);
/* Notifies with at most 200 bytes of `text`, which need not be trusted. */
void osc_call(struct buf *out, enum osc_notice form, const char *text);

#endif

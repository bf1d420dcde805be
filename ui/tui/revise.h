/* Editing an earlier message in the input.  Nothing changes until the message is sent: messages that would leave the path are shown dim, and Esc,
 * Ctrl-C or an empty draft bring the former draft back. */
#ifndef Q35_UI_TUI_REVISE_H
#define Q35_UI_TUI_REVISE_H

#include "ui/tui/window.h"

/* Puts a message of the user into the input; when it is sent it becomes a sibling of the old one. */
void revise_begin(struct host *h, int message);
/* Brings the old message into view. */
void revise_show(struct host *h);
/* Ends editing and restores the former draft.  False: no message is being edited. */
bool revise_end(struct host *h);

#endif

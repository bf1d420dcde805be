/* Ctrl-C and Esc.  Nothing is ever destroyed: the first press closes an open window, else stops the answer under way, else puts the draft into the
 * history; only when there is nothing of these does the program end. */
#ifndef Q35_UI_TUI_STOP_H
#define Q35_UI_TUI_STOP_H

#include "ui/tui/window.h"

/* Does what Ctrl-C does; also called for SIGINT. */
void stop_interrupt(struct host *h);

#endif

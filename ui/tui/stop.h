/* Ctrl-C and Esc.  One rule: nothing is destroyed.  What is open closes first, then what runs stops, then the draft goes to the
 * history, and only then the program ends. */
#ifndef Q35_UI_TUI_STOP_H
#define Q35_UI_TUI_STOP_H

#include "ui/tui/window.h"

/* As Ctrl-C, which also comes as a signal. */
void stop_interrupt(struct host *h);

#endif

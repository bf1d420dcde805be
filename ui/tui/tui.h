/* The full-screen chat. */
#ifndef Q35_UI_TUI_TUI_H
#define Q35_UI_TUI_TUI_H

#include "chat/options.h"

/* Chats until the user leaves; returns the exit status.  Needs a terminal that term_usable() likes.  When the terminal goes away or
 * SIGTERM comes, what was said is kept and the program ends by that signal. */
int tui_run(struct options *o);

#endif

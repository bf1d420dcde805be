/* The full-screen chat. */
#ifndef Q35_UI_TUI_TUI_H
#define Q35_UI_TUI_TUI_H

#include "option/options.h"
#include "ui/prompt.h"

/* Chats until the user leaves, beginning with the message or draft `first`; returns the exit status.  term_usable() must be true.  When the terminal
 * goes away or SIGTERM comes, the conversation is saved and the program ends by that signal. */
int tui_run(struct options *o, const struct opening *first);

#endif

/* What windows do with the conversation as a whole. */
#ifndef Q35_UI_TUI_TALK_H
#define Q35_UI_TUI_TALK_H

#include "ui/tui/window.h"

/* To be called after a turn was begun (ok), or could not be, with the reason. */
void talk_began(struct host *h, bool ok, const struct err *e);
/* Stops the answer under way, as soon as the model notices. */
void talk_stop(struct host *h);
/* To be called after another conversation was loaded, or another path of it is shown. */
void talk_changed(struct host *h);

#endif

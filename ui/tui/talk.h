/* What happens to the conversation as a whole, whichever window began it. */
#ifndef Q35_UI_TUI_TALK_H
#define Q35_UI_TUI_TALK_H

#include "ui/tui/window.h"

/* A turn has begun; or failed to, and `e` says why. */
void talk_began(struct host *h, bool ok, const struct err *e);
/* The answer under way stops, as soon as the model notices. */
void talk_stop(struct host *h);
/* The conversation is another one now, or another path of it is shown. */
void talk_changed(struct host *h);

#endif

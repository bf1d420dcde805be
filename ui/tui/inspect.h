/* The tokens of an answer: how each was made, how likely it was, what it could have been instead. */
#ifndef Q35_UI_TUI_INSPECT_H
#define Q35_UI_TUI_INSPECT_H

#include "ui/tui/window.h"

/* Opens the list of the newest answer's tokens, or of the nth newest's. */
void inspect_answer(struct host *h, int nth);

#endif

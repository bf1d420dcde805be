/* The tokens of an answer: how each was chosen, its probability, and its alternatives. */
#ifndef Q35_UI_TUI_INSPECT_H
#define Q35_UI_TUI_INSPECT_H

#include "ui/tui/window.h"

/* Opens the list of tokens of the nth newest answer; 1: the newest. */
void inspect_answer(struct host *h, int nth);

#endif

/* Pastes go into the line that has the focus.  A paste so large that it may be a mistake opens a question first. */
#ifndef Q35_UI_TUI_PASTE_H
#define Q35_UI_TUI_PASTE_H

#include "ui/tui/cells.h"
#include "ui/tui/keys.h"

enum { PASTE_ASKS = 256 << 10 };        /* bytes of a paste that opens the question */

#endif

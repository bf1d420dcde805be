/* Pastes: text for whatever line is typed into.  What is so large that it may be a mistake asks first. */
#ifndef Q35_UI_TUI_PASTE_H
#define Q35_UI_TUI_PASTE_H

#include "ui/tui/cells.h"
#include "ui/tui/keys.h"

enum { PASTE_ASKS = 256 << 10 };        /* bytes from which on it asks */

#endif

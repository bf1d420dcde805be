/* Lists to choose from, which typing narrows: sessions, earlier messages, the tree of the conversation, addresses.  In the list of what fills the
 * context letters are keys instead. */
#ifndef Q35_UI_TUI_PICKER_H
#define Q35_UI_TUI_PICKER_H

#include "ui/tui/window.h"

enum picker_kind { PICK_SESSION, PICK_MESSAGE, PICK_NODE, PICK_URL, PICK_PART };

/* Opens a list; if it would be empty, shows a hint instead. */
void picker_open(struct host *h, enum picker_kind kind);
/* Opens the list of sessions, narrowed by these words. */
void picker_find(struct host *h, const char *words);

#endif

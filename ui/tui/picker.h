/* A list to choose from that narrows while one types: sessions, earlier messages, the tree of the conversation, addresses;
 * and what fills the context, where letters are keys instead. */
#ifndef Q35_UI_TUI_PICKER_H
#define Q35_UI_TUI_PICKER_H

#include "ui/tui/window.h"

enum picker_kind { PICK_SESSION, PICK_MESSAGE, PICK_NODE, PICK_URL, PICK_PART };

/* Opens that list; where there is nothing to choose from, a hint says so. */
void picker_open(struct host *h, enum picker_kind kind);
/* Opens the list of sessions in which all of the words were said; of all sessions when there are none. */
void picker_find(struct host *h, const char *words);

#endif

/* Pastes: text for whatever line is typed into.  What is so large that it may be a mistake asks first. */
#ifndef Q35_UI_TUI_PASTE_H
#define Q35_UI_TUI_PASTE_H

#include "ui/tui/cells.h"
#include "ui/tui/keys.h"

enum { PASTE_ASKS = 256 << 10, PASTE_ROWS = 2 };       /* bytes; rows of the question */

struct app;

void paste_take(struct app *a, const struct key_event *ev);             /* KEYS_PASTE, KEYS_PASTE_END */
void paste_draw(const struct app *a, struct cells *c, struct area at);  /* the question, in the input's place */

#endif

/* From the state of the chat to a screen of cells.  No terminal, no clock.  From top to bottom: transcript (with the panel at its
 * right), what a load or a long prompt is at, what waits, status, input; lists and the inspector stand over the transcript. */
#ifndef Q35_UI_TUI_VIEW_H
#define Q35_UI_TUI_VIEW_H

#include "ui/tui/app.h"
#include "ui/tui/cells.h"

enum { VIEW_MIN_ROWS = 4, VIEW_MIN_COLUMNS = 20 };      /* below that it only says so */

void view_draw(struct app *a, struct cells *c);         /* as large as it is */
void view_title(struct app *a, struct buf *out);        /* of the terminal's window: "q35chat: session · answering" */

#endif

/* Draws the state of the app into a screen of cells.  No terminal, no clock.  From top to bottom: transcript (with the panel at its right), progress
 * of loading or of a long prompt, queued messages, status line, input.  Lists and the inspector cover a part of the transcript. */
#ifndef Q35_UI_TUI_VIEW_H
#define Q35_UI_TUI_VIEW_H

#include "ui/tui/app.h"
#include "ui/tui/cells.h"

enum { VIEW_MIN_ROWS = 4, VIEW_MIN_COLUMNS = 20 };      /* a smaller screen only says that it is too small */

void view_draw(struct app *a, struct cells *c);         /* fills *c, whatever its size */
void view_title(struct app *a, struct buf *out);        /* the title of the terminal's window: "q35chat: session · answering" */

#endif

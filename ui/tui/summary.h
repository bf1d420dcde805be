/* What status line and panel say, gathered from the state.  Texts are valid until the next call or key. */
#ifndef Q35_UI_TUI_SUMMARY_H
#define Q35_UI_TUI_SUMMARY_H

#include "ui/tui/app.h"
#include "ui/tui/panel.h"
#include "ui/tui/status.h"

void summary_status(struct app *a, struct status *s);
void summary_panel(struct app *a, struct panel *p);

#endif

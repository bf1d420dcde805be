/* An earlier message in the draft.  Until it is sent nothing changes: what would leave the path is shown dim, and Esc, Ctrl-C or an
 * empty draft bring back what stood in the input before. */
#ifndef Q35_UI_TUI_REVISE_H
#define Q35_UI_TUI_REVISE_H

#include "ui/tui/window.h"

/* A message of the user comes into the input; sent, it stands beside the old one. */
void revise_begin(struct host *h, int message);
/* What it would take the place of is in view. */
void revise_show(struct host *h);
/* All is as it was.  False: it was so already. */
bool revise_end(struct host *h);

#endif

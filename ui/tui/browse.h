/* View mode: scrolling, folds, search, marks, copies, branches. */
#ifndef Q35_UI_TUI_BROWSE_H
#define Q35_UI_TUI_BROWSE_H

#include "ui/tui/window.h"

/* At which hit of a search one is.  False: nothing is searched. */
bool browse_search(const struct host *h, int *hit, int *n_hits);

#endif

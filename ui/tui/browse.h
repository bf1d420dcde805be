/* View mode: scrolling, folds, search, marks, copies, branches. */
#ifndef Q35_UI_TUI_BROWSE_H
#define Q35_UI_TUI_BROWSE_H

#include "ui/tui/window.h"

/* The current hit of the search, from 1, and the number of hits.  False: no search is under way. */
bool browse_search(const struct host *h, int *hit, int *n_hits);

#endif

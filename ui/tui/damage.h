/* The differences between the screen that is shown and the one that shall be shown. */
#ifndef Q35_UI_TUI_DAMAGE_H
#define Q35_UI_TUI_DAMAGE_H

#include "ui/tui/cells.h"

/* Whether two rows are the same. */
bool damage_none(const struct cell *shown, const struct cell *want, int cols);
/* Whether a row must be sent whole, since it changes at or right of an old or new glyph whose width differs between terminals. */
bool damage_spreads(const struct cell *shown, const struct cell *want, int cols);
/* By how many rows the rows from r on have moved up, as when text scrolls; 0: they have not.  Both screens must have the same size. */
int  damage_scrolled(const struct cells *shown, const struct cells *want, int r);

#endif

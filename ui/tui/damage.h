/* What differs between the screen that is shown and the one to show. */
#ifndef Q35_UI_TUI_DAMAGE_H
#define Q35_UI_TUI_DAMAGE_H

#include "ui/tui/cells.h"

/* Whether two rows are the same. */
bool damage_none(const struct cell *shown, const struct cell *want, int cols);
/* Whether a row must be sent whole: it changes at or behind a glyph, an old one or a new one, that terminals do not agree about. */
bool damage_spreads(const struct cell *shown, const struct cell *want, int cols);
/* By how many rows the rows from r on have moved up, as when text scrolls; 0: they have not.  The screens have one size. */
int  damage_scrolled(const struct cells *shown, const struct cells *want, int r);

#endif

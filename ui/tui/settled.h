/* Which lines of an open block no later text can change, so that they can be printed where printed lines stay. */
#ifndef Q35_UI_TUI_SETTLED_H
#define Q35_UI_TUI_SETTLED_H

#include <stdbool.h>

#include "ui/tui/sheet.h"

/* The number of such lines of the sheet, from its first line on.  source[from..to): its last block, so far. */
int settled_lines(const struct sheet *s, const char *source, size_t from, size_t to);
/* Whether a line can still become anything: a list item, a rule, a fence, text. */
bool settled_says_nothing(const char *line, size_t n);

#endif

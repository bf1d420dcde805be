/* Which lines of an open block no further text can change, so that they may be printed where nothing is ever rewritten. */
#ifndef Q35_UI_TUI_SETTLED_H
#define Q35_UI_TUI_SETTLED_H

#include <stdbool.h>

#include "ui/tui/sheet.h"

/* So many lines of the sheet, whose last block is source[from..to) as far as that is known. */
int settled_lines(const struct sheet *s, const char *source, size_t from, size_t to);
/* The beginning of a line that may yet become anything: a mark of a list, a rule, a fence, text. */
bool settled_says_nothing(const char *line, size_t n);

#endif

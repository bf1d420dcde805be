/* Colours for code, a line at a time; an integer carries the state from line to line.  The languages are in config/syntax.def. */
#ifndef Q35_UI_TUI_SYNTAX_H
#define Q35_UI_TUI_SYNTAX_H

#include <stddef.h>

#include "ui/tui/look.h"

/* The language of a fence's info string ("c++", "python title=x"), or -1: plain. */
int syntax_find(const char *info, size_t n);
const char *syntax_name(int language);                  /* its usual spelling: "C++" */
/* Calls fn for the pieces of a line (without its newline), which cover it in order.  state: 0 for the first line of a block, then the value that the
 * line before returned. */
int syntax_line(int language, int state, const char *line, size_t n, void (*fn)(void *arg, enum style style, size_t from, size_t n), void *arg);

#endif

/* Colours for code, a line at a time; what goes on in the next line is one integer.  The languages are in config/syntax.def. */
#ifndef Q35_UI_TUI_SYNTAX_H
#define Q35_UI_TUI_SYNTAX_H

#include <stddef.h>

#include "ui/tui/look.h"

/* The language of a fence's info string ("c++", "python title=x"), or -1: plain. */
int syntax_find(const char *info, size_t n);
const char *syntax_name(int language);                  /* as people write it: "C++" */
/* Gives fn the pieces of a line (without its newline) in order; they cover it.  `state` is 0 for a block's first line, then
 * what the line before returned. */
int syntax_line(int language, int state, const char *line, size_t n, void (*fn)(void *arg, enum style style, size_t from, size_t n), void *arg);

#endif

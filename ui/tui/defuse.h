/* A copy of markdown of the same length for the parser, in which what must not be parsed is defused.  What is shown is taken from
 * the source at the places that the parser found, so it never shows. */
#ifndef Q35_UI_TUI_DEFUSE_H
#define Q35_UI_TUI_DEFUSE_H

#include "base/buf.h"

/* Mathematics ($x$, $$x$$, \(x\), \[x\]) becomes letters, so that it has no emphasis and no lists; link definitions become text,
 * as a block does not see those of others; NUL bytes and vertical white space become letters. */
void defuse(struct buf *copy, const char *s, size_t n);

#endif

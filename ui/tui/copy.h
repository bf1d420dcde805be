/* A copy of markdown for the parser, in which what must not be parsed is defused.  What is shown is taken from the source at the
 * places that the parser found, so nothing that was changed here ever shows. */
#ifndef Q35_UI_TUI_COPY_H
#define Q35_UI_TUI_COPY_H

#include <stdbool.h>

#include "base/buf.h"

struct copy_patch;
struct copy {                           /* valid as {0} */
    struct buf text;
    struct copy_patch *patches;
    int n_patches;
};

#define COPY_NO_PLACE ((size_t)-1)

/* Mathematics ($x$, $$x$$, \(x\), \[x\]) becomes letters, so that it has no emphasis and no lists; link definitions become text,
 * as a block does not see those of others; NUL bytes, vertical white space
 * and a carriage return without a newline become letters.  `table`: the source is one, with
 * its delimiter row in the second line; that row and empty cells ("||") are written as md4c wants them. */
void copy_make(struct copy *c, const char *s, size_t n, bool table);
/* Where the n bytes at text.data[at] are in the source, or COPY_NO_PLACE: they are not. */
size_t copy_place(const struct copy *c, size_t at, size_t n);
/* Where the mathematics that begins at s[i], i < n, ends; 0: none does. */
size_t copy_math_end(const char *s, size_t n, size_t i);
void copy_free(struct copy *c);

#endif

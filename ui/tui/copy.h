/* A copy of markdown for the parser, in which text that it must not interpret is replaced.  What is shown is taken from the source, at the places
 * that the parser found, so replacements never show. */
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

/* Replaces mathematics ($x$, $$x$$, \(x\), \[x\]) by letters, so that no emphasis or list is found in it; makes text of link definitions, since a
 * block does not see those of other blocks; and makes letters of NUL bytes, vertical white space and carriage returns without a newline.  table: the
 * source is a table with its delimiter row in the second line; that row and empty cells ("||") are rewritten in the form that md4c needs. */
void copy_make(struct copy *c, const char *s, size_t n, bool table);
/* Maps the n bytes at text.data[at] to their place in the source; COPY_NO_PLACE: they are, or contain, a replacement. */
size_t copy_place(const struct copy *c, size_t at, size_t n);
/* Returns the end of the mathematics that begins at s[i], i < n; 0: no mathematics begins there. */
size_t copy_math_end(const char *s, size_t n, size_t i);
/* Length of the first part of the n bytes at text.data[at], n > 0, that is in the source as one piece, or that is one replacement. */
size_t copy_part(const struct copy *c, size_t at, size_t n);
void copy_free(struct copy *c);

#endif

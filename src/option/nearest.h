/* The known name that a mistyped one was probably meant to be. */
#ifndef Q35_OPTION_NEAREST_H
#define Q35_OPTION_NEAREST_H

#include <stdbool.h>

/* One of names[0..n), or NULL if none is close.  NULL entries are skipped. */
const char *nearest(const char *word, const char *const *names, int n);

/* Whether `word` is the name, or differs from it by one slip: a letter too many, too few or another one, two neighbours swapped; in a name of six
 * letters or more by two. */
bool nearest_is(const char *word, const char *name);

#endif

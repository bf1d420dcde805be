/* Search in the source of an item: smart case, blanks are all the same, the text may grow between two calls. */
#ifndef Q35_UI_TUI_FIND_H
#define Q35_UI_TUI_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is looked for.  Plain value, valid as {0}: finds nothing. */
struct find {
    uint32_t *what;             /* code points; a run of blanks is one ' '; in lower case unless `exact` */
    int  n;
    bool exact;                 /* it has a capital letter */
};

void find_set(struct find *f, const char *what);
void find_free(struct find *f);

struct hit { size_t at, n; };                  /* bytes of the text */

/* Of one text, ascending, not overlapping.  Plain value, valid as {0}. */
struct hits {
    struct hit *at;
    int    n, cap;
    size_t scanned;             /* no hit that begins before this is missing */
};

/* Searches what was not searched yet.  `marks`: markdown's marks of emphasis and code may stand within a hit. */
void hits_update(struct hits *h, const struct find *f, const char *text, size_t n, bool marks);
void hits_free(struct hits *h);                         /* also before another search */

#endif

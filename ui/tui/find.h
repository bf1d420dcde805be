/* Search in the source of an item.  Capitals in the search make case count; a run of blanks matches any other; the text may grow between calls. */
#ifndef Q35_UI_TUI_FIND_H
#define Q35_UI_TUI_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text to search for.  Plain value, valid as {0}: finds nothing. */
struct find {
    uint32_t *what;             /* code points; a run of blanks is one ' '; in lower case unless `exact` */
    int  n;
    bool exact;                 /* the text has a capital letter: case counts */
};

void find_set(struct find *f, const char *what);
void find_free(struct find *f);

struct hit { size_t at, n; };                  /* bytes of the text */

/* The hits in one text, ascending, not overlapping.  Plain value, valid as {0}. */
struct hits {
    struct hit *at;
    int    n, cap;
    size_t scanned;             /* all hits that begin before this byte were found */
};

/* Searches the rest of the text.  marks: a hit may contain markdown's marks of emphasis and code. */
void hits_update(struct hits *h, const struct find *f, const char *text, size_t n, bool marks);
void hits_free(struct hits *h);                         /* must also be called before another search */

#endif

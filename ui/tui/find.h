/* Finds parts of a text: what the user searches for, addresses, the newest sentence.
 *
 * Search in the source of an item: capitals in the search make case count; a run of blanks matches any other; the text may grow between calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

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

/* --- addresses and sentences --------------------------------------------------------------------------------------- */

/* Finds the next http, https, ftp or mailto address from *at on.  *at becomes its first byte, *n its length; false: no more addresses.  Punctuation
 * of the sentence around it, and marks of markdown, are no part of it. */
bool excerpt_url(const char *text, size_t len, size_t *at, size_t *n);
/* Appends the newest whole sentence of a text that grows, such as reasoning, on one line and without marks of lists and headings.  False: the text
 * has no whole sentence yet. */
bool excerpt_sentence(const char *text, size_t n, struct buf *out);

/* Words to search for in the texts of a session file, not in the way in which the file writes them.  ASCII letters match in either case. */
#ifndef Q35_SESSION_WORDS_H
#define Q35_SESSION_WORDS_H

#include <stdbool.h>

#include "base/buf.h"

struct words {
    char **plain, **escaped;            /* as they are written in a text, and in a line of JSON */
    int n;
};

/* The words that were found so far, in a session, its name and its title.  Plain value, valid as {0}. */
struct words_found {
    bool *seen, *named;                 /* [n] which ones; which ones in name or title.  NULL: none */
    struct buf hit;                     /* the first line with most of them, cut to what is around the first one; it has one that is not `named` */
    int best;                           /* how many of them that line has */
};

void words_split(struct words *w, const char *find);    /* at blanks; w is {0} */
void words_free(struct words *w);
void words_found_free(struct words_found *f);
void words_in_name(const struct words *w, struct words_found *f, const char *name);      /* searches a name or title */
/* Searches whole lines of a session file; lines[n] must be 0. */
void words_in_lines(const struct words *w, struct words_found *f, const char *lines, size_t n);
/* The part of a hit that a narrow place shows: from a few characters before its first word on. */
const char *words_near(const struct words *w, const char *hit);
bool words_complete(const struct words *w, const struct words_found *f);        /* all of them were found */

/* Whether name, title and text of a session file together have all words.  Then *hit is the hit, or NULL: there are no words, or name and title have
 * all of them; the caller frees it. */
bool words_in_file(const struct words *w, const char *name, const char *title, const struct buf *file, char **hit);

#endif

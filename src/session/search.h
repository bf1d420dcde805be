/* Searches the texts of session files for words; ASCII letters match in either case. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct words {
    char **plain, **escaped;            /* the words in a text, and in a line of JSON */
    int n;
};

/* The words found so far in a session, its name and its title.  Plain value, valid as {0}. */
struct words_found {
    bool *seen, *named;                 /* [n] true for each word that was found; that was found in name or title.  NULL: nothing was searched yet */
    struct buf hit;                     /* the first line with most words, cut around the first word; one of its words is not `named` */
    int best;                           /* the number of words in that line */
};

void words_split(struct words *w, const char *find);    /* at blanks; w is {0} */
void words_free(struct words *w);
void words_found_free(struct words_found *f);
void words_in_name(const struct words *w, struct words_found *f, const char *name);      /* searches a name or title */
/* The part of a hit for a narrow column, from a few characters before its first word. */
const char *words_near(const struct words *w, const char *hit);
bool words_complete(const struct words *w, const struct words_found *f);        /* true if all words were found */

/* True if name, title and text of a session file together have all words.  *hit is then the hit, to be freed, or NULL: there are no words, or name
 * and title have all of them. */
bool words_in_file(const struct words *w, const char *name, const char *title, const struct buf *file, char **hit);

/* --- a search of session files in slices, for a thread that must not wait.  Plain value, valid as {0}. --- */

struct scan {
    struct words words;
    struct words_found found;           /* in the open file */
    bool open;                          /* a file is open */
    int  fd;
    struct buf rest;                    /* bytes of it that were read and not searched yet */
};

enum scan_result { SCAN_MORE, SCAN_NOT, SCAN_FOUND };

void scan_begin(struct scan *s, const char *words);
void scan_free(struct scan *s);
/* Reads and searches the next 256 KB of this session's file.  MORE: the next call must be about the same session.  FOUND: name, title and text have
 * all words, and s->found.hit is the hit until the next call. */
enum scan_result scan_step(struct scan *s, const char *name, const char *title, const char *path);

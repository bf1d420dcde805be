/* Completions of the word before the cursor: commands, their arguments, files.
 *
 * chat/command.h completes commands.  "@path" is a file to attach, also "(@path" and @"a path with blanks"; a word with a slash is a path.
 * Directories come first and end in a slash; hidden files are offered only after a dot.  Files that the .gitignore of their own directory names
 * ("build/", "*.o") are not offered for attaching.  Names that a draft cannot hold are left out. */
#ifndef Q35_UI_TUI_COMPLETE_H
#define Q35_UI_TUI_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { COMPLETE_MAX = 500 };

struct complete_item {
    char *word;                 /* replaces the word before the cursor */
    char *note;                 /* for the right edge: a command's argument; a file's size, tokens and the time to read them; or "" */
    char *help;                 /* one line, or "" */
};

/* Plain value, valid as {0}. */
struct complete {
    struct complete_item *items;
    int n;
    size_t start;               /* the words replace before[start..] */
    bool whole;                 /* the words are names of conversations, some of which match by their titles */
    struct buf common;          /* the common beginning of all words; the whole word if there is only one; "" for several conversations */
    struct buf note;            /* why some words are missing, or "" */
};

struct stat;
struct complete_counter {
    /* Tokens of this file if it were attached; -1: not known, then the number is estimated and marked with "~". */
    int (*count)(void *arg, const char *path, const struct stat *st);
    void *arg;
    double tok_s;               /* prompt tokens read per second, for the time that a file would take; 0: not known */
};

/* before: the draft up to the cursor; counter: may be NULL.  Reads directories; one that cannot be read counts as empty. */
void complete_find(struct complete *c, const char *before, const struct complete_counter *counter);
/* The word is complete, so that a blank may follow: it is the only one, and no directory. */
bool complete_ends(const struct complete *c);
void complete_free(struct complete *c);

#endif

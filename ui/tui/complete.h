/* What can stand for the word before the cursor: commands, their arguments, files.
 *
 * Of commands chat/command.h decides.  "@path" is a file to attach, also "(@path" and @"a path with blanks"; a word with a slash
 * is a path.  Directories come first and end with a slash; hidden names only when a
 * dot was typed; what the .gitignore of their own directory names ("build/", "*.o") is not offered for attaching.  Names that the
 * draft cannot hold are left out. */
#ifndef Q35_UI_TUI_COMPLETE_H
#define Q35_UI_TUI_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { COMPLETE_MAX = 500 };

struct complete_item {
    char *word;                 /* what then stands there */
    char *note;                 /* for the right edge: a command's argument, a file's size, its tokens and the time to read them; "" */
    char *help;                 /* one line; "" */
};

/* Plain value, valid as {0}. */
struct complete {
    struct complete_item *items;
    int n;
    size_t start;               /* the words stand for before[start..] */
    struct buf common;          /* what all words begin with; the word itself when it is the only one */
    struct buf note;            /* why these are not all, or "" */
};

struct stat;
struct complete_counter {
    /* Tokens of the file of that path, as it would be attached; -1: not known, then they are estimated and marked so ("~"). */
    int (*count)(void *arg, const char *path, const struct stat *st);
    void *arg;
    double tok_s;               /* so many of a prompt are read in a second, to say how long the file takes; 0: not known */
};

/* `before` is the draft up to the cursor; `counter` may be NULL.  Reads directories; what cannot be read is empty. */
void complete_find(struct complete *c, const char *before, const struct complete_counter *counter);
/* The word is complete: nothing but a blank can follow (it is the only one, and no directory). */
bool complete_ends(const struct complete *c);
void complete_free(struct complete *c);

#endif

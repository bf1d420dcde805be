/* Completions of the word before the cursor: commands, their arguments, files.
 *
 * chat/command.h completes commands.  "@path" is a file to attach, also "(@path" and @"a path with blanks"; a word with a slash is a path.
 * Directories come first and end in a slash; hidden files are offered only after a dot.  Files that the .gitignore of their own directory names
 * ("build/", "*.o") are not offered for attaching.  Names that a draft cannot hold are left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/memory.h"
#include "ui/tui/editor.h"
#include "ui/tui/popup.h"

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

/* --- suggest ------------------------------------------------------------------------------------------------------ */

/* The list of completions for the word before the cursor.  It opens by itself for commands and "@" paths, for other words with Tab. */

struct chat;

/* Plain value, valid as {0}. */
struct suggest {
    bool open, asked;                   /* asked: opened with Tab, for a word that opens no list by itself */
    bool refused;                       /* the user has closed the list: it stays closed for the word that begins at refused_at */
    size_t refused_at;
    bool moved;                         /* the user has chosen a row; else the first row is chosen by itself */
    struct complete found;
    struct popup popup;
    struct popup_row *rows;
    struct arena mem;
    struct counted *counted;            /* [n_counted] files whose tokens were counted */
    int n_counted;
    size_t to_count;                    /* bytes of files that this update may still count */
    double tok_s;                       /* prompt tokens read per second, at the last prompt that was long enough; 0: there was none */
    const struct chat *chat;            /* counts tokens; NULL: not open yet */
    const struct options *options;      /* their values stand in the list; NULL: they do not */
};

void suggest_update(struct suggest *s, const struct editor *e);         /* to be called after the draft has changed */
void suggest_close(struct suggest *s);
/* Tab: completes as far as all words agree; pressed again, chooses the second word, the third, ... */
bool suggest_tab(struct suggest *s, struct editor *e);
void suggest_move(struct suggest *s, int by);
bool suggest_click(struct suggest *s, int row, int col);                /* popup_click() */
/* Inserts the chosen word.  False: none is chosen; or the user has not chosen it, and the typed word is complete, a name or a command. */
bool suggest_take(struct suggest *s, struct editor *e);
void suggest_free(struct suggest *s);

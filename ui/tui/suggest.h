/* The list of completions for the word before the cursor.  It opens by itself for commands and "@" paths, for other words with Tab. */
#ifndef Q35_UI_TUI_SUGGEST_H
#define Q35_UI_TUI_SUGGEST_H

#include <stdbool.h>

#include "base/arena.h"
#include "ui/tui/complete.h"
#include "ui/tui/editor.h"
#include "ui/tui/popup.h"

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

#endif

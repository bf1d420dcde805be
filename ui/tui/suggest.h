/* The list of what can stand for the word before the cursor: opens by itself for commands and "@" paths, else by Tab. */
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
    bool open, asked;                   /* asked: by Tab, for a word that opens no list by itself */
    bool refused;                       /* closed by the user: stays so for the word that begins at refused_at */
    size_t refused_at;
    bool moved;                         /* the choice is the user's; else it is the first row, which is chosen by itself */
    struct complete found;
    struct popup popup;
    struct popup_row *rows;
    struct arena mem;
    struct counted *counted;            /* files whose tokens were counted, */
    int n_counted;
    size_t to_count;                    /* and how many bytes this look may still count */
    double tok_s;                       /* of a prompt, when there last was one long enough to tell; 0: there was none */
    const struct chat *chat;            /* who counts; NULL: nobody yet */
};

void suggest_update(struct suggest *s, const struct editor *e);         /* the draft has changed */
void suggest_close(struct suggest *s);
/* Tab: completes as far as all words agree, then goes through them from the second on: the first one is chosen already. */
bool suggest_tab(struct suggest *s, struct editor *e);
void suggest_move(struct suggest *s, int by);
bool suggest_click(struct suggest *s, int row, int col);                /* as popup_click() */
/* The chosen one.  False: none is; or nobody moved the choice, and what is typed is a name or calls a command as it stands. */
bool suggest_take(struct suggest *s, struct editor *e);
void suggest_free(struct suggest *s);

#endif

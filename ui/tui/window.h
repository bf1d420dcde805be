/* A window of the full screen: what it does with keys, where it is drawn, what it says in the status line.  One file that defines
 * a `struct window`, and one row of config/windows.def.  Windows lie over each other in the order of that table: keys go to the
 * topmost one that is open, and when it closes the one below has them again.  A hook that a window does not need is NULL. */
#ifndef Q35_UI_TUI_WINDOW_H
#define Q35_UI_TUI_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/chat.h"
#include "ui/tui/action.h"
#include "ui/tui/cells.h"
#include "ui/tui/editor.h"
#include "ui/tui/keys.h"

struct app;

enum window_id {
#define WINDOW(name) WINDOW_##name,
#include "config/windows.def"
    N_WINDOWS
};

struct window {
    /* A question that must be answered: it stays when another window opens, and the one below it still counts as being in front. */
    bool asks;
    /* On a tiny screen it takes the row of the status line as well. */
    bool takes_status;

    /* --- what it keeps --- */

    /* Bytes of its state, a struct of its file: all zero when the program begins, there until it ends. */
    size_t bytes;
    /* Frees what the state points to, at the end. */
    void (*free)(struct app *a);

    /* --- keys --- */

    /* Adds the contexts of config/keys.def in which its keys are looked for; CONTEXT_any is added behind them. */
    void (*contexts)(struct app *a, struct contexts *where);
    /* The same contexts and CONTEXT_any, in the order in which F1 lists them.  NULL: as `contexts` has them. */
    void (*told)(struct app *a, struct contexts *where);
    /* What is typed into; returns NULL when characters are keys. */
    struct editor *(*focus)(struct app *a);
    /* What is typed into has changed. */
    void (*edited)(struct app *a);
    /* Sees every key and paste first, open or not.  True: it was for this window, and nobody else sees it. */
    bool (*event)(struct app *a, const struct key_event *ev);
    /* A key without Ctrl or Alt, before its bindings.  True: it was meant for this window. */
    bool (*key)(struct app *a, uint32_t code);
    /* A click at a cell of the screen. */
    void (*click)(struct app *a, int row, int col);
    /* Esc, or Ctrl-C when `escape` is false.  False: it has nothing to close, and the key means what it means without windows. */
    bool (*close)(struct app *a, bool escape);

    /* --- what happens --- */

    /* The window was open and is not any more, whoever closed it. */
    void (*closed)(struct app *a);
    /* The conversation is another one now, or another path of it. */
    void (*changed)(struct app *a);
    /* Sees every event of the chat, open or not. */
    void (*chat)(struct app *a, const struct chat_event *ev);

    /* --- the status line --- */

    /* The keys that matter now, "long text\tshort text"; NULL: none.  Without this hook: what the model does decides. */
    const char *(*hint)(struct app *a);
    /* Writes what one is at, at most `n` bytes.  False: what the model does is said. */
    bool (*state)(struct app *a, char *out, size_t n);

    /* --- drawing --- */

    /* Rows that it would like in the input's place.  With draw_input(). */
    int  (*input_rows)(struct app *a, const struct cells *c);
    void (*draw_input)(struct app *a, struct cells *c, struct area at);
    /* Rows that it takes of the transcript's last `rows`.  With draw_cover(). */
    int  (*cover_rows)(struct app *a, int rows);
    void (*draw_cover)(struct app *a, struct cells *c, struct area at);
    /* Draws over what is left of the transcript. */
    void (*draw_rest)(struct app *a, struct cells *c, struct area at);
    /* The screen is too small: nothing is drawn. */
    void (*hidden)(struct app *a);
    /* Sets the terminal's cursor, which magnifiers and screen readers follow. */
    void (*cursor)(struct app *a, struct cells *c);
};

#define WINDOW(name) extern const struct window window_##name;
#include "config/windows.def"

const struct window *window_at(enum window_id id);
/* `bytes` of that window. */
void *window_state(const struct app *a, enum window_id id);
void windows_begin(struct app *a);
void windows_end(struct app *a);

/* --- which are open --- */

/* Closes what lies above it, questions excepted; a question closes nothing. */
void window_open(struct app *a, enum window_id id);
void window_close(struct app *a, enum window_id id);
bool window_is_open(const struct app *a, enum window_id id);
/* The topmost one: it has the keys. */
enum window_id window_active(const struct app *a);
/* The topmost one that is no question. */
enum window_id window_front(const struct app *a);
/* The topmost one below `id`. */
enum window_id window_below(const struct app *a, enum window_id id);
/* The topmost one that draws in the input's place. */
enum window_id window_in_place_of_input(const struct app *a);

#endif

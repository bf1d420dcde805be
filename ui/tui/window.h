/* What a window of the full screen is, and what it gets: a struct host, and nothing else of the program.
 *
 * A window says what it does with keys, where it is drawn, what stands in the status line.  One file that defines
 * a `struct window`, and one row of config/windows.def.  Windows lie over each other in the order of that table: keys go to the
 * topmost one that is open, and when it closes the one below has them again.  A hook that a window does not need is NULL. */
#ifndef Q35_UI_TUI_WINDOW_H
#define Q35_UI_TUI_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/tui/action.h"
#include "ui/tui/cells.h"
#include "ui/tui/editor.h"
#include "ui/tui/feed.h"
#include "ui/tui/keys.h"
#include "ui/tui/looks.h"
#include "ui/tui/pane.h"
#include "ui/tui/phase.h"

struct host;

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
    /* Makes what the state needs from the beginning. */
    void (*init)(struct host *h);
    /* Frees what the state points to, at the end. */
    void (*free)(struct host *h);

    /* --- keys --- */

    /* The contexts of config/keys.def in which its keys are looked for; CONTEXT_any comes behind them. */
    struct contexts in;
    /* Adds these contexts where they depend on its state, instead of `in`. */
    void (*contexts)(struct host *h, struct contexts *where);
    /* Adds the contexts and CONTEXT_any in the order in which F1 lists them.  NULL: the order in which they are asked. */
    void (*told)(struct host *h, struct contexts *where);
    /* What is typed into; returns NULL when characters are keys. */
    struct editor *(*focus)(struct host *h);
    /* What is typed into has changed. */
    void (*edited)(struct host *h);
    /* Sees every key and paste first, open or not.  True: it was for this window, and nobody else sees it. */
    bool (*event)(struct host *h, const struct key_event *ev);
    /* A key without Ctrl or Alt, before its bindings.  True: it was meant for this window. */
    bool (*key)(struct host *h, uint32_t code);
    /* A click at a cell of the screen.  True: on what is chosen already; Enter does the rest. */
    bool (*click)(struct host *h, int row, int col);
    /* The wheel, so many rows down, or up if negative.  False: it has no rows to move in, and the transcript scrolls. */
    bool (*wheel)(struct host *h, int rows);
    /* Esc, or Ctrl-C when `escape` is false.  False: it has nothing to close, and the key means what it means without windows.
     * NULL: it closes. */
    bool (*close)(struct host *h, bool escape);

    /* --- what happens --- */

    /* The window was open and is not any more, whoever closed it. */
    void (*closed)(struct host *h);
    /* The conversation is another one now, or another path of it. */
    void (*changed)(struct host *h);
    /* Sees every event of the chat, open or not. */
    void (*chat)(struct host *h, const struct chat_event *ev);

    /* --- the status line --- */

    /* The keys that matter now, "long text\tshort text"; "": none.  NULL: what the model does decides. */
    const char *hint;
    /* The same where it depends on its state, instead of `hint`. */
    const char *(*hint_now)(struct host *h);
    /* Writes what one is at, at most `n` bytes.  False: what the model does is said. */
    bool (*state)(struct host *h, char *out, size_t n);

    /* --- drawing --- */

    /* Rows that it would like in the input's place.  With draw_input(). */
    int  (*input_rows)(struct host *h, const struct cells *c);
    void (*draw_input)(struct host *h, struct cells *c, struct area at);
    /* Rows that it takes of the transcript's last `rows`.  With draw_cover(). */
    int  (*cover_rows)(struct host *h, int rows);
    void (*draw_cover)(struct host *h, struct cells *c, struct area at);
    /* Draws over what is left of the transcript. */
    void (*draw_rest)(struct host *h, struct cells *c, struct area at);
    /* The screen is too small: nothing is drawn. */
    void (*hidden)(struct host *h);
    /* Sets the terminal's cursor, which magnifiers and screen readers follow. */
    void (*cursor)(struct host *h, struct cells *c);
};

#define WINDOW(name) extern const struct window window_##name;
#include "config/windows.def"

const struct window *window_at(enum window_id id);

/* --- the host ---------------------------------------------------------------------------------------------------- */

/* What only the owner of the terminal can do; it does so after the keys of a read, in this order. */
enum wish {
    WISH_COPY = 1, WISH_REDRAW = 2, WISH_MOUSE = 4, WISH_PRINT = 8, WISH_PAGE = 16, WISH_HANDOFF = 32, WISH_SUSPEND = 64, WISH_LEAVE = 128
};

/* The key under way, and what keys before it mean for it. */
struct typing {
    uint32_t code;                      /* of the key under way */
    bool     walks;                     /* the key under way goes from fold to fold */
    bool     behind_ctrl_x;             /* Ctrl-X came before it */
    bool     literal;                   /* Ctrl-V came before it: it is text */
    int64_t  escape_ms;                 /* when Esc came last and found nothing to close; 0: another key came since */
    int64_t  quit_until;                /* until then a second Ctrl-C leaves */
};

/* Where things were drawn last. */
struct layout { struct area pane, input; };

/* A word about the last key, in the status line. */
struct hint {
    struct buf text;
    int64_t    until;                   /* ms */
    int        columns;                 /* a screen so wide needs the word no longer; 0: none */
};

struct host {
    struct options *o;
    struct chat    *chat;               /* NULL until it is open */
    struct actions *actions;            /* which key does what */
    struct pane    *pane;               /* the transcript */
    struct feed     feed;               /* makes items of the pane */
    struct phase    phase;              /* what the model does */
    struct looks    looks;              /* how the transcript is shown */
    struct layout   at;
    struct typing   typing;
    struct hint     hint;
    int64_t         ms;                 /* now, as of the last call */
    bool            recount;            /* what the next prompt holds has changed */
    int             n_turns;            /* that have begun */
    unsigned        wishes;             /* of enum wish */
    struct buf      copied;             /* for WISH_COPY */
    bool            open[N_WINDOWS];
    void           *state[N_WINDOWS];   /* window_state() */
};

/* `*h` is zero but for its options. */
void host_init(struct host *h);
void host_free(struct host *h);
bool host_busy(const struct host *h);
void host_hint(struct host *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line of ours in the transcript. */
void host_note(struct host *h, const char *text);
/* Copies the text and frees it; `what` it is, if it is empty: "there is no %s here". */
void host_copy(struct host *h, struct buf *text, const char *what);
/* What is typed into, or NULL. */
struct editor *host_focus(struct host *h);
/* A line that one types into has changed. */
void host_edited(struct host *h);
/* The cursor stands in the row of the transcript at which one is: for windows that are read and not typed into. */
void host_cursor_in_pane(struct host *h, struct cells *c);
/* Opens or closes what is folded at a cell of the screen.  False: nothing is. */
bool host_click_fold(struct host *h, int row, int col);

/* --- which windows are open -------------------------------------------------------------------------------------- */

/* Closes what lies above it, questions excepted; a question closes nothing. */
void window_open(struct host *h, enum window_id id);
void window_close(struct host *h, enum window_id id);
bool window_is_open(const struct host *h, enum window_id id);
/* The topmost one: it has the keys. */
enum window_id window_active(const struct host *h);
/* The topmost one that is no question. */
enum window_id window_front(const struct host *h);
/* The topmost one below `id`. */
enum window_id window_below(const struct host *h, enum window_id id);
/* The topmost one that draws in the input's place. */
enum window_id window_in_place_of_input(const struct host *h);
/* Where its keys are looked for just now, CONTEXT_any at the end. */
void window_contexts(struct host *h, enum window_id id, struct contexts *where);
/* Esc, or Ctrl-C when `escape` is false.  False: it had nothing to close. */
bool window_escape(struct host *h, enum window_id id, bool escape);
/* `bytes` of that window. */
void *window_state(const struct host *h, enum window_id id);

#endif

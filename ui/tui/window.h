/* Windows of the full screen, their keys, and the struct host, which is all that a window knows of the program.
 *
 * A window is one file, which defines a `struct window`, and one row of config/windows.def.  Its hooks handle keys, draw it, and fill the status
 * line. Windows lie over each other in the order of that table: keys go to the topmost one that is open; when it closes, to the one below.  A hook
 * that a window does not need is NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "chat/chat.h"
#include "ui/tui/cells.h"
#include "ui/tui/editor.h"
#include "ui/tui/feed.h"
#include "ui/tui/keys.h"
#include "ui/tui/pane.h"
#include "ui/tui/phase.h"
#include "ui/tui/popup.h"
#include "ui/tui/sheet.h"

/* --- keys ---------------------------------------------------------------------------------------------------------- */

/* Which key does what in which context, from rows like those of config/keys.def, for searching and for help. */

struct host;
typedef void action_fn(struct host *h);

#define KEY(context, key, action, help) action_fn act_##action;
#include "config/keys.def"

/* Defines an action that is one statement. */
#define ACT(name, statement) void act_##name(struct host *h) { statement; }

enum context {
#define CONTEXT(name, characters, title, manual) CONTEXT_##name,
#include "config/contexts.def"
    N_CONTEXTS
};
/* The contexts of the keyboard at a moment, in the order in which they are searched for a key. */
struct contexts { enum context at[6]; int n; };

static inline void contexts_add(struct contexts *where, enum context c)
{
    where->at[where->n++] = c;
}

/* A row of config/keys.def. */
struct key_row { enum context context; const char *key, *action, *help; action_fn *fn; };

struct binding {
    enum context context;
    uint32_t     code;
    uint8_t      mods;
    bool         behind_ctrl_x;
    const char  *key, *action, *help;   /* columns of the table */
    action_fn   *fn;
};

/* All bindings; changed by actions_bind() only. */
struct actions {
    const struct key_row *rows;
    int n_rows;
    struct binding *bindings;           /* each key once in a context */
    int n;
    struct arena mem;                   /* names of keys that the user bound */
};

/* Makes the bindings of the rows of config/keys.def, which are used until the end. */
struct actions *actions_open(const struct key_row *rows, int n);
void actions_close(struct actions *a);
/* Applies a row of the config file, "[CONTEXT] KEY ACTION", with the key as config/keys.def writes it ("Ctrl-G", "Ctrl-X g").  Without a context
 * the key is bound in every context where the action has a key; the action `none` removes the key.  False with a sentence: nothing has changed. */
bool actions_bind(struct actions *a, const char *text, struct err *e);
/* The function of a key, or NULL.  behind_ctrl_x: Ctrl-X came before the key; if "Ctrl-X KEY" has no row, that of Alt-KEY counts. */
action_fn *actions_find(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x);
/* Appends the keys that work in these contexts, a line for each action. */
void actions_help(const struct actions *a, const struct contexts *where, struct buf *out);
void actions_list(const struct actions *a, struct buf *out);    /* appends all bindings, as rows for actions_bind() */
/* The binding of this key in these contexts; NULL: there is none. */
const struct binding *actions_meaning(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods);

/* --- how the transcript is shown ----------------------------------------------------------------------------------- */

/* Colours for the tokens in the transcript, by how they were chosen or by their probability. */
enum heat { HEAT_NONE, HEAT_HOW, HEAT_PROBABILITY };

/* Plain value, valid as {0}. */
struct heat_tint {
    enum heat shown;                    /* what the user wants */
    enum heat tinted;                   /* the colours that the pane has now, */
    int  n_tokens, n_items;             /* for the first n_tokens of the answer under way and the first n_items items */
};

/* Colours the items as `shown` says; cheap when nothing changed. */
void heat_tint(struct heat_tint *h, struct pane *p, struct chat *c);

/* The switches of keys such as Alt-R, Alt-H and Alt-P.  Plain value, valid as {0}. */
struct looks {
    bool panel;                         /* the panel at the right, if there is room */
    bool bare;                          /* text alone, without status line and panel */
    bool raw;                           /* markdown as source */
    bool mouse;                         /* clicks and the wheel come as keys */
    bool lent;                          /* until the next key the terminal has the mouse: the user wants to select or paste with it */
    enum table_shape tables;
    struct heat_tint heat;
};

/* --- windows ------------------------------------------------------------------------------------------------------- */

enum window_id {
#define WINDOW(name) WINDOW_##name,
#include "config/windows.def"
    N_WINDOWS
};

struct window {
    /* The window is a question that must be answered: it stays open when another window opens, and window_front() passes over it. */
    bool asks;
    /* On a tiny screen the window also takes the row of the status line. */
    bool takes_status;

    /* --- its state --- */

    /* Size of its state, a struct of its file, which is zeroed at the start of the program and freed at its end. */
    size_t bytes;
    /* Allocates what the state needs from the beginning. */
    void (*init)(struct host *h);
    /* Frees what the state points to, at the end. */
    void (*free)(struct host *h);

    /* --- keys --- */

    /* The contexts of config/keys.def that are searched for its keys, before CONTEXT_any. */
    struct contexts in;
    /* Adds these contexts if they depend on its state; used instead of `in`. */
    void (*contexts)(struct host *h, struct contexts *where);
    /* Adds the contexts and CONTEXT_any in the order in which F1 lists them.  NULL: the order in which they are searched. */
    void (*told)(struct host *h, struct contexts *where);
    /* The window has a line of text of its own, h->line[id], to which typed characters go. */
    bool has_line;
    /* Returns the editor that typed characters go to, if that depends on its state; NULL when characters are keys. */
    struct editor *(*focus)(struct host *h);
    /* The text of that editor has changed. */
    void (*edited)(struct host *h);
    /* Gets every key and paste first, whether the window is open or not.  True: the window has used it, and no other one gets it. */
    bool (*event)(struct host *h, const struct key_event *ev);
    /* Gets a key without Ctrl or Alt before its bindings are searched.  True: the window has used it. */
    bool (*key)(struct host *h, uint32_t code);
    /* A click at a cell of the screen.  True: on the row that is already chosen; the click then does what Enter does. */
    bool (*click)(struct host *h, int row, int col);
    /* The wheel, so many rows down, or up if negative.  False: the window does not scroll, so the transcript does. */
    bool (*wheel)(struct host *h, int rows);
    /* Esc, or Ctrl-C when `escape` is false.  False: the window has nothing to close, and the key does what it does without windows.
     * NULL: the window closes. */
    bool (*close)(struct host *h, bool escape);

    /* --- what happens --- */

    /* The window was closed, by whatever. */
    void (*closed)(struct host *h);
    /* Another conversation was loaded, or another path of it is shown. */
    void (*changed)(struct host *h);
    /* Gets every event of the chat, whether the window is open or not. */
    void (*chat)(struct host *h, const struct chat_event *ev);
    /* True if it has work to do in the background; does a few milliseconds of it. */
    bool (*works)(const struct host *h);
    void (*work)(struct host *h);

    /* --- the status line --- */

    /* The keys that matter now, "long text\tshort text"; "": none.  NULL: the hint for the phase of the model. */
    const char *hint;
    /* The same if it depends on its state; used instead of `hint`. */
    const char *(*hint_now)(struct host *h);
    /* Writes the state that the status line shows, at most `n` bytes.  False: the phase of the model is shown. */
    bool (*state)(struct host *h, char *out, size_t n);

    /* --- drawing --- */

    /* Returns the rows in place of the input, which draw_input() draws. */
    int  (*input_rows)(struct host *h, const struct cells *c);
    void (*draw_input)(struct host *h, struct cells *c, struct area at);
    /* The list that it shows over the transcript, or NULL; called only while the window is active.  A window with a list needs no hooks for clicks,
     * the wheel and covered rows. */
    struct popup *(*list)(struct host *h);
    /* Returns how many of the transcript's last `rows` rows it covers; draw_cover() draws them. */
    int  (*cover_rows)(struct host *h, int rows);
    void (*draw_cover)(struct host *h, struct cells *c, struct area at);
    /* Draws over the rest of the transcript. */
    void (*draw_rest)(struct host *h, struct cells *c, struct area at);
    /* The screen is too small, so that nothing is drawn. */
    void (*hidden)(struct host *h);
    /* Sets the terminal's cursor, which screen magnifiers and screen readers follow. */
    void (*cursor)(struct host *h, struct cells *c);
};

#define WINDOW(name) extern const struct window window_##name;
#include "config/windows.def"

/* --- bell --------------------------------------------------------------------------------------------------------- */

/* Calls the user back to the chat, as the option `bell` says.  Many terminals report whether they have the focus.  In tmux and others that do not,
 * a call waits a few seconds: a key in that time means that the user is there.  Plain value, valid as {0}. */

enum bell_focus { BELL_UNKNOWN, BELL_IN, BELL_OUT };

struct bell {
    enum bell_focus focus;
    int64_t due_ms;                     /* when to ring; 0: there is no call */
    struct buf text;                    /* what for */
};

/* Calls the user for `what`, which is about this conversation.  `when`: the value of the option. */
void bell_call(struct bell *b, const char *when, const char *what, const char *conversation, int64_t ms);
void bell_focus(struct bell *b, bool in);               /* the terminal has got or lost the focus */
void bell_answer(struct bell *b);                       /* a key came: the user is there */
bool bell_due(struct bell *b, int64_t ms);              /* true, once for each call: it is time to ring */
int  bell_timeout(const struct bell *b, int64_t ms);    /* ms until a call is due; -1: there is none */

/* --- the host ---------------------------------------------------------------------------------------------------- */

/* Things that only the owner of the terminal can do.  It does them after all keys of a read, in this order. */
enum wish {
    WISH_COPY = 1, WISH_REDRAW = 2, WISH_MOUSE = 4, WISH_PRINT = 8, WISH_PAGE = 16, WISH_HANDOFF = 32, WISH_SUSPEND = 64, WISH_LEAVE = 128,
    WISH_CALL = 256
};

/* The key that is being handled, and the effect of keys before it. */
struct typing {
    uint32_t code;                      /* code of the key */
    bool     walks;                     /* the key goes from fold to fold */
    bool     behind_ctrl_x;             /* Ctrl-X came before the key */
    bool     burst;                     /* the key came with others like it at once */
    bool     literal;                   /* Ctrl-V came before the key, which is text therefore */
    int64_t  escape_ms;                 /* when Esc came last and had nothing to close; 0: another key came since */
    int64_t  click_ms;                  /* when and where the mouse was clicked last */
    int      click_row, click_col;
    int64_t  quit_until;                /* until this time a second Ctrl-C ends the program */
};

/* Areas of the screen as they were drawn last. */
struct layout { struct area pane, input; };

/* A message about the last key, in the status line. */
struct hint {
    struct buf text;
    int64_t    until;                   /* ms */
    int        columns;                 /* on a screen at least so wide the message is not shown any more; 0: on any it is */
};

struct host {
    const struct window *const *windows;                /* [N_WINDOWS] */
    struct options *o;
    struct chat    *chat;               /* NULL until it is open */
    struct actions *actions;            /* key bindings */
    struct pane    *pane;               /* the transcript */
    struct feed     feed;               /* makes the items of the pane */
    struct phase    phase;              /* what the model does */
    struct looks    looks;              /* how the transcript is shown */
    struct layout   at;
    struct typing   typing;
    struct hint     hint;
    struct bell     bell;
    int64_t         ms;                 /* the time of the last call of app.h */
    bool            recount;            /* the next prompt has changed, so that its tokens must be counted again */
    int             n_turns;            /* turns that have begun */
    unsigned        wishes;             /* bits of enum wish */
    struct buf      copied;             /* text for WISH_COPY; that for WISH_CALL is in `bell` */
    bool            open[N_WINDOWS];
    struct editor  *line[N_WINDOWS];    /* of the windows with a line */
    void           *state[N_WINDOWS];   /* of the windows, `bytes` bytes each */
};

/* All members of *h except `windows`, `o` and `actions`, which host_free() frees, must be zero. */
void host_init(struct host *h);
void host_free(struct host *h);
bool host_busy(const struct host *h);
void host_hint(struct host *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Copies the text to the clipboard and frees it.  If it is empty a hint says "no %s here", with `what`. */
void host_copy(struct host *h, struct buf *text, const char *what);
/* The editor that typed characters go to, or NULL. */
struct editor *host_focus(struct host *h);
/* To be called after the text of that editor has changed. */
void host_edited(struct host *h);
/* Sets the cursor into the current row of the transcript, for windows without an editor. */
void host_cursor_in_pane(struct host *h, struct cells *c);
/* Opens or closes the fold at a cell of the screen.  False: there is none. */
bool host_click_fold(struct host *h, int row, int col);

/* To be called after a turn was begun (ok), or could not be, with the reason. */
void host_began(struct host *h, bool ok, const struct err *e);
/* Stops the answer under way, as soon as the model notices. */
void host_stop(struct host *h);
/* To be called after another conversation was loaded, or another path of it is shown. */
void host_changed(struct host *h);

/* --- which windows are open -------------------------------------------------------------------------------------- */

/* Opens a window and closes those above it, except questions; a question closes none. */
void window_open(struct host *h, enum window_id id);
void window_close(struct host *h, enum window_id id);
/* The topmost open window, which gets the keys. */
enum window_id window_active(const struct host *h);
/* The topmost open window that is no question. */
enum window_id window_front(const struct host *h);
/* The topmost open window below `id`. */
enum window_id window_below(const struct host *h, enum window_id id);
/* The topmost open window that draws in place of the input. */
enum window_id window_in_place_of_input(const struct host *h);
/* Adds the contexts that are searched for its keys at the moment, CONTEXT_any last. */
void window_contexts(struct host *h, enum window_id id, struct contexts *where);
/* Handles Esc, or Ctrl-C when `escape` is false.  False: the window had nothing to close. */
bool window_escape(struct host *h, enum window_id id, bool escape);
/* The list that the window shows, or NULL; no list is shown while another window, such as a tool's question, has the keys. */
struct popup *window_list(struct host *h, enum window_id id);

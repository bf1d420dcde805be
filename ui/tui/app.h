/* The inside of the full-screen chat, for the files that make it.  All of its state, without the terminal: keys, events and time
 * go in, a screen (view.h) and wishes come out, so that a test needs no terminal.  Nobody but those files includes this.
 *
 *   tui, wake   the terminal, the loop, the signals        action   which function a key means: config/keys.def
 *   app         keys and events go to those who know       view     from this state to cells
 *   input       the draft, sending, what waits             stop     Ctrl-C and Esc
 *   browse      scrolling, search, copies, branches        feed     the conversation as items of the pane
 *   approve     a tool asks                                picker   sessions, the tree, earlier messages
 *   inspect     the tokens of an answer, heat              suggest  what completes the word at the cursor
 *   phase       what the model does just now               summary  what status line and panel are told
 *   select      marks, lines to copy                   keyhelp     the list of keys, and what they send
 *   paste       pastes; large ones ask
 *   queue, unsent   messages that wait; over the end of the program
 *   revise      an earlier message comes into the input */
#ifndef Q35_UI_TUI_APP_H
#define Q35_UI_TUI_APP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/tui/action.h"
#include "ui/tui/editor.h"
#include "ui/tui/feed.h"
#include "ui/tui/history.h"
#include "ui/tui/keys.h"
#include "ui/tui/looks.h"
#include "ui/tui/marks.h"
#include "ui/tui/pane.h"
#include "ui/tui/panel.h"
#include "ui/tui/picker.h"
#include "ui/tui/phase.h"
#include "ui/tui/queue.h"
#include "ui/tui/steps.h"
#include "ui/tui/suggest.h"
#include "ui/tui/summary.h"
#include "ui/tui/window.h"


/* What only the owner of the terminal can do; it does so after the keys of a read, in this order. */
enum wish {
    WISH_COPY = 1, WISH_REDRAW = 2, WISH_MOUSE = 4, WISH_PRINT = 8, WISH_PAGE = 16, WISH_HANDOFF = 32, WISH_SUSPEND = 64, WISH_LEAVE = 128
};

/* What status line and panel show, as of the last sample. */
struct figures {
    int64_t sampled_ms, machine_ms;
    double  tok_s;
    struct chat_stats turn;             /* of the turn under way, else of the last one; */
    struct chat_stats recent;           /* its last two seconds */
    struct progress progress;           /* of loading or reading, while `phase` lasts */
    enum phase_kind phase;
    struct chat_count ctx;              /* what is taken of the context */
    struct chat_machine machine;
    const struct chat_part *parts;      /* of the next prompt */
    int     n_parts, not_counted;       /* not_counted: tokens of reasoning that stay out of it */
};

struct app {
    struct options *o;
    struct chat    *chat;               /* NULL until it is open */
    struct actions *actions;
    struct pane    *pane;
    struct feed     feed;
    struct editor  *editor;             /* the draft */
    struct editor  *line;               /* what one types into a search or a picker */
    struct history *history;
    struct queue    queue;
    struct phase    phase;              /* what the model does */
    struct figures  figures;
    struct steps    steps;              /* of the turn */
    int64_t ms;                         /* now, as of the last call */

    bool        open[N_WINDOWS];        /* window.h */
    void       *state[N_WINDOWS];
    bool        searching;              /* there are hits; n and N move */
    int         find_direction, find_hits, find_which;
    struct picker  picker;
    struct marks   marks;
    struct looks   looks;               /* how the transcript is shown */
    struct suggest suggest;             /* what completes the word at the cursor */

    int  pane_rows;                     /* of the transcript, when it was drawn last, */
    struct area at_pane, at_input;      /* and where */
    bool walks;                         /* the key under way goes from fold to fold */
    bool closing;                       /* the program ends: nothing that waits is sent */

    bool    behind_ctrl_x, literal;     /* what the next key means */
    int64_t quit_until, escape_ms;      /* a second Ctrl-C leaves until then; when the last Esc came */
    char   *unsent;                     /* the conversation whose file has what was restored, or NULL */
    char   *steer;                      /* sent as soon as the answer has stopped */
    char   *set_aside;                  /* the draft that an earlier message has taken the place of, or NULL */
    struct buf fatal;                   /* why the model has ended */
    struct buf hint;                    /* a word about the last key, in the status line */
    int64_t hint_until;

    unsigned wishes;                    /* of enum wish */
    struct buf copied;                  /* for WISH_COPY */
    uint32_t key;                       /* the code of the key under way */
    struct summary said;
};

/* --- app.c --- */
void app_open(struct app *a, struct options *o, const char *history_path);
void app_chat(struct app *a, struct chat *c);           /* the chat is open */
void app_close(struct app *a);                          /* all but the chat and the options */
void app_key(struct app *a, const struct key_event *ev, int64_t ms);
void app_events(struct app *a, const struct chat_event *ev, int n, int64_t ms);
void app_tick(struct app *a, int64_t ms);
int  app_timeout(const struct app *a);                  /* ms until app_tick() has something to do, -1: nothing */
void app_hint(struct app *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void app_note(struct app *a, const char *text);
bool app_busy(const struct app *a);
void app_changed(struct app *a);                        /* the conversation is another one now, or another path of it */
void app_count_context(struct app *a);                  /* what the next prompt will hold */
void app_edited(struct app *a);                         /* a line that one types into has changed */
/* A turn has begun; or failed to, and `e` says why. */
void app_began(struct app *a, bool ok, const struct err *e);
struct editor *app_focus(struct app *a);                /* what is typed into, or NULL */
void app_pick(struct app *a, enum picker_kind kind);    /* opens that list */
void app_find(struct app *a, const char *words);        /* opens the list of sessions in which all of them were said */

/* --- input.c --- */
void input_take(struct app *a, const char *text);       /* what was typed: a command, or a message to send or to queue */
void input_next(struct app *a);                         /* nothing runs: what waits is sent */
void input_give_back(struct app *a, const char *text);  /* a message that was not answered returns */
void input_remember(struct app *a, const char *text);
struct popup *input_popup(const struct app *a);         /* what completes the word at the cursor, or NULL */
bool input_decide(struct app *a, bool take);             /* about a summary that waits; false: none does */
void input_keep(struct app *a);                         /* what is not sent, over the end of the program */
void input_restore(struct app *a);                      /* that, of the conversation that was loaded */

/* --- revise.c: a message of the user comes into the input; sent, it stands beside the old one --- */
void revise_begin(struct app *a, int message);
void revise_show(struct app *a);                        /* what it would take the place of is in view */
bool revise_end(struct app *a);                         /* all is as it was; false: it was so already */

/* --- stop.c --- */
void stop_turn(struct app *a);

/* --- browse.c --- */
void browse_copy(struct app *a, struct buf *text, const char *what);    /* takes the text */

/* --- view.c, beside view.h --- */
bool view_click_fold(struct app *a, int row, int col);  /* opens or closes what is folded there; false: nothing is */
bool view_has(struct area at, int row, int col);
bool view_is_tiny(const struct cells *c);               /* windows take one row where they can */

#endif

/* The full-screen chat without the terminal: keys, events of the chat and time go in; a screen and wishes (window.h) come out.  So tests
 * need no terminal.  It has the tables of windows and of keys, and knows no single window.
 *
 *   tui        the terminal, the loop, the signals
 *   app        gives keys, events and time to the windows, and draws them
 *   figures    the texts of status line and panel
 *   window     what a window is, and the host that it gets; config/windows.def lists all windows */
#pragma once

#include "ui/tui/cells.h"
#include "ui/tui/figures.h"
#include "ui/tui/window.h"

struct app {
    struct host    host;                /* given to windows */
    struct figures figures;
    struct summary said;                /* the texts of status line and panel */
    struct buf     fatal;               /* why the model has ended; empty: it has not */
    bool           closing;             /* the program ends: queued messages are not sent any more */
};

/* The bindings of config/keys.def. */
struct actions *app_actions(void);
void app_open(struct app *a, struct options *o, const char *history_path);
/* The chat is open. */
void app_chat(struct app *a, struct chat *c);
/* Frees everything except the chat and the options. */
void app_close(struct app *a);
void app_interrupt(struct app *a, int64_t ms);           /* does what Ctrl-C does, for SIGINT */
void app_key(struct app *a, const struct key_event *ev, int64_t ms);
void app_events(struct app *a, const struct chat_event *ev, int n, int64_t ms);
void app_tick(struct app *a, int64_t ms);
/* ms until app_tick() has something to do, -1: nothing. */
int  app_timeout(const struct app *a);

/* --- drawing ------------------------------------------------------------------------------------------------------- */

/* Draws the state of the app into a screen of cells.  No terminal, no clock.  From top to bottom: transcript (with the panel at its right), progress
 * of loading or of a long prompt, queued messages, status line, input.  Lists and the inspector cover a part of the transcript. */

enum { VIEW_MIN_ROWS = 4, VIEW_MIN_COLUMNS = 20 };      /* a smaller screen only says that it is too small */

void view_draw(struct app *a, struct cells *c);         /* fills *c, whatever its size */
void view_title(struct app *a, struct buf *out);        /* the title of the terminal's window: "q35chat: session · answering" */

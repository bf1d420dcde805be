/* The full-screen chat without the terminal: keys, events of the chat and time go in; a screen (view.h) and wishes (window.h) come out.  So tests
 * need no terminal.  It knows the table of windows, but no single window.
 *
 *   tui, wake        the terminal, the loop, the signals        app         gives keys, events and time to the windows
 *   view, summary    draw this state into cells; the texts of status line and panel
 *   window           what a window is, and the host that it gets; config/windows.def lists all windows */
#ifndef Q35_UI_TUI_APP_H
#define Q35_UI_TUI_APP_H

#include "ui/tui/figures.h"
#include "ui/tui/window.h"

struct app {
    struct host    host;                /* given to windows */
    struct figures figures;
    struct summary said;                /* the texts of status line and panel */
    struct buf     fatal;               /* why the model has ended; empty: it has not */
    bool           closing;             /* the program ends: queued messages are not sent any more */
};

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

#endif

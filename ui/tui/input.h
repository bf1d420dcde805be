/* The draft and what becomes of it: editing, history, completion, messages that wait, and what is not sent when the program ends.
 * send.c is what Enter does with it. */
#ifndef Q35_UI_TUI_INPUT_H
#define Q35_UI_TUI_INPUT_H

#include "ui/tui/history.h"
#include "ui/tui/queue.h"
#include "ui/tui/suggest.h"
#include "ui/tui/window.h"

/* For input, send and revise; all others call the functions below. */
struct input {
    struct editor *editor;              /* the draft, */
    bool  drafted;                      /* which the chat was not told of since it has changed */
    struct history *history;
    struct queue   queue;               /* messages that wait */
    struct suggest suggest;             /* what completes the word at the cursor */
    char *steer;                        /* sent as soon as the answer has stopped, or NULL */
    char *unsent;                       /* the conversation whose file has what was restored, or NULL */
    char *set_aside;                    /* the draft that an earlier message has taken the place of, or NULL */
};

struct input *input_state(const struct host *h);
struct editor *input_editor(const struct host *h);
/* Once, at the beginning.  NULL: it is not kept. */
void input_history(struct host *h, const char *path);
void input_remember(struct host *h, const char *text);
/* Sends it; on failure it comes back. */
void input_submit(struct host *h, const char *text);
/* The chat hears of the draft, if it has changed. */
void input_tell(struct host *h);
/* What /quit does: a conversation that cannot be saved is asked about once. */
void input_quit(struct host *h);
/* Nothing runs: what waits is sent. */
void input_next(struct host *h);
/* About a summary that waits.  False: none does. */
bool input_decide(struct host *h, bool take);
/* What is chosen in the list of completions.  False: nothing is. */
bool input_take_suggestion(struct host *h);
/* What is not sent is kept over the end of the program. */
void input_keep(struct host *h);
/* What was kept of the conversation that was loaded comes back. */
void input_restore(struct host *h);

#endif

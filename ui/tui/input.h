/* The input: the draft, history, completion, queued messages, and what was not sent when the program ended.  send.c does what Enter means. */
#ifndef Q35_UI_TUI_INPUT_H
#define Q35_UI_TUI_INPUT_H

#include "ui/prompt.h"
#include "ui/tui/history.h"
#include "ui/tui/queue.h"
#include "ui/tui/suggest.h"
#include "ui/tui/window.h"

/* Used by input.c, send.c and revise.c only; other files call the functions below. */
struct input {
    struct editor *editor;              /* the draft */
    bool  drafted;                      /* the draft has changed since chat_draft() */
    struct history *history;
    struct queue   queue;               /* messages that wait for the end of an answer */
    struct suggest suggest;             /* completions of the word at the cursor */
    char *steer;                        /* a message that is sent as soon as the answer has stopped, or NULL */
    char *unsent;                       /* path of the conversation whose unsent text was restored (unsent.h), or NULL */
    struct buf made;                    /* paths of input_made() that were not sent, each ended by a zero byte */
    char *set_aside;                    /* the draft that was replaced by an earlier message (revise.h), or NULL */
};

struct input *input_state(const struct host *h);
struct editor *input_editor(const struct host *h);
/* Opens the history; called once, at the beginning.  NULL: it has no file. */
void input_history(struct host *h, const char *path);
void input_remember(struct host *h, const char *text);  /* adds the text to the history */
/* Sends the text, and releases the queue; if that fails the text becomes the draft again, and the queue is held. */
void input_submit(struct host *h, const char *text);
/* Sends the first message of the program, or writes it into the draft. */
void input_begin(struct host *h, const struct opening *first);
/* Calls chat_draft() if the draft has changed. */
void input_tell(struct host *h);
/* Does what /quit means: warns once if the conversation cannot be saved. */
void input_quit(struct host *h);
/* No answer is under way: sends the next message of the queue. */
void input_next(struct host *h);
/* Takes the summary that waits, or not.  False: none waits. */
bool input_decide(struct host *h, bool take);
/* Inserts the chosen completion.  False: none is chosen. */
bool input_take_suggestion(struct host *h);
/* Notes a file that was made for the message that is being written.  It is removed at the end, unless it was sent or is named by what is kept. */
void input_made(struct host *h, const char *path);
/* Keeps draft and queue in a file when the program ends (unsent.h). */
void input_keep(struct host *h);
/* Restores draft and queue of the conversation that was loaded. */
void input_restore(struct host *h);

#endif

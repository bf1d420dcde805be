/* The input: the draft, history, completion, queued messages, what was not sent when the program ended; and the prompt, a line in its
 * place.  send.c does what Enter means. */
#pragma once

#include "ui/prompt.h"
#include "ui/tui/complete.h"
#include "ui/tui/history.h"
#include "ui/tui/window.h"

/* --- a line that is asked for -------------------------------------------------------------------------------------- */

/* A prompt asks for a line in place of the input: a text to search for, a title.  The caller chooses its texts and gets the typed line. */

struct prompt_ask {
    const char *sign;                   /* before the line: "/ " */
    const char *told;                   /* the row above the line, what to type, while found() returns NULL; NULL: no such row */
    /* Enter was pressed, with this line.  The prompt is still open, and is closed afterwards. */
    void (*done)(struct host *h, const char *text);
    /* For a search while typing: the nth hit of `text`, which is shown above the line, and which done() gets; returns NULL if there is none. */
    const char *(*found)(struct host *h, const char *text, int nth);
};

/* `ask` must live as long as the prompt is open. */
void prompt_open(struct host *h, const struct prompt_ask *ask, const char *text);

/* --- messages that wait, and what was not sent -------------------------------------------------------------------- */

/* Messages that were typed while an answer ran, in order.  Plain value, valid as {0}. */
struct queue {
    char **texts;               /* the oldest first */
    int  n, cap;
    bool held;                  /* the user stopped an answer, or it failed: the queue waits until the user sends something */
};

void  queue_push(struct queue *q, const char *text);
void  queue_free(struct queue *q);

/* The text that was typed but not sent when the program ended, in a file next to the conversation's that only the user can read. */

/* Writes draft and queue.  session: path of the conversation's file.  If there is no text the file is removed.  synced: waits for the disk.  False:
 * the file could not be written. */
bool unsent_save(const char *session, const char *draft, const struct queue *q, bool synced);
/* Appends the draft, and adds the messages to `q`.  Without a file nothing happens.  The file stays until the next unsent_save(), so that nothing is
 * lost if the program ends before. */
void unsent_load(const char *session, struct buf *draft, struct queue *q);

/* --- the input ---------------------------------------------------------------------------------------------------- */

/* The draft is the line of the window, h->line[WINDOW_input].  Used by input.c and send.c only; other files call the functions below. */
struct input {
    bool  drafted;                      /* the draft has changed since chat_draft() */
    struct history *history;
    struct queue   queue;               /* messages that wait for the end of an answer */
    struct suggest suggest;             /* completions of the word at the cursor */
    char *steer;                        /* a message that is sent as soon as the answer has stopped, or NULL */
    char *unsent;                       /* path of the conversation whose unsent text was restored (unsent_save()), or NULL */
    struct buf made;                    /* paths of input_made() that were not sent, each ended by a zero byte */
    char *set_aside;                    /* the draft that was replaced by an earlier message (revise_begin()), or NULL */
};

struct input *input_state(const struct host *h);
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
/* Keeps draft and queue in a file when the program ends (unsent_save()). */
void input_keep(struct host *h);
/* Restores draft and queue of the conversation that was loaded. */
void input_restore(struct host *h);

/* --- an earlier message in the input ------------------------------------------------------------------------------ */

/* Nothing changes until the message is sent: messages that would leave the path are shown dim, and Esc, Ctrl-C or an empty draft bring the
 * former draft back. */

/* Puts a message of the user into the input; when it is sent it becomes a sibling of the old one. */
void revise_begin(struct host *h, int message);
/* Brings the old message into view. */
void revise_show(struct host *h);
/* Ends editing and restores the former draft.  False: no message is being edited. */
bool revise_end(struct host *h);

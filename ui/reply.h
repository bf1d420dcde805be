/* One answer without a chat's screen: sends a prompt, collects the reply, prints it in some form, and reports how the turn ended.
 *
 * Pipe mode prints one answer as text, as one JSON object (--json) or as an object for each event (--jsonl); --batch prints an object for each line
 * of its input.  A form is a struct of functions: those of JSON are here, the others in pipe.c and batch.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/printer.h"
#include "ui/process.h"

struct json_t;
struct reply;

/* A function that a form does not need is NULL. */
struct reply_form {
    /* The chat is open, or could not be opened (a->chat is NULL). */
    void (*begin)(struct reply *a);
    /* An event of the turn.  True: the cursor of the terminal is within text, so that no line about waiting may be shown. */
    bool (*event)(struct reply *a, const struct chat_event *ev);
    /* The turn has ended, with this exit status. */
    void (*done)(struct reply *a, const struct chat_event *ev, int status);
    /* There will be no answer: the model has failed, or the request is wrong. */
    void (*failed)(struct reply *a, const char *why, int status);
};
extern const struct reply_form reply_json, reply_jsonl;

struct reply {
    const struct reply_form *form;
    struct options *o;
    struct chat *chat;
    const char *about;                  /* before every sentence on stderr: "line 3: ", or "" */
    bool     verbose, strict, keeps;    /* keeps: the conversation is on disk */
    bool     reasoning_only;            /* an empty answer is no fault */
    int64_t  start_ns, deadline_ns;     /* deadline 0: none */
    struct waiting waiting;

    /* the reply */
    struct buf reasoning, text;
    struct json_t *calls;               /* [{"name", "arguments", "result"}] */
    int  n_results;
    bool new_reasoning, new_text;       /* the next part follows a tool call: it is a paragraph of its own */
    bool denied;                        /* a call was not allowed */
    const char *lacks;                  /* set by form->done(): a sentence about a part of the answer that is missing */

    int  status;                        /* exit status; -1: not known yet */
    bool timed_out, stopped;            /* --timeout was reached; a signal came */
};

/* Begins a collection; reply_free() frees it. */
void reply_init(struct reply *a);
void reply_reset(struct reply *a);                    /* ready for the next turn */
void reply_free(struct reply *a);

bool reply_attach_files(struct reply *a, struct err *e);              /* attaches the files of -f */
void reply_run(struct reply *a);                      /* after chat_submit(): prints until a->status is known */
void reply_fail(struct reply *a, const char *why, int status);        /* instead of that: prints and reports a failure */

/* Writes to stdout and flushes.  A closed pipe kills the process, as it should; any other error sets a->status. */
void reply_write(struct reply *a, const char *text, size_t n);
struct json_t *reply_object(struct reply *a, const struct chat_event *done);      /* the whole reply with its figures; the caller owns it */
/* Adds "parsed" to a printed object: the answer as it is, with all digits of its numbers, if it is the JSON that a schema asked for. */
void reply_add_parsed(const struct reply *a, const struct chat_event *done, struct buf *object);

/* Appends the code blocks of the answer, without fences, with an empty line between two.  False: there is none. */
bool reply_code(const struct reply *a, struct buf *out);

/* A front end, as its conversation knows it: its abilities, the kinds of turns, and the events that it gets.  Plain values, valid as {0}. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "answer/end.h"
#include "answer/stats.h"
#include "base/memory.h"

/* Abilities of a front end. */
struct chat_front {
    bool can_ask;                       /* it answers CHAT_APPROVE and CHAT_MODELS.  Otherwise calls that need approval are refused, and a server
                                         * with several models is an error */
    bool keeps;                         /* conversations are saved (if the option save is on) */
    bool attaches;                      /* "@path" in a message attaches the file; otherwise it is text like the rest */
    const char *tools;                  /* the meaning of tools = auto: "all", "none" */
    bool screen;                        /* it is the full screen: Enter on an empty draft does what /continue does, all commands exist */
    bool reads_ahead;                   /* more messages may follow: between turns the engine reads ahead what the next prompt will hold */
    bool inspects;                      /* it calls chat_token() for probabilities and alternatives of tokens, which must then be recorded */
};

enum turn_kind {
    TURN_AGAIN,                         /* answers the end of the path, which was there before */
    TURN_SUBMITTED,                     /* a new message, which returns to the user if it gets no text of an answer */
    TURN_SUMMARY,                       /* the model writes a summary, which becomes no entry */
    TURN_ASIDE,                         /* a question aside: neither question nor answer become entries; its tools run */
};

enum chat_event_kind {
    CHAT_LOADING,               /* done, total: bytes */
    CHAT_MODELS,                /* the list of chat_models() has changed.  Before CHAT_READY one of them must be chosen (chat_choose_model()):
                                 * messages wait until then, and each of them causes another CHAT_MODELS */
    CHAT_READY,                 /* chat_info() is filled */
    CHAT_PREFILL,               /* done, total, cached: tokens of the prompt that is being read */
    CHAT_REASONING,             /* text */
    CHAT_TEXT,                  /* text of the answer */
    CHAT_CALL,                  /* name: the tool; text: its arguments; truncated: the answer ended within the call, which will not be run */
    CHAT_APPROVE,               /* name, text: may this call run?  chat_approve() answers */
    CHAT_RUNS,                  /* name: this tool begins to run, after a yes if one was needed */
    CHAT_TOOL_OUTPUT,           /* name; text: output of a running tool since the last such event; the result repeats it */
    CHAT_TOOL_RESULT,           /* name; text: the result that the model reads */
    CHAT_NOTE,                  /* text: a sentence for the user; the turn continues */
    CHAT_TITLED,                /* text: the title that the model has written */
    CHAT_THUMB,                 /* a small copy of a picture has been made: see chat_thumb() */
    CHAT_DONE,                  /* the turn has ended.  end, stats; text: the reason, if it failed; taken_back: the user's message, see below.
                                 * The shown path may be another one: if a second answer to a message got no text, the first one is shown again */
    CHAT_FATAL,                 /* text: why the model is gone; the conversation can only be saved */
};

struct chat_event {
    enum chat_event_kind kind;
    const char *text, *name;            /* NUL-terminated UTF-8; never NULL; valid until the next drain */
    size_t n;                           /* bytes of text */
    size_t done, total, cached;
    bool   truncated;
    bool   denied;                      /* tool result: the user did not allow the call, nothing ran */
    bool   replayed;                    /* reasoning, text, call: a part of the stopped answer that the new one continues (chat_continue()) */
    const char *formed;                 /* done: the answer, if it is complete and has the form that was asked for; else NULL */
    const char *unformed;               /* done: why the complete answer does not have that form; else NULL */
    const char *taken_back;             /* the message of a turn that was undone because it got no text of an answer; else NULL */
    enum end end;
    struct stats stats;
};

/* Events on their way to the front end: one list is filled while the other is being read. */
struct outbox {
    struct { struct chat_event *events; int n, cap; struct arena mem; } lists[2];
    int in;
};

/* A new event with its own copies of text and name (NULL: ""); valid until it is taken. */
struct chat_event *outbox_post(struct outbox *b, enum chat_event_kind kind, const char *name, const char *text, size_t n);
const char *outbox_copy(struct outbox *b, const char *text, size_t n);  /* copies another text of an event */
const struct chat_event *outbox_take(struct outbox *b, int *n);         /* valid until the next take */
int  outbox_waiting(const struct outbox *b);
void outbox_free(struct outbox *b);

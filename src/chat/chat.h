/* A conversation with a model: a state machine over a responder's news (responder/responder.h), on one thread, shared by all front ends.
 *
 *     chat_open(local_open());  chat_submit();
 *     for (;;) { poll(chat_fds(), chat_timeout());  for each event of chat_drain(): show it }
 *
 * The model and the tokenizer load at the same time; a message submitted before waits for both.  Every submit and every regenerate ends in exactly
 * one CHAT_DONE or in CHAT_FATAL.  Each function is declared in the header of the file that defines it; this header includes all of them. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer/end.h"
#include "answer/machine.h"
#include "answer/stats.h"
#include "base/buf.h"
#include "base/err.h"
#include "chat/ahead.h"
#include "chat/asking.h"
#include "chat/branch.h"
#include "chat/context.h"
#include "chat/files.h"
#include "chat/front.h"
#include "chat/resume.h"
#include "chat/saving.h"
#include "chat/steer.h"
#include "chat/summary.h"
#include "chat/turn.h"
#include "option/options.h"

struct chat;
struct responder;

enum { CHAT_MAX_FDS = 9 };

/* Owns `r` from now on, also when it fails.  r NULL: opening the responder failed, and `e` has the reason already.  The chat reads `o` at every
 * turn; `o` must outlive it.  NULL with the reason. */
struct chat *chat_open(struct responder *r, struct options *o, const struct chat_front *front, struct err *e);
void chat_close(struct chat *c);

int  chat_fds(const struct chat *c, struct pollfd fds[CHAT_MAX_FDS]);
int  chat_timeout(const struct chat *c);                /* for poll(): ms, -1 for ever */
/* The *n events since the last call.  They are valid until the next call. */
const struct chat_event *chat_drain(struct chat *c, int *n);
/* Sleeps until the chat has something to do or `fd` (-1: none) can be read, at most timeout_ms (-1: for ever). */
void chat_wait(const struct chat *c, int fd, int timeout_ms);
bool chat_has_screen(const struct chat *c);             /* the front end is the full screen */
bool chat_busy(const struct chat *c);                   /* a turn is under way */
bool chat_ready(const struct chat *c);                  /* the model is loaded */

/* --- turns --- */
/* Sends a message.  False with the reason while another one is being answered.  Also false, but only the first time, if a file that the message
 * names cannot be attached or takes more than half of the free context: the same message again is sent. */
bool chat_submit(struct chat *c, const char *text, size_t n, struct err *e);
/* Adds a message of an earlier conversation, which is not answered: role "user" or "assistant". */
bool chat_recall(struct chat *c, const char *role, const char *text, size_t n, struct err *e);
bool chat_regenerate(struct chat *c, struct err *e);    /* another answer to the last message, with a new seed */
bool chat_regenerate_seed(struct chat *c, uint64_t seed, struct err *e);        /* ... with the given seed */
/* Makes the last answer once more with the same seed; a note reports whether both are equal, or at which token they differ first. */
bool chat_replay(struct chat *c, struct err *e);
/* Asks a question beside the conversation: a turn like others, but neither question nor answer are kept. */
bool chat_aside(struct chat *c, const char *question, struct err *e);
/* Lets the model write a summary of the conversation: a turn like others, but it adds no messages.  If the turn succeeds the summary waits for
 * chat_decide(), and until then nothing else can be done.  If accepted, it becomes the end of the path: prompts then begin with it and the pinned
 * messages, and chat_undo() goes back before it. */
bool chat_compact(struct chat *c, const char *hint, struct err *e);
/* Ends the turn and keeps the text of the answer so far.  A running tool gets SIGINT and two seconds; a second call kills it. */
void chat_interrupt(struct chat *c);
bool chat_new(struct chat *c, struct err *e);           /* an empty conversation; the old one stays on disk */

/* --- settings --- */
bool chat_offer_tools(struct chat *c, const char *list, struct err *e);         /* sets the option tools for the next turns */
bool chat_check_bias(const struct chat *c, const char *item, struct err *e);    /* true if the model can have a bias "TOKEN=X", or is not ready */
bool chat_set_approval(struct chat *c, const char *who, struct err *e);         /* sets the option tools_approve for the next turns */
void chat_describe_sampling(const struct chat *c, struct buf *out);     /* a line: the sampling values in force, and their source */
/* A line about an option; for a sampling option that the user has not set, with the value in force. */
void chat_explain(const struct chat *c, enum option_id id, struct buf *out);
void chat_sampling_name(const struct chat *c, struct buf *out);         /* "temperature 0.6"; "" while it is not known */
void chat_list_tools(const struct chat *c, struct buf *out);

/* --- the model --- */
/* The names of the models of the server, as it reported them last, and how many; 0: there is nothing to choose.  Valid until the next drain. */
int  chat_models(const struct chat *c, const char *const **names);
/* The model that the user means by `word`: a name, or a number from 1 in the order of chat_models(); NULL: there is no such model. */
const char *chat_model_meant(const struct chat *c, const char *word);
/* Uses this model for the next answers.  CHAT_READY follows, or CHAT_MODELS if the server does not have it.  False with the reason: an answer is
 * under way, or there is nothing to choose. */
bool chat_choose_model(struct chat *c, const char *name, struct err *e);
/* Requests the list of models from the server: CHAT_MODELS follows, or a note.  False with the reason, as chat_choose_model(). */
bool chat_list_models(struct chat *c, struct err *e);
void chat_machine(const struct chat *c, struct machine_figures *m);     /* cheap enough for once a second */
int  chat_others(const struct chat *c);                 /* the number of other programs that use the model of this chat; they may outlive it */
const struct model_info *chat_info(const struct chat *c);                /* NULL before CHAT_READY */
const char *chat_model_dir(const struct chat *c);
const char *chat_notice(const struct chat *c);          /* notice.txt of the model's directory, or NULL; its first line is a sentence of its own */
const char *chat_held_with(const struct chat *c);       /* the model as session/held.h describes it */

/* --- messages of the shown path --- */
int  chat_n_messages(const struct chat *c);
const struct stats *chat_last_stats(const struct chat *c);              /* figures of the turn that ended last */
/* Message i.  Valid until the conversation changes. */
struct chat_message {
    const char *role, *text, *reasoning, *name;         /* role: "user", "assistant", "tool", "summary" (of the messages before it); name: the tool */
    int64_t time_s;                                     /* when it was sent, or the answer ended, Unix time; 0: not known */
    int  n_calls;                                       /* tool calls of an assistant message */
    bool stopped;                                       /* the user or a limit stopped the answer */
};
struct chat_message chat_message(const struct chat *c, int i);
struct chat_call { const char *name, *arguments; };
struct chat_call chat_message_call(const struct chat *c, int i, int k);

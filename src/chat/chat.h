/* A conversation with the model: a state machine over the engine's events, on one thread, shared by all front ends.
 *
 *     chat_open();  chat_submit();
 *     for (;;) { poll(chat_fds(), chat_timeout());  for each event of chat_drain(): show it }
 *
 * The model and the tokenizer load beside each other; a message submitted before they are there waits for them.
 * Every submit and every regenerate ends in exactly one CHAT_DONE or in CHAT_FATAL. */
#ifndef Q35_CHAT_CHAT_H
#define Q35_CHAT_CHAT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/options.h"

struct chat;

enum { CHAT_MAX_FDS = 3, CHAT_MAX_DEPTH = 5 };

enum chat_event_kind {
    CHAT_LOADING,               /* done, total: bytes */
    CHAT_READY,                 /* chat_info() is filled */
    CHAT_PREFILL,               /* done, total, cached: tokens of the prompt */
    CHAT_REASONING,             /* text */
    CHAT_TEXT,                  /* text of the answer */
    CHAT_CALL,                  /* name; text: arguments; truncated: the answer ended inside, it will not be run */
    CHAT_APPROVE,               /* name, text: may it run?  chat_approve() answers */
    CHAT_TOOL_RESULT,           /* name; text: what the model is told */
    CHAT_NOTE,                  /* text: a sentence for the user; nothing stops */
    CHAT_DONE,                  /* end, stats; text: why, if it failed; taken_back: the user's message, see below */
    CHAT_FATAL,                 /* text: the model is gone; only saving is left */
};

enum chat_end {
    CHAT_ANSWERED, CHAT_STOP_TEXT, CHAT_LENGTH, CHAT_CONTEXT, CHAT_INTERRUPTED, CHAT_TOOL_ROUNDS, CHAT_FAILED
};
const char *chat_end_name(enum chat_end end);           /* "stop", "stop_text", "length", ... */

/* Of a turn, all rounds of tool calls together. */
struct chat_stats {
    int    n_prompt, n_cached, n_tokens, n_steps, n_rounds;
    int    drafted[CHAT_MAX_DEPTH], accepted[CHAT_MAX_DEPTH];   /* by draft position */
    double prefill_ms, decode_ms, wall_ms;
    double tok_s;                       /* tokens after the first, over the time after the first */
    double acceptance;                  /* accepted / drafted; negative when nothing was drafted */
    int    ctx_used, ctx_total;
    uint64_t seed;
};

struct chat_event {
    enum chat_event_kind kind;
    const char *text, *name;            /* NUL-terminated UTF-8; never NULL; valid until the next drain */
    size_t n;                           /* bytes of text */
    size_t done, total, cached;
    bool   truncated;
    const char *taken_back;             /* nothing was answered: the turn is undone and this was its message; else NULL */
    enum chat_end end;
    struct chat_stats stats;
};

struct chat_info {
    char model[64], backend[16], formats[96];
    int  n_ctx, draft_depth, n_threads;
    double load_ms;
};

/* What a front end can and wants. */
struct chat_front {
    bool can_ask;                       /* CHAT_APPROVE will be answered; otherwise such calls are refused */
    bool keeps;                         /* conversations go to disk (if the option save is on) */
    const char *tools;                  /* what tools = auto stands for: "all", "none" */
};

/* `o` is read at every turn and must outlive the chat.  NULL with the reason. */
struct chat *chat_open(struct options *o, const struct chat_front *front, struct err *e);
void chat_close(struct chat *c);

int  chat_fds(const struct chat *c, struct pollfd fds[CHAT_MAX_FDS]);
int  chat_timeout(const struct chat *c);                /* for poll(): ms, -1 for ever */
const struct chat_event *chat_drain(struct chat *c, int *n);
/* Sleeps until something happens here or on `fd` (-1: none), at most timeout_ms (-1: for ever). */
void chat_wait(const struct chat *c, int fd, int timeout_ms);

bool chat_submit(struct chat *c, const char *text, size_t n, struct err *e);    /* false while one is being answered */
bool chat_regenerate(struct chat *c, struct err *e);    /* another answer to the last message, with another seed */
void chat_interrupt(struct chat *c);                    /* ends the turn; what was said is kept */
enum chat_answer { CHAT_NO, CHAT_YES, CHAT_ALWAYS };    /* always: this tool, until the program ends */
void chat_approve(struct chat *c, enum chat_answer answer);
bool chat_busy(const struct chat *c);
bool chat_ready(const struct chat *c);

bool chat_new(struct chat *c, struct err *e);           /* an empty conversation; the old one stays on disk */
bool chat_undo(struct chat *c, struct buf *taken_back, struct err *e);  /* the last message and its answer */
bool chat_offer_tools(struct chat *c, const char *list, struct err *e);
void chat_list_tools(const struct chat *c, struct buf *out);
bool chat_save(struct chat *c, const char *name, struct err *e);
bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e);

const struct chat_info *chat_info(const struct chat *c);                /* NULL before CHAT_READY */
const char *chat_model_dir(const struct chat *c);
const char *chat_notice(const struct chat *c);          /* first line of notice.txt in the model's directory, or NULL */
const char *chat_saved_as(const struct chat *c);        /* path, or NULL */
int  chat_n_messages(const struct chat *c);
const struct chat_stats *chat_last_stats(const struct chat *c);
/* The conversation so far, a message after the other, for a front end that shows a loaded one.  Valid until it changes. */
struct chat_message {
    const char *role, *text, *reasoning, *name;         /* role: "user", "assistant", "tool" */
    bool stopped;
};
struct chat_message chat_message(const struct chat *c, int i);

#endif

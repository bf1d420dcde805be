/* The inside of a conversation, for the files that make it.  Nobody else includes this.
 *
 * Each file calls only those before it (tests/layers.sh checks that):
 *     state     what the others ask of the whole
 *     persist   the file on disk
 *     checkpointer  its checkpoint
 *     branch    going back and aside
 *     aside     questions that leave no trace
 *     context   what fills the context
 *     summary   what comes of a summary
 *     calls     an answer's tools
 *     asking    what a turn asks for
 *     titler    titles by the model
 *     turn      a message and its answer: requests, and what comes back
 *     approve   the user's word on a call
 *     steer     tokens, and answers with a beginning
 *     compact   a summary is asked for, and taken
 *     saved     conversations saved, loaded, resumed
 *     ahead     what is read while nothing is asked
 *     chat      the rest of chat.h */
#ifndef Q35_CHAT_STATE_H
#define Q35_CHAT_STATE_H

#include "chat/attach.h"
#include "chat/branch.h"
#include "chat/calls.h"
#include "chat/chat.h"
#include "chat/checkpointer.h"
#include "chat/outbox.h"
#include "chat/persist.h"
#include "responder/responder.h"
#include "chat/summary.h"
#include "chat/titler.h"
#include "session/transcript.h"
#include "chat/turn.h"

/* The files and doubts of the next message. */
struct draft {
    struct attached attached;           /* files of chat_attach(), which the text does not name */
    struct buf      doubted;            /* the message that was refused because of its files; the same text again is sent */
    enum { NO_DOUBT, DOUBTS_FILES, DOUBTS_SIZE } doubt;         /* the reason that the user was told; SIZE includes FILES */
};

/* Reading ahead: what the responder was given to read before the next request. */
struct ahead {
    uint64_t print;                     /* hash of the messages that the responder was given last; 0: none */
    struct buf draft;                   /* whole words of the message that is being typed */
    int64_t due_ns;                     /* when they are given to the responder; 0: they were */
    struct buf read;                    /* the words that the responder was given last */
};

struct chat {
    struct options   *o;
    struct chat_front front;
    struct outbox     out;
    struct responder *responder;
    struct model_info  info;
    /* ASKS: a model must be chosen.  GONE: another responder is opened as soon as a turn waits for one. */
    enum { RESPONDER_OPENS, RESPONDER_ASKS, RESPONDER_READY, RESPONDER_GONE } presence;
    struct ahead      ahead;

    struct transcript t;
    struct titler     title;
    struct { struct chat_part *all; int cap; } parts;           /* chat_context() */
    struct draft      draft;
    struct edit       edit;
    struct persist    persist;
    struct checkpointer checkpoint;

    struct chat_turn  turn;
    struct calls      calls;
    struct summary    summary;
    struct transcript aside;            /* of the newest chat_aside(): question, answers, results of its calls */
};

#define STATE_MIX 0xcbf29ce484222325u

static inline bool state_ready(const struct chat *c) { return c->presence == RESPONDER_READY; }         /* the responder takes requests */
const char *state_model(const struct chat *c);            /* the model, as sessions record it (session/held.h) */
bool state_usable(const struct chat *c, struct err *e);         /* a turn may begin, and the conversation may be changed */
const char *state_role(const struct entry *m);
uint64_t state_conversation(const struct chat *c);              /* for struct request: a hash of its file's path; 0: it has no file */
uint64_t state_mix(uint64_t h, const void *data, size_t n);     /* FNV-1a over n more bytes; the first h is STATE_MIX */
void state_note(struct chat *c, const char *text);              /* a sentence for the user */

/* aside.c */
void aside_calls(const struct chat *c, struct request *q, struct arena *mem);           /* adds the calls so far and their results to the request */
/* The end that the user is told when the turn ended with `end`; *why: the reason, if it failed. */
enum end aside_end(struct chat *c, enum end end, const char **why);

/* ahead.c */
void ahead_step(struct chat *c);                        /* gives the responder the beginning of the next prompt to read, if that has changed */
int  ahead_timeout(const struct chat *c);               /* ms until ahead_step() has something to do, -1: nothing */

/* context.c */
int context_entry_frees(struct chat *c, int i);         /* tokens that prompts save when one line replaces entry i */
int context_if_summed(struct chat *c, const struct buf *summary);       /* tokens of the next prompt if this summary replaced the messages so far */
int context_file_tokens(const struct chat *c, struct text t);           /* tokens of a file with this text */
bool context_counts(const struct chat *c, struct text t);               /* false: context_file_tokens() is an estimate */

#endif

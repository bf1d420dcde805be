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
#include "chat/responder.h"
#include "chat/summary.h"
#include "chat/transcript.h"
#include "chat/turn.h"

/* What the user has ready for the next message. */
struct draft {
    struct attached attached;           /* files that it does not name itself */
    struct buf      doubted;            /* the message that was refused because of its files; sent again it goes as it is */
    enum { NO_DOUBT, DOUBTS_FILES, DOUBTS_SIZE } doubt;         /* what was told of it; the later one includes the other */
};

/* What is read while nothing is asked. */
struct ahead {
    uint64_t print;                     /* of what stands before the next message, as it was last given to the responder; 0: it was not */
    struct buf draft;                   /* whole words of that message */
    int64_t due_ns;                     /* when they are looked at; 0: they were */
    struct buf read;                    /* those that the responder was last given */
};

struct chat {
    struct options   *o;
    struct chat_front front;
    struct outbox     out;
    struct responder *responder;
    struct chat_info  info;
    enum { RESPONDER_OPENS, RESPONDER_ASKS, RESPONDER_READY, RESPONDER_GONE } presence;         /* asks: for a model; gone: another takes its place
                                                                                                 * when a turn waits */
    struct ahead      ahead;

    struct transcript t;
    struct buf        title;            /* chat_title() */
    struct { struct chat_part *all; int cap; } parts;           /* chat_context() */
    struct draft      draft;
    struct edit       edit;
    struct persist    persist;
    struct checkpointer checkpoint;

    struct chat_turn  turn;
    struct calls      calls;
    struct summary    summary;
    struct transcript aside;            /* the newest one: question, answers, results of its calls */
};

#define STATE_MIX 0xcbf29ce484222325u

static inline bool state_ready(const struct chat *c) { return c->presence == RESPONDER_READY; }         /* the responder takes requests */
bool state_usable(const struct chat *c, struct err *e);         /* a turn may begin, or the conversation change */
const char *state_role(const struct entry *m);
uint64_t state_conversation(const struct chat *c);              /* struct request: a number made of its file's path; 0: there is no file */
uint64_t state_mix(uint64_t h, const void *data, size_t n);     /* FNV-1a over n more bytes; begins with STATE_MIX */
void state_note(struct chat *c, const char *text);              /* a sentence for the user */

/* aside.c */
void aside_calls(const struct chat *c, struct request *q, struct arena *mem);           /* adds its calls so far and their results */
/* How the turn ends for the user; *why is the reason if it failed. */
enum chat_end aside_end(struct chat *c, enum chat_end end, const char **why);

/* ahead.c */
void ahead_step(struct chat *c);                        /* what the next prompt begins with goes to the responder, if it has changed */
int  ahead_timeout(const struct chat *c);               /* ms until ahead_step() has something to do, -1: nothing */

/* context.c */
int context_entry_frees(struct chat *c, int i);         /* tokens that a prompt saves when a line stands for it */
int context_if_summed(struct chat *c, const struct buf *summary);       /* of the next prompt with that in place of all before */
int context_file_tokens(const struct chat *c, struct text t);           /* of a file that may be attached */
bool context_counts(const struct chat *c, struct text t);               /* false: that figure is an estimate */

#endif

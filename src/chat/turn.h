/* A turn: from a message, or another reason to answer, to the end of the answer, all rounds of tool calls included. */
#ifndef Q35_CHAT_TURN_H
#define Q35_CHAT_TURN_H

#include "chat/answer.h"
#include "chat/chat.h"
#include "responder/responder.h"
#include "answer/tokens.h"

/* Where the turn is.  These are all the ways:
 *
 *     IDLE      -> WAITING     the responder is not ready
 *     IDLE, WAITING, CALLING -> BEGINNING     it gets a request
 *     BEGINNING -> ANSWERING   what the answer begins with was told
 *     ANSWERING -> ENDING      the user wants an end: DONE is awaited
 *     ANSWERING -> CALLING     DONE, and its tools are run; each call takes the turn to ASKING or RUNNING, and back
 *     RUNNING   -> STOPPING    the user wants an end: the tool was asked for it
 *     ENDING, ASKING, STOPPING -> REFUSING    no more calls are run, each is answered with a refusal
 *     BEGINNING, ANSWERING, ENDING -> IDLE    DONE, and no tool is called; or the request was refused
 *     WAITING, CALLING, REFUSING -> IDLE      the user wants an end, or there were too many rounds
 *     any       -> DEAD        the responder is gone, for ever */
enum turn_state {
    TURN_IDLE, TURN_WAITING, TURN_BEGINNING, TURN_ANSWERING, TURN_ENDING, TURN_CALLING, TURN_ASKING, TURN_RUNNING, TURN_STOPPING, TURN_REFUSING,
    TURN_DEAD,
};

enum turn_kind {
    TURN_ANEW,                          /* answers what was there before */
    TURN_SUBMITTED,                     /* a new message, which goes back to the user if nothing comes of it */
    TURN_SUMMARY,                       /* the model writes a summary: no entry comes of that */
    TURN_ASIDE,                         /* a question aside: likewise, its tools run */
};

struct chat_turn {
    enum turn_state state;
    enum turn_kind  kind;
    int    start;                       /* what the path held before the answer */
    bool   thinking;
    int    think_budget;                /* tokens of reasoning; 0: no limit */
    struct tokens prefix;               /* what the next answer begins with */
    const struct entry *replays;        /* the answer that is given again, to be compared, or NULL */
    bool   begins;                      /* it is the option `begin`, which nobody has seen yet */
    const struct entry *continued;      /* the stopped answer that it goes on with, or NULL */
    struct answer answer;
    struct { size_t reasoning, content; int calls; } shown;     /* what of it was posted: bytes, and calls */

    int64_t start_ns;                   /* the time of the user's decisions is added: it is not ours */
    double  joules_before;
    struct stats   stats;          /* of the requests that have ended */
    struct stats   live;           /* of the one under way */
    struct buf          refill;         /* chat_refill() */
};

static inline bool turn_is_kept(enum turn_kind kind)            /* its answer becomes an entry */
{
    return kind != TURN_SUMMARY && kind != TURN_ASIDE;
}

static inline bool turn_answers(const struct chat_turn *t)      /* the responder has a request */
{
    return t->state == TURN_BEGINNING || t->state == TURN_ANSWERING || t->state == TURN_ENDING;
}

static inline bool turn_calls(const struct chat_turn *t)        /* the answer's tools are run */
{
    return t->state >= TURN_CALLING && t->state <= TURN_REFUSING;
}

static inline bool turn_stops(const struct chat_turn *t)        /* the user wants an end */
{
    return t->state == TURN_ENDING || t->state == TURN_STOPPING || t->state == TURN_REFUSING;
}

void turn_begin(struct chat *c, enum turn_kind kind);   /* answers what the path ends with */
void turn_news(const struct news *it, void *chat);      /* for the responder */
void turn_show(struct chat *c);                         /* posts what the answer under way has gained */
void turn_after_calls(struct chat *c);                  /* if all are answered: the next request, or the end */
void turn_stop(struct chat *c);                         /* the user wants an end */
void turn_fail(struct chat *c, const char *why);        /* nobody is there who could answer what waits */
void turn_advise(const struct chat *c, struct buf *text);       /* adds what makes room for a prompt that is too long */

#endif

/* The inside of a conversation, for the files that make it; front ends include chat/chat.h.
 *
 * Each file calls only those before it (tests/layers.sh checks that):
 *     state     the conversation, and what all files use of it
 *     saving    its file on disk, and its checkpoint
 *     branch    going back, and to other branches
 *     context   tokens of the next prompt
 *     files     files of the next message
 *     asking    requests to the responder
 *     summary   summaries by the model
 *     calls     the tools that an answer calls
 *     titler    titles by the model
 *     turn      a message and its answer
 *     steer     tokens of answers, and answers with a given beginning
 *     resume    conversations that are saved, loaded, deleted
 *     ahead     reading ahead while nothing is under way
 *     chat      the rest of chat.h */
#pragma once

#include "base/buf.h"
#include "chat/answer.h"
#include "chat/front.h"
#include "chat/sent.h"
#include "option/options.h"
#include "responder/responder.h"
#include "session/file.h"
#include "session/transcript.h"
#include "tool/tool.h"

/* The states of a turn, and all their changes:
 *
 *     IDLE      -> WAITING     the responder is not ready
 *     IDLE, WAITING, CALLING -> BEGINNING     the responder gets a request
 *     BEGINNING -> ANSWERING   the given beginning of the answer has been posted
 *     ANSWERING -> ENDING      the user interrupts: DONE will follow
 *     ANSWERING -> CALLING     DONE, and the tools of the answer run; each call takes the turn to ASKING or RUNNING, and back
 *     RUNNING   -> STOPPING    the user interrupts: the tool was interrupted
 *     ENDING, ASKING, STOPPING -> REFUSING    no more calls run, each gets a refusal as its result
 *     BEGINNING, ANSWERING, ENDING -> IDLE    DONE, and no tool is called; or the request was refused
 *     WAITING, CALLING, REFUSING -> IDLE      the user interrupts, or there were too many rounds
 *     any       -> DEAD        the responder is gone for good */
enum turn_state {
    TURN_IDLE, TURN_WAITING, TURN_BEGINNING, TURN_ANSWERING, TURN_ENDING, TURN_CALLING, TURN_ASKING, TURN_RUNNING, TURN_STOPPING, TURN_REFUSING,
    TURN_DEAD,
};

struct chat_turn {
    enum turn_state state;
    enum turn_kind  kind;
    int    start;                       /* length of the path before the answer */
    bool   thinking;
    int    think_budget;                /* tokens of reasoning; 0: no limit */
    struct tokens prefix;               /* the beginning of the next answer */
    const struct entry *replays;        /* the answer that is repeated, for a comparison, or NULL */
    bool   begins;                      /* the beginning is the option `begin`, which was not shown before */
    const struct entry *continued;      /* the stopped answer that the new one continues, or NULL */
    struct answer answer;
    struct form form;                   /* that the answer must have; its texts are in `asked` */
    struct arena asked;                 /* memory of the newest request */
    struct { size_t reasoning, content; int calls; } shown;     /* parts of it that were posted: bytes, and calls */

    int64_t start_ns;                   /* moved forward by the time that the user took to decide */
    double  joules_before;
    struct stats stats;                 /* of the requests that have ended */
    struct stats live;                  /* of the request under way */
    struct buf   refill;                /* chat_refill() */
};

static inline bool turn_is_kept(enum turn_kind kind)            /* its answer becomes an entry */
{
    return kind != TURN_SUMMARY && kind != TURN_ASIDE;
}

static inline bool turn_answers(const struct chat_turn *t)      /* the responder has a request */
{
    return t->state == TURN_BEGINNING || t->state == TURN_ANSWERING || t->state == TURN_ENDING;
}

static inline bool turn_calls(const struct chat_turn *t)        /* the tools of the answer run */
{
    return t->state >= TURN_CALLING && t->state <= TURN_REFUSING;
}

static inline bool turn_stops(const struct chat_turn *t)        /* the user has interrupted it */
{
    return t->state == TURN_ENDING || t->state == TURN_STOPPING || t->state == TURN_REFUSING;
}

/* The calls of an answer, run one after the other. */
struct calls {
    struct tools    *tools;
    struct buf       always;            /* tools that the user allowed for good, with commas */
    int              next;              /* index of the call that awaits approval, runs, or comes next */
    struct tool_run *run;               /* NULL: no call runs */
    size_t           shown_output;      /* bytes of its output that were posted */
    struct buf       edited;            /* the beginning of its result: a note that the user changed the arguments; then the result */
    bool             reads;             /* pictures that it names are being read */
    int64_t          asked_ns;          /* when the user was asked; or when the running tool was interrupted */
};

struct summary {
    int  room;                          /* tokens that it may have */
    struct buf request;                 /* the message that asks for it */
    struct buf text;                    /* it waits for the user; empty: no summary does */
    bool advised;                       /* a note was posted that the context is nearly full */
};

struct titler {
    struct buf shown;                   /* chat_title() */
    bool    due;                        /* a turn has ended since the last title that the model wrote */
    bool    typing;                     /* there is a draft */
    int     tries;                      /* requests for a title of this conversation */
    int64_t quiet_ns;                   /* when a turn ended or a key came last */
    bool    under_way, stopping;        /* there is a request; it was interrupted, or has written enough */
    uint64_t conversation;              /* the conversation of the request */
    struct buf written;                 /* the answer so far */
};

/* The file of the conversation. */
struct persist {
    struct session *session;            /* NULL: no file yet, or never */
    bool        wanted;                 /* the first message makes one */
    const char *save_as;                /* name of the first file; NULL: made from the date */
    bool        early;                  /* the file was made before a model was chosen: its first line has none */
    bool        unsaved;                /* the file lacks something */
    bool        warned;                 /* ... and the user was warned before leaving */
    struct buf  doomed;                 /* name of the conversation that a second /delete deletes */
    enum { PLACE_NEXT, PLACE_INSTEAD, PLACE_BESIDE } place;     /* of the next entry, relative to the end of the path in the file */
    struct persist_part {               /* parts of the answer under way that the file has */
        size_t  reasoning, content;     /* bytes */
        int     ids;
        int64_t due_ns;                 /* when the rest will be written; 0: there is no rest */
    } part;
};

/* The checkpoint of the conversation: what the responder has computed of it, in a file beside its own. */
struct checkpointer {
    bool   due;                         /* there is something new to save */
    bool   asked;                       /* the responder was asked to save it, and has not reported yet */
    bool   reported;                    /* the user knows that it cannot be saved */
    uint64_t home;                      /* the conversation whose file the responder has; 0: none */
    uint64_t conversation;              /* the conversation of the last request to save or restore; reports about others are ignored */
    size_t bytes, written;              /* size of the file; bytes written since the start */
    int    restored;                    /* tokens that were restored */
};

/* Files of the next message, and doubts about them. */
struct draft {
    struct attached attached;           /* files of chat_attach(), which the text does not name */
    struct shelf   *shelf;              /* reads pictures and PDF files for a front end that must not wait; NULL: not needed so far */
    struct buf      doubted;            /* the message that was refused because of its files; the same text again is sent */
    enum { NO_DOUBT, DOUBTS_FILES, DOUBTS_SIZE } doubt;         /* the reason that the user was given; SIZE includes FILES */
};

/* The message that is being edited; numbers of entries. */
struct edit {
    bool on;
    int  message, end;                  /* the message, and the end of the path when it was marked */
    bool replaced;                      /* the message of the turn replaced it */
};

/* Reading ahead: what the responder was given to read before the next request. */
struct ahead {
    uint64_t print;                     /* hash of the messages that the responder was given last; 0: none */
    struct buf draft;                   /* whole words of the message that is being typed */
    bool files;                         /* a file of the draft has been read since the responder was given these words */
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
    struct { struct chat_part *all; int cap; struct thumbs *thumbs; } parts;       /* chat_context(); chat_thumb(), NULL: none was asked for */
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
const char *state_model(const struct chat *c);                  /* the model, as sessions record it (session/held.h) */
bool state_usable(const struct chat *c, struct err *e);         /* true if a turn may begin, and the conversation may be changed */
const char *state_role(const struct entry *m);
uint64_t state_conversation(const struct chat *c);              /* for struct request: a hash of the path of its file; 0: it has no file */
uint64_t state_mix(uint64_t h, const void *data, size_t n);     /* FNV-1a over n more bytes; the first h is STATE_MIX */
void state_note(struct chat *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));    /* posts a sentence for the user */

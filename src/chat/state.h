/* The inside of a conversation, for the files that make it: chat (what a front end calls), round (a request to the responder and
 * what comes back), steer (tokens, answers with a beginning), calls (tools), tree (going back and aside), compact (a summary), keep (the file on disk).
 * Nobody else includes this. */
#ifndef Q35_CHAT_STATE_H
#define Q35_CHAT_STATE_H

#include "chat/answer.h"
#include "chat/attach.h"
#include "chat/chat.h"
#include "chat/outbox.h"
#include "chat/responder.h"
#include "chat/session.h"
#include "chat/tool.h"
#include "chat/transcript.h"

enum state {
    IDLE,
    WAITING,            /* a request, for the model to be there */
    ANSWERING,          /* the responder has a request */
    CALLING,            /* the calls of its answer are run, one after the other */
    ASKING,             /* chat_approve() decides about calls[next_call] */
    RUNNING,            /* a tool runs calls[next_call] */
    DEAD,               /* the responder is gone */
};

/* Of the answer under way: what the session's file has of it. */
struct on_disk {
    size_t  reasoning, content;         /* bytes */
    int     ids;
    int64_t due_ns;                     /* when the rest goes there; 0: there is none */
};

/* What functions of a const chat hand out, until they are called again. */
struct memo {
    struct buf title;
    struct chat_part *parts;
    int cap_parts;
};

/* A summary that the model writes, or that waits for the user's word. */
struct compacting {
    bool on;                            /* the turn under way writes it: no entry comes of that */
    int  room;                          /* tokens that it may have */
    struct buf request;                 /* what the model is told */
    struct buf text;                    /* it waits; empty: none does */
    bool told;                          /* that the context is nearly full */
};

/* A message that is being written anew; numbers of entries. */
struct edit {
    bool on;
    int  message, end;                  /* it, and what the path ended with when it was marked */
    bool replaced;                      /* the turn's message took its place */
};

struct chat {
    struct options   *o;
    struct chat_front front;
    struct responder *responder;
    struct chat_info  info;
    bool              ready;            /* the responder takes requests */
    struct tools     *tools;
    struct buf        always;           /* tools that were allowed for good, with commas */
    struct transcript t;
    struct session   *session;
    bool              keep;             /* a session is made for the first message */
    const char       *save_as;          /* the name of the first session; NULL: made from the date */
    bool              unsaved;          /* the file lacks something */
    bool              warned;           /* ... and the user was told when he wanted to leave */
    struct buf        doomed;           /* the conversation that will be deleted if that is said once more */
    enum { BEHIND, INSTEAD, BESIDE } place;     /* of the next entry, against the one that the path in the file still ends with */
    struct memo      *memo;
    struct outbox     out;
    struct buf        doubted;          /* the message that was refused because of its files; sent again it goes as it is */
    enum { NO_DOUBT, DOUBTS_FILES, DOUBTS_SIZE } doubt;         /* what was told of it; the later one includes the other */

    struct compacting compact;
    struct attached attached;           /* files of the next message that it does not name itself */
    struct edit     edit;

    enum state    state;
    struct answer answer;
    size_t        shown_reasoning, shown_content;       /* bytes of the answer already posted */
    int           shown_calls;
    bool          thinking, interrupted;
    bool          submitted;            /* the turn began with a new message */
    bool          replaying;            /* what comes of the answer was given */
    struct tokens begun;                /* what the next answer begins with */
    const struct entry *continued;      /* the stopped answer that it goes on with, or NULL */
    int           budget;               /* tokens of reasoning; 0: no limit */
    struct on_disk on_disk;
    int           turn_start;           /* what the path held before the turn's answer */
    int           next_call;
    struct tool_run *run;
    struct buf    edited;               /* what its result begins with: that the user changed the arguments */
    size_t        shown_output;         /* bytes of what it printed that were posted */
    int           variant;              /* how often this turn was generated before */
    int64_t       start_ns;             /* the time of the user's decisions is added: it is not ours */
    int64_t       asked_ns;             /* when the user was asked; or when a running tool was asked to end */
    double        after_first;          /* tokens after the first one of each request */
    double        joules_before;        /* the turn */
    struct chat_stats stats;            /* of the requests that have ended */
    struct answer_stats live;           /* of the one under way */
    uint64_t      ahead_print;          /* of what the responder was last given to read ahead */
};

/* chat.c */
bool chat_usable(const struct chat *c, struct err *e);   /* a turn may begin, or the conversation change */
bool chat_can_leave(const struct chat *c, struct err *e);/* another conversation may take its place */
const char *state_role(const struct entry *m);

/* round.c */
void round_turn(struct chat *c);                        /* answers the last user message */
void round_request(struct chat *c);                     /* hands the conversation to the responder, when it is there */
void round_news(const struct news *it, void *chat);      /* for the responder */
void round_finish(struct chat *c, enum chat_end end, const char *why);         /* the turn ends */
void round_die(struct chat *c, const char *why);
int round_count_prompt(struct chat *c, struct err *e);   /* tokens of the prompt of the turn under way; negative: it is refused */
void round_show(struct chat *c);                        /* posts what the answer under way has gained */
void round_post(struct chat *c, enum chat_event_kind kind, const char *text);

/* calls.c */
void calls_next(struct chat *c);                        /* until one has to be waited for, or all are answered */
void calls_step(struct chat *c);                        /* looks whether the running one has ended */
void calls_kill(struct chat *c);                        /* ends it at once, and the turn */

/* ahead.c */
void ahead_step(struct chat *c);                        /* what the next prompt begins with goes to the responder, if it has changed */

/* tree.c */
bool tree_replace(struct chat *c);                      /* a message that is being edited leaves the path, with what follows; false: none is */
/* The turn's message has no answer; its text for the front end (in its arena), NULL if older answers are back. */
const char *tree_take_back(struct chat *c);

/* compact.c */
void compact_answered(struct chat *c, enum chat_end end, const char *why);     /* the summary has come to its end */
void compact_over(struct chat *c);                      /* the turn ends, however */
void compact_advise(struct chat *c);                    /* a note when the context is nearly full, once */

/* context.c */
int context_entry_frees(const struct chat *c, int i);   /* tokens that a prompt saves when a line stands for it */
int context_if_summed(const struct chat *c, const struct buf *summary);         /* of the next prompt with that in place of all before */
int context_file_tokens(const struct chat *c, struct text t);           /* of a file that may be attached */

/* keep.c: changes of the transcript that go to the file as well; a disk that fails is told and ends nothing */
void keep_entry(struct chat *c, const struct entry *m); /* it is in the transcript already */
/* The next entry takes the place of `old`, or stands beside it if others came since.  On disk the path still ends with it. */
void keep_instead(struct chat *c, const struct entry *old);
void keep_cut(struct chat *c, int n);
void keep_begun(struct chat *c);                        /* an answer begins, with what was given */
void keep_part(struct chat *c);                         /* what it has gained goes to the file, if it is time */
void keep_go(struct chat *c, const struct entry *end);
void keep_forget(struct chat *c);                       /* the last entry was never said */
void keep_system(struct chat *c);                       /* the option `system` is the truth; the transcript follows it */
void keep_mark(struct chat *c, struct entry *m, int file, enum mark mark);
void keep_retry(struct chat *c);                        /* after a failure, at the end of a turn: the whole file anew */

#endif

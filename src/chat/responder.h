/* Who answers: the engine in this process (chat/local.h), or somebody else.  The conversation knows this table alone, and decides by
 * what a responder can do.
 *
 * All functions are called from one thread, and none waits for the model but close().  What happens is told as news, which drain()
 * hands to the owner's function; request() does so too with what it knows at once.  Each request that was taken gets
 *
 *     READING*  { TOKEN  REASONING  TEXT  CALL_BEGIN CALL }*  REFILL?  DONE
 *
 * DONE exactly once, unless FATAL comes first.  An answer begins with what was given for it, in news that is `replayed`.
 * Within the function the owner may interrupt(): no more tokens are told then.  From DONE on it may make the next request. */
#ifndef Q35_CHAT_RESPONDER_H
#define Q35_CHAT_RESPONDER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/message.h"
#include "chat/chat.h"
#include "chat/tokens.h"

struct responder;

enum { RESPONDER_MAX_FDS = 4 };

/* What it can do now.  Nothing goes away again; all is there with READY. */
struct responder_can {
    bool count;                         /* count() and count_prompt(): how many tokens a text and a prompt have, exactly */
    bool tokens;                        /* answers come with TOKEN news; tokens(), says() and piece() */
    bool logprobs;                      /* ... which tell how likely they were, and what else was */
    bool begin_text;                    /* an answer may begin with the text of a stopped one */
    bool begin_tokens;                  /* ... or with any tokens, so that it may leave another one at any of them */
    bool end_thought;                   /* end_thought(), and a budget of reasoning */
    bool read_ahead;
    bool keeps;                         /* save() and restore() */
    bool plain;                         /* a prompt of tokens; encode() and prompt() */
    bool choose;                        /* it may have several models: models() and choose().  Known from the beginning */
};

/* How to pick tokens.  Zeros: greedy, without any limit. */
struct request_sampling {
    /* float temperature, top_p, ... */
#define SAMPLING_NUMBER(name, ...) float name;
#include "config/sampling_numbers.def"
    int      top_k;                     /* 0: all */
    uint64_t seed;
    int      max_tokens;                /* of the answer, without what it begins with; 0: until the context is full */
    int      draft_depth;               /* -1: as many as pay */
    bool     lookup;                    /* drafts are looked up in the text, too */
    int      n_alternatives;            /* told with every token; 0: none, and no probabilities either */
    const char *const *bias;            /* [n_bias] "TOKEN=X" (chat/bias.h) */
    int      n_bias;
};

/* What the answer begins with.  Tokens where there are any, else texts; {0}: nothing. */
struct given {
    const struct tokens *tokens;
    struct text reasoning, content;
};

/* Everything is the caller's, and copied where it is needed after the call; but `tools` must stay until DONE. */
struct request {
    uint64_t conversation;              /* the same number for all requests of one conversation; 0: not known */
    const struct message *messages;
    int  n_messages;
    const struct text *tools;           /* JSON texts of the tools that may be called */
    int  n_tools;
    bool no_calls;                      /* none of the tools may be called, though the prompt names them; who cannot prevent it does not */
    bool thinking;                      /* it reasons before it answers */
    int  think_budget;                  /* tokens of reasoning, then the answer begins; 0: no limit */
    bool follows;                       /* the messages are those of the request before, its answer, and the results of its calls */
    struct request_sampling sampling;
    struct given prefix;
    const struct ids *plain;            /* the prompt as tokens, instead of messages and tools: the answer is text as it was sampled; or NULL */
    int  patience_ms;                   /* requests that come within this time go first (base/due.h); 0: a person waits for it */
    int  snapshot_pos;                  /* of `plain`: so many of its tokens the next prompt will share; 0: all */
};

enum news_kind {
    NEWS_LOADING,               /* done, total: bytes */
    NEWS_READY,                 /* info() is complete, requests are taken */
    NEWS_MODELS,                /* models() are those that there are now; before READY one of them must be chosen.  text: the sentence for somebody
                                 * who cannot */
    NEWS_NOTE,                  /* text: a sentence for the user */
    NEWS_READING,               /* done, total, cached: tokens of the prompt */
    NEWS_REFILL,                /* text: why more of the prompt was read than what is new in it, and what could be used */
    NEWS_TOKEN,                 /* token, alternatives; comes before its text */
    NEWS_REASONING,             /* text, from */
    NEWS_TEXT,                  /* text, from */
    NEWS_CALL_BEGIN,            /* text: the tool's name */
    NEWS_CALL,                  /* text: arguments; truncated: the answer ended inside */
    NEWS_RESTORED,              /* done: tokens that came back; text: why the file is of no use, and whether it is deleted */
    NEWS_SAVED,                 /* done: bytes written, total: of the file; text: why it could not be */
    NEWS_GONE,                  /* text: a sentence.  The responder can answer nothing more.  `instead` opens another one, which gets the next
                                 * request, or again the one under way: that had no text yet, and has no DONE.  If it cannot be opened, that
                                 * request fails, and the next one tries again */
    NEWS_DONE,                  /* end; text: why, if it failed */
    NEWS_FATAL,                 /* text: why.  Only close() is left; the answer under way ends here */
};

/* Valid during the call. */
struct news {
    enum news_kind kind;
    struct text text;                   /* ends in a zero byte where it is a sentence or a name */
    size_t from;                        /* where there are tokens: byte of the decoded answer at which the text stands */
    struct token token;
    const struct alternatives *alternatives;    /* NULL: not known */
    bool replayed;                      /* it is part of what was given */
    bool truncated;
    uint64_t conversation;              /* restored, saved: as save() and restore() were told */
    size_t done, total, cached;
    enum chat_end end;                  /* CHAT_ANSWERED, CHAT_LENGTH, CHAT_CONTEXT, CHAT_INTERRUPTED or CHAT_FAILED */
    const struct chat_stats *stats;     /* of the answer so far; NULL: nothing new */
};
typedef void news_fn(const struct news *it, void *arg);

struct responder_info {
    struct chat_info chat;
    float temperature, top_p;           /* the model's own defaults; negative: it has none */
    int   top_k;
    int32_t ends[LIMIT_STOP_IDS];       /* tokens that end an answer, as the checkpoint says */
    int   n_ends;
    int   at_once;                      /* answers at once, its guests' included; 0: not known */
};

/* An answer of which the tokens are asked. */
struct spoken {
    const struct message *m;
    const struct ids *ids;              /* as they were sampled; NULL: they are not known, and found anew from its texts */
    bool stopped;                       /* before its end */
    bool cut;                           /* in the middle of writing: ids may go on behind the texts */
    const struct text *tools;           /* that are offered now; those that it calls need not be among them */
    int  n_tools;
};

enum request_result { REQUEST_TAKEN, REQUEST_REFUSED, REQUEST_TOO_LONG };

struct responder_ops {
    /* Never while an answer is under way.  Refused, or too long for the context: with the reason, and without DONE. */
    enum request_result (*request)(struct responder *r, const struct request *q, struct err *e);
    /* The answer under way ends.  Its DONE says CHAT_INTERRUPTED, unless it had just come to another end. */
    void (*interrupt)(struct responder *r);
    bool (*end_thought)(struct responder *r);           /* the reasoning ends here, the answer begins.  False: it does not reason */
    int  (*fds)(const struct responder *r, struct pollfd fds[RESPONDER_MAX_FDS]);       /* readable when there is something to drain */
    void (*drain)(struct responder *r);
    const struct responder_info *(*info)(const struct responder *r);    /* NULL: not known yet */
    void (*machine)(struct responder *r, struct chat_machine *m);       /* m is {0} before */
    int  (*used)(const struct responder *r);            /* tokens of the newest prompt and its answer; negative: not known */
    int  (*count)(const struct responder *r, struct text t);
    int  (*count_prompt)(struct responder *r, const struct request *q, struct err *e);  /* negative: it would be refused, and why */
    /* Append the tokens of a text, and those of a prompt as request() would make it, to `out`.  controls: names of control tokens in the text
     * become these tokens.  prompt() false: it would be refused, and why. */
    void (*encode)(const struct responder *r, struct text t, bool controls, struct ids *out);
    bool (*prompt)(struct responder *r, const struct request *q, struct ids *out, struct err *e);
    /* The last message is the user's next one as far as it is known, whole words or nothing: it and what stands before it is read while
     * nothing is asked.  Asked with nothing known first, then with words, whenever what stands before it has changed. */
    void (*read_ahead)(struct responder *r, const struct request *q);
    /* What was computed of the conversation is saved to that file while no request is under way, after what is to be read ahead, or with close();
     * restore() brings it back from there before the next request.  `conversation` as in struct request.  NEWS_SAVED, and NEWS_RESTORED if
     * there is something to tell. */
    void (*save)(struct responder *r, uint64_t conversation, const char *path);
    void (*restore)(struct responder *r, uint64_t conversation, const char *path);
    /* That file is the conversation's own; NULL: it has none.  It is saved there when another one takes its memory, and comes back by itself. */
    void (*keep)(struct responder *r, uint64_t conversation, const char *path);
    /* The tokens of which an answer's texts are made, into the empty `out`.  False: these ids, or any, do not make these texts. */
    bool (*tokens)(struct responder *r, const struct spoken *s, struct tokens *out);
    /* Do these tokens make the texts with the tools that are offered now?  A call may have become text, and text a call. */
    bool (*says)(struct responder *r, const struct spoken *s, const struct tokens *t);
    struct text (*piece)(const struct responder *r, int32_t id);
    int  (*models)(const struct responder *r, const char *const **names);       /* valid until the next drain() */
    /* Another model, while no answer is under way: READY follows, of the one before if that one cannot be had, or MODELS again.  "": MODELS follows,
     * with those that there are then, or a note. */
    void (*choose)(struct responder *r, const char *name);
    int  (*others)(const struct responder *r);          /* how many other programs use what is here; NULL: none can */
    void (*close)(struct responder *r);
};

/* The head of every responder.  Functions of what it cannot do may be NULL. */
struct responder {
    const struct responder_ops *ops;
    struct responder_can can;
    const char *model;                  /* what sessions note: the model's directory */
    const char *notice;                 /* a line about the model for the user, or NULL */
    const char *more_room;              /* how a user gets a larger context, as the end of a sentence; NULL: there is no way */
    struct responder *(*instead)(const struct options *o, struct err *e);     /* NULL: NEWS_GONE is never told */
    bool again;                         /* `instead` opens the same server again, and loads no model */
    news_fn *fn;                        /* the owner's */
    void *arg;
};

static inline void responder_tell(const struct responder *r, const struct news *it)
{
    r->fn(it, r->arg);
}

#endif

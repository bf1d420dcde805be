/* A responder answers: the engine in this process (responder/local.h), another q35chat, or a server.  The conversation knows them by this table
 * alone, and by what each can do (struct responder_can).
 *
 * All functions are called from one thread, and none but close() waits for the model.  The responder reports what happens as news: drain(), and
 * also request(), calls the owner's function with each.  For each accepted request these are
 *
 *     READING*  { TOKEN  REASONING  TEXT  CALL_BEGIN CALL_PIECE* CALL }*  REFILL?  DONE
 *
 * with DONE exactly once, unless FATAL comes first.  If the request gave the beginning of the answer, that comes first, in news marked `replayed`.
 * The owner's function may call interrupt(): no more tokens follow then.  From DONE on it may make the next request. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer/end.h"
#include "answer/form.h"
#include "answer/machine.h"
#include "answer/sampling.h"
#include "answer/stats.h"
#include "answer/tokens.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/message.h"

struct image_wish;

struct options;
struct responder;

enum { RESPONDER_MAX_FDS = 4 };

/* Abilities of a responder so far.  Members only change from false to true, until READY. */
struct responder_can {
    bool count;                         /* it counts tokens exactly: count() and count_prompt() */
    bool tokens;                        /* it reports each token as TOKEN news; tokens(), says() and piece() */
    bool logprobs;                      /* ... with probability and alternatives */
    bool begin_text;                    /* request.prefix may be the text of a stopped answer */
    bool begin_tokens;                  /* request.prefix may be any tokens, so that an answer can branch off at each of its tokens */
    bool end_thought;                   /* end_thought(), and request.think_budget */
    bool read_ahead;                    /* read_ahead() */
    bool keeps;                         /* save() and restore() */
    bool plain;                         /* request.plain; encode() and prompt() */
    bool idle;                          /* requests that nobody waits for cost nothing: the engine is in this process */
    bool pictures;                      /* messages may have pictures */
    bool choose;                        /* it may have several models: models() and choose().  True from the beginning or never */
};

/* The beginning of the answer, which the responder continues: tokens if there are any, else texts; {0}: a new answer. */
struct given {
    const struct tokens *tokens;
    struct text reasoning, content;
};

/* The caller owns everything.  The responder copies what it needs after the call, except `tools`, which must stay valid until DONE. */
struct request {
    uint64_t conversation;              /* the same number for all requests of one conversation; 0: not known */
    const struct message *messages;
    int  n_messages;
    const struct text *tools;           /* JSON texts of the tools that may be called */
    int  n_tools;
    const char *const *tool_fields;     /* [n_tools] the client's names of their parameters, which a refusal begins with; NULL: none */
    const struct text *allowed;         /* [n_allowed] names of those of them that the model may call, where its calls are guided; none: all */
    int  n_allowed;
    bool free_calls;                    /* calls are not guided, unless the answer must have one or have a form */
    bool strict_tools;                  /* a tool whose schema is wrong fails the request, unless it has "strict": false */
    bool no_calls;                      /* the model may call none of the tools, though the prompt names them; not every responder can prevent it */
    bool thinking;                      /* the model reasons before it answers */
    int  think_budget;                  /* tokens of reasoning after which the answer begins; 0: no limit */
    bool apart;                         /* the next prompt will not have the last message: the snapshot is made before it */
    bool follows;                       /* the messages are those of the request before, its answer, and the results of its calls */
    struct sampling sampling;
    struct form form;                   /* that the answer must have, after the reasoning, if it is not a call of a tool; a responder that cannot
                                         * enforce it refuses the request */
    struct made_guide *guide;           /* of form and tools, as compile() made it; NULL: request() makes it */
    struct given prefix;
    const struct ids *plain;            /* the prompt as tokens, instead of messages and tools; the answer is not parsed.  NULL: no such prompt */
    uint32_t client;                    /* whose it is, for shares of what stays in memory; 0: a person's, or not known */
    int  patience_ms;                   /* requests that come within this time go first (base/clock.h); 0: a person waits for the answer */
    const struct ids *made;             /* tokens of the prompt, as prompt() made them of messages and tools; NULL: request() makes them */
    int  snapshot_pos;                  /* tokens of `plain` or `made` that the next prompt will share; 0: all */
};

enum news_kind {
    NEWS_LOADING,               /* done, total: bytes */
    NEWS_READY,                 /* info() is complete, requests are taken */
    NEWS_MODELS,                /* the list of models() has changed; before READY one of them must be chosen.  text: the error sentence of an owner
                                 * who cannot choose */
    NEWS_NOTE,                  /* text: a sentence for the user */
    NEWS_READING,               /* done, total, cached: tokens of the prompt */
    NEWS_REFILL,                /* text: why tokens were read again that an earlier prompt had already held */
    NEWS_TOKEN,                 /* token, alternatives; comes before the text of the token */
    NEWS_REASONING,             /* text, from */
    NEWS_TEXT,                  /* text, from */
    NEWS_CALL_BEGIN,            /* text: the tool's name; id; truncated: the model ended within the name */
    NEWS_CALL_PIECE,            /* text: the next part of the arguments, where they come in parts; NEWS_CALL has all of them (text/stream.h) */
    NEWS_CALL,                  /* text: arguments; truncated: the answer ended within the call */
    NEWS_RESTORED,              /* done: tokens that came back; text: why the file cannot be used, and whether it is deleted */
    NEWS_SAVED,                 /* done: bytes written, total: bytes of the file; text: why it could not be written */
    NEWS_GONE,                  /* text: a sentence.  The responder can answer nothing more.  `instead` opens another one, which gets the next
                                 * request, or the one under way once more: that one had no text yet, and gets no DONE here.  If no other
                                 * responder can be opened, the request fails; the next request tries again */
    NEWS_DONE,                  /* end; text: the reason, if the request failed */
    NEWS_FATAL,                 /* text: the reason.  The answer under way ends, and only close() may be called */
};

/* Valid during the call. */
struct news {
    enum news_kind kind;
    struct text text;                   /* ends in a zero byte if it is a sentence or a name */
    struct text id;                     /* of the call; empty: whoever keeps the call makes one */
    size_t from;                        /* if can.tokens: offset of the text in the decoded answer, in bytes */
    struct token token;
    const struct logprobs *alternatives;    /* NULL: not known */
    bool replayed;                      /* part of the beginning that the request gave */
    bool truncated;
    uint64_t conversation;              /* RESTORED, SAVED: the number that restore() or save() got */
    size_t done, total, cached;
    enum end end;                       /* END_STOP, END_LENGTH, END_CONTEXT, END_INTERRUPTED, END_FAILED or END_REFUSED */
    const struct stats *stats;          /* figures of the answer so far; NULL: as before */
};
typedef void news_fn(const struct news *it, void *arg);

/* An answer whose tokens are to be found. */
struct spoken {
    const struct message *m;
    const struct ids *ids;              /* ids as they were sampled; NULL: not known, its texts are encoded again */
    bool stopped;                       /* the user or a limit ended the answer */
    bool cut;                           /* the program ended in the middle of the answer: ids may hold more than the texts */
    const struct text *tools;           /* tools that are offered now; the answer may call others */
    int  n_tools;
};

/* The sentence of REQUEST_TOO_LONG, with the tokens of the context and of the prompt.  Programs look for its first words. */
#define RESPONDER_TOO_LONG "This model's maximum context length is %d tokens; the prompt has %d"

void made_guide_release(struct made_guide *m);          /* the last reference frees it; NULL is accepted */

enum request_result { REQUEST_TAKEN, REQUEST_REFUSED, REQUEST_TOO_LONG };

struct responder_ops {
    /* Makes a request; never called while an answer is under way.  Refused, or too long for the context: the reason is in `e`, and no DONE comes. */
    enum request_result (*request)(struct responder *r, const struct request *q, struct err *e);
    /* Ends the answer under way.  Its DONE says END_INTERRUPTED, unless the answer had just ended by itself. */
    void (*interrupt)(struct responder *r);
    bool (*end_thought)(struct responder *r);           /* ends the reasoning, so that the answer begins.  False: the model is not reasoning */
    int  (*fds)(const struct responder *r, struct pollfd fds[RESPONDER_MAX_FDS]);       /* readable when there is something to drain */
    void (*drain)(struct responder *r);
    const struct model_info *(*info)(const struct responder *r);    /* NULL: not known yet */
    void (*machine)(struct responder *r, struct machine_figures *m);       /* fills *m, which is {0} */
    int  (*used)(const struct responder *r);            /* tokens of the newest prompt and its answer; negative: not known */
    int  (*count)(const struct responder *r, struct text t);            /* tokens of a text */
    /* Returns the tokens of the request's prompt; negative with the reason: refused.  From READY on any thread may call it. */
    int  (*count_prompt)(struct responder *r, const struct request *q, struct err *e);
    /* Append to `out` the tokens of a text (encode) and of the prompt that request() would make (prompt; *snapshot_pos, if not NULL: as in struct
     * request).  From READY on any thread may call them.  controls: names of control tokens in the
     * text become these tokens.  prompt() false with the reason: the request would be refused. */
    void (*encode)(const struct responder *r, struct text t, bool controls, struct ids *out);
    bool (*prompt)(struct responder *r, const struct request *q, struct ids *out, int *snapshot_pos, struct err *e);
    /* Compiles form and tools of the request, which may take half a second, so that request() need not.  Any thread, also before READY.  *to is the
     * caller's, for made_guide_release(), or NULL: there is nothing to compile here.  False with the reason: the request would be refused.  NULL: as
     * if there were nothing. */
    bool (*compile)(struct responder *r, const struct request *q, struct made_guide **to, struct err *e);
    /* Decodes a picture of a request that will come, so that request() need not, and fills its sides.  From READY on any thread may call it; false
     * with the reason as a sentence about "it".  NULL: the pictures are decoded elsewhere. */
    bool (*look)(struct responder *r, struct media *m, const struct image_wish *wish, struct err *e);
    /* Reads this prompt while there is no request.  Its last message is the user's next one as far as it is typed, in whole words.  Whenever the
     * messages before it have changed, the first call has an empty last message. */
    void (*read_ahead)(struct responder *r, const struct request *q);
    /* save() writes the computed rows and states of the conversation to that file while no request is under way, when reading ahead is done, or
     * within close(); NEWS_SAVED follows.  restore() reads them back before the next request; NEWS_RESTORED follows if there is something to tell.
     * `conversation` as in struct request. */
    void (*save)(struct responder *r, uint64_t conversation, const char *path);
    void (*restore)(struct responder *r, uint64_t conversation, const char *path);
    /* Names the conversation's own file; NULL: it has none.  When another conversation takes its memory it is saved there, and when it is asked
     * for again it comes back from there, both without a call. */
    void (*keep)(struct responder *r, uint64_t conversation, const char *path);
    /* Fills the empty `out` with the tokens that decode to the answer's texts.  False: s->ids do not decode to these
     * texts, or (where there are none) no tokens do. */
    bool (*tokens)(struct responder *r, const struct spoken *s, struct tokens *out);
    /* Whether these tokens still decode to the answer's texts and calls, given the tools that are offered now: with other tools a call may become
     * text, and text a call. */
    bool (*says)(struct responder *r, const struct spoken *s, const struct tokens *t);
    struct text (*piece)(const struct responder *r, int32_t id);        /* the text of a token */
    int  (*models)(const struct responder *r, const char *const **names);       /* how many, and their names; valid until the next drain() */
    /* Changes to this model; never called while an answer is under way.  READY follows, with the former model if the server refuses this one, or
     * MODELS if there is no choice any more.  "": only asks for the list; MODELS or NOTE follows. */
    void (*choose)(struct responder *r, const char *name);
    /* Whether each of these biases, "TOKEN=X", can work; false with the reason.  Only when the responder is ready.  NULL: all can. */
    bool (*check_biases)(const struct responder *r, const char *const *items, int n, struct err *e);
    int  (*others)(const struct responder *r);          /* how many other programs use this model; NULL: none can */
    void (*close)(struct responder *r);
};

/* The head of every responder.  Functions for what it cannot do may be NULL. */
struct responder {
    const struct responder_ops *ops;
    struct responder_can can;
    const char *model;                  /* the model's directory, which sessions record; with a server its address, a blank and the model's name */
    const char *address;                /* of the server that `model` was loaded by, which sessions record instead; NULL: none that was asked for */
    const char *notice;                 /* lines about the model for the user, or NULL */
    int least_pixels, most_pixels;      /* of a picture: it is resized to have so many; 0: not known.  An estimate until READY */
    const char *more_room;              /* how a user gets a larger context, as the end of a sentence; NULL: there is no way */
    /* Opens another responder after NEWS_GONE; NULL: that never comes.  `attach`: one that uses the model of another program may do, which is not
     * so if this one never was ready. */
    struct responder *(*instead)(const struct options *o, bool attach, struct err *e);
    bool again;                         /* `instead` opens the same server again, and loads no model */
    news_fn *fn;                        /* the owner's function */
    void *arg;
};

static inline void responder_tell(const struct responder *r, const struct news *it)
{
    r->fn(it, r->arg);
}

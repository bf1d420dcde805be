/* The inside of the responder in this process, for local.c and local_answer.c.  No other file includes this. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "guide/guide.h"
#include "responder/local_loader.h"
#include "responder/local_pictures.h"
#include "responder/local_prompt.h"
#include "responder/source.h"
#include "text/stream.h"

/* Token ids -> characters -> reasoning, text and calls, which are reported as news. */
struct speech {
    struct ids ids;                     /* as they were sampled, or given */
    bool replayed;                      /* the next tokens are part of the beginning that was given */
    const struct stats *stats;          /* for the news; may be NULL */

    /* inside */
    const struct tokenizer *tok;
    news_fn *fn;
    void    *arg;
    struct detok   detok;
    struct stream *stream;              /* NULL: the answer is text alone */
    struct buf     piece;
    size_t         n_pushed;            /* bytes that the parser has got */
};

/* A logit bias in ids. */
struct biases {
    int32_t *ids;
    float   *values;
    int      n;
};

/* A guide, and what it was made of.  Requests refer to it, too. */
enum { LOCAL_GUIDES = 4 };
struct made_guide {
    atomic_int      references;
    struct buf      key, notes;         /* notes: lines that are reported when it is first used */
    enum guide_kind kind;
    struct grammar *grammar;
    struct guide   *guide;              /* NULL: not used yet.  On the owner's thread */
};

/* The answer under way.  It is one request to the engine or several: after a request that ends where the budget of reasoning does, or that
 * end_thought() ends, another one continues after </think>.
 *
 *     SILENT -> SPEAKING | TO_BUDGET                  request()
 *     SPEAKING, TO_BUDGET -> LEAVING_THOUGHT          end_thought()
 *     TO_BUDGET, LEAVING_THOUGHT -> SPEAKING          the engine's request has ended, the next one is made
 *     SPEAKING, TO_BUDGET, LEAVING_THOUGHT -> STOPPING        interrupt()
 *     any but SILENT -> SILENT                        the answer has ended */
enum speaking { SILENT, SPEAKING, TO_BUDGET, LEAVING_THOUGHT, STOPPING };

struct local {
    struct responder  base;
    struct source    *source;
    struct tokenizer *tok;              /* NULL: not read yet */
    struct loader    *loader;           /* of the tokenizer; NULL: it was taken */
    struct local     *host;             /* the responder whose source and tokenizer this one uses; NULL: it has its own */
    struct local     *guests, *next;    /* the responders that use its source and tokenizer; the next of these */
    struct buf        dir, notice;
    struct model_info info;
    bool   known;                       /* info is filled */
    bool   ready;                       /* and the tokenizer is there */
    bool   dead;
    bool   with_note;                   /* when it is ready, a note says that the model is another program's */
    bool   gone;                        /* NEWS_GONE was reported */

    uint64_t        conversation;       /* of the answer */
    struct prompt   prompt;
    struct sights   sights;             /* the pictures of that prompt */
    bool            awaits;             /* the request waits until they are decoded; it has no serial yet */
    struct views    views;              /* pictures that were decoded; guests use those of the host */
    int32_t         pad;                /* <|image_pad|>; -1: the vocabulary has none */
    struct ids      head;               /* the beginning of the next prompt that was read ahead last */
    struct { bool awaits; uint64_t conversation; int snapshot_pos; struct ids ids; struct sights sights; } early;       /* what is read ahead next */
    struct biases   biases;
    struct guide_vocabulary *vocabulary;        /* of `tok`, in the responder that has its own tokenizer; NULL: not made yet */
    pthread_mutex_t made_lock;          /* guards the next two */
    struct made_guide *made[LOCAL_GUIDES];      /* the newest guides, there */
    unsigned        next_made;
    struct sampling sampling;           /* of the answer, but for what differs between its requests to the engine */
    int             think_budget;
    struct speech   speech;
    enum speaking   speaking;
    uint32_t        serial;             /* of the engine's request */
    bool            continues;          /* that request is not the answer's first one */
    bool            answered_before;    /* the conversation has an older answer */
    bool            telling;            /* events of the engine are being reported */
    bool            enough;             /* the owner takes none of the tokens that still come */
    struct stats    ended, so_far;      /* figures of the requests that have ended; with the request under way */
};

/* --- local_answer.c: one answer, from the request on --- */

enum request_result local_request(struct responder *r, const struct request *q, struct err *e);
int  local_used(const struct responder *r);
int  local_count_prompt(struct responder *r, const struct request *q, struct err *e);
bool local_look(struct responder *r, struct media *m, const struct image_wish *wish, struct err *e);
bool local_prompt(struct responder *r, const struct request *q, struct ids *out, int *snapshot_pos, struct err *e);
void local_read_ahead(struct responder *r, const struct request *q);
void local_interrupt(struct responder *r);
bool local_end_thought(struct responder *r);
void local_event(struct local *l, const struct event *ev);     /* reading, tokens, done */
void local_seen(struct local *l);                      /* pictures have been decoded: what waited for them goes on */
static inline struct views *local_views(struct local *l) { return l->host ? &l->host->views : &l->views; }
void local_break_off(struct local *l);                 /* the engine is gone: reports what was held back */
void local_gone(struct local *l);                      /* the other program is gone: NEWS_GONE */
bool local_tokens(struct responder *r, const struct spoken *s, struct tokens *out);
bool local_says(struct responder *r, const struct spoken *s, const struct tokens *t);
bool local_check_biases(const struct responder *r, const char *const *items, int n, struct err *e);
void local_free_answer(struct local *l);

/* --- local_guide.c: the form of an answer, and its calls --- */

/* Makes the guide of l->sampling for the form of the request and for its tools, in place of the one before; NULL: there is none.  For the engine of
 * another q35chat says in l->source->wish what it is to be made of.  False with the reason: the form cannot be enforced.  Calls that cannot be
 * guided are left to the model, with a note. */
bool local_take_form(struct local *l, const struct request *q, struct err *e);
bool local_compile(struct responder *r, const struct request *q, struct made_guide **to, struct err *e);
void local_free_guide(struct local *l);

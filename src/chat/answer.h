/* One answer as it comes from the engine: ids -> characters -> reasoning, text and calls, cut at a stop string. */
#ifndef Q35_CHAT_ANSWER_H
#define Q35_CHAT_ANSWER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/ids.h"
#include "chat/loop.h"
#include "chat/stopper.h"
#include "chat/tokens.h"
#include "text/stream.h"
#include "text/tokenizer.h"

enum { ANSWER_MAX_CALLS = 256 };        /* each is a tool that runs; a model that repeats itself makes thousands */

struct answer_call {
    const char *name;
    struct text arguments;
    bool truncated;
};

struct answer {
    struct buf reasoning, content;      /* as shown, as far as it has come */
    struct ids ids;                     /* as sampled, or put there */
    struct tokens tokens;               /* the same, and how they came about */
    struct answer_call *calls;
    int  n_calls, cap_calls;
    bool too_many;                      /* it would be more than ANSWER_MAX_CALLS */
    struct stopper stopper;             /* .hit: a stop string was found */
    struct loop loop;                   /* .span: it repeats itself now */

    /* inside */
    struct arena mem;
    const struct tokenizer *tok;
    struct detok  detok;
    struct stream *stream;
    struct buf    piece;
    const char   *call_name;
    size_t        n_pushed, n_told;     /* bytes that the stream was given; bytes of content that it told */
};

/* Starts over.  The schemas are copied nowhere: they must stay. */
void answer_begin(struct answer *a, const struct tokenizer *tok, const struct text *tools, int n_tools, bool thinking,
                  const char *const *stops, int n_stops);
/* `o` may be NULL.  is_stop: the id that ended it, not shown. */
void answer_push(struct answer *a, int32_t id, enum chat_token_how how, const struct outlook *o, bool is_stop);
bool answer_is_over(const struct answer *a);            /* nothing that may still come belongs to it */
bool answer_reasons(const struct answer *a);            /* the next token belongs to the reasoning */
void answer_finish(struct answer *a, bool cut);
void answer_free(struct answer *a);

#endif

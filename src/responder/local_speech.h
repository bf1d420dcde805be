/* One answer on its way: token ids -> characters -> reasoning, text and calls, told as news. */
#ifndef Q35_RESPONDER_LOCAL_SPEECH_H
#define Q35_RESPONDER_LOCAL_SPEECH_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/ids.h"
#include "responder/responder.h"
#include "text/stream.h"
#include "text/tokenizer.h"

struct speech {
    struct ids ids;                     /* as sampled, or put there */
    bool replayed;                      /* what comes now was given */
    const struct stats *stats;   /* for the news; may be NULL */

    /* inside */
    const struct tokenizer *tok;
    news_fn *fn;
    void  *arg;
    struct detok  detok;
    struct stream *stream;              /* NULL: it is text alone */
    struct buf    piece;
    size_t        n_pushed;             /* bytes that the parser was given */
};

/* Starts over.  The schemas are not copied: they must stay. */
void speech_begin(struct speech *s, const struct tokenizer *tok, const struct text *tools, int n_tools, bool thinking, news_fn *fn, void *arg);
/* The same for an answer that is text alone, as it was sampled. */
void speech_begin_plain(struct speech *s, const struct tokenizer *tok, news_fn *fn, void *arg);
/* Of `t` id, how and prob are read; `alternatives` may be NULL.  is_stop: the id that ended it, which has no text. */
void speech_push(struct speech *s, struct token t, const struct logprobs *alternatives, bool is_stop);
bool speech_reasons(const struct speech *s);            /* the next token belongs to the reasoning */
void speech_finish(struct speech *s, bool cut);         /* tells what was held back */
void speech_free(struct speech *s);

#endif

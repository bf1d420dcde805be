/* One answer of the responder -> the reply to /v1/chat/completions, or to /v1/completions: a stream of events, or one object when it has ended.
 * What an attached q35chat asked is a stream of lines (serve/relay.h).
 *
 * Reasoning goes out under both names that clients read, `reasoning_content` and `reasoning`; figures as `usage`, and as `timings` with the names
 * of llama.cpp. */
#ifndef Q35_SERVE_CHOICE_H
#define Q35_SERVE_CHOICE_H

#include <stdint.h>

#include "base/buf.h"
#include "chat/responder.h"
#include "chat/stopper.h"
#include "serve/question.h"

enum { CHOICE_PENDING = 8 };

/* JSON values with commas between them. */
struct choice_list {
    struct buf values;
    size_t told;                        /* bytes of those whose text has been told */
};
enum { CHOICE_TOKENS, CHOICE_PROBS, CHOICE_TOPS, CHOICE_OFFSETS, CHOICE_LISTS };

/* Plain value; choice_begin() makes it, choice_free() frees it. */
struct choice {
    const struct question *question;
    const struct responder *responder;  /* what tokens say */
    const char *model;
    uint64_t number;                    /* of the request, for its id */
    int64_t  created;                   /* seconds since 1970 */
    struct stopper stopper;
    int  n_calls;
    struct buf out;                     /* of a stream: what is to be sent now; else the whole reply, at its end */
    struct buf reasoning, content, calls;       /* of one object; calls: JSON, separated by commas */
    struct buf logprobs;                /* JSON of the tokens whose text is still to come */
    struct choice_list lists[CHOICE_LISTS];     /* the same for /v1/completions, which wants a list of each kind of figure */
    size_t n_characters;                /* of all tokens so far */
    struct { size_t end, at; } pending[CHOICE_PENDING];         /* of the first of these tokens: where its text ends in the answer, and where it
                                                                 * ends in `logprobs` */
    int  n_pending;
    struct buf told_logprobs;           /* of one object: of the text so far */
    bool failed;                        /* of one object: `out` is an error */
    int  n_counted;                     /* relayed: tokens of the figures that were told last */
};

void choice_begin(struct choice *r, const struct question *q, const struct responder *responder, const char *model, uint64_t number);
/* Any news but DONE.  False: a stop string came, nothing more is wanted. */
bool choice_news(struct choice *r, const struct news *it);
/* The last one: NEWS_DONE. */
void choice_done(struct choice *r, const struct news *it);
void choice_free(struct choice *r);

/* {"error": {...}} as OpenAI's servers say it; `code` may be NULL. */
void choice_error(struct buf *out, int status, const char *message, const char *code);

#endif

/* Turns one answer of the responder into the reply to /v1/chat/completions or /v1/completions: a stream of events, or one object at the end.  For an
 * attached q35chat the reply is a stream of lines (serve/relay.h).
 *
 * Reasoning is sent under both names that clients read, `reasoning_content` and `reasoning`; figures as `usage`, and as `timings` with the names
 * of llama.cpp. */
#ifndef Q35_SERVE_CHOICE_H
#define Q35_SERVE_CHOICE_H

#include <stdint.h>

#include "base/buf.h"
#include "responder/responder.h"
#include "chat/stopper.h"
#include "serve/question.h"

enum { CHOICE_PENDING = 8 };

/* JSON values with commas between them. */
struct choice_list {
    struct buf values;
    size_t told;                        /* bytes of the values whose text was sent */
};
enum { CHOICE_TOKENS, CHOICE_PROBS, CHOICE_TOPS, CHOICE_OFFSETS, CHOICE_LISTS };

/* Plain value; choice_begin() makes it, choice_free() frees it. */
struct choice {
    const struct question *question;
    const struct responder *responder;  /* gives the text of tokens */
    const char *model;
    struct buf id;                      /* of the reply */
    int64_t  created;                   /* seconds since 1970 */
    struct stopper stopper;
    int  n_calls;
    bool called;                        /* the one call that the client wants is complete */
    bool in_call;                       /* the last call has begun, and not ended */
    bool broken;                        /* it was cut off: its arguments are no JSON */
    const char *cut_by;                 /* why the answer is not whole, a word of docs/serve.md; NULL: it is */
    struct buf out;                     /* stream: the bytes to be sent next; object: the whole reply, at the end */
    struct buf reasoning, content, calls;       /* object: the parts of the answer so far; calls: JSON, separated by commas */
    struct buf logprobs;                /* JSON of the tokens whose text was not sent yet */
    struct choice_list lists[CHOICE_LISTS];     /* the same for /v1/completions, which wants a list for each kind of figure */
    size_t n_characters;                /* characters of all tokens so far */
    struct { size_t end, at; } pending[CHOICE_PENDING];         /* the first tokens of `logprobs`; end: offset in the answer where the token's text
                                                                 * ends; at: offset in `logprobs` where the token ends */
    int  n_pending;
    struct buf told_logprobs;           /* object: logprobs of the text so far */
    bool failed;                        /* object: `out` is an error */
    int  n_made;                        /* tokens of the answer that were sampled */
    int  n_reasoning;                   /* those of reasoning */
    int  n_counted;                     /* relayed: number of tokens when figures were sent last */
};

void choice_begin(struct choice *r, const struct question *q, const struct responder *responder, const char *model);
/* Takes any news except DONE.  False: the answer is over. */
bool choice_news(struct choice *r, const struct news *it);
/* Whether the answer has reached a stop string, or the one call that the client wants: nothing more is sent. */
bool choice_is_over(const struct choice *r);
/* Takes the last news, DONE. */
void choice_done(struct choice *r, const struct news *it);
void choice_free(struct choice *r);

/* {"error": {...}} in the form of OpenAI's servers; `code` may be NULL. */
void choice_error(struct buf *out, int status, const char *message, const char *code);

#endif

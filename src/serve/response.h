/* Turns one answer of the responder into a reply: a stream, or one object at the end.  Here is what all replies have in common: stop strings, calls,
 * the tokens whose probabilities the client wants, how the answer ended.  The format of the question (serve/format.h) writes the bytes. */
#pragma once

#include <stdint.h>

#include "answer/token.h"
#include "base/buf.h"
#include "chat/answer.h"
#include "responder/responder.h"
#include "serve/format.h"
#include "serve/question.h"

/* A token with its probability. */
struct response_token {
    int32_t id;
    float   prob;
    size_t  end;                        /* offset in the answer at which its text ends, in bytes */
    size_t  from;                       /* characters of all tokens before it */
    struct logprobs alternatives;
};

struct response_call {
    struct buf id, name;
    struct buf arguments;               /* JSON text of an object, as far as it has come: at least its brace.  truncated: it stays a beginning */
    bool truncated;
};

/* Plain value; response_begin() makes it, response_free() frees it. */
struct response {
    const struct question *question;
    const struct format *format;        /* that of the question */
    const struct responder *responder;  /* gives the text of tokens */
    const char *model;
    struct buf id;                      /* of the reply */
    struct buf request_id;              /* of the client's request, or empty: the owner sets it, for errors */
    int64_t  created;                   /* seconds since 1970 */
    struct stopper stopper;
    struct { struct response_call *all; int n, cap; } calls;
    bool called;                        /* the one call that the client wants is complete */
    bool in_call;                       /* the last call has begun, and has not ended */
    bool broken;                        /* a call broke off, perhaps before its name was whole: then it is none of `calls` */
    const char *cut_by;                 /* why the answer is not whole, a word of docs/serve-reference.md; NULL: it is whole */
    struct buf out;                     /* stream: the bytes to be sent next; object: the whole reply, at the end */
    struct buf reasoning, content;      /* the answer so far */
    struct { struct response_token *all; int n, cap; } tokens;     /* with logprobs: those whose text was not sent yet; object: all of the text */
    int  n_sent;                        /* object: tokens of the text so far */
    size_t n_characters;                /* of all tokens so far */
    void *own;                          /* format->own_bytes, zero at first: for the functions of the format */
    int  failed;                        /* the status of the error that was sent, or that `out` is; 0: there is none */
    int  n_made;                        /* tokens of the answer that were sampled */
    int  n_reasoning;                   /* tokens among them that are reasoning */
};

void response_begin(struct response *r, const struct question *q, const struct responder *responder, const char *model);
/* Takes any news except DONE.  False: the answer is over. */
bool response_news(struct response *r, const struct news *it);
/* True if the answer has reached a stop string, or the one call that the client wants: nothing more is sent. */
bool response_is_over(const struct response *r);
/* Takes the last news, DONE. */
void response_done(struct response *r, const struct news *it);
/* Ends the stream, or makes the whole reply, with a failure.  last NULL: the answer had not begun. */
void response_fail(struct response *r, const struct refusal *f, const struct news *last);
void response_free(struct response *r);

/* For formats. */
int  response_n_tokens(const struct response *r, const struct stats *s);         /* tokens of the answer, without those made after its end */
double response_log(float prob);           /* natural logarithm; -9999 for 0, as other servers write it, since JSON has no infinity */

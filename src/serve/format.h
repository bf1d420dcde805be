/* Reply formats: one file each, format_*.c, and a row in the table of routes.c.
 *
 * A format reads the body of a request to its path, and writes the reply.  For a stream the functions are called in the order in which the parts of
 * the answer come, and append events to r->out; for a reply in one piece only whole() is called, when response.c has collected the parts.  A call
 * that broke off must not look like a whole one in any format.
 *
 * The status line and begin() of a stream go out when the request is queued, unless wait is NULL: then when the answer begins. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"
#include "responder/responder.h"
#include "serve/seen.h"

struct question;
struct response;
struct response_call;

/* Why an answer ended.  LENGTH: it is not whole, for the reason r->cut_by. */
enum response_finish { RESPONSE_ENDED, RESPONSE_STOPPED /* by a stop string */, RESPONSE_CALLS, RESPONSE_LENGTH };

/* A request that is refused, or an answer that failed. */
struct refusal {
    int status;
    const char *message, *code, *param; /* code: a word for programs; param: the field that is refused; either may be NULL */
    const char *request_id;             /* set by who sends it; NULL: the request has none */
};

enum { FORMAT_WAIT_MS = 5000 };         /* after so long without a byte wait() is called */

struct format {
    bool attached;                      /* its client is a chat of this machine: a person waits, so that its requests go first */
    const char *id;                     /* beginning of the ids of replies */
    const char *stream_type;            /* Content-Type of a stream */
    size_t own_bytes;                   /* of r->own */
    /* Reads the body into *q, which must be freed either way.  False with a sentence for the client.  Runs on any thread. */
    bool (*read)(struct question *q, struct text body, const struct options *o, struct err *e);
    /* A stream.  Functions for what a format does not send are NULL; one without text() gets no reasoning, text and calls. */
    void (*begin)(struct response *r);
    void (*progress)(struct response *r, const struct news *it);           /* tokens of the prompt that were read */
    void (*token)(struct response *r, const struct news *it);
    void (*reasoning)(struct response *r, struct text t);
    void (*text)(struct response *r, struct text t);
    void (*call_begin)(struct response *r, const struct response_call *call);
    /* The next part of the arguments, which are in call->arguments up to its end.  All parts together begin with "{", and are JSON only if the call
     * is whole: one that broke off ends where the model did. */
    void (*call_piece)(struct response *r, const struct response_call *call, struct text t);
    void (*call_end)(struct response *r, const struct response_call *call);     /* NULL: the parts are enough */
    void (*wait)(struct response *r);   /* nothing was sent for FORMAT_WAIT_MS, since the request waits, its prompt is read, or the model thinks */
    void (*end)(struct response *r, enum response_finish finish, const struct news *last);    /* last->stats is never NULL */
    void (*fail)(struct response *r, const struct refusal *f, const struct news *last);      /* last NULL: the answer had not begun */
    /* A reply in one piece. */
    void (*whole)(struct response *r, enum response_finish finish, const struct stats *s);
    void (*error)(const struct refusal *f, struct buf *out);
    void (*free)(struct response *r);   /* what r->own refers to; NULL: nothing */
};

extern const struct format format_openai, format_plain, format_tokens, format_messages, format_responses, format_ollama, format_generate;

/* The replies of /v1/messages/count_tokens and /v1/responses/input_tokens. */
bool messages_count(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e);
bool responses_count(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e);

/* Pieces that formats share, of format_openai.c. */
void openai_string(struct buf *out, const char *key, struct text value);        /* "KEY": "VALUE" */
void openai_head(struct response *r, const char *object);                          /* the beginning of an event or a reply */
void openai_finish(struct response *r, const char *finish);                        /* finish NULL: more of the answer follows */
void openai_progress(const struct news *it, struct buf *out);
void openai_usage(const struct response *r, const struct stats *s, struct buf *out);
void openai_tokens(const struct response *r, int n, struct buf *out);      /* the first n tokens that response.c keeps, with commas */
void openai_timings(const struct stats *s, struct buf *out);
const char *openai_word(enum response_finish finish);
void openai_fail(struct response *r, const struct refusal *f, const struct news *last);
void openai_wait(struct response *r);
void openai_error(const struct refusal *f, struct buf *out);

/* The body of a request to /v1/chat/completions or /v1/completions -> what the responder is asked for.
 *
 * What other servers' clients send is read alike: `reasoning_content`, `reasoning` and `thinking`; arguments of calls as an object or its text;
 * the role `developer`; `max_tokens` and `max_completion_tokens`; `repetition_penalty` and `repeat_penalty`.  What would change the answer and
 * cannot be had is refused; other unknown fields are ignored. */
#ifndef Q35_SERVE_QUESTION_H
#define Q35_SERVE_QUESTION_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "chat/options.h"
#include "chat/responder.h"
#include "text/pyjson.h"

enum { QUESTION_MAX_STOPS = 16 };

/* Everything lives in `mem`, but `ids`. */
struct question {
    struct arena mem;
    struct request request;             /* without sampling: question_sampling() */
    bool plain;                         /* to /v1/completions: `prompt`, or tokens in `ids`, instead of messages */
    struct text prompt;                 /* p NULL: it is in `ids` */
    struct ids ids;
    bool relayed;                       /* of an attached q35chat (serve/relay.h): tokens in `ids`, tokens back */
    int  n_answer_prefix;               /* relayed: the last ones of them that are the answer's beginning */
    struct text name;                   /* relayed: of the answer, by which it is interrupted */
    struct message *continued;          /* an answer that is to be continued, or NULL */
    struct text model;                  /* that it asks for; empty: any */
    const char *stops[QUESTION_MAX_STOPS];
    int  n_stops;
    bool streams, wants_usage, wants_progress;
    int  n_alternatives;                /* told with each token; -1: no logprobs */
    struct request_sampling given;      /* what was given; NAN, or -1 where it is a whole number: not given */
    bool seeded;
};

/* False with a sentence for the client.  *q must be freed either way. */
bool question_read(struct question *q, struct text body, const struct options *o, struct err *e);
bool question_read_plain(struct question *q, struct text body, const struct options *o, struct err *e);
/* What all kinds of requests have; parses the body into `top`. */
bool question_read_top(struct question *q, struct text body, struct pyjson *top, const struct options *o, struct err *e);
/* A list of whole numbers.  False: it is none. */
bool question_ids(const struct pyjson *list, struct ids *out);
/* Values of a key; *to stays as it is where there is none.  False: it is not what it should be. */
bool question_whole(const struct pyjson *top, const char *key, int min, int max, int *to, struct err *e);
bool question_flag(const struct pyjson *top, const char *key, bool *to, struct err *e);
void question_free(struct question *q);
/* Fills q->request.sampling: what was given, else the options, else the model's own defaults.  Relayed: what was given, and nothing else. */
void question_sampling(struct question *q, const struct options *o, const struct responder_info *info);

#endif

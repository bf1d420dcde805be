/* Reads the body of a request to /v1/chat/completions or /v1/completions into a request to the responder.
 *
 * config/request_fields.def has every field that is read, ignored for a reason, or refused because it would change the answer; other fields are
 * ignored.  Messages and tools are read by serve/history.h. */
#pragma once

#include "answer/tokens.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "option/options.h"
#include "responder/responder.h"
#include "serve/seen.h"
#include "text/pyjson.h"

enum { QUESTION_MAX_STOPS = 16, QUESTION_PARAM = 64 };

struct format;

/* Everything except `ids` and `prefix` is allocated in `mem`. */
struct question {
    struct arena mem;
    struct request request;             /* its sampling is filled by question_sampling() */
    const struct format *format;        /* of the reply; set by the caller of the reader */
    bool asks_nothing;                  /* there is no prompt: the client wants to see that the model is there (format_ollama.c) */
    bool plain;                         /* `prompt` or `ids` instead of messages */
    struct text prompt;                 /* p NULL: the prompt is in `ids` */
    struct ids ids;
    int  n_answer_prefix;               /* how many of the last ids are the beginning of the answer */
    struct text name;                   /* of the answer, for interrupting it; empty: none */
    struct message *continued;          /* an answer that is to be continued, or NULL */
    struct tokens prefix;               /* what the answer begins with, once that is made */
    struct text model;                  /* the model that the client wants; empty: any */
    const char *stops[QUESTION_MAX_STOPS];
    int  n_stops;
    bool streams, wants_usage, wants_progress;
    const struct pyjson *client;        /* the body as the client wrote it, for formats whose replies repeat it (format_responses.c), or NULL */
    bool keeps_reasoning;               /* the client wants reasoning in a form that it can send back (format_responses.c) */
    bool hides_reasoning;               /* the client wants no text of the reasoning (format_messages.c) */
    bool reads_only;                    /* the client wants the prompt read for later, and no answer: one token is made, and not sent */
    bool one_call;                      /* the answer ends after its first call */
    const char *left_out;               /* names of tools that the model does not get, with commas, or NULL */
    bool words;                         /* the prompt gets words for the form of the answer, if it lacks them */
    int  n_alternatives;                /* alternatives sent with each token; -1: no logprobs */
    struct sampling given;      /* sampling values from the body; NAN, or INT_MIN in whole numbers: not given */
    bool seeded, biased;                /* the body has a seed, a logit_bias */
    bool complete;                      /* `given` has all of the sampling */
};

/* A row REFUSED of config/request_fields.def, or of another dialect's table of that form. */
struct refused_field {
    const char *names;
    int where;                          /* bits of the paths that it is about */
    const char *value, *words;
};

/* A row TYPE of these tables. */
struct field_type {
    const char *names;
    int where;
    const char *types;
};

/* False with a sentence for the client.  *q must be freed either way. */
bool question_read(struct question *q, struct text body, const struct options *o, struct err *e);
/* The same for fields that were parsed into q->mem, or were put there by a reader of another dialect.  *q is otherwise {0}. */
bool question_read_chat(struct question *q, const struct pyjson *top, const struct options *o, struct err *e);
bool question_read_plain(struct question *q, struct text body, const struct options *o, struct err *e);
bool question_read_completion(struct question *q, const struct pyjson *top, const struct options *o, struct err *e);
/* Parses the body of any request, which must be an object.  False with a sentence for the client. */
bool question_object(struct pyjson *top, struct text body, struct arena *mem, struct err *e);
/* Parses the body into `top` and reads the fields that all kinds of requests have. */
bool question_read_top(struct question *q, struct text body, struct pyjson *top, const struct options *o, struct err *e);
/* True if the body has no field that a row for `where` refuses.  False with a sentence about the first one. */
bool question_refuse(const struct pyjson *top, const struct refused_field *refused, size_t n_refused, int where, struct err *e);
/* True if the values of the fields are of the types of the rows for `where`, or null.  False with a sentence about the first one that is not. */
bool question_types(const struct pyjson *top, const struct field_type *rows, size_t n, int where, struct err *e);
/* Returns the value at a path with dots, or NULL. */
const struct pyjson *question_at(const struct pyjson *top, const char *path);
/* Adds a stop string.  False with a sentence about `stop`. */
bool question_add_stop(struct question *q, const struct pyjson *v, struct err *e);
/* Reads a switch of reasoning: true, false, or a word of config/efforts.def.  Without the key it stays as it is. */
bool question_switch(struct question *q, const struct pyjson *from, const char *key, struct err *e);
/* Reads a list of whole numbers.  False if the value is anything else. */
bool question_ids(const struct pyjson *list, struct ids *out);
/* Read the value of a key; without the key *to keeps its value.  False with the reason if the value is of another type, or out of range. */
bool question_whole(const struct pyjson *top, const char *key, int min, int max, int *to, struct err *e);
bool question_flag(const struct pyjson *top, const char *key, bool *to, struct err *e);
/* Makes the tokens of an answer that is to be continued, unless they are there; on any thread.  Only then is it known whether the prompt ends in a
 * thought. */
bool question_prefix(struct question *q, struct responder *r, struct err *e);
/* Returns the tokens of the prompt, with those of an answer that is to be continued; negative with the reason.  On any thread. */
int question_count(struct question *q, struct responder *r, struct look *l, struct err *e);
void question_free(struct question *q);
/* Returns the field of the body that a refusal is about, for programs; NULL: not known.  message: its sentence, which begins with the field if there
 * is one.  code: its word for programs, or NULL. */
const char *question_param(const char *message, const char *code, char name[QUESTION_PARAM]);
/* Fills q->request.sampling with the values of the body, else of the options, else the model's own defaults.  If the body's are complete, with those
 * alone. */
void question_sampling(struct question *q, const struct options *o, const struct model_info *info);

/* Rewrites requests of other dialects as those of /v1/chat/completions, which question.c reads: the same content then has the same prompt in all of
 * them.  A refusal has the names that the client wrote: each message keeps the place in the client's body that it comes from. */
#pragma once

#include "base/err.h"
#include "serve/question.h"
#include "text/pyjson.h"

/* A field that goes by another name in a chat completion, or by the same.  own: the client's, with dots into objects ("text.format"). */
struct rewrite_field {
    const char *own, *chat;
    bool by_hand;                       /* its value is rewritten by the dialect; the row is for the names in refusals */
};

struct rewriter {
    struct arena *mem;
    struct err   *e;
    const struct rewrite_field *fields;
    size_t        n_fields;
    const char   *place;                /* in the client's body of what is read now, as a refusal names it: "input[2]" */
    struct pyjson to;                   /* the fields of a chat completion */
    struct pyjson messages, tools;      /* lists; rewrite_read() puts them there */
    const char   *schema;               /* the client's name of the answer's schema, of rewrite_schema(); NULL: there is none */
    struct { const char **all; int n, cap; } places, parameters;        /* of the messages; the client's names of the tools' parameters */
    const char   *left_out;             /* as in struct question */
};

/* Begins with nothing; the caller sets fields and place. */
struct rewriter rewrite_begin(struct arena *mem, struct err *e);
extern const struct pyjson rewrite_object, rewrite_list;      /* empty ones, to be copied */
bool rewrite_is(const struct pyjson *v, const char *key, const char *value);        /* true if v has that text under the key */
void rewrite_set(struct rewriter *w, struct pyjson *dict, const char *key, struct pyjson value);
/* Sets a text that was made in b, which is freed. */
void rewrite_set_buf(struct rewriter *w, struct pyjson *dict, const char *key, struct buf *b);
/* Copies the value of a key, if it is given, under the name `as`. */
void rewrite_copy(struct rewriter *w, struct pyjson *to, const char *as, const struct pyjson *from, const char *key);
/* Adds a message from w->place; the pointer is valid until the next one. */
struct pyjson *rewrite_message(struct rewriter *w, const char *role);
/* Adds a call to an assistant's message.  arguments NULL: none.  False if it has no name. */
bool rewrite_call(struct rewriter *w, struct pyjson *message, const struct pyjson *id, const struct pyjson *name, const struct pyjson *arguments);
/* Adds a tool, whose parameters are `field` of w->place: description and parameters may be NULL.  False if it has no name. */
bool rewrite_tool(struct rewriter *w, const struct pyjson *name, const struct pyjson *description, const char *field,
                  const struct pyjson *parameters);
/* Notes a tool that is left out: one of a type that other servers run. */
void rewrite_leave_out(struct rewriter *w, const struct pyjson *tool);
/* The model must call this function. */
void rewrite_choose(struct rewriter *w, const struct pyjson *name);
/* The answer must satisfy this schema, which is called `field` by the client; `strict` may be NULL. */
void rewrite_schema(struct rewriter *w, const char *field, const struct pyjson *schema, const struct pyjson *strict);
/* Appends reasoning that a client kept for us without showing it, in a signature or as encrypted content.  Nothing of other makers' can be read. */
void rewrite_add_kept(const struct pyjson *kept, struct buf *to);
/* Appends a JSON string for a client to keep: the reasoning in it comes back. */
void rewrite_quote_kept(struct text reasoning, struct buf *out);
/* Copies the fields of `top` that are not set yet, and reads the chat completion into *q.  False with a sentence in the client's names. */
bool rewrite_read(struct rewriter *w, const struct pyjson *top, struct question *q, const struct options *o);
/* The same for a completion of a prompt, without messages. */
bool rewrite_read_plain(struct rewriter *w, const struct pyjson *top, struct question *q, const struct options *o);

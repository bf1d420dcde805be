/* The body of a request to /v1/chat/completions: messages, tools and sampling as JSON.
 *
 * The same messages always become the same bytes, also when more messages follow them, so that a server finds the beginning of a prompt in its cache.
 * For that reason nothing is made up: calls have the ids of struct call, or ids made of their places. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "answer/form.h"
#include "answer/sampling.h"
#include "base/buf.h"
#include "base/message.h"
#include "remote/dialect.h"

struct body {
    const char *model;
    const struct dialect *dialect;
    const struct message *messages;
    int n_messages;
    const struct text *tools;           /* JSON texts: a function, or {"type": "function", "function": a function} */
    int n_tools;
    const char *reasoning_name;         /* the field for the reasoning of earlier answers; NULL: reasoning is not sent */
    bool thinking;
    bool continues;                     /* the last message is an answer that is to be continued */
    /* A q35chat gets all of it, so that it fills in nothing: a limit that there is not as -1.  To other servers only what is on is sent, and the
     * temperature.
     * a number that is off is sent to dialects with says_off, too */
    const struct sampling *sampling;
    int think_budget;                   /* 0: none */
    const struct form *form;            /* that the answer must have; left out where body_takes_form() is false.  NULL: any text */
};

/* Appends the body.  False: a tool is not JSON, or a bias names its token by text and the server takes ids alone. */
bool body_write(const struct body *b, struct buf *out, struct err *e);
/* True if a server of this dialect takes the bias "TOKEN=X": servers other than q35chat need a number as TOKEN. */
bool body_check_bias(const struct dialect *d, const char *item, struct err *e);
/* True if servers of this dialect have a field for such a form. */
bool body_takes_form(const struct dialect *d, enum form_kind kind);
/* Removes from a body the first field that the server's refusal names, but never `model`, `messages`, `tools` or `stream`, without which there is no
 * request.  Appends the field's name to `name`.  False: the refusal names none. */
bool body_drop_refused(struct buf *json, const char *refusal, struct buf *name);
/* Removes the field of this name.  False: the body has none. */
bool body_drop(struct buf *json, const char *name);

/* The body of a request to /v1/chat/completions: messages, tools and sampling as JSON.
 *
 * The same messages make the same bytes, and more messages behind them leave those bytes as they are, so that a server finds
 * what it has read already: ids of tool calls are made of positions, and nothing else is made up. */
#ifndef Q35_REMOTE_BODY_H
#define Q35_REMOTE_BODY_H

#include <stdbool.h>
#include <stdint.h>

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
    const char *reasoning_name;         /* the field in which answers' reasoning goes back; NULL: it does not */
    bool thinking;
    bool continues;                     /* the last message is an answer that is to be continued */
    /* float temperature, top_p, ...: those that are off are not sent but to dialects that say so; temperature always is */
#define SAMPLING_NUMBER(name, ...) float name;
#include "config/sampling_numbers.def"
    int top_k, max_tokens, think_budget;        /* 0: not sent */
    const char *const *bias;            /* [n_bias] "TOKEN=X"; other servers than our own take TOKEN as a number alone */
    int n_bias;
    uint64_t seed;
};

/* Appends the body.  False: a tool is not JSON, or a bias names its token by text where the server wants its id. */
bool body_write(const struct body *b, struct buf *out, struct err *e);
/* Takes the first field that a server's refusal names out of a body; without `model`, `messages`, `tools` and `stream` there is no request.  Its
 * name is appended to `name`.  False: it names none. */
bool body_drop_refused(struct buf *json, const char *refusal, struct buf *name);
/* The same by name.  False: it is not there. */
bool body_drop(struct buf *json, const char *name);

#endif

/* Dialects of servers, the rows of config/dialects.def, and reading a server's list of models. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum dialect_thinking { THINKING_NOT, THINKING_TEMPLATE, THINKING_EFFORT };
enum dialect_context { CONTEXT_NOWHERE, CONTEXT_MODELS, CONTEXT_PROPS };

struct dialect {
    const char *name, *owner;
    enum dialect_thinking thinking;
    const char *repetition, *max_tokens;
    bool extended, says_off, continues, progress, interrupts;
    enum dialect_context context;
    const char *schema, *pattern, *choices;
    bool own;
};

/* The dialect of this name; NULL with a sentence that lists all names. */
const struct dialect *dialect_find(const char *name, struct err *e);

struct remote_model {
    struct buf id;
    bool unlisted;                      /* the server's list does not have it, but may be incomplete */
    int n_ctx;                          /* size of the context in tokens; 0: not known */
    const struct dialect *dialect;
    bool samples;                       /* the server reports the model's own defaults of sampling: */
    float temperature, top_p;           /* negative: it has none */
    int  top_k;                         /* the same */
    bool loading;                       /* the server is loading it */
    size_t loaded, to_load;             /* bytes */
};

/* Finds a model in the body of /v1/models.  wanted: its name; NULL: the only model of the list.  False with the reason: `wanted` is NULL and there
 * are none or several; or `wanted` is not in the list of a server of a known dialect, which lists all its models.  *m must be freed either way.
 * Appends to `names` the names of all models that can chat, each ended by a zero byte; models that the server marks as embedding models cannot. */
bool models_choose(const char *body, size_t n, const char *wanted, struct remote_model *m, struct buf *names, struct err *e);
/* A sentence for the user that --model must name one of these models. */
void models_ask(const struct buf *names, struct err *e);
/* For a server without a list: *m becomes the wanted model, of an unknown dialect. */
void models_assume(const char *wanted, struct remote_model *m);
void remote_model_free(struct remote_model *m);
/* The size of the context in the body of /props; 0: not there. */
int  props_context(const char *body, size_t n);
